from __future__ import annotations

import json
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given

from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import PartKind, Reason, Usage
from rivermouth.ir.opaque import seal
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import Image, Reasoning, Refusal, Text, ToolCall
from tests.dialects.openai_chat.case import ROUTING, answer, parse, seam_free
from tests.strategies import replies


def reply(*parts: Any, reason: Reason = Reason.STOP, **members: Any) -> Reply:
    return Reply(choices=(Choice(parts, reason),), **members)


def encoded(given_: Reply, **changes: Any) -> dict[str, Any]:
    wire: dict[str, Any] = json.loads(DIALECT.encode_reply(given_, answer(**changes)))
    return wire


def body(message: Any, finish: str | None = "stop", **top: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    given_ = {"id": "u", "object": "chat.completion", "created": 5, "model": "up-model", "choices": [choice]}
    return json.dumps({**given_, **top}).encode()


@pytest.mark.promise(60)
def test_a_reply_of_text() -> None:
    wire = encoded(reply(Text("Par"), Text("is"), usage=Usage(5, 2, 3)), routing=ROUTING)
    assert wire == {
        "id": "chatcmpl-01J",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "gpt-x",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Paris", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 3},
        },
        "llmeu": ROUTING[1],
    }


def test_a_reply_of_everything_else() -> None:
    parts = (Reasoning("a", "s"), Reasoning("b"), Reasoning("", "h", redacted=True), Refusal("no"))
    message = encoded(reply(*parts, ToolCall("c", "f", "{}"), Image("image/png", "QUJD")))["choices"][0]
    assert message["finish_reason"] == "tool_calls"
    assert message["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": "no",
        "reasoning_content": "ab",
        "reasoning_details": [
            {
                "type": "reasoning.text",
                "index": 0,
                "text": "a",
                "signature": seal("s", note=f"0+1={crc32(b'a')}@0", text="a"),
            },
            {"type": "reasoning.text", "index": 1, "text": "b"},
            {"type": "reasoning.encrypted", "index": 2, "data": seal("h", redacted=True, note="2+0=0@0")},
        ],
        "images": [{"index": 0, "type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}],
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }


@pytest.mark.fault("F21", "F29")
def test_nothing_said_is_an_empty_text_and_nothing_counted_is_null() -> None:
    wire = encoded(reply())
    assert wire["choices"][0]["message"]["content"] == ""
    assert wire["usage"] is None


def test_clients_of_other_times_and_tools_get_their_own_forms() -> None:
    old = parse(functions=[{"name": "f"}])
    choice = encoded(reply(ToolCall("c", "f", "{}")), request=old)["choices"][0]
    assert choice["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    assert choice["finish_reason"] == "function_call"
    free = parse(tools=[{"type": "custom", "custom": {"name": "sh"}}])
    (call,) = encoded(reply(ToolCall("c", "sh", '{"input":"ls"}')), request=free)["choices"][0]["message"]["tool_calls"]
    assert call == {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}


def test_a_reply_is_read() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    read = DIALECT.parse_reply(body({"content": "x", "reasoning": "r", "tool_calls": [call]}, usage=usage))
    assert read == Reply(
        choices=(Choice((Reasoning("r"), Text("x"), ToolCall("c", "f", "{}")), Reason.TOOL_CALLS),),
        usage=Usage(5, 2),
        id="u",
        model="up-model",
        created=5,
    )
    assert DIALECT.parse_reply(body({"content": None}, None)).choices == (Choice((), Reason.STOP),)


@pytest.mark.fault("F11", "F12")
@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"error":{"message":"m","code":"rate_limit_exceeded"}}', Kind.RATE_LIMITED),
        (b'{"object":"error","message":"m","code":404}', Kind.NOT_FOUND),
        (b'{"choices":[]}', Kind.UPSTREAM),
        (b"{}", Kind.UPSTREAM),
        (body({"content": "x"}, "error"), Kind.UPSTREAM),
        (body({"tool_calls": [{"function": {"arguments": "{}"}}]}), Kind.UPSTREAM),
    ],
)
def test_a_reply_that_is_none_is_an_error(raw: bytes, kind: Kind) -> None:
    with pytest.raises(ApiError) as caught:
        DIALECT.parse_reply(raw)
    assert caught.value.kind is kind


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b'{"choices":[1]}'])
def test_what_is_no_reply_at_all_is_a_wire_error(raw: bytes) -> None:
    with pytest.raises(WireError):
        DIALECT.parse_reply(raw)


@given(replies(n_choices=2, kinds=(PartKind.TEXT, PartKind.REFUSAL, PartKind.REASONING, PartKind.TOOL)))
def test_what_is_encoded_is_read_back(given_: Reply) -> None:
    back = DIALECT.parse_reply(DIALECT.encode_reply(given_, answer()))
    assert seam_free(back) == seam_free(sorted_parts(given_))


def sorted_parts(given_: Reply) -> Reply:
    """The parts in the order of the message's members, all that a whole reply keeps of their order."""
    order = (Reasoning, Text, Refusal, ToolCall)
    choices = tuple(
        Choice(tuple(p for k in order for p in c.parts if isinstance(p, k)), c.reason) for c in given_.choices
    )
    return Reply(choices=choices, usage=given_.usage)
