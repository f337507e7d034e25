"""What came of the runs: a table for the terminal, and the page that says when all of them last passed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.agents.agents import Agent, Way, version
from tests.agents.cases import CASES, Case
from tests.promises import DOCS

PAGE: Final = DOCS / "agents-results.md"
HEAD: Final = ("agent", "version", "upstream", "case", "result", "posts", "seconds")
WAYS: Final = {
    Way.AGAIN: "drops what it has and asks again",
    Way.REST: "keeps what it has and asks for the rest",
    Way.BESIDE: "keeps what it has, asks again, and has both",
    Way.TOLD: "ends with the error, which is its user's to handle",
    Way.REFUSED: "says the error and goes on",
}

INTRODUCTION: Final = """\
# When the agents last passed

`make agents` wrote this on {date}, when every run below had ended as it has to. [agents.md](agents.md) says how to set
each of them up.

The task: copy a file, read the copy, tell the word that is in it. That is two calls of the agent's own shell, then a
text. The model is played by upstreams behind a real server, in two dialects: {upstreams}. A run passes when the agent
ends well, the copy is there, the word was told, every text was said once, no call was run that the model had not
finished, nothing left the machine, the server's records agree with what the upstream saw, and the upstream was asked
exactly as often as it has to be.
"""


class Row(msgspec.Struct, frozen=True):
    """One run that is over.  faults: what was not as it had to be."""

    agent: Agent
    upstream: str
    case: Case
    faults: tuple[str, ...]
    posts: int
    took_s: float

    def cells(self) -> tuple[str, ...]:
        agent = self.agent
        result = "passed" if not self.faults else "; ".join(self.faults)
        return (
            agent.name,
            version(agent.package),
            self.upstream,
            self.case.name,
            result,
            str(self.posts),
            f"{self.took_s:.1f}",
        )


def lines(cells: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns that are as wide as they have to be."""
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def page(rows: Sequence[Row], date: str) -> str:
    """The page of a whole run in which everything passed."""
    agents = list(dict.fromkeys(row.agent.name for row in rows))
    by_agent = {name: [row for row in rows if row.agent.name == name] for name in agents}
    upstreams = list(dict.fromkeys(row.upstream for row in rows))
    said = [
        INTRODUCTION.format(date=date, upstreams=" and ".join(upstreams)),
        "| Agent | Version | Speaks | When a stream breaks off behind its first text, it |",
        "|---|---|---|---|",
    ]
    for name in agents:
        agent = by_agent[name][0].agent
        said.append(f"| {name} | `{agent.package}` {version(agent.package)} | {agent.dialect} | {WAYS[agent.broken]} |")
    said += ["", f"Requests of the task at the upstream, for {' / '.join(upstreams)}:", ""]
    said += [f"| Case | {' | '.join(agents)} |", f"|---|{'---|' * len(agents)}"]
    for case in CASES:
        counts = [
            " / ".join(str(row.posts) for row in by_agent[name] if row.case.name == case.name) or "-" for name in agents
        ]
        if any(count != "-" for count in counts):
            said.append(f"| {case.words} | {' | '.join(counts)} |")
    return "\n".join([*said, ""])


def write(rows: Sequence[Row], date: str, place: Path = PAGE) -> None:
    place.write_text(page(rows, date), encoding="utf-8")
