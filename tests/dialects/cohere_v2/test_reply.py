from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.cohere_v2 import DIALECT
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Reason, Usage, Warn
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Text, ToolCall
from tests.dialects.cohere_v2.case import answer


def encode(*parts: Any, reason: Reason = Reason.STOP, **more: Any) -> dict[str, Any]:
    reply = Reply(choices=(Choice(parts, reason, more.pop("stop_sequence", None)),), **more)
    found: dict[str, Any] = json.loads(DIALECT.encode_reply(reply, answer()))
    return found


def parse(**body: Any) -> Reply:
    return DIALECT.parse_reply(json.dumps(body).encode())


def test_a_whole_reply() -> None:
    wire = encode(
        Reasoning("hm"),
        Text("I look."),
        ToolCall("a", "f", '{"x":1}'),
        ToolCall("b", "g"),
        reason=Reason.TOOL_CALLS,
        usage=Usage(9, 2, 4),
    )
    counts = {"input_tokens": 9, "output_tokens": 2}
    assert wire == {
        "id": "01J",
        "finish_reason": "TOOL_CALL",
        "message": {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}],
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        },
        "usage": {"billed_units": counts, "tokens": counts, "cached_tokens": 4},
    }


def test_a_reply_without_content_has_a_block_that_clients_can_read() -> None:
    assert encode(reason=Reason.LENGTH)["message"] == {"role": "assistant", "content": [{"type": "text", "text": ""}]}
    assert "content" not in encode(ToolCall("a", "f"))["message"]
    assert encode(ToolCall("a", "f"))["finish_reason"] == "TOOL_CALL"
    assert encode(Reasoning(signature="s", redacted=True), Refusal("no"))["message"]["content"] == [
        {"type": "text", "text": "no"}
    ]
    assert [b["text"] for b in encode(Image(url="https://x"), File(data="QUJD"))["message"]["content"]] == [
        "[file](https://x)",
        "[file: this protocol cannot carry it]",
    ]


def test_a_filtered_reply_says_so_and_comes_back() -> None:
    wire = encode(Text("I"), reason=Reason.CONTENT_FILTER)
    assert (wire["finish_reason"], wire["error"]) == (
        "ERROR",
        "content_filter: the answer was stopped by a content filter",
    )
    assert parse(**wire).choices[0].reason is Reason.CONTENT_FILTER


def test_an_upstreams_reply() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"id": "a", "function": {"name": "g", "arguments": None}},
    ]
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}, {"type": "hologram", "z": 1}]
    reply = parse(
        id="r1",
        finish_reason="TOOL_CALL",
        message={
            "role": "assistant",
            "content": content,
            "tool_plan": "I look.",
            "tool_calls": calls,
            "citations": [{}],
        },
        usage={"tokens": {"input_tokens": 3.0, "output_tokens": 4.0}},
        logprobs=None,
    )
    assert reply.id == "r1"
    assert reply.choices == (
        Choice(
            (
                Reasoning("hm"),
                Text("x"),
                Text("I look."),
                ToolCall("a", "f", '{"x":1}'),
                ToolCall("call_r1_1", "g"),
            ),
            Reason.TOOL_CALLS,
        ),
    )
    assert reply.usage == Usage(3, 4)


def test_looser_replies() -> None:
    assert parse(message={"content": "Hi"}, finish_reason=None).choices[0] == Choice((Text("Hi"),), Reason.STOP)
    odd = parse(message={"content": []}, finish_reason="TIRED")
    assert odd.choices[0] == Choice((), Reason.STOP)
    assert [type(w) for w in odd.warnings] == [Warn]


@pytest.mark.fault("F11")
@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ({"message": {"content": []}, "finish_reason": "ERROR"}, Kind.UPSTREAM, "the upstream reported an error"),
        ({"message": {"content": "a"}, "finish_reason": "TIMEOUT"}, Kind.TIMEOUT, "the upstream reported an error"),
        ({"message": {"content": "a"}, "error": "broke"}, Kind.UPSTREAM, "broke"),
        ({"message": "internal error"}, Kind.UPSTREAM, "internal error"),
    ],
)
def test_an_error_under_a_good_status_is_an_error(body: dict[str, Any], kind: Kind, message: str) -> None:
    with pytest.raises(ApiError) as raised:
        parse(**body)
    assert (raised.value.kind, raised.value.message) == (kind, message)


@pytest.mark.parametrize("body", [{}, {"message": None}, {"message": {"tool_calls": [{"id": "a", "function": {}}]}}])
def test_what_is_no_reply_is_a_wire_error(body: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        parse(**body)
