"""Hypothesis strategies for the neutral model: whatever is legal, and nothing else.

`event_streams` draws whole legal streams (the grammar accepts each), `replies` whole answers and `requests` what a
client may ask.  Texts hold the characters that break protocols: line separators, emoji, quotes, half escapes.

What is drawn from again and again is made once: hypothesis looks at each new strategy before it draws from it, and that
takes longer than the drawing.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from operator import add
from typing import Any

from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    Start,
    TextDelta,
    Unknown,
    Usage,
    Warn,
)
from rivermouth.ir.reply import Choice, Reply, ReplyPart
from rivermouth.ir.request import (
    Choose,
    File,
    Format,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from rivermouth.wire import json

NASTY = (
    "\u2028",
    "\u2029",
    "\u0085",
    "\r\n",
    "\n\n",
    "data: [DONE]",
    "\\u2028",
    "\\",
    '"',
    "😀",
    "é",
    "\x00",
    "\x7f",
    "</s>",
)
PLAIN_KINDS = (PartKind.TEXT, PartKind.REASONING, PartKind.TOOL)

ALPHABET = "abcXYZ 019.,:;{}[]<>/\\\"'\t\n\r\x00\x1f\x7f\u0085\u2028\u2029\ufeff\ufffdéß中文한😀🧠"
plain = st.text(ALPHABET, min_size=1, max_size=12)
texts = st.one_of(plain, st.sampled_from(NASTY), st.builds(lambda a, b: a + b, plain, st.sampled_from(NASTY)))
words = st.builds(add, st.sampled_from("afxyz"), st.text("az09_", max_size=7))  # a regex costs three times as much
base64s = st.sampled_from(("QUJD", "iVBORw0KGgo=", "AAECAwQ="))
pictures = st.sampled_from(
    (("image/png", "iVBORw0KGgo="), ("image/jpeg", "/9j/4AAQSkY="), ("image/gif", "R0lGODlhAQA="))
)
objects = st.dictionaries(words, st.one_of(st.integers(-1000, 1000), texts, st.booleans(), st.none()), max_size=3)
arguments = objects.map(lambda value: json.encode(value).decode())
counts = st.integers(0, 100_000)

usages = st.builds(
    lambda cached, written, fresh, reasoning, answer: Usage(
        input_tokens=cached + written + fresh,
        output_tokens=reasoning + answer,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
    ),
    *[counts] * 5,
)
partial_usages = st.builds(
    Usage,
    input_tokens=st.none() | counts,
    output_tokens=st.none() | counts,
    cached_tokens=st.none() | counts,
    cache_write_tokens=st.none() | counts,
    reasoning_tokens=st.none() | counts,
    estimated=st.booleans(),
)
errors = st.builds(
    ApiError,
    st.sampled_from(Kind),
    texts,
    param=st.none() | words,
    code=st.none() | words,
    retry_after_s=st.none() | st.integers(0, 600).map(float),
)


flags = st.booleans()
noises: st.SearchStrategy[list[Event]] = st.lists(
    st.sampled_from((Warn("seed is ignored", "seed"), Unknown("ping", b"{}"))), max_size=2
)
perhaps_base64s = st.none() | base64s
few_cuts = functools.cache(lambda last: st.sets(st.integers(1, last), max_size=3))
one_of = functools.cache(st.sampled_from)
"""Of a tuple, which must be hashable."""
some_kinds = functools.cache(lambda kinds: st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
or_none = functools.cache(lambda strategy: st.none() | strategy)


@functools.cache
def places(
    n_choices: int, kinds: tuple[PartKind, ...], least: int, most: int
) -> st.SearchStrategy[list[tuple[int, PartKind]]]:
    """The choice and the kind of each part of a stream."""
    one = st.tuples(st.integers(0, n_choices - 1), st.sampled_from(kinds))
    return st.lists(one, min_size=least, max_size=most)


def _pieces(draw: st.DrawFn, text: str) -> list[str]:
    """The text in up to four pieces, none empty."""
    cuts = sorted(draw(few_cuts(len(text) - 1))) if len(text) > 1 else []
    edges = [0, *cuts, len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)] if text else []


def _tool_id(draw: st.DrawFn, part: int) -> str:
    return f"call_{draw(words)}_{part}"


def _body(draw: st.DrawFn, part: int, kind: PartKind, choice: int, signed: bool) -> list[Event]:
    """One whole part: start, deltas, end."""
    match kind:
        case PartKind.TEXT | PartKind.REFUSAL:
            return [
                PartStart(part, kind, choice),
                *(TextDelta(part, t) for t in _pieces(draw, draw(texts))),
                PartEnd(part),
            ]
        case PartKind.REASONING:
            redacted = signed and draw(flags)
            inside: list[Event] = [] if redacted else [ReasoningDelta(part, t) for t in _pieces(draw, draw(texts))]
            if redacted or (signed and draw(flags)):
                inside.append(Signature(part, draw(base64s)))
            return [PartStart(part, kind, choice, redacted=redacted), *inside, PartEnd(part)]
        case PartKind.TOOL:
            head = PartStart(part, kind, choice, _tool_id(draw, part), draw(words))
            return [head, *(ArgsDelta(part, t) for t in _pieces(draw, draw(arguments))), PartEnd(part)]
        case PartKind.IMAGE | PartKind.FILE:
            return [PartStart(part, kind, choice), MediaDelta(part, *draw(pictures)), PartEnd(part)]


def _interleave(draw: st.DrawFn, bodies: list[list[Event]]) -> list[Event]:
    """The bodies woven together; each keeps its own order, and they open in the order of their numbers."""
    woven: list[Event] = []
    waiting = [list(b) for b in bodies]
    opened = 0
    while any(waiting):
        at = draw(one_of(tuple(i for i, b in enumerate(waiting) if b and i <= opened)))
        opened += at == opened
        woven.append(waiting[at].pop(0))
    return woven


def _reason(draw: st.DrawFn, called: bool) -> Reason:
    """The truth about the end: TOOL_CALLS exactly when there are calls, as encoders derive it (F24)."""
    return Reason.TOOL_CALLS if called else draw(one_of((Reason.STOP, Reason.LENGTH, Reason.CONTENT_FILTER)))


@st.composite
def event_streams(
    draw: st.DrawFn,
    n_choices: int = 1,
    kinds: Sequence[PartKind] = PLAIN_KINDS,
    *,
    max_parts: int = 4,
    min_parts: int = 1,
    signed: bool = True,
    usage: st.SearchStrategy[Usage] | None = usages,
    interleave: bool = True,
    noise: bool = False,
    end: str = "finish",
) -> list[Event]:
    """A legal stream.

    kinds: which parts may occur.  signed: reasoning may carry signatures or be redacted.  interleave: parts may
    overlap.  noise: Warn and Unknown may occur.  end: "finish", "error" (anywhere, parts may be open) or "open" (cut).
    """
    spots = draw(places(n_choices, tuple(kinds), min_parts, max_parts))
    bodies = [_body(draw, part, kind, choice, signed) for part, (choice, kind) in enumerate(spots)]
    middle = _interleave(draw, bodies) if interleave and draw(flags) else [e for b in bodies for e in b]
    if noise:
        for event in draw(noises):
            middle.insert(draw(st.integers(0, len(middle))), event)
    events: list[Event] = [Start("up-1", "model-x", 1_700_000_000), *middle]
    if end != "finish":
        del events[draw(st.integers(1, len(events))) :]
        return [*events, Error(draw(errors))] if end == "error" else events
    if usage is not None and draw(flags):
        events.append(draw(usage))
    reasons = tuple(_reason(draw, (c, PartKind.TOOL) in spots) for c in range(n_choices))
    return [*events, Finish(reasons[0], None, reasons if n_choices > 1 else ())]


def _reply_part(draw: st.DrawFn, kind: PartKind, number: int, signed: bool) -> ReplyPart:
    match kind:
        case PartKind.TEXT:
            return Text(draw(texts))
        case PartKind.REFUSAL:
            return Refusal(draw(texts))
        case PartKind.REASONING:
            if signed and draw(flags):
                return Reasoning("", draw(base64s), redacted=True)
            return Reasoning(draw(texts), draw(perhaps_base64s) if signed else None)
        case PartKind.TOOL:
            return ToolCall(_tool_id(draw, number), draw(words), draw(arguments))
        case PartKind.IMAGE:
            return Image(*draw(pictures))
        case PartKind.FILE:
            return File(media_type="application/pdf", data=draw(base64s))


@st.composite
def replies(
    draw: st.DrawFn,
    n_choices: int = 1,
    kinds: Sequence[PartKind] = tuple(PartKind),
    *,
    signed: bool = True,
    usage: st.SearchStrategy[Usage] = usages,
) -> Reply:
    """A whole answer."""
    choices = []
    for index in range(n_choices):
        drawn = draw(some_kinds(tuple(kinds)))
        parts = tuple(_reply_part(draw, kind, index * 10 + i, signed) for i, kind in enumerate(drawn))
        choices.append(Choice(parts, _reason(draw, PartKind.TOOL in drawn)))
    return Reply(choices=tuple(choices), usage=draw(or_none(usage)), id="up-1", model="model-x", created=1_700_000_000)


spoken = texts.map(lambda text: f"a{text}z")


@functools.cache
def _user_parts(images: bool) -> st.SearchStrategy[tuple[Part, ...]]:
    """One or two texts, which are never blank, and perhaps an image after them."""
    some: st.SearchStrategy[list[Part]] = st.lists(st.builds(Text, spoken), min_size=1, max_size=2)
    image = pictures.map(lambda picture: Image(*picture))
    with_image = st.builds(lambda parts, extra: [*parts, *extra], some, st.lists(image, max_size=1))
    return (with_image if images else some).map(tuple)


few_words = st.lists(words, max_size=2, unique=True)
schemas = st.builds(
    lambda names: {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": list(names)},
    few_words,
)
tools = st.lists(
    st.builds(Tool, name=words, description=st.none() | texts, parameters=schemas),
    max_size=2,
    unique_by=lambda tool: tool.name,
).map(tuple)


perhaps_quarters = st.none() | st.sampled_from((0.0, 0.25, 0.5, 1.0))
perhaps_system: st.SearchStrategy[tuple[Text, ...]] = st.just(()) | st.builds(lambda text: (Text(text),), spoken)
perhaps_auto = st.none() | st.just(ToolChoice(Choose.AUTO))


def _call_turn(draw: st.DrawFn, turn: int) -> list[Message]:
    """A user's question, the calls the model made, and their results, paired by id."""
    calls = tuple(ToolCall(f"call_{turn}_{i}", draw(words), draw(arguments)) for i in range(draw(st.integers(1, 2))))
    said: tuple[Part, ...] = (Text(draw(spoken)),) if draw(flags) else ()
    results = [Message(Role.TOOL, (ToolResult(c.id, (Text(draw(spoken)),), name=None),)) for c in calls]
    return [Message(Role.USER, (Text(draw(spoken)),)), Message(Role.ASSISTANT, (*said, *calls)), *results]


@st.composite
def requests(
    draw: st.DrawFn, *, images: bool = True, with_tools: bool = True, sampling: Sequence[str] = ("temperature", "top_p")
) -> Request:
    """What a client may ask, made only of fields that every dialect has, but for those the arguments add.

    sampling: the names of the sampling fields that may be set.
    """
    talk: list[Message] = []
    for turn in range(draw(st.integers(0, 2))):
        if with_tools and draw(flags):
            talk += _call_turn(draw, turn)
            talk.append(Message(Role.ASSISTANT, (Text(draw(spoken)),)))
        else:
            talk.append(Message(Role.USER, draw(_user_parts(images))))
            talk.append(Message(Role.ASSISTANT, (Text(draw(spoken)),)))
    talk.append(Message(Role.USER, draw(_user_parts(images))))
    offered = draw(tools) if with_tools else ()
    values: dict[str, Any] = {name: draw(perhaps_quarters) for name in sampling}
    return Request(
        model="model-x",
        messages=tuple(talk),
        system=draw(perhaps_system),
        stream=draw(flags),
        max_tokens=draw(st.integers(1, 4096)),
        stop=tuple(draw(few_words)),
        tools=offered,
        tool_choice=draw(perhaps_auto) if offered else None,
        sampling=Sampling(**values),
    )


response_formats = st.one_of(
    st.just(ResponseFormat(Format.JSON)),
    st.builds(lambda schema: ResponseFormat(Format.JSON_SCHEMA, schema, "answer"), schemas),
)
thinkings = st.one_of(
    st.builds(lambda effort: Thinking(effort=effort), st.sampled_from(("low", "medium", "high"))),
    st.just(Thinking(enabled=False)),
    st.builds(lambda budget: Thinking(budget_tokens=budget), st.integers(1024, 8192)),
)

_ANY_EVENT: tuple[st.SearchStrategy[Any], ...] = (
    st.builds(Start),
    st.builds(
        PartStart,
        part=st.integers(-1, 3),
        kind=st.sampled_from(PartKind),
        choice=st.integers(0, 1),
        id=st.sampled_from((None, "", "call_1")),
        name=st.sampled_from((None, "", "f")),
    ),
    st.builds(TextDelta, part=st.integers(-1, 3), text=texts),
    st.builds(ReasoningDelta, part=st.integers(-1, 3), text=texts),
    st.builds(Signature, part=st.integers(-1, 3), signature=base64s),
    st.builds(ArgsDelta, part=st.integers(-1, 3), json=texts),
    st.builds(MediaDelta, part=st.integers(-1, 3)),
    st.builds(PartEnd, part=st.integers(-1, 3)),
    partial_usages,
    st.just(Warn("ignored")),
    st.just(Unknown("x", b"{}")),
    st.builds(Finish, st.sampled_from(Reason)),
    st.builds(Error, errors),
)
any_events: st.SearchStrategy[Event] = st.one_of(*_ANY_EVENT)
