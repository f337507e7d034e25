from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
    File,
    Format,
    Local,
    Message,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from tests.dialects.cohere_v1.case import parse

USER, ASSISTANT, TOOL = Role.USER, Role.ASSISTANT, Role.TOOL


def result(name: str, parameters: Any, *outputs: Any, **more: Any) -> dict[str, Any]:
    return {"call": {"name": name, "parameters": parameters, **more}, "outputs": list(outputs)}


def test_the_smallest_request() -> None:
    request = parse()
    assert (request.model, request.stream, request.system) == ("command", False, ())
    assert request.messages == (Message(USER, (Text("Hi"),)),)
    assert parse(model=None).model == "dummy", "the server's default answers"


def test_a_whole_talk() -> None:
    request = parse(
        preamble="Be brief.",
        chat_history=[
            {"role": "SYSTEM", "message": "Be kind."},
            {"role": "User", "message": "Weather?"},
            {
                "role": "CHATBOT",
                "message": "I look.",
                "tool_calls": [
                    {"name": "f", "parameters": {"x": 1}},
                    {"name": "f", "parameters": {"x": 2}},
                    {"name": "g", "parameters": {}, "id": "mine"},
                    {"name": "h"},
                ],
            },
            {
                "role": "TOOL",
                "tool_results": [
                    result("f", {"x": 2}, {"output": "rain"}),
                    result("g", {}, {"t": 24}, id="mine"),
                    result("f", {"x": 9}, {"output": 7}, "plain"),
                ],
            },
            {"role": "SYSTEM", "message": "Later."},
            {"role": "CHATBOT", "message": "Wet."},
        ],
        message="So?",
    )
    assert request.system == (Text("Be brief."), Text("Be kind."))
    assert request.messages == (
        Message(USER, (Text("Weather?"),)),
        Message(
            ASSISTANT,
            (
                Text("I look."),
                ToolCall("call_2_0", "f", '{"x": 1}'),
                ToolCall("call_2_1", "f", '{"x": 2}'),
                ToolCall("mine", "g", "{}"),
                ToolCall("call_2_3", "h", "{}"),
            ),
        ),
        Message(
            TOOL,
            (
                ToolResult("call_2_1", (Text("rain"),), name="f"),
                ToolResult("mine", (Text('{"t": 24}'),), name="g"),
                ToolResult("call_2_0", (Text('[{"output": 7},"plain"]'),), name="f"),
            ),
        ),
        Message(Role.SYSTEM, (Text("Later."),)),
        Message(ASSISTANT, (Text("Wet."),)),
        Message(USER, (Text("So?"),)),
    )


def test_results_that_are_new_answer_the_last_calls() -> None:
    called = {"role": "CHATBOT", "message": "", "tool_calls": [{"name": "f", "parameters": {}}]}
    history = [{"role": "USER", "message": "Weather?"}, called]
    request = parse(message="", chat_history=history, tool_results=[result("f", {}, {"output": "rain"})])
    assert request.messages[-2:] == (
        Message(ASSISTANT, (ToolCall("call_1_0", "f", "{}"),)),
        Message(TOOL, (ToolResult("call_1_0", (Text("rain"),), name="f"),)),
    )
    both = parse(message="So?", chat_history=history, tool_results=[result("f", {}, {"output": "rain"})])
    assert [m.role for m in both.messages] == [USER, ASSISTANT, TOOL, USER]


def test_in_single_step_use_the_question_comes_again_and_results_bring_their_calls() -> None:
    request = parse(message="Weather?", tool_results=[result("f", {"x": 1}), result("g", None, id="mine")])
    assert request.messages == (
        Message(USER, (Text("Weather?"),)),
        Message(ASSISTANT, (ToolCall("call_now_0", "f", '{"x": 1}'), ToolCall("mine", "g"))),
        Message(TOOL, (ToolResult("call_now_0", (), name="f"), ToolResult("mine", (), name="g"))),
    )


@given(st.permutations(range(4)))
def test_results_find_their_calls_in_whatever_order(order: list[int]) -> None:
    calls = [{"name": "f", "parameters": {"x": n // 2, "é": [n]}} for n in range(4)]
    results = [{"call": calls[n], "outputs": [{"output": str(n)}]} for n in order]
    history = [{"role": "CHATBOT", "message": "", "tool_calls": calls}]
    answered = parse(message="", chat_history=history, tool_results=results).messages[-1]
    assert [(p.id, p.content) for p in answered.parts if isinstance(p, ToolResult)] == [
        (f"call_0_{n}", (Text(str(n)),)) for n in order
    ]


def test_documents_stand_before_the_message() -> None:
    request = parse(documents=[{"id": "d1", "title": "T", "text": "x"}, {"text": "bare"}])
    assert request.messages[-1].parts == (
        File("text/plain", text="title: T\ntext: x", name="T"),
        File("text/plain", text="bare"),
        Text("Hi"),
    )


@pytest.mark.parametrize(
    ("definition", "schema"),
    [
        ({"type": "str", "description": "a city"}, {"type": "string", "description": "a city"}),
        ({"type": "int"}, {"type": "integer"}),
        ({"type": "float"}, {"type": "number"}),
        ({"type": "bool"}, {"type": "boolean"}),
        ({"type": "dict"}, {"type": "object"}),
        ({"type": "List[str]"}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "typing.Optional[list[list[int]]]"}, {
            "type": "array", "items": {"type": "array", "items": {"type": "integer"}}
        }),
        ({"type": "Whatever"}, {}),
        ({}, {"type": "string"}),
        ({"type": "list[" * 50}, {}),
    ],
)  # fmt: skip
def test_python_types_as_a_schema(definition: dict[str, Any], schema: dict[str, Any]) -> None:
    tools = [{"name": "f", "description": "", "parameter_definitions": {"p": {**definition, "required": True}}}]
    assert parse(tools=tools).tools == (
        Tool("f", None, {"type": "object", "properties": {"p": schema}, "required": ["p"]}),
    )


def test_a_schema_beside_the_definitions_is_the_whole_truth() -> None:
    schema = {"type": "object", "properties": {"p": {"enum": [1, 2]}}}
    tools = [{"name": "f", "parameter_definitions": {"p": {"type": "int"}}, "parameters": schema}, {"name": "g"}]
    assert parse(tools=tools).tools == (Tool("f", None, schema), Tool("g"))


def test_wishes() -> None:
    request = parse(
        stream=True,
        response_format={"type": "json_object", "schema": {"type": "object"}},
        max_tokens=7,
        stop_sequences=["END", ""],
        temperature=0.3,
        p=0.9,
        k=5,
        seed=1,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        raw_prompting=True,
    )
    assert request.stream
    assert request.response_format == ResponseFormat(Format.JSON_SCHEMA, {"type": "object"})
    assert (request.max_tokens, request.stop, request.local) == (7, ("END",), Local(raw=True))
    assert request.sampling == Sampling(
        temperature=0.3, top_p=0.9, top_k=5, seed=1, frequency_penalty=0.1, presence_penalty=0.2
    )
    assert parse(response_format={"type": "json_object"}).response_format == ResponseFormat(Format.JSON)
    assert parse(response_format={"type": "text"}).response_format == ResponseFormat(Format.TEXT)


def test_what_only_the_vendor_can_do_is_named() -> None:
    request = parse(
        connectors=[{"id": "web-search"}],
        conversation_id="c",
        search_queries_only=False,
        safety_mode="NONE",
        prompt_truncation=None,
        force_single_step=True,
    )
    assert request.untranslatable == ("connectors", "conversation_id")
    assert request.unmodelled == ("safety_mode", "force_single_step")


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"message": None}, "message"),
        ({"message": ""}, "message"),
        ({"message": 7}, "message"),
        ({"chat_history": [{"role": "ROBOT", "message": "x"}]}, "chat_history[0].role"),
        ({"chat_history": [{"message": "x"}]}, "chat_history[0].role"),
        ({"tools": [{"name": ""}]}, "tools[0].name"),
        ({"tool_results": [{"outputs": []}]}, "tool_results[0].call"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
    ],
)
def test_a_refusal_names_the_field(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as raised:
        parse(**changes)
    assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, param)
