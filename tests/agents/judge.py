"""Whether a run ended as its user would wish.  Pure: what was seen, what had to be, and the difference in words."""

from __future__ import annotations

from typing import Final

import msgspec

from tests.agents.agents import Agent, Heard, Way
from tests.agents.cases import Case, Kind, posts_wanted
from tests.agents.stream import PIECE_CHARS, Tag
from tests.agents.task import COMMANDS, WORKS, conclusion, strays
from tests.agents.upstream import Post

LAST: Final = len(COMMANDS)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one run.

    exit_code: None when it had to be ended.  copied: what is in the copy.  failed: records that say so.  attempts: in
    all records of the run.  left: processes that went on without the agent.  outside: what reached for something
    outside.  unlocated: requests to the upstream that belong to no run.
    """

    word: str
    exit_code: int | None
    heard: Heard
    copied: str | None
    posts: tuple[Post, ...]
    attempts: int
    failed: int
    left: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    unlocated: tuple[str, ...] = ()


def faults_of(agent: Agent, case: Case, seen: Outcome) -> list[str]:
    """Everything that is not as it has to be; nothing of a good run."""
    way = agent.way(case.fault.tag) if case.breaks else None
    gives_up = way is Way.TOLD
    complains = way in (Way.TOLD, Way.REFUSED)
    of_the_task = [post for post in seen.posts if post.of_the_task]
    asides = len(seen.posts) - len(of_the_task)
    posts = case.fault.step + 1 if gives_up else posts_wanted(case)
    found = []

    def want(what: str, wanted: object, got: object) -> None:
        if wanted != got:
            found.append(f"{what}: {got!r} instead of {wanted!r}")

    if seen.exit_code is None:
        found.append("it did not end in time")
    want("exit code", int(complains), seen.exit_code)
    want("the copy", seen.word if case.fault.step or not gives_up else None, seen.copied)
    want("what it said", said(agent, case, seen.word), "".join(seen.heard.texts))
    want("that it says an error", complains, bool(seen.heard.errors))
    want("requests of the task", posts, len(of_the_task))
    want("requests beside it", agent.asides, asides)
    want("answers that were struck", int(case.fault.kind is not Kind.NONE), sum(post.struck for post in seen.posts))
    want("what a vendor would refuse", [], [problem for post in seen.posts for problem in post.seen.problems])
    want(
        "calls that the model did not make",
        0,
        max((strays(post.seen, agent.not_run) for post in seen.posts), default=0),
    )
    want("attempts in the records", len(seen.posts), seen.attempts)
    want("calls recorded as failed", int(case.told), seen.failed)
    want("what went on without it", (), seen.left)
    want("what left the machine", [], [address for address in seen.outside if address not in agent.leaves])
    want("requests of nobody", (), seen.unlocated)
    return found


def said(agent: Agent, case: Case, word: str) -> str:
    """All texts of the model that the agent may have kept, joined: each once, and the end of the story is the word."""
    texts = [WORKS, conclusion(word)]
    way = agent.way(case.fault.tag)
    if not case.breaks or way in (Way.AGAIN, Way.REST):
        return "".join(texts)
    at = 0 if case.fault.step == 0 else 1
    beginning = {
        Tag.OPEN: "",
        Tag.THOUGHTS: "",
        Tag.TEXT: texts[at][: PIECE_CHARS * case.fault.times],
        Tag.CALL: texts[at],
    }[case.fault.tag]
    return "".join([*texts[:at], beginning, *(texts[at:] if way is not Way.TOLD else ())])
