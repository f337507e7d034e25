from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.openai_responses import DIALECT
from rivermouth.dialects.openai_responses.response import REPEATED
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Reason, Usage
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import Keeping, Message, Request, Role, Text, Tool, ToolCall
from tests.dialects.openai_responses.case import answer, parse

REPLY = Reply(choices=(Choice((Text("Deep."), ToolCall("c", "f", "{}")), Reason.TOOL_CALLS),), usage=Usage(9, 4))


def encoded(request: Request | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DIALECT.encode_reply(REPLY, answer(request)))
    return found


def test_it_is_the_response_that_ends_a_stream() -> None:
    reply = encoded(parse())
    assert (reply["id"], reply["object"], reply["status"]) == ("resp_01J", "response", "completed")
    assert (reply["created_at"], reply["completed_at"]) == (1_700_000_000, 1_700_000_002)
    assert [item["type"] for item in reply["output"]] == ["message", "function_call"]
    assert reply["usage"]["total_tokens"] == 13
    assert set(REPEATED) <= set(reply)


def test_another_dialects_client_is_repeated_in_our_words() -> None:
    request = Request(model="m", messages=(Message(Role.USER, (Text("Hi"),)),), tools=(Tool("f"),))
    assert encoded(request)["tools"] == [
        {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    ]
    assert encoded(None)["tools"] == []


@pytest.mark.parametrize(
    ("kept", "want"),
    [
        (None, (False, False, None, None)),
        (Keeping(store=True), (True, False, None, None)),
        (Keeping(previous="resp_0"), (True, False, "resp_0", None)),
        (Keeping(store=False, background=True, conversation="conv_1"), (False, True, None, {"id": "conv_1"})),
    ],
)
def test_what_is_kept_is_told_by_who_keeps_it(kept: Keeping | None, want: Any) -> None:
    request = Request(model="m", messages=(), kept=kept)
    reply = encoded(request)
    assert (
        reply["store"],
        reply["background"],
        reply["previous_response_id"],
        reply.get("conversation"),
    ) == want


def test_a_reply_is_read() -> None:
    body = json.dumps(encoded()).encode()
    reply = DIALECT.parse_reply(body)
    assert reply.choices == REPLY.choices
    assert (reply.id, reply.model, reply.created) == ("resp_01J", "m", 1_700_000_000)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "m"}}, Kind.RATE_LIMITED),
        ({"error": {"message": "m", "type": "server_error"}}, Kind.UPSTREAM),
        ({"status": "queued", "output": []}, Kind.UPSTREAM),
        ({"status": "in_progress", "output": []}, Kind.UPSTREAM),
        ({"status": "cancelled", "output": []}, Kind.UPSTREAM),
        ({"status": "completed"}, Kind.UPSTREAM),
    ],
)
def test_what_is_no_answer_is_an_error(body: Any, kind: Kind) -> None:
    with pytest.raises(ApiError) as caught:
        DIALECT.parse_reply(json.dumps(body).encode())
    assert caught.value.kind is kind


def test_what_is_no_reply_is_a_wire_error() -> None:
    for body in (b"", b"[]", b'{"output": 3}', b'{"output": [3]}'):
        with pytest.raises(WireError):
            DIALECT.parse_reply(body)
