"""Signatures and the order of a turn, through a client that has one string for all reasoning and one for all text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.dialects.openai_chat.opaque import SEALED_CHARS
from rivermouth.ir.events import Reason
from rivermouth.ir.fold import unfold
from rivermouth.ir.opaque import seal, sealed
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import Message, Original, Reasoning, Role, Text, ToolCall
from tests.dialects.openai_chat.case import DONE, answer, build, chunk, encode, parse, parts_of, payloads

pytestmark = pytest.mark.fault("F25")
OTHER = "anthropic:EqQB"


def streamed(reply: Reply) -> dict[str, Any]:
    """The assistant's message as an SDK accumulates it."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for frame in payloads(encode(unfold(reply))):
        for choice in frame["choices"] if frame != "[DONE]" else ():
            for name, value in choice["delta"].items():
                _join(message, name, value)
    return message


def _join(message: dict[str, Any], name: str, value: Any) -> None:
    if name == "tool_calls":
        calls = message.setdefault(name, [])
        for entry in value:
            if entry["index"] == len(calls):
                calls.append(entry)
            else:
                calls[entry["index"]]["function"]["arguments"] += entry["function"]["arguments"]
    elif isinstance(value, list):
        message.setdefault(name, []).extend(value)
    elif name != "role":
        message[name] = (message.get(name) or "") + value


def whole(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(DIALECT.encode_reply(reply, answer()))["choices"][0]["message"]
    return message


def came_back(message: dict[str, Any]) -> tuple[Any, ...]:
    request = parse(messages=[{"role": "user", "content": "Hi"}, message, {"role": "user", "content": "So?"}])
    return request.messages[1].parts


TURNS: dict[str, tuple[Any, ...]] = {
    "one block": (Reasoning("hm", OTHER), Text("x")),
    "hidden": (Reasoning("", OTHER, redacted=True), Text("x")),
    "several blocks": (Reasoning("a", "anthropic:1"), Reasoning("bé😀", "anthropic:2"), Text("x")),
    "not all signed": (Reasoning("a"), Reasoning("b", "gemini:2"), Reasoning("c"), Text("x")),
    "a signature without reasoning": (Text("x"), Reasoning("", "gemini-call:1"), ToolCall("c", "f", "{}")),
    "a signature of the text before": (Text("x"), Reasoning("", "gemini-text:1")),
    "between calls": (
        Reasoning("a", OTHER),
        ToolCall("c", "f", "{}"),
        Reasoning("b", "anthropic:2"),
        ToolCall("d", "g", '{"x":1}'),
        ToolCall("e", "g", "{}"),
    ),
    "after text": (Reasoning("a", OTHER), Text("x"), Reasoning("b", "anthropic:2"), ToolCall("c", "f", "{}")),
}


@pytest.mark.parametrize("case", TURNS)
@pytest.mark.parametrize("say", [streamed, whole])
def test_a_turn_comes_back_as_the_model_said_it(case: str, say: Any) -> None:
    parts = TURNS[case]
    called = any(isinstance(p, ToolCall) for p in parts)
    assert came_back(say(Reply(choices=(Choice(parts, Reason.TOOL_CALLS if called else Reason.STOP),)))) == parts


def test_what_was_sealed_counts_whatever_a_client_made_of_the_text() -> None:
    """An accumulator that does not know `reasoning_content` keeps its last piece, a store that does not, nothing."""
    blocks = (Reasoning("a", "anthropic:1"), Reasoning("b", "anthropic:2"))
    message = streamed(Reply(choices=(Choice((*blocks, Text("x")), Reason.STOP),)))
    for changed in ("b", "ax", "xx", "", None):
        assert came_back({**message, "reasoning_content": changed}) == (*blocks, Text("x"))


def test_longer_reasoning_that_a_client_changed_is_not_proven_any_more() -> None:
    long = "m" * (SEALED_CHARS + 1)
    parts = (Reasoning("a", "anthropic:1"), Reasoning(long, "anthropic:2"), Text("x"))
    message = streamed(Reply(choices=(Choice(parts, Reason.STOP),)))
    assert len(json.dumps(message)) < 2 * SEALED_CHARS, "it is not sent twice"
    assert came_back(message) == parts
    assert came_back({**message, "reasoning_content": "amm"}) == (*parts[:1], Reasoning("mm"), Text("x"))


@given(st.text(max_size=9), st.lists(st.text("0123456789+=@t|", max_size=12)))
def test_notes_of_any_kind_are_read(text: str, notes: list[str]) -> None:
    details = [{"signature": seal(OTHER, note=note.replace("|", ""))} for note in notes]
    parts = came_back({"role": "assistant", "content": "x", "reasoning_content": text, "reasoning_details": details})
    assert "".join(p.text for p in parts if isinstance(p, Reasoning)) == text
    assert parts[-1] == Text("x")


def test_what_an_upstream_signed_goes_back_to_it_with_what_it_said_about_it() -> None:
    about = {"format": "vendor-v1", "id": "rs_1"}
    said = parts_of(
        chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "hm", "format": "vendor-v1"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s", **about}]}),
        chunk({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "h"}]}),
        chunk({"content": "x"}),
        chunk(finish="stop"),
        DONE,
    )
    assert said[1] == Reasoning("", "openai_chat:h", redacted=True)
    request = parse(messages=[{"role": "user", "content": "Hi"}])
    again = msgspec.structs.replace(request, messages=(*request.messages, Message(Role.ASSISTANT, said)))
    assert build(again)["messages"][-1] == {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "hm",
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s", **about},
            {"type": "reasoning.encrypted", "index": 1, "data": "h"},
        ],
    }


@pytest.mark.parametrize("made_up", ["openai_chat-as:", "openai_chat-as:[]", 'openai_chat-as:{"a":1}', "openai_chat:"])
def test_a_signature_that_a_client_made_up_is_left_out(made_up: str) -> None:
    message = {"role": "assistant", "content": "x", "reasoning_details": [{"signature": seal(made_up), "text": "hm"}]}
    assert "reasoning_details" not in build(parse(messages=[message]))["messages"][0]


def test_a_body_that_goes_as_it_came_has_no_envelope_in_it() -> None:
    own = {"type": "reasoning.text", "text": "b", "index": 1, "signature": seal("openai_chat:s")}
    hidden = {"type": "reasoning.encrypted", "index": 2, "data": seal("openai_chat:h", redacted=True)}
    theirs = {"type": "reasoning.text", "index": 3, "text": "c", "signature": "raw", "x": 1}
    foreign = {"type": "reasoning.text", "text": "a", "index": 0, "signature": seal(OTHER)}
    details = [foreign, own, hidden, theirs]
    talk: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi", "x": 1.0},
        {
            "role": "assistant",
            "content": "x",
            "reasoning_content": "ab",
            "reasoning_details": details,
        },
        {"role": "assistant", "content": "y", "reasoning_content": "a", "reasoning_details": [foreign]},
    ]
    request = parse(messages=talk)
    assert isinstance(request.original, Original)
    sent = json.loads(DIALECT.build_request(request, "up-model").body)["messages"]
    assert not sealed(json.dumps(sent))
    assert sent == [
        talk[0],
        {**talk[1], "reasoning_details": [{**own, "signature": "s"}, {**hidden, "data": "h"}, theirs]},
        {"role": "assistant", "content": "y", "reasoning_content": "a"},
    ]
