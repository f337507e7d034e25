"""What is said of a run: nothing of a good one, and of each other what was wrong with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agents.__main__ import jobs
from tests.agents.agents import AGENTS, Agent, Heard, Way, version
from tests.agents.cases import CASES, Case, Kind, Rescue
from tests.agents.judge import LAST, Outcome, faults_of, said
from tests.agents.report import HEAD, INTRODUCTION, Row, lines, page
from tests.agents.stream import Tag
from tests.agents.task import COMMANDS, PROMPT, WORKS, Result, Seen, conclusion
from tests.agents.upstream import Post
from tests.in_turn import in_turn
from tests.promises import DOCS

WORD = "rivermouth-7"
BY_NAME = {case.name: case for case in CASES}
AGENT = {agent.name: agent for agent in AGENTS}


def post(step: int, *, struck: bool = False) -> Post:
    results = tuple(Result(f'{{"command": "{command}"}}', "") for command in COMMANDS[:step])
    return Post(Seen(tools=frozenset({"bash"}), asked=PROMPT, results=results), streams=True, struck=struck)


def good(agent: Agent, case: Case) -> Outcome:
    """A run in which all is as it has to be."""
    way = agent.way(case.fault.tag) if case.breaks else None
    steps = [*range(case.fault.step + 1), *range(case.fault.step, LAST + 1)]
    if not case.fault.spoils:
        steps = list(range(LAST + 1))
    if way is Way.TOLD:
        steps = list(range(case.fault.step + 1))
    struck = -1 if case.fault.kind is Kind.NONE else case.fault.step
    posts = [post(step, struck=at == struck) for at, step in enumerate(steps)]
    asides = [Post(Seen(asked="a title?"), streams=True, struck=False)] * agent.asides
    complains = way in (Way.TOLD, Way.REFUSED)
    return Outcome(
        word=WORD,
        exit_code=int(complains),
        heard=Heard((said(agent, case, WORD),), ("cut",) if complains else ()),
        copied=WORD if way is not Way.TOLD or case.fault.step else None,
        posts=(*asides, *posts),
        attempts=len(posts) + agent.asides,
        failed=int(case.told),
    )


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
@in_turn("case", CASES)
def test_nothing_is_said_of_a_good_run(agent: Agent, case: Case) -> None:
    assert faults_of(agent, case, good(agent, case)) == []


WRONG: dict[str, dict[str, Any]] = {
    "it did not end in time": {"exit_code": None},
    "exit code": {"exit_code": 1},
    "the copy": {"copied": None},
    "what it said": {"heard": Heard((WORKS, WORKS, conclusion(WORD)))},
    "that it says an error": {"heard": Heard((WORKS, conclusion(WORD)), ("oops",))},
    "requests of the task": {"posts": (post(0), post(1), post(2), post(2)), "attempts": 4},
    "requests beside it": {"posts": (Post(Seen(), True, False), post(0), post(1), post(2)), "attempts": 4},
    "answers that were struck": {"posts": (post(0, struck=True), post(1), post(2))},
    "what a vendor would refuse": {
        "posts": (post(0), post(1), Post(Seen(frozenset({"bash"}), PROMPT, problems=("x",)), True, False))
    },
    "calls that the model did not make": {
        "posts": (post(0), post(1), Post(Seen(frozenset({"bash"}), PROMPT, results=(Result("", ""),)), True, False))
    },
    "attempts in the records": {"attempts": 7},
    "calls recorded as failed": {"failed": 1},
    "what went on without it": {"left": ("a daemon",)},
    "what left the machine": {"outside": ("telemetry.example:443",)},
    "requests of nobody": {"unlocated": ("GET /",)},
}


@pytest.mark.parametrize("what", WRONG)
def test_each_thing_that_is_wrong_is_said(what: str) -> None:
    agent, case = AGENT["Claude Code"], BY_NAME["plain"]
    outcome = msgspec.structs.replace(good(agent, case), **WRONG[what])
    assert any(fault.startswith(what) for fault in faults_of(agent, case, outcome))


def test_every_check_has_a_run_that_fails_it() -> None:
    source = (Path(__file__).parent / "judge.py").read_text(encoding="utf-8")
    assert set(re.findall(r'(?:want|found\.append)\(\s*"([^"]+)"', source)) == set(WRONG)


def test_what_may_be_said_when_a_text_breaks_off() -> None:
    case, last = BY_NAME["cut in a text"], BY_NAME["cut in the last text"]
    whole = WORKS + conclusion(WORD)
    assert {said(AGENT[name], case, WORD) for name in ("Claude Code", "Codex", "opencode")} == {whole}
    assert said(AGENT["opencode, Anthropic"], case, WORD) == "First I copy t" + whole
    assert said(AGENT["AI SDK"], case, WORD) == "First I copy t"
    assert said(AGENT["AI SDK"], last, WORD) == WORKS + "The word is ri"


def test_the_cases_are_those_that_were_asked_for() -> None:
    """One 529, one stall before content, one cut after content; rescued here, and by the agent."""
    kinds = {(case.fault.kind, case.breaks, case.told) for case in CASES}
    before = {(kind, False, told) for kind in (Kind.OVERLOADED, Kind.STALL) for told in (True, False)}
    assert kinds >= {*before, (Kind.CUT, True, True), (Kind.NONE, False, False)}
    assert {case.fault.tag for case in CASES if case.breaks} == set(Tag) - {Tag.END}
    assert {case.rescue for case in CASES} == set(Rescue)


def test_what_is_named_is_run() -> None:
    chosen = jobs(["opencode"], ["openai"], ["plain", "stall"])
    assert [(agent.name, upstream, case.name) for agent, upstream, case in chosen] == [
        ("opencode", "openai", "plain"),
        ("opencode", "openai", "stall"),
    ]
    assert {agent.name for agent, _, _ in jobs([], [], [])} >= {"Claude Code", "opencode", "AI SDK"}


def test_the_table_and_the_page() -> None:
    rows = [
        Row(AGENT["Claude Code"], "openai", BY_NAME["plain"], (), 3, 1.25),
        Row(AGENT["Claude Code"], "anthropic", BY_NAME["plain"], ("exit code: 1 instead of 0",), 4, 2.0),
    ]
    table = lines([HEAD, *(row.cells() for row in rows)])
    assert table[1].split() == [
        "Claude",
        "Code",
        version("@anthropic-ai/claude-code"),
        "openai",
        "plain",
        "passed",
        "3",
        "1.2",
    ]
    assert "exit code: 1 instead of 0" in table[2]
    written = page(rows, "2030-01-02")
    assert "wrote this on 2030-01-02" in written
    assert "| nothing goes wrong | 3 / 4 |" in written
    assert (
        f"| Claude Code | `@anthropic-ai/claude-code` {version('@anthropic-ai/claude-code')} | anthropic |" in written
    )


def test_the_lock_names_no_place_and_pins_every_package() -> None:
    text = (Path(__file__).parent / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in text
    assert len(re.findall(r'"integrity": "sha512-', text)) == len(re.findall(r'"node_modules/', text)) > 9


def test_the_page_says_of_every_agent_that_this_version_has_passed() -> None:
    text = (DOCS / "agents-results.md").read_text(encoding="utf-8")
    rows = {agent.name: f"| {agent.name} | `{agent.package}` {version(agent.package)} |" for agent in AGENTS}
    assert [name for name, row in rows.items() if row not in text] == [], "run `make agents`"


def test_the_page_explains_itself_in_the_words_that_the_next_run_would_write() -> None:
    text = (DOCS / "agents-results.md").read_text(encoding="utf-8")
    (date,) = re.findall(r"wrote this on (\d{4}-\d\d-\d\d),", text)
    assert text.startswith(INTRODUCTION.format(date=date, upstreams="openai and anthropic"))
