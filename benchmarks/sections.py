"""The sections of docs/benchmarks.md that are tables of single measurements, each with its goal."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import report

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Line:
    """One measurement.  `limit` is the goal, in the same unit; `most` says on which side of it the value has to be."""

    title: str
    value: float
    unit: str
    limit: float | None = None
    most: bool = True

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        return "met" if (self.value <= self.limit) == self.most or self.value == self.limit else "MISSED"

    def row(self) -> str:
        sign = "at most" if self.most else "at least"
        goal = "" if self.limit is None else f"{sign} {self.limit:g}"
        return f"| {self.title} | {self.value:.2f} {self.unit} | {goal} | {self.verdict} |"


def measured(lines: Iterable[Line], of: str) -> str:
    """When and on what they were measured, and the table."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    load = os.getloadavg()[0]
    head = f"Measured {today} with `make bench`: {report.machine()}; {of}; the machine's load was {load:.1f}."
    table = "\n".join(["| | Measured | Goal | |", "|---|---|---|---|", *(line.row() for line in lines)])
    return f"{head}\n\n{table}"


def put(name: str, heading: str, text: str, page: Path = PAGE) -> None:
    """The results between the page's two marks of that name, which are made at its end where they are missing."""
    begin, end = f"<!-- {name}: written by make bench -->", f"<!-- end of {name} -->"
    before = page.read_text(encoding="utf-8")
    if begin not in before:
        before = f"{before.rstrip()}\n\n## {heading}\n\n{begin}\n{end}\n"
    after = re.sub(f"{re.escape(begin)}.*{re.escape(end)}", lambda _: f"{begin}\n\n{text}\n\n{end}", before, flags=re.S)
    page.write_text(after, encoding="utf-8")
