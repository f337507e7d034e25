"""What every dialect must do, whatever it is called: the pieces of the suite that do not know a vendor.

A dialect's answers are compared by what they *say* (`said`), so that neither the cuts nor the way in which a protocol
groups its parts matter; `Carries` tells, for each dialect, what its protocol has a place for.  A new dialect adds one
line to `CARRIES`, or none if it carries everything.
"""

from __future__ import annotations

import json as reference
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from hypothesis import settings

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Answer, Dialect, Operation, Outgoing, Route
from rivermouth.ir.errors import WireError
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Image, Message, Reasoning, Request, Role, Text, ToolCall, ToolResult

MODEL: Final = "asked-model"
FEWER: Final = settings(max_examples=max(1, settings().max_examples // 2))
"""For what each dialect's own tests draw as well, and for what is dear to draw: half of the profile's examples."""
DIALECTS: Final = sorted(discover())
COUNTS: Final = frozenset({"input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens"})


class Carries(msgspec.Struct, frozen=True, kw_only=True):
    """What the answers of a protocol have a place for.

    kinds: the parts.  blocks: parts keep their borders and their order.  choices: more than one.  counts: of `Usage`.
    zeros: a count of 0 is said.  demands: counts that the protocol wants even if nobody knows them.
    reasons: reasons that come back as another one.  images: a request has a place for them; else it is refused.
    talks: a request has a place for turns and tools; else it is one text.
    """

    kinds: tuple[PartKind, ...] = tuple(PartKind)
    blocks: bool = False
    choices: bool = False
    signed: bool = False
    counts: frozenset[str] = COUNTS
    zeros: bool = True
    demands: frozenset[str] = frozenset()
    reasons: dict[Reason, Reason] = {}
    images: bool = True
    talks: bool = True


CARRIES: Final[dict[str, Carries]] = {
    "openai_chat": Carries(choices=True),
    "openai_completions": Carries(
        kinds=(PartKind.TEXT,),
        choices=True,
        reasons={Reason.TOOL_CALLS: Reason.STOP},
        images=False,
        talks=False,
    ),
    "openai_responses": Carries(
        kinds=(PartKind.TEXT, PartKind.REASONING, PartKind.REFUSAL, PartKind.TOOL, PartKind.IMAGE),
        blocks=True,
        signed=True,
        demands=frozenset({"cached_tokens", "cache_write_tokens", "reasoning_tokens"}),
    ),
    "anthropic": Carries(
        kinds=(PartKind.TEXT, PartKind.REASONING, PartKind.TOOL),
        blocks=True,
        signed=True,
        demands=frozenset({"input_tokens", "output_tokens"}),
    ),
    "ollama": Carries(
        kinds=(PartKind.TEXT, PartKind.REASONING, PartKind.TOOL),
        counts=frozenset({"input_tokens", "output_tokens"}),
        zeros=False,
        reasons={Reason.CONTENT_FILTER: Reason.STOP},
    ),
    "gemini": Carries(
        kinds=(PartKind.TEXT, PartKind.REASONING, PartKind.TOOL, PartKind.IMAGE),
        choices=True,
        signed=True,
        counts=COUNTS - {"cache_write_tokens"},
    ),
    "tgi": Carries(choices=True),
    "cohere_v1": Carries(
        kinds=(PartKind.TEXT, PartKind.TOOL),
        counts=frozenset({"input_tokens", "output_tokens", "cached_tokens"}),
        images=False,
    ),
    "cohere_v2": Carries(
        kinds=(PartKind.TEXT, PartKind.REASONING, PartKind.TOOL),
        counts=frozenset({"input_tokens", "output_tokens", "cached_tokens"}),
    ),
    "bedrock_invoke": Carries(
        kinds=(PartKind.TEXT, PartKind.REASONING, PartKind.TOOL),
        blocks=True,
        signed=True,
        demands=frozenset({"input_tokens", "output_tokens"}),
    ),
}


def carries(name: str) -> Carries:
    return CARRIES.get(name, Carries())


def generate_route(dialect: Dialect) -> Route:
    """The dialect's main route: the first that generates a chat."""
    routes = [r for r in dialect.routes if r.operation is Operation.GENERATE]
    return next((r for r in routes if r.kind == "chat"), routes[0])


def arrived(dialect: Dialect, path: str, operation: Operation = Operation.GENERATE) -> tuple[Route, str | None]:
    """The route that takes a built path, and the model that it names, where the protocol has it there."""
    bare = path.partition("?")[0]
    best: tuple[int, Route, str | None] | None = None
    mine = [r for r in dialect.routes if r.operation is operation]
    for prefix in ("", *(s.prefix for s in dialect.surfaces)):
        for route in mine:
            before, named, after = (prefix + route.path).partition("{model}")
            fits = bare.startswith(before) and bare.endswith(after) if named else bare == before
            model = unquote(bare[len(before) : len(bare) - len(after)]) if named else None
            if fits and model != "" and (best is None or len(before + after) > best[0]):
                best = (len(before + after), route, model)
    if best is not None:
        return best[1:]
    return (generate_route(dialect) if operation is Operation.GENERATE else mine[0]), None


def reparsed(dialect: Dialect, outgoing: Outgoing) -> Request:
    """A built request as a server of the same dialect reads it."""
    return dialect.parse_request(outgoing.body, *arrived(dialect, outgoing.path))


def asked(**changes: Any) -> Request:
    """A request that wants everything its dialect can tell."""
    given: dict[str, Any] = {
        "model": MODEL,
        "messages": (Message(Role.USER, (Text("hi"),)),),
        "stream": True,
        "include_usage": True,
    }
    return Request(**{**given, **changes})


def answer(dialect: Dialect, **changes: Any) -> Answer:
    given: dict[str, Any] = {
        "id": "c0ffee",
        "model": MODEL,
        "created_ns": 1_700_000_000_000_000_000,
        "surface": dialect.surfaces[0],
        "kind": generate_route(dialect).kind,
        "request": asked(),
    }
    return Answer(**{**given, **changes})


class Decoded:
    """Reader and decoder of a dialect as one: bytes in, events out, the order of the events checked on the way."""

    def __init__(self, dialect: Dialect, request: Request | None = None) -> None:
        self._reader = dialect.reader()
        self._decoder = dialect.decoder(request or asked())
        self.grammar = Grammar()

    def feed(self, data: bytes) -> list[Event]:
        """Raises `WireError`, and `GrammarError` if the dialect is at fault."""
        events = [event for frame in self._reader.feed(data) for event in self._decoder.feed(frame)]
        self.grammar.feed_all(events)
        return events

    def eof(self) -> list[Event]:
        events = self._decoder.eof()
        self.grammar.feed_all(events)
        return events


def texts_of(request: Request) -> list[str]:
    """Every text of a talk, instructions first."""
    said = [part.text for m in request.messages for part in m.parts if isinstance(part, Text)]
    return [t.text for t in request.system] + said


def encoded(dialect: Dialect, events: list[Event], **changes: Any) -> bytes:
    return dialect.encoder(answer(dialect, **changes)).feed(events)


def decoded(dialect: Dialect, data: bytes) -> list[Event]:
    """All events of a stream, up to its one end; empty deltas are none of them."""
    reader = Decoded(dialect)
    events = [*reader.feed(data), *reader.eof()]
    assert reader.grammar.done
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta):
            assert event.text != "", "a delta is never empty"
        if isinstance(event, ArgsDelta):
            assert event.json != "", "a delta is never empty"
    return events


def survives(dialect: Dialect, pieces: Iterable[bytes]) -> list[Event] | None:
    """The events of whatever bytes, or None after a `WireError`; whatever else is raised is the dialect's fault."""
    reader = Decoded(dialect)
    try:
        events = [event for piece in pieces for event in reader.feed(piece)]
    except WireError:
        return None
    events += reader.eof()
    assert reader.grammar.done, "a stream has one end"
    assert reader.eof() == [], "and only one"
    return events


class Said(msgspec.Struct):
    """What one choice says: whole parts in order, or, where a protocol has no borders, all of one kind joined.

    Joined means part after part, as a whole answer says them, however their deltas were interleaved.
    """

    reason: Reason | None = None
    parts: list[Any] = []


def said(events: list[Event], can: Carries) -> list[Said]:
    """What a finished stream says in each choice, as far as `can` goes."""
    finish = events[-1]
    assert isinstance(finish, Finish), finish
    heads = {e.part: e for e in events if isinstance(e, PartStart)}
    count = max([1, len(finish.reasons), *(h.choice + 1 for h in heads.values())])
    out = []
    for choice in range(count):
        reason = finish.reasons[choice] if choice < len(finish.reasons) else finish.reason
        mine = [h for h in heads.values() if h.choice == choice and h.kind in can.kinds]
        parts = [_part(head, events) for head in mine] if can.blocks else _flat(mine, events)
        out.append(Said(can.reasons.get(reason, reason), parts))
    return out


def _text(part: int, events: list[Event]) -> str:
    """Everything that was written into this part."""
    return "".join(
        e.json if isinstance(e, ArgsDelta) else e.text
        for e in events
        if isinstance(e, TextDelta | ReasoningDelta | ArgsDelta) and e.part == part
    )


def _part(head: PartStart, events: list[Event]) -> tuple[Any, ...]:
    text = _text(head.part, events)
    signature = next((e.signature for e in events if isinstance(e, Signature) and e.part == head.part), None)
    if head.kind is PartKind.TOOL:
        return (head.kind, head.id, head.name, canonical(text))
    if head.kind is PartKind.REASONING:
        return (head.kind, text, signature, head.redacted)
    if head.kind in (PartKind.IMAGE, PartKind.FILE):
        return (
            head.kind,
            *((e.media_type, e.data, e.url) for e in events if isinstance(e, MediaDelta) and e.part == head.part),
        )
    return (head.kind, text)


def _flat(heads: list[PartStart], events: list[Event]) -> list[Any]:
    flat: list[Any] = []
    for kind in (PartKind.REASONING, PartKind.TEXT, PartKind.REFUSAL):
        text = "".join(_text(h.part, events) for h in heads if h.kind is kind)
        if text:
            flat.append((kind, text))
    rest = [_part(h, events) for h in heads if h.kind in (PartKind.TOOL, PartKind.IMAGE, PartKind.FILE)]
    return flat + sorted(rest, key=repr)


def canonical(arguments: str) -> Any:
    """Arguments by their meaning; "" is no arguments."""
    try:
        return reference.loads(arguments or "{}")
    except ValueError:
        return arguments


def counted(events: list[Event], can: Carries) -> dict[str, int]:
    """The token counts that were said, as far as the protocol has them."""
    usage: Usage | None = None
    for event in events:
        if isinstance(event, Usage):
            usage = merge_usage(usage, event)
    values = {name: getattr(usage, name) for name in sorted(can.counts)} if usage is not None else {}
    return {name: value for name, value in values.items() if value is not None and (can.zeros or value)}


def counted_alike(back: list[Event], events: list[Event], can: Carries) -> bool:
    """Every count that was said came back, and no other but those the protocol demands."""
    told, came = counted(events, can), counted(back, can)
    return told.items() <= came.items() and came.keys() <= told.keys() | can.demands


def only_error(events: list[Event]) -> Error:
    """The one error that ends these events."""
    ends = [e for e in events if isinstance(e, Finish | Error)]
    assert len(ends) == 1
    assert events[-1] is ends[0]
    assert isinstance(ends[0], Error), ends[0]
    return ends[0]


def wanted(request: Request) -> list[Any]:
    """What a request's talk says, without the borders between messages that protocols merge or split."""
    atoms: list[Any] = []
    for message in request.messages:
        for part in message.parts:
            atom = _atom(message.role, part)
            last = atoms[-1] if atoms else None
            if last is not None and atom[0] == "text" and last[0] == "text" and last[1] is atom[1]:
                atoms[-1] = ("text", atom[1], last[2] + atom[2])
            else:
                atoms.append(atom)
    return [atom for _, run in groupby(atoms, lambda a: a[0] == "result") for atom in _in_any_order(list(run))]


def _in_any_order(run: list[Any]) -> list[Any]:
    """Results belong to their calls by id, never by position, so their order says nothing."""
    return sorted(run, key=lambda atom: str(atom[1])) if run[0][0] == "result" else run


def _atom(role: Role, part: Any) -> tuple[Any, ...]:
    match part:
        case Text():
            return ("text", role, part.text)
        case Image():
            return ("image", role, *_image(part))
        case ToolCall():
            return ("call", part.id, part.name, canonical(part.arguments))
        case ToolResult():
            return ("result", part.id, "".join(c.text for c in part.content if isinstance(c, Text)), part.is_error)
        case Reasoning():
            return ("reasoning", part.text, part.signature, part.redacted)
        case _:
            return (role, part)


def _image(image: Image) -> tuple[str | None, str | None]:
    """Media type and data; a protocol may carry them in a data: URL, or find the type out again."""
    if image.url is not None and image.url.startswith("data:"):
        head, _, data = image.url.removeprefix("data:").partition(";base64,")
        return head, data
    return image.media_type, image.data
