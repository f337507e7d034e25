from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.cohere_v1 import DIALECT
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Reason, Usage, Warn
from rivermouth.ir.fold import unfold
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Text, ToolCall
from tests.dialects.cohere_v1.case import answer
from tests.dialects.cohere_v1.case import encode as encode_stream
from tests.dialects.cohere_v1.case import parse as parse_request


def encode(*parts: Any, reason: Reason = Reason.STOP, usage: Usage | None = None, **changes: Any) -> dict[str, Any]:
    reply = Reply(choices=(Choice(parts, reason),), usage=usage)
    found: dict[str, Any] = json.loads(DIALECT.encode_reply(reply, answer(**changes)))
    return found


def parse(**body: Any) -> Reply:
    return DIALECT.parse_reply(json.dumps(body).encode())


@pytest.mark.promise(162)
def test_a_whole_reply() -> None:
    parts = (Reasoning("hm"), Text("I "), Text("look."), ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g"))
    calls = [{"id": "a", "name": "f", "parameters": {"x": 1}}, {"id": "b", "name": "g", "parameters": {}}]
    counts = {"input_tokens": 9, "output_tokens": 2}
    wire = encode(*parts, reason=Reason.TOOL_CALLS, usage=Usage(9, 2), request=parse_request())
    assert wire == {
        "response_id": "01J",
        "id": "01J",
        "generation_id": "01J",
        "text": "I look.",
        "message": {"role": "assistant", "content": "I look."},
        "tool_calls": calls,
        "chat_history": [
            {"role": "USER", "message": "Hi"},
            {"role": "CHATBOT", "message": "I look.", "tool_calls": calls},
        ],
        "finish_reason": "COMPLETE",
        "meta": {"api_version": {"version": "1"}, "billed_units": counts, "tokens": counts},
    }


def test_other_parts_are_words_or_nothing() -> None:
    assert encode(Refusal("no"), Image(url="https://x"), File(data="QUJD"))["text"] == (
        "no[file](https://x)[file: this protocol cannot carry it]"
    )
    assert encode()["text"] == ""
    assert encode(reason=Reason.CONTENT_FILTER)["finish_reason"] == "ERROR_TOXIC"


def test_an_upstreams_reply() -> None:
    reply = parse(
        response_id="r1",
        generation_id="g1",
        text="I look.",
        tool_calls=[
            {"name": "f", "parameters": {"x": 1.0}},
            {"name": "g", "parameters": "say"},
            {"name": "h", "id": "i"},
        ],
        finish_reason="COMPLETE",
        chat_history=[],
        meta={"api_version": {"version": "1"}, "tokens": {"input_tokens": 3.0, "output_tokens": 4.0}},
    )
    assert (reply.id, reply.usage) == ("g1", Usage(3, 4))
    assert reply.choices == (
        Choice(
            (
                Text("I look."),
                ToolCall("call_g1_0", "f", '{"x": 1.0}'),
                ToolCall("call_g1_1", "g", "say"),
                ToolCall("i", "h", "{}"),
            ),
            Reason.TOOL_CALLS,
        ),
    )


def test_looser_replies() -> None:
    assert parse(text="Hi").choices[0] == Choice((Text("Hi"),), Reason.STOP)
    assert parse(text="Hi", finish_reason="MAX_TOKENS").choices[0].reason is Reason.LENGTH
    assert [type(w) for w in parse(text="", finish_reason="TIRED").warnings] == [Warn]


@pytest.mark.fault("F11")
@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ({"text": "", "finish_reason": "ERROR"}, Kind.UPSTREAM, "the upstream reported an error"),
        ({"text": "a", "finish_reason": "TIMEOUT"}, Kind.TIMEOUT, "the upstream reported an error"),
        ({"text": "a", "error": "broke"}, Kind.UPSTREAM, "broke"),
        ({"message": "internal error"}, Kind.UPSTREAM, "internal error"),
    ],
)
def test_an_error_under_a_good_status_is_an_error(body: dict[str, Any], kind: Kind, message: str) -> None:
    with pytest.raises(ApiError) as raised:
        parse(**body)
    assert (raised.value.kind, raised.value.message) == (kind, message)


@pytest.mark.parametrize("body", [{}, {"text": None}, {"text": "a", "tool_calls": [{"name": ""}]}])
def test_what_is_no_reply_is_a_wire_error(body: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        parse(**body)


@pytest.mark.fault("F7")
def test_a_stream_that_nobody_asked_for_is_read_as_what_it_says() -> None:
    stream = encode_stream(unfold(Reply(choices=(Choice((Text("Hi"), ToolCall("a", "f", "{}")), Reason.TOOL_CALLS),))))
    assert DIALECT.relay_reply is not None
    for body in (stream, DIALECT.relay_reply(stream, answer()), stream.splitlines()[-1]):
        assert DIALECT.parse_reply(body).choices[0].parts == (Text("Hi"), ToolCall("a", "f", "{}"))
    with pytest.raises(ApiError) as raised:
        DIALECT.parse_reply(b"\n".join(stream.splitlines()[:-1]))
    assert raised.value.kind is Kind.TRUNCATED
    quoted = parse(text="a", tool_calls=[{"name": "f", "parameters": {"event_type": 1}}])
    assert quoted.choices[0].parts[1] == ToolCall("call_0", "f", '{"event_type": 1}')
