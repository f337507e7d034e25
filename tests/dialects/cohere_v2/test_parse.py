from __future__ import annotations

from typing import Any

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
    Choose,
    File,
    Format,
    Image,
    Message,
    Reasoning,
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
from tests.dialects.cohere_v2.case import parse

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}


def test_the_smallest_request() -> None:
    request = parse()
    assert (request.model, request.stream, request.system) == ("command", False, ())
    assert request.messages == (Message(Role.USER, (Text("Hi"),)),)
    assert request.original is not None
    assert request.include_usage


def test_a_whole_talk() -> None:
    request = parse(
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
            USER,
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "hm"}],
                "tool_plan": "I will look.",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                    {"id": "b", "function": {"name": "g", "arguments": {"y": 2}}},
                    {"id": "c", "function": {"name": "h", "arguments": None}},
                ],
                "citations": [],
            },
            {"role": "tool", "tool_call_id": "a", "content": "rain"},
            {
                "role": "tool",
                "tool_call_id": "b",
                "content": [
                    {"type": "text", "text": "sun"},
                    {"type": "document", "document": {"id": "1", "data": {"t": 24}}},
                    {"type": "document", "document": {"data": '{"t":25}'}},
                ],
            },
            {"role": "system", "content": "Later."},
            {"role": "assistant", "content": "Wet."},
        ]
    )
    assert request.system == (Text("Be brief."), Text("Be kind."))
    assert request.messages == (
        Message(Role.USER, (Text("Hi"),)),
        Message(
            Role.ASSISTANT,
            (
                Reasoning("hm"),
                Text("I will look."),
                ToolCall("a", "f", '{"x":1}'),
                ToolCall("b", "g", '{"y":2}'),
                ToolCall("c", "h"),
            ),
        ),
        Message(
            Role.TOOL,
            (
                ToolResult("a", (Text("rain"),)),
                ToolResult("b", (Text("sun"), Text('{"t":24}'), Text('{"t":25}'))),
            ),
        ),
        Message(Role.SYSTEM, (Text("Later."),)),
        Message(Role.ASSISTANT, (Text("Wet."),)),
    )


@pytest.mark.parametrize(
    ("url", "image"),
    [
        ("data:image/png;base64,QUJD", Image("image/png", "QUJD", detail="low")),
        ("data:;base64,QUJD", Image("image/png", "QUJD", detail="low")),
        ("https://example.org/x.png", Image(url="https://example.org/x.png", detail="low")),
    ],
)
def test_images(url: str, image: Image) -> None:
    content = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": url, "detail": "low"}}]
    assert parse(messages=[{"role": "user", "content": content}]).messages[0].parts == (Text("?"), image)


def test_documents_stand_before_the_last_words_of_the_user() -> None:
    request = parse(
        messages=[USER, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "And?"}],
        documents=["Plain.", {"id": "d1", "data": {"title": "T", "text": "x", "_excludes": ["title"]}}, {"data": "s"}],
    )
    assert request.messages[2].parts == (
        File("text/plain", text="Plain."),
        File("text/plain", text="x", name="d1"),
        File("text/plain", text="s"),
        Text("And?"),
    )
    assert request.messages[0].parts == (Text("Hi"),)


def test_wishes() -> None:
    request = parse(
        stream=True,
        tools=[TOOL, {"function": {"name": "g"}}],
        tool_choice="REQUIRED",
        strict_tools=True,
        response_format={"type": "json_object", "json_schema": {"type": "object"}},
        max_tokens=7,
        stop_sequences=["END", ""],
        temperature=0.3,
        p=0.9,
        k=5,
        seed=1,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        logprobs=True,
        thinking={"type": "enabled", "token_budget": 99},
    )
    assert request.stream
    assert request.tools == (
        Tool("f", "d", {"type": "object"}, True),
        Tool("g", None, {"type": "object", "properties": {}}, True),
    )
    assert request.tool_choice == ToolChoice(Choose.REQUIRED)
    assert request.response_format == ResponseFormat(Format.JSON_SCHEMA, {"type": "object"})
    assert (request.max_tokens, request.stop) == (7, ("END",))
    assert request.sampling == Sampling(
        temperature=0.3, top_p=0.9, top_k=5, seed=1, frequency_penalty=0.1, presence_penalty=0.2, logprobs=True
    )
    assert request.thinking == Thinking(budget_tokens=99)


def test_other_wishes() -> None:
    assert parse(tools=[TOOL], tool_choice="NONE").tool_choice == ToolChoice(Choose.NONE)
    assert parse(tool_choice="REQUIRED").tool_choice is None, "without tools there is nothing to choose"
    assert parse(response_format={"type": "json_object"}).response_format == ResponseFormat(Format.JSON)
    assert parse(response_format={"type": "text"}).response_format == ResponseFormat(Format.TEXT)
    assert parse(thinking={"type": "disabled", "token_budget": 3}).thinking == Thinking(enabled=False)
    assert parse(max_tokens=0).max_tokens is None


def test_what_only_the_vendor_knows_is_named() -> None:
    request = parse(
        messages=[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "hologram"}]}],
        safety_mode="STRICT",
        priority=3,
        citation_options={"mode": "FAST"},
        x_new=1,
    )
    assert request.unmodelled == ("safety_mode", "citation_options", "x_new", "messages.content.hologram")
    assert request.messages[0].parts == (Text("a"),)


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"model": ""}, "model"),
        ({"model": None}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [USER, {"role": "tool", "content": "x"}]}, "messages[1].tool_call_id"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].image_url"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///x"}}]}]},
            "messages[0].content[0].image_url.url",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]},
            "messages[0].content[0].image_url.url",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}]},
            "messages[0].tool_calls[0].id",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]}]},
            "messages[0].tool_calls[0].function.name",
        ),
        ({"tools": [{"type": "web", "function": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tools": [TOOL], "tool_choice": "AUTO"}, "tool_choice"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"thinking": {"type": "hard"}}, "thinking.type"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
    ],
)
def test_a_refusal_names_the_field(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as raised:
        parse(**changes)
    assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, param)
