"""What the scripted model answers: `script(request, model)`, a plain function from a request to its whole stream.

Each choice is a plan of segments (reasoning, then tool calls or text), cut by the stop sequences and the token limit
and written as events with part numbers of its own; `weave` lets the choices take turns, token by token, and numbers
their parts for the stream.  `by_token` cuts a stream into what one read brings.

    scripted         the answer that the request deserves      scripted-error   five tokens, then an upstream failure
    scripted-think   the same, after reasoning                 scripted-empty   a clean end with nothing before it
    scripted-slow    600 tokens, one each 50 ms
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

import msgspec

from rivermouth.ir.errors import ApiError, Kind, invalid
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
    Usage,
)
from rivermouth.ir.request import Choose, Format, Request, Tool
from rivermouth.providers.scripted.conform import Schema, Unsatisfiable
from rivermouth.providers.scripted.smallest import smallest
from rivermouth.providers.scripted.words import (
    count_prompt,
    echo,
    last_user_text,
    mark_of,
    river,
    signature_of,
    thoughts,
    tokens_of,
    trailing_results,
)
from rivermouth.wire import json

MOST_CHOICES: Final = 128


class Persona(msgspec.Struct, frozen=True, kw_only=True):
    """How one scripted model differs.

    thinks: reasons without being asked.  text_tokens: says so many tokens instead of an echo.  pause_s: before each
    token.  fails_after: tokens before an upstream failure.  silent: ends without content.  embeds: vectors only.
    """

    thinks: bool = False
    text_tokens: int | None = None
    pause_s: float = 0.0
    fails_after: int | None = None
    silent: bool = False
    embeds: bool = False


PERSONAS: Final[dict[str, Persona]] = {
    "scripted": Persona(),
    "scripted-think": Persona(thinks=True),
    "scripted-slow": Persona(text_tokens=600, pause_s=0.05),
    "scripted-error": Persona(fails_after=5),
    "scripted-empty": Persona(silent=True),
    "scripted-embed": Persona(embeds=True),
}


def persona_of(model: str, *, embeds: bool) -> Persona:
    """The model with this name.  Raises `ApiError` when there is none, or none for this operation."""
    persona = PERSONAS.get(model)
    if persona is None:
        raise ApiError(Kind.NOT_FOUND, f"there is no scripted model {model!r}; there are {', '.join(PERSONAS)}")
    if persona.embeds != embeds:
        raise ApiError(Kind.NOT_FOUND, f"{model} has {'no embeddings' if embeds else 'embeddings only'}", param="model")
    return persona


def script(request: Request, model: str) -> list[Event]:
    """The whole stream: the same events for the same request.  Raises `ApiError` for a request it cannot honour."""
    persona = persona_of(model, embeds=False)
    if request.n > MOST_CHOICES:
        raise invalid(f"at most {MOST_CHOICES} choices", "n")
    mark = mark_of(request, model)
    start = Start(id=f"scripted-{mark[:24]}", model=model)
    prompt_tokens = count_prompt(request)
    if persona.silent:
        return [start, Usage(prompt_tokens, 0, reasoning_tokens=0), Finish(Reason.STOP)]
    answers = [_answer(request, persona, mark, choice) for choice in range(max(1, request.n))]
    body = weave([a.events for a in answers])
    if persona.fails_after is not None:
        failure = ApiError(Kind.UPSTREAM, f"{model} fails after {persona.fails_after} tokens", provider="scripted")
        return [start, *_first_tokens(body, persona.fails_after), Error(failure)]
    usage = Usage(
        input_tokens=prompt_tokens,
        output_tokens=sum(a.tokens for a in answers),
        reasoning_tokens=sum(a.reasoning_tokens for a in answers),
    )
    reasons = tuple(a.reason for a in answers)
    return [
        start,
        *body,
        usage,
        Finish(reasons[0], answers[0].stop_sequence, reasons if len(reasons) > 1 else ()),
    ]


class Segment(NamedTuple):
    """One part to be written; `id` and `name` are a tool call's, `signature` is a reasoning's."""

    kind: PartKind
    text: str
    id: str | None = None
    name: str | None = None
    signature: str | None = None


class Answer(NamedTuple):
    """One choice, its parts numbered from 0."""

    events: list[Event]
    reason: Reason
    stop_sequence: str | None
    tokens: int
    reasoning_tokens: int


def _answer(request: Request, persona: Persona, mark: str, choice: int) -> Answer:
    segments, stop_sequence = _plan(request, persona, mark, choice)
    calls = any(s.kind is PartKind.TOOL for s in segments)
    reason = Reason.TOOL_CALLS if calls else Reason.STOP
    events: list[Event] = []
    spent = dict.fromkeys(PartKind, 0)
    part = 0
    for segment in segments:
        pieces = tokens_of(segment.text)
        left = len(pieces) if request.max_tokens is None else max(0, request.max_tokens - sum(spent.values()))
        said = pieces[:left]
        whole = len(said) == len(pieces)
        if said:
            events += _write(segment, part, choice, said, whole)
            spent[segment.kind] += len(said)
            part += 1
        if not whole:
            reason, stop_sequence = Reason.LENGTH, None
            break
    return Answer(events, reason, stop_sequence, sum(spent.values()), spent[PartKind.REASONING])


def _plan(request: Request, persona: Persona, mark: str, choice: int) -> tuple[list[Segment], str | None]:
    """What the answer would be without a token limit, and the stop sequence that ended its text."""
    segments = [_reasoning(request, mark)] if _thinks(request, persona) else []
    tool = chosen_tool(request)
    if tool is not None:
        return segments + _calls(request, tool, mark, choice), None
    text, stop_sequence = cut_at_stop(_text(request, persona, choice), request.stop)
    return [*segments, Segment(PartKind.TEXT, text)], stop_sequence


def _thinks(request: Request, persona: Persona) -> bool:
    if request.thinking is None:
        return persona.thinks
    return request.thinking.enabled and request.thinking.budget_tokens != 0


def _reasoning(request: Request, mark: str) -> Segment:
    """The reasoning, within its own budget if the request names one (a negative one is no limit)."""
    pieces = tokens_of(thoughts(request))
    budget = request.thinking.budget_tokens if request.thinking is not None else None
    text = "".join(pieces if budget is None or budget < 0 else pieces[:budget])
    return Segment(PartKind.REASONING, text, signature=signature_of(mark))


def chosen_tool(request: Request) -> Tool | None:
    """The tool that is called: the named one, else the first; none after tool results.  Raises `ApiError`."""
    mode = request.tool_choice.mode if request.tool_choice is not None else Choose.AUTO
    offered = {tool.name: tool for tool in reversed(request.tools)}
    if mode is Choose.NAMED:
        assert request.tool_choice is not None
        named = offered.get(request.tool_choice.name or "")
        if named is None:
            raise invalid(f"tool_choice names {request.tool_choice.name!r}, which is not offered", "tool_choice")
    else:
        named = request.tools[0] if request.tools else None
        if named is None and mode is Choose.REQUIRED:
            raise invalid("tool_choice demands a tool and none is offered", "tool_choice")
    return None if mode is Choose.NONE or trailing_results(request) else named


def _calls(request: Request, tool: Tool, mark: str, choice: int) -> list[Segment]:
    """One call, or two for a last message with the word "both", unless parallel calls are switched off."""
    both = re.search(r"\bboth\b", last_user_text(request), re.IGNORECASE) is not None
    arguments = _document(tool.parameters, "tools")
    return [
        Segment(PartKind.TOOL, arguments, id=f"call_{mark[:20]}_{choice}_{k}", name=tool.name)
        for k in range(2 if both and request.parallel_tools is not False else 1)
    ]


def _text(request: Request, persona: Persona, choice: int) -> str:
    text = echo(request, choice) if persona.text_tokens is None else river(persona.text_tokens)
    wanted = request.response_format
    if wanted is None or wanted.kind is Format.TEXT:
        return text
    if wanted.kind is Format.JSON or wanted.schema is None:
        return json.encode({"answer": text}).decode()
    return _document(wanted.schema, "response_format")


def _document(schema: Schema, param: str) -> str:
    try:
        return json.encode(smallest(schema)).decode()
    except Unsatisfiable as error:
        raise invalid(f"the scripted model cannot write a document for this JSON schema: {error}", param) from error


def cut_at_stop(text: str, stop: Iterable[str]) -> tuple[str, str | None]:
    """The text before the stop sequence that comes first in it, and that sequence."""
    found = [(at, sequence) for sequence in stop if sequence and (at := text.find(sequence)) >= 0]
    if not found:
        return text, None
    at, sequence = min(found, key=lambda f: f[0])
    return text[:at], sequence


_DELTAS: Final[dict[PartKind, type[TextDelta] | type[ReasoningDelta] | type[ArgsDelta]]] = {
    PartKind.TEXT: TextDelta,
    PartKind.REASONING: ReasoningDelta,
    PartKind.TOOL: ArgsDelta,
}


def _write(segment: Segment, part: int, choice: int, said: list[str], whole: bool) -> list[Event]:
    """A segment as events; reasoning that was cut short is not signed."""
    delta = _DELTAS[segment.kind]
    signed: list[Event] = [Signature(part, segment.signature)] if whole and segment.signature is not None else []
    return [
        PartStart(part, segment.kind, choice, segment.id, segment.name),
        *(delta(part, piece) for piece in said),
        *signed,
        PartEnd(part),
    ]


def by_token(events: Iterable[Event]) -> Iterator[list[Event]]:
    """The events in groups that each end with one token; what follows the last token is a group of its own."""
    group: list[Event] = []
    for event in events:
        group.append(event)
        if isinstance(event, TextDelta | ReasoningDelta | ArgsDelta):
            yield group
            group = []
    if group:
        yield group


def weave(choices: list[list[Event]]) -> list[Event]:
    """The choices in turns, a token each, with their parts numbered in the order in which they open."""
    numbers: dict[tuple[int, int], int] = {}
    woven: list[Event] = []
    for turn in zip_longest(*(by_token(events) for events in choices), fillvalue=[]):
        for choice, group in enumerate(turn):
            for event in group:
                assert isinstance(event, PartStart | TextDelta | ReasoningDelta | Signature | ArgsDelta | PartEnd)
                if isinstance(event, PartStart):
                    numbers[choice, event.part] = len(numbers)
                woven.append(msgspec.structs.replace(event, part=numbers[choice, event.part]))
    return woven


def _first_tokens(events: list[Event], count: int) -> list[Event]:
    groups = [group for group in by_token(events) if _has_token(group)]
    return [event for group in groups[:count] for event in group]


def _has_token(group: list[Event]) -> bool:
    return isinstance(group[-1], TextDelta | ReasoningDelta | ArgsDelta | MediaDelta)
