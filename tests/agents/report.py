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

`make agents` wrote this on {date}, when every run below had ended as is expected of its agent. [agents.md](agents.md)
says how to set each of them up.

The task: copy a file, read the copy, tell the word that is in it. That is two calls of the agent's own shell, then a
text. The model is played by upstreams behind a real server, in two dialects: {upstreams}. In every run the server's
records agree with what the upstream saw, the upstream was asked exactly as often as the last table says, it saw
nothing that it knows its vendor to refuse, and no call was run that the model had not finished.

Where the first table says that an agent asks again, or for the rest, its task was also completed: exit code 0, the copy
there, the word told. What "passed" means when a stream breaks off was taken from what each agent was seen to do, so
these are no better than they look:

- Some end with the error. Their task is then not completed; what is checked is that the error is said and that nothing
  looks like an answer.
- "Has both" is doubled text: the beginning stays in the conversation, and the whole comes behind it.
- opencode, and the AI SDK in OpenAI's protocol, keep a call that was cut in their model's conversation, as one that
  failed and was not run.

The way out of each run is a proxy that refuses and tells; what does not heed proxy settings would not be seen. Cline
tries (its maker's feature flags), and is refused; opencode looks for a package of its own, and is pointed at a registry
that is not there.
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
