"""The parts of docs/chat.md that are drawn from the code: a turn's states and moves, its ends, policies, the bounds.

`python -m docs.generate` writes them between their marks; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from docs.dialect_pages import code, rows

from rivermouth.chat.failures import TYPES, WARNINGS
from rivermouth.chat.machine import LIVE, OWNING, POLICIES, RECOVERY, RULES, TERMINAL, Move, Rule, State
from rivermouth.chat.settings import ChatSettings

PAGE: Final = Path(__file__).parent / "chat.md"

WHAT: Final[dict[Move, str]] = {
    Move.SUBMIT: "a message is accepted: it, the turn and the empty answer are inserted together",
    Move.CLAIM: "the first of the queue gets a writer, if the chat has no active turn",
    Move.CALL: "the provider is about to be asked; refused, it never is",
    Move.STOP: "somebody asks it to end: a stop, or a newer message",
    Move.FINISH: "its writer ends it, with everything that was said",
    Move.WITHDRAW: "it ends in the queue; the empty answer goes, the message stays",
    Move.TAKE_OVER: "its writer is dead or late: another takes its place",
    Move.FINALISE: "the other ends it, with the longer of row and log",
}

MEANS: Final[dict[State, str]] = {
    State.QUEUED: "it waits for the one before it",
    State.STARTING: "it has a writer, and nobody was asked yet",
    State.STREAMING: "a provider was asked; its answer is being written",
    State.STOPPING: "somebody asked it to end, and its writer has not done so yet",
    State.RECOVERING: "its writer died or is late, and another ends it",
    State.COMPLETED: "the whole answer",
    State.FAILED: "no answer, and why; with a part of one it is shown as `interrupted`",
    State.STOPPED: "what had been said when somebody stopped it",
    State.SUPERSEDED: "what had been said when a newer message came",
    State.INTERRUPTED: "what had been said when the server stopped or died; without any it is shown as `failed`",
}

BOUNDS: Final[dict[str, tuple[str, str]]] = {
    "max_content_chars": ("characters of a message (`chat.max_content_chars`)", "400, `content_too_long`"),
    "max_attachments": ("attachments of a message", "400"),
    "max_title_chars": ("characters of a title", "400"),
    "max_instructions_chars": ("characters of a chat's instructions", "400"),
    "queued_per_chat": ("messages that wait in a chat behind the one that is answered", "429, `chat_queue_full`"),
    "live_per_owner": ("answers that are written for one person at a time", "429, `too_many_turns`"),
    "followers_per_chat": ("connections that follow a chat", "429, `too_many_followers`"),
    "followers_per_owner": ("connections that follow chats of one person", "429, `too_many_followers`"),
    "turn_chars": ("characters of an answer", "the answer ends there, with a warning (`answer_too_long`)"),
    "lag_frames": ("frames that a reader may be behind", "it gets what it missed as one frame"),
    "send_s": ("seconds in which a reader takes nothing", "its connection is closed; the answer goes on"),
    "recycle_s": ("seconds of one `/events`, more or less", "`bye`, and the client comes again"),
    "keep_alive_s": ("seconds without a frame", "a comment, so that nobody in between thinks the stream dead"),
}
"""Field of the settings -> what it bounds, and what comes of more."""


def states_table() -> list[str]:
    cells = (
        (code(state.value), "yes" if state in TERMINAL else "live" if state in LIVE else "no", MEANS[state])
        for state in State
    )
    return rows(("State", "Has it ended?", "What it means, and what the history has"), cells)


def bounds_table() -> list[str]:
    settings = ChatSettings()
    cells = ((f"{int(getattr(settings, name)):,}", *says) for name, says in BOUNDS.items())
    return rows(("At most", "Of", "More than that"), cells)


def moves_table() -> list[str]:
    cells = (
        (code(move.value), WHAT[move], rule.actor.value, states(rule.sources), states(rule.targets), guards(rule))
        for move, rule in RULES.items()
    )
    return rows(("Move", "What happens", "By", "From", "To", "Only if"), cells)


def states(of: Iterable[State]) -> str:
    if set(of) == set(LIVE):
        return "any live state"
    return ", ".join(code(state.value) for state in State if state in set(of)) or "nothing"


def guards(rule: Rule) -> str:
    said = {
        "the writer's generation is the turn's": rule.fenced,
        "the chat has no active turn": rule.slot_free,
        "a turn that was asked to stop ends as it was asked": rule.by_reason,
        "(the generation grows)": rule.bumps,
    }
    return "; ".join(words for words, holds in said.items() if holds)


def diagram() -> list[str]:
    """The same as a picture, for whatever draws Mermaid."""
    edges: dict[tuple[str, str], list[str]] = {}
    for move, rule in RULES.items():
        ends = {state: "an end" if state in TERMINAL else state.value for state in rule.targets}
        for source in sorted(rule.sources) or ["[*]"]:
            for target in sorted(set(ends.values())):
                edges.setdefault((str(source), target), []).append(move.value)
    lines = ["```mermaid", "stateDiagram-v2", '    state "an end" as ended']
    for (source, target), moves in edges.items():
        name = "ended" if target == "an end" else target
        lines.append(f"    {source} --> {name}: {', '.join(moves)}")
    return [*lines, "```", ""]


def orders() -> list[str]:
    return [
        f"- A writer: {', '.join(step.value for step in OWNING)}.",
        f"- Who takes over: {', '.join(step.value for step in RECOVERY)}.",
        "",
    ]


def policies_table() -> list[str]:
    cells = (
        (
            code(policy.value),
            "the new message is refused"
            if rule.refuses
            else "it ends, superseded, and is left out of later prompts"
            if rule.discards
            else "it ends, superseded"
            if rule.supersedes
            else "the new one waits",
        )
        for policy, rule in POLICIES.items()
    )
    return rows(("`on_busy`", "What becomes of a turn that has not ended"), cells)


def failures_table() -> list[str]:
    kinds = {word: [kind.value for kind, its in TYPES.items() if its == word] for word in WARNINGS}
    cells = (
        (code(word), ", ".join(map(code, kinds[word])) or "nobody can be asked", WARNINGS[word]) for word in WARNINGS
    )
    return rows(("Type", "Kinds of errors", "The warning after a text has begun"), cells)


SECTIONS: Final[dict[str, Callable[[], list[str]]]] = {
    "states": states_table,
    "bounds": bounds_table,
    "moves": moves_table,
    "diagram": diagram,
    "orders": orders,
    "policies": policies_table,
    "failures": failures_table,
}


def generate_chat(text: str) -> str:
    """The page with every marked section written anew."""
    for name, made in SECTIONS.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        body = "\n" + "\n".join(made())
        text, found = mark.subn(lambda m, body=body: m[1] + body + m[2], text)  # type: ignore[misc]
        if found != 1:
            raise ValueError(f"docs/chat.md has no section {name}")
    return text
