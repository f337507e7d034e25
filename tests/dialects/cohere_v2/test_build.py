from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from rivermouth.dialects.cohere_v2 import DIALECT
from rivermouth.dialects.cohere_v2.outgoing import SEE_NEXT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
    Audio,
    Choose,
    File,
    Format,
    Image,
    Local,
    Message,
    Reasoning,
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
from rivermouth.ir.turns import ERROR, NO_RESULT
from tests.dialects.cohere_v2.case import build, losses, route
from tests.strategies import requests

HI = Message(Role.USER, (Text("Hi"),))
F = Tool("f", "d", {"type": "object", "properties": {}})
G = Tool("g")


def ask(*messages: Message, **changes: Any) -> Request:
    return Request(**{"model": "m", "messages": messages or (HI,), **changes})


def turns(*messages: Message, **changes: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = build(ask(*messages, **changes))["messages"]
    return found


def test_a_talk_with_calls_and_results() -> None:
    calls = (ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g"))
    assert turns(
        HI,
        Message(Role.ASSISTANT, (Text("Look"), Text("ing."), *calls)),
        Message(Role.TOOL, (ToolResult("b", (Text("B"),)), ToolResult("a", (Text("A"), File(text="more"))))),
        Message(Role.USER, (Text("So?"),)),
        system=(Text("Be brief."), Text("Be kind.")),
    ) == [
        {"role": "system", "content": "Be brief.\n\nBe kind."},
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "tool_plan": "Looking.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "A\nmore"},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "user", "content": "So?"},
    ]


def test_calls_without_a_result_get_one_and_results_without_a_call_are_lost() -> None:
    called = Message(Role.ASSISTANT, (ToolCall("a", "f"),))
    missing = {"role": "tool", "tool_call_id": "a", "content": ERROR + NO_RESULT}
    assert turns(HI, called)[-1] == missing
    assert turns(HI, called, HI)[-2:] == [missing, {"role": "user", "content": "Hi"}]
    orphan = ask(HI, Message(Role.TOOL, (ToolResult("zzz", (Text("?"),)),)))
    assert build(orphan)["messages"] == [{"role": "user", "content": "Hi"}]
    assert losses(orphan) == ("messages.tool_result",)


def test_an_image_in_a_result_is_shown_right_after_it() -> None:
    called = Message(Role.ASSISTANT, (ToolCall("a", "f"),))
    result = Message(Role.TOOL, (ToolResult("a", (Image("image/png", "QUJD"),), True),))
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    assert turns(HI, called, result)[-2:] == [
        {"role": "tool", "tool_call_id": "a", "content": ERROR + SEE_NEXT},
        {"role": "user", "content": [{"type": "text", "text": "What the tool call a gave:"}, picture]},
    ]
    assert losses(ask(HI, called, result)) == ()


def test_thinking_goes_along_only_where_it_is_switched_on() -> None:
    thought = Message(Role.ASSISTANT, (Reasoning("hm"), Text("42")))
    assert turns(HI, thought)[-1] == {"role": "assistant", "content": "42"}
    assert losses(ask(HI, thought)) == ("messages.reasoning",)
    on = ask(HI, thought, thinking=Thinking())
    assert build(on)["messages"][-1]["content"] == [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "42"},
    ]
    assert losses(on) == ()
    hidden = ask(HI, Message(Role.ASSISTANT, (Reasoning(signature="s", redacted=True),)), thinking=Thinking())
    assert build(hidden)["messages"] == [{"role": "user", "content": "Hi"}]
    assert losses(hidden) == ("messages.reasoning",)
    called = Message(Role.ASSISTANT, (Reasoning("hm"), Text("I look."), ToolCall("a", "f")))
    assert build(ask(HI, called, thinking=Thinking()))["messages"][1] == {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm"}],
        "tool_plan": "I look.",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }


def test_media_of_a_user() -> None:
    parts = (
        Text("?"),
        Image(url="https://x/y", detail="low"),
        Image("image/gif", "R0lG"),
        File("text/plain", text="abc", name="a.txt"),
        File(text="bare"),
    )
    assert turns(Message(Role.USER, parts))[0]["content"] == [
        {"type": "text", "text": "?"},
        {"type": "image_url", "image_url": {"url": "https://x/y", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lG"}},
        {"type": "text", "text": "a.txt:\nabc"},
        {"type": "text", "text": "bare"},
    ]


@pytest.mark.parametrize(
    "part", [File("application/pdf", "QUJD"), File(url="https://x"), Audio("QUJD", "wav"), Image()]
)
def test_media_that_cannot_be_carried_are_refused(part: Any) -> None:
    with pytest.raises(ApiError) as raised:
        build(ask(Message(Role.USER, (part,))))
    assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, "messages")


def test_what_the_model_drew_is_lost() -> None:
    drawn = ask(HI, Message(Role.ASSISTANT, (Text("Look"), Image("image/png", "QUJD"))))
    assert build(drawn)["messages"][-1] == {"role": "assistant", "content": "Look"}
    assert losses(drawn) == ("messages.image",)


def test_wishes() -> None:
    request = ask(
        stream=True,
        tools=(F,),
        tool_choice=ToolChoice(Choose.REQUIRED),
        max_tokens=7,
        stop=("END",),
        sampling=Sampling(temperature=0.3, top_p=0.9, top_k=5, seed=1),
        response_format=ResponseFormat(Format.JSON_SCHEMA, {"type": "object"}, "n"),
        thinking=Thinking(budget_tokens=9),
    )
    assert build(request) == {
        "model": "up",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": F.parameters}}],
        "tool_choice": "REQUIRED",
        "response_format": {"type": "json_object", "json_schema": {"type": "object"}},
        "temperature": 0.3,
        "p": 0.9,
        "k": 5,
        "seed": 1,
        "thinking": {"type": "enabled", "token_budget": 9},
        "max_tokens": 7,
        "stop_sequences": ["END"],
    }
    assert losses(request) == ()
    assert DIALECT.build_request(request, "up").path == "/chat"


@pytest.mark.parametrize(
    ("tools", "choice", "word"),
    [
        ((F,), ToolChoice(Choose.AUTO), None),
        ((F,), ToolChoice(Choose.NONE), "NONE"),
        ((F,), ToolChoice(Choose.NAMED, "f"), "REQUIRED"),
        ((), ToolChoice(Choose.REQUIRED), None),
    ],
)
def test_a_choice_of_tools(tools: tuple[Tool, ...], choice: ToolChoice, word: str | None) -> None:
    assert build(ask(tools=tools, tool_choice=choice)).get("tool_choice") == word


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"tools": (F, G), "tool_choice": ToolChoice(Choose.NAMED, "f")}, "tool_choice"),
        ({"n": 2}, "n"),
        ({"untranslatable": ("suffix",)}, "suffix"),
    ],
)
def test_what_would_make_the_answer_wrong_is_refused(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as raised:
        build(ask(**changes))
    assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, param)


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"user": "u", "metadata": {"a": "b"}}, ("metadata", "user")),
        ({"local": Local(keep_alive_s=0, context_tokens=4096, raw=True)}, ("context_tokens", "keep_alive_s", "raw")),
        ({"tools": (F,), "parallel_tools": False}, ("parallel_tools",)),
        ({"parallel_tools": False}, ()),
        ({"tools": (Tool("s", strict=True), F)}, ("tool.strict",)),
        ({"thinking": Thinking(effort="high")}, ("thinking.effort",)),
        ({"thinking": Thinking(enabled=False, effort="high")}, ()),
        ({"messages": (Message(Role.USER, (Text("Hi"),), "Ann"),)}, ("message.name",)),
        ({"unmodelled": ("x",)}, ("x",)),
    ],
)
def test_what_has_no_place_is_named(changes: dict[str, Any], lost: tuple[str, ...]) -> None:
    assert losses(ask(**changes)) == lost


def test_strict_tools_and_disabled_thinking() -> None:
    assert build(ask(tools=(Tool("s", strict=True),)))["strict_tools"] is True
    assert "strict_tools" not in build(ask(tools=(Tool("s", strict=False),)))
    assert build(ask(thinking=Thinking(enabled=False)))["thinking"] == {"type": "disabled"}
    assert build(ask(response_format=ResponseFormat(Format.JSON)))["response_format"] == {"type": "json_object"}
    assert "response_format" not in build(ask(response_format=ResponseFormat(Format.TEXT)))


@pytest.mark.parametrize(("sent", "wanted"), [({}, True), ({"stream": False}, True), ({"stream": True}, False)])
def test_a_client_of_this_dialect_gets_its_own_body_through(sent: dict[str, Any], wanted: bool) -> None:
    body = {"x": {"deep": 1.5}, "model": "m", "messages": [{"role": "user", "content": "Hi"}], **sent}
    request = DIALECT.parse_request(json.dumps(body).encode(), route(), None)
    built = DIALECT.build_request(msgspec.structs.replace(request, stream=wanted), "up")
    assert json.loads(built.body) == {**body, "model": "up", "stream": wanted}


@given(requests())
def test_whatever_is_asked_the_turns_are_what_cohere_takes(request: Request) -> None:
    owed: set[str] = set()
    for turn in build(request)["messages"]:
        if turn["role"] != "tool":
            assert not owed, "every call is answered right after it"
        assert turn.get("content") or turn.get("tool_calls")
        if "tool_calls" in turn:
            assert "content" not in turn or all(b["type"] == "thinking" for b in turn["content"])
            owed = {call["id"] for call in turn["tool_calls"]}
        elif turn["role"] == "tool":
            owed.remove(turn["tool_call_id"])
    assert not owed
