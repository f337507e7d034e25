"""A client's request to a neutral one, with the field at fault named where that cannot be."""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.dialect import Route
from rivermouth.dialects.openai_responses.shapes import Conversation, FormatShape, ReasoningShape, RequestShape
from rivermouth.dialects.openai_responses.tables import ENCRYPTED, FORMAT_IN, LOGPROBS, NAME, RANGES
from rivermouth.dialects.openai_responses.talk import Talk, parse_input
from rivermouth.dialects.openai_responses.tools import one_name, parse_tools
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, model_name, unread
from rivermouth.ir.request import (
    Format,
    Keeping,
    Original,
    Request,
    ResponseFormat,
    Sampling,
    Text,
    Thinking,
)
from rivermouth.vendors.openai.bodies import check_ranges, known, misfit, read_fields
from rivermouth.vendors.openai.efforts import read_effort
from rivermouth.wire import json

_request: Final = json.typed(RequestShape)
# Hints that change nothing of the answer: another target goes without them in silence.
_HINTS: Final = frozenset(
    {
        "client_metadata",
        "max_tool_calls",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "service_tier",
        "stream_options",
    }
)
_READ: Final = _HINTS.union(RequestShape.__struct_fields__)
_INCLUDED: Final = frozenset({ENCRYPTED, LOGPROBS})


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """Raises `ApiError(invalid_request)`; `param` is the path of the field."""
    fields = read_fields(body)
    try:
        wire = json.decode_as(_request, body)
    except WireError as error:
        raise misfit(error) from None
    model = model_name(wire.model, path_model)
    check_ranges(wire, RANGES)
    offered = parse_tools(wire.tools, wire.tool_choice)
    talk = parse_input(wire.input or "", one_name(offered.tools))
    kept = _kept(wire, talk)
    _check_said(wire, talk, kept, fields)
    return Request(
        model=model,
        messages=talk.messages,
        system=_system(wire.instructions, talk.system),
        stream=bool(wire.stream),
        include_usage=True,
        max_tokens=wire.max_output_tokens,
        tools=offered.tools,
        tool_choice=offered.choice,
        parallel_tools=wire.parallel_tool_calls,
        response_format=_format(wire.text.format if wire.text is not None else None),
        sampling=_sampling(wire),
        thinking=_thinking(wire.reasoning),
        user=wire.user or wire.safety_identifier,
        metadata=wire.metadata or None,
        original=Original(NAME, fields),
        untranslatable=_untranslatable(talk, fields),
        unmodelled=loss_names([*unread(fields, _READ), *_ignored(wire), *offered.left_out, *talk.left_out]),
        kept=kept,
    )


def _check_said(wire: RequestShape, talk: Talk, kept: Keeping | None, fields: dict[str, json.Raw]) -> None:
    """There is something to answer: said here, kept from before, or readable by the vendor alone."""
    earlier = kept is not None and (kept.previous or kept.conversation or kept.references)
    if not talk.messages and not talk.left_out and not earlier and not _has(fields, "prompt"):
        raise invalid("input must not be empty", "input", "missing_required_parameter")


def _untranslatable(talk: Talk, fields: dict[str, json.Raw]) -> tuple[str, ...]:
    """A prompt that the vendor keeps, and a talk of nothing but items that only the vendor can read."""
    if _has(fields, "prompt"):
        return ("prompt",)
    return ("input",) if not talk.messages and talk.left_out else ()


def _has(fields: dict[str, json.Raw], name: str) -> bool:
    return bytes(fields.get(name, b"null")) != b"null"


def _system(said: str | None, leading: tuple[Text, ...]) -> tuple[Text, ...]:
    return (Text(said), *leading) if said else leading


def _kept(wire: RequestShape, talk: Talk) -> Keeping | None:
    belongs = wire.conversation.id if isinstance(wire.conversation, Conversation) else wire.conversation
    wish = Keeping(
        store=wire.store,
        previous=wire.previous_response_id or None,
        background=bool(wire.background),
        conversation=belongs or None,
        references=talk.references,
    )
    return wish if wish != Keeping() else None


def _ignored(wire: RequestShape) -> list[str]:
    """Wishes inside of fields that are read."""
    names = [f"include.{name}" for name in wire.include or () if name not in _INCLUDED]
    if wire.text is not None and wire.text.verbosity is not None:
        names.append("text.verbosity")
    if wire.truncation not in (None, "disabled"):
        names.append("truncation")
    return names


def _sampling(wire: RequestShape) -> Sampling:
    logprobs = True if LOGPROBS in (wire.include or ()) else None
    return Sampling(
        temperature=wire.temperature, top_p=wire.top_p, logprobs=logprobs, top_logprobs=wire.top_logprobs or None
    )


def _thinking(wire: ReasoningShape | None) -> Thinking | None:
    """How hard to think is said by the effort; to see a summary is no wish to think."""
    if wire is None or wire.effort is None:
        return None
    effort = read_effort(wire.effort, "reasoning.effort")
    return Thinking(enabled=effort is not None, effort=effort, summary=wire.summary or wire.generate_summary)


def _format(wire: FormatShape | None) -> ResponseFormat | None:
    if wire is None:
        return None
    kind = known(wire.type, FORMAT_IN, "text.format.type")
    if kind is Format.TEXT:
        return None
    if kind is Format.JSON:
        return ResponseFormat(kind)
    if wire.schema is None:
        raise invalid("the schema is missing", "text.format.schema", "missing_required_parameter")
    return ResponseFormat(kind, wire.schema, wire.name, wire.description, wire.strict)
