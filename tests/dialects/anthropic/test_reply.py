from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from rivermouth.dialects.anthropic import DIALECT
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import PartKind, Reason, Usage
from rivermouth.ir.fold import fold, unfold
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import Image, Reasoning, Refusal, Text, ToolCall
from tests.dialects.anthropic.case import answer, decode, encode
from tests.strategies import replies

KINDS = (PartKind.TEXT, PartKind.REASONING, PartKind.TOOL)


def encoded(*parts: Any, reason: Reason = Reason.STOP, **fields: Any) -> dict[str, Any]:
    reply = Reply(choices=(Choice(parts, reason, fields.pop("stop_sequence", None)),), **fields)
    return dict(json.loads(DIALECT.encode_reply(reply, answer())))


def parsed(**changes: Any) -> Reply:
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [{"type": "text", "text": "Hi", "citations": None}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }
    return DIALECT.parse_reply(json.dumps({**whole, **changes}).encode())


def test_a_reply_is_one_message() -> None:
    usage = Usage(input_tokens=10, output_tokens=2, cached_tokens=4)
    assert encoded(Text("Hi"), Text(""), usage=usage, model="theirs", id="their-id") == {
        "id": "msg_01J",
        "type": "message",
        "role": "assistant",
        "model": "gpt-x",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 2},
    }


@pytest.mark.fault("F24", "F25")
def test_parts_of_a_reply() -> None:
    said = encoded(
        Reasoning("hm", "anthropic:EqQB"),
        Reasoning("x"),
        Reasoning("", "foreign", redacted=True),
        Reasoning(),
        ToolCall("call:1", "f", '{"a": 1}'),
        ToolCall("c2", "g", "not json"),
        Image(url="https://x/y"),
    )
    assert said["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
        {"type": "thinking", "thinking": "x", "signature": "rivermouth.1."},
        {"type": "redacted_thinking", "data": "rivermouth.1.cnwwfGZvcmVpZ24"},
        {"type": "tool_use", "id": "rmid_Y2FsbDox", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "c2", "name": "g", "input": {"input": "not json"}},
        {"type": "text", "text": "[image](https://x/y)"},
    ]
    assert said["stop_reason"] == "tool_use"


def test_why_it_ended() -> None:
    stopped = encoded(Text("a"), stop_sequence="END")
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", "END")
    assert encoded(Refusal("no"))["stop_reason"] == "refusal"
    assert encoded(Text("a"), reason=Reason.LENGTH)["stop_reason"] == "max_tokens"
    assert parsed(stop_reason="stop_sequence", stop_sequence="END").choices[0].stop_sequence == "END"
    assert parsed(stop_reason=None).choices[0].reason is Reason.STOP
    assert "tired" in parsed(stop_reason="tired").warnings[0].message


def test_an_upstreams_message_is_read() -> None:
    reply = parsed(
        content=[
            {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "EmwK"},
            {"type": "server_tool_use", "id": 7, "name": [], "input": {}},
            {"type": "text", "text": ""},
            {"type": "tool_use", "name": "f", "input": {}},
        ],
        stop_reason="end_turn",
    )
    assert reply.choices[0] == Choice(
        (
            Reasoning("hm", "anthropic:EqQB"),
            Reasoning(signature="anthropic:EmwK", redacted=True),
            ToolCall("toolu_1_4", "f"),
        ),
        Reason.TOOL_CALLS,
    )
    assert (reply.id, reply.model, reply.usage) == ("msg_1", "claude-x", Usage(input_tokens=3, output_tokens=5))


@pytest.mark.fault("F11")
def test_an_error_under_a_good_status_is_an_error() -> None:
    with pytest.raises(ApiError) as raised:
        parsed(type="error", error={"type": "overloaded_error", "message": "m"})
    assert raised.value.kind is Kind.OVERLOADED


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"content":7}', b'{"content":[{"type":"tool_use"}]}'])
def test_a_malformed_reply_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(WireError):
        DIALECT.parse_reply(body)


@pytest.mark.fault("F7")
@given(replies(kinds=KINDS))
def test_a_reply_says_what_its_stream_says(reply: Reply) -> None:
    whole = DIALECT.parse_reply(DIALECT.encode_reply(reply, answer()))
    streamed = fold(decode(encode(unfold(reply))))
    assert whole.choices[0].reason == streamed.choices[0].reason == reply.choices[0].reason
    assert [comparable(p) for p in whole.choices[0].parts] == [comparable(p) for p in streamed.choices[0].parts]
    assert [comparable(p) for p in whole.choices[0].parts] == [comparable(p) for p in reply.choices[0].parts]
    if reply.usage is not None:
        assert whole.usage == streamed.usage == reply.usage


def comparable(part: Any) -> Any:
    """Arguments are compared as JSON: "" is {}."""
    if isinstance(part, ToolCall):
        return (part.id, part.name, json.loads(part.arguments or "{}"))
    return part
