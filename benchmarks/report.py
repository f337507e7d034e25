"""Results as a table, and against the goals."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from scenarios import SCENARIOS, Measured

BEGIN, END = "<!-- results: written by make bench -->", "<!-- end of results -->"
Lookup = dict[tuple[str, str, str], Measured]
PACE_PER_S, SHORT_PCT = 1000 * 20, 2
US_PER_CHUNK, US_PER_CALL = attrgetter("us_per_chunk"), attrgetter("us_per_call")


@dataclass(frozen=True)
class Column:
    """A column of the table: which scenario, and how its cell is written."""

    title: str
    scenario: str
    cell: Callable[[Measured], str]


def short_pct(m: Measured) -> float:
    """How many of C's chunks were not sent in their second."""
    return max(0.0, 100 * (1 - m.result["chunks_s"] / PACE_PER_S))


def paced(m: Measured) -> str:
    kept = "kept" if short_pct(m) <= SHORT_PCT else f"NOT KEPT ({m.result['chunks_s']:.0f}/s)"
    return f"{m.result['gw_cpu_pct']:.0f}%, {m.p99_ms:.1f} ms{_of(m)}, {kept}"


def with_median(m: Measured, figure: Callable[[Measured], float], digits: int) -> str:
    return f"{figure(m):.{digits}f} (median {m.median(figure):.{digits}f})"


def _of(m: Measured) -> str:
    """What the other rounds had."""
    others = sorted(other.p99_ms for other in m.others)
    return f" (and {', '.join(f'{ms:.1f}' for ms in others)})" if others else ""


COLUMNS = (
    Column("A: one-way p50 us", "A", lambda m: f"{m.result['lat_us']['p50']:.0f}"),
    Column("A: TTFT p50 ms", "A", lambda m: f"{m.result['ttft_us']['p50'] / 1000:.2f}"),
    Column("B: CPU us per chunk", "B", lambda m: with_median(m, US_PER_CHUNK, 2)),
    Column("B: CPU, times anthropic", "B", lambda m: "" if m.beside is None else f"{m.of_beside:.2f}"),
    Column("B: chunks/s", "B", lambda m: f"{m.result['chunks_s']:.0f}"),
    Column("R: CPU, times plain", "R", lambda m: "" if m.beside is None else f"{m.of_beside:.2f}"),
    Column("C: CPU, one-way p99", "C", paced),
    Column("D: CPU us per request", "D", lambda m: with_median(m, US_PER_CALL, 0)),
    Column("KiB per idle stream", "memory", lambda m: f"{m.result['kb_per_stream']:.1f}"),
    Column("chunks sent per left client", "close", lambda m: f"{sent_per_call(m):.1f}"),
    Column("KiB per slow reader", "slow", lambda m: f"{m.result['kb_per_stream']:.0f}"),
)


def sent_per_call(m: Measured) -> float:
    """Content chunks that the upstream sent for each call whose client left after its fifth."""
    return m.upstream.get("chunks", 0) / max(1, m.upstream.get("requests", 0))


def table(measured: list[Measured]) -> str:
    """One row for each target and client format."""
    found = {(m.target, m.format, m.scenario): m for m in measured}
    rows = list(dict.fromkeys((m.target, m.format) for m in measured if m.format != "json"))
    lines = ["| | " + " | ".join(column.title for column in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for target, client in rows:
        cells = []
        for column in COLUMNS:
            of = "json" if column.scenario == "D" and client == "openai" else client
            m = found.get((target, of, column.scenario))
            wrong = f" ({m.errors} WRONG)" if m and m.errors else ""
            cells.append(
                "" if m is None or (not m.result["gw_cpu_s"] and "CPU" in column.title) else column.cell(m) + wrong
            )
        lines.append(f"| {target}, {client} client | " + " | ".join(cells) + " |")
    return "\n".join(lines)


class Asked(NamedTuple):
    """What was measured, the most that it may be, and the client that it was measured with, if it was one."""

    value: float
    limit: float
    client: str = ""


Ask = Callable[[Lookup], Asked | None]


@dataclass(frozen=True)
class Goal:
    """What must hold for Rivermouth; `ask` gives None where it was not measured."""

    title: str
    ask: Ask
    unit: str
    digits: int = 1


def below(limit: float, scenario: str, value: Callable[[Measured], float]) -> Ask:
    """The worst of all clients that the load was run with."""

    def ask(found: Lookup) -> Asked | None:
        mine = [m for (target, _, name), m in found.items() if name == scenario and target == "Rivermouth"]
        worst = max(mine, key=value, default=None)
        return None if worst is None else Asked(value(worst), limit, worst.format)

    return ask


def of_nginx(found: Lookup, scenario: str, value: Callable[[Measured], float]) -> float | None:
    """nginx has one client: it relays bytes, whatever they say."""
    m = next((m for (target, _, name), m in found.items() if (target, name) == ("nginx", scenario)), None)
    return None if m is None else value(m)


def below_or(limit: float, times: float, scenario: str, value: Callable[[Measured], float]) -> Ask:
    """The limit of the machine on which it was set; on a slower one the same as a multiple of nginx in this run."""

    def ask(found: Lookup) -> Asked | None:
        yardstick = of_nginx(found, scenario, value)
        return below(max(limit, times * yardstick if yardstick else 0.0), scenario, value)(found)

    return ask


def one_way(found: Lookup) -> Asked | None:
    yardstick = of_nginx(found, "A", lambda m: m.result["lat_us"]["p50"])
    return None if yardstick is None else below(1.8 * yardstick, "A", lambda m: m.result["lat_us"]["p50"])(found)


def lost_chunks(found: Lookup) -> Asked | None:
    return Asked(sum(m.errors for (target, _, _), m in found.items() if target == "Rivermouth"), 0)


GOALS = (
    Goal(
        "B: CPU per chunk, at most 8 us or 3.5 times nginx",
        below_or(8, 3.5, "B", US_PER_CHUNK),
        "us",
    ),
    Goal("B: no dialect dearer than 1.6 times anthropic", below(1.6, "B", lambda m: m.of_beside), "times", digits=2),
    Goal(
        "R: a resumable chunk, at most 1.3 times a plain one", below(1.3, "R", lambda m: m.of_beside), "times", digits=2
    ),
    Goal("A: one-way p50, at most 1.8 times nginx", one_way, "us"),
    Goal("C: one-way p99 below 5 ms", below(5, "C", lambda m: m.p99_ms), "ms"),
    Goal("C: 20 000 chunks/s kept, short of it by", below(SHORT_PCT, "C", short_pct), "%"),
    Goal(
        "D: per request, at most 550 us or 46 times nginx",
        below_or(550, 46, "D", US_PER_CALL),
        "us",
    ),
    Goal("at most 40 KiB per idle stream", below(40, "memory", lambda m: m.result["kb_per_stream"]), "KiB"),
    Goal("at most 2 chunks more after the client left", below(7, "close", sent_per_call), "chunks"),
    Goal("at most 4 MiB for a slow reader of 40 MB", below(4096, "slow", lambda m: m.result["kb_per_stream"]), "KiB"),
    Goal("streams that were not exactly right", lost_chunks, ""),
)


def goals(measured: Iterable[Measured]) -> str:
    """Goal, worst value over the client formats and which it was, limit, verdict."""
    found = {(m.target, m.format, m.scenario): m for m in measured}
    lines = ["| Goal | Measured | Limit | |", "|---|---|---|---|"]
    for goal in GOALS:
        asked = goal.ask(found)
        if asked is None or not any(target == "Rivermouth" for target, _, _ in found):
            lines.append(f"| {goal.title} | not measured | | |")
            continue
        value, limit = f"{asked.value:.{goal.digits}f} {goal.unit}".rstrip(), f"{asked.limit:.{goal.digits}f}"
        client = f" ({asked.client})" if asked.client else ""
        verdict = "met" if asked.value <= asked.limit else "MISSED"
        lines.append(f"| {goal.title} | {value}{client} | {limit} | {verdict} |")
    return "\n".join(lines)


def machine() -> str:
    """The processor, its cores, and what runs on it."""
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    name = cpu[1] if cpu else platform.machine()
    return f"{name}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"


def results(measured: list[Measured], command: str, pinned: bool) -> str:
    """The part of docs/benchmarks.md that is written anew."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    cores = "gateway on core 0, upstream and load generator on core 1" if pinned else "NOT pinned: fewer than two cores"
    loads = "\n".join(f"- **{key}**: {scenario.title} (`{scenario.model}`)" for key, scenario in SCENARIOS.items())
    return "\n\n".join(
        [
            f"Measured {today} with `{command}`: {machine()}; {cores}.",
            table(measured),
            goals(measured),
            loads,
        ]
    )


def write(page: Path, text: str) -> None:
    """Put the results between the page's two marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
