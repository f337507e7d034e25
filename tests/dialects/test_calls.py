"""A call's arguments, whatever a model writes for them, as each wire's clients can read them."""

from __future__ import annotations

import json

import pytest

from rivermouth.dialects import discover
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    Start,
    TextDelta,
)
from tests.dialects.conformance import decoded, encoded
from tests.dialects.forms import FORMS

WITH_TOOLS = sorted({form.dialect for form in FORMS.values() if form.tools})
# The pieces are the model's text, and stay what it wrote.
TEXTS = {"cohere_v1", "cohere_v2", "openai_chat", "openai_responses", "tgi"}
# Clients join the pieces and parse them as an object.
OBJECTS = {"anthropic", "bedrock_converse", "bedrock_invoke"}
# Calls are sent whole; one whose arguments are no object is sent as the text that the model wrote.
WHOLE = {"gemini", "ollama"}
CALL = PartStart(1, PartKind.TOOL, 0, "c", "f")


def test_every_dialect_with_tools_has_its_manner() -> None:
    assert sorted([*TEXTS, *OBJECTS, *WHOLE]) == WITH_TOOLS


def arguments(name: str, events: list[Event]) -> str:
    dialect = discover()[name]
    return "".join(e.json for e in decoded(dialect, encoded(dialect, events)) if isinstance(e, ArgsDelta))


@pytest.mark.fault("F20")
@pytest.mark.parametrize("name", WITH_TOOLS)
@pytest.mark.parametrize("pieces", [('{"a":1}{"a":1}',), ('{"a"', ":1}", '{"a":1}'), ("  ", '{"a":1} ', "</call>")])
def test_what_a_model_writes_behind_an_object_is_not_sent_where_an_object_is_read(
    name: str, pieces: tuple[str, ...]
) -> None:
    said: list[Event] = [ArgsDelta(1, piece) for piece in pieces]
    got = arguments(name, [Start(), CALL, *said, PartEnd(1), Finish(Reason.TOOL_CALLS)])
    if name in TEXTS:
        assert got == "".join(pieces)
    else:
        assert json.loads(got) == {"a": 1}


@pytest.mark.fault("F13", "F20", "F26")
@pytest.mark.parametrize("name", WITH_TOOLS)
def test_a_call_that_was_whole_before_its_turn_came_is_whole_in_a_stream_that_fails(name: str) -> None:
    """It stood behind a text that was cut."""
    waited: list[Event] = [Start(), PartStart(0, PartKind.TEXT), TextDelta(0, "a"), CALL, ArgsDelta(1, '"rain"')]
    got = arguments(name, [*waited, PartEnd(1), Error(ApiError(Kind.NETWORK, "cut"))])
    assert got == {**dict.fromkeys(TEXTS, '"rain"'), **dict.fromkeys(WHOLE, "")}.get(name, '{"input":"rain"}')
