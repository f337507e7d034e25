from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from rivermouth.dialects.cohere_v1 import DIALECT
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
from tests.dialects.cohere_v1.case import build, losses, route
from tests.strategies import requests

HI = Message(Role.USER, (Text("Hi"),))
F = Tool("f", "d", {"type": "object", "properties": {}})


def ask(*messages: Message, **changes: Any) -> Request:
    return Request(**{"model": "m", "messages": messages or (HI,), **changes})


def results(*given: ToolResult) -> Message:
    return Message(Role.TOOL, given)


CALLED = Message(Role.ASSISTANT, (Text("Look"), Text("ing."), ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g")))
A = {"id": "a", "name": "f", "parameters": {"x": 1}}
B = {"id": "b", "name": "g", "parameters": {}}
SPOKEN = [{"role": "USER", "message": "Hi"}, {"role": "CHATBOT", "message": "Looking.", "tool_calls": [A, B]}]


def test_a_talk_that_ends_with_a_user() -> None:
    answered = results(ToolResult("b", (Text("B"),)), ToolResult("a", (Text('{"t": 24}'),)))
    asked = Message(Role.USER, (Text("So"), Text("?")))
    assert build(ask(HI, CALLED, answered, asked, system=(Text("Be brief."),))) == {
        "model": "up",
        "preamble": "Be brief.",
        "chat_history": [
            *SPOKEN,
            {
                "role": "TOOL",
                "tool_results": [{"call": A, "outputs": [{"t": 24}]}, {"call": B, "outputs": [{"output": "B"}]}],
            },
        ],
        "message": "So?",
        "stream": False,
    }


def test_a_talk_that_ends_with_results() -> None:
    built = build(ask(HI, CALLED, results(ToolResult("a", (Text("A"),))), results(ToolResult("b", (Text("B"),)))))
    assert (built["message"], built["chat_history"]) == ("", SPOKEN)
    assert built["tool_results"] == [
        {"call": A, "outputs": [{"output": "A"}]},
        {"call": B, "outputs": [{"output": "B"}]},
    ]


def test_a_failure_is_said_in_words() -> None:
    built = build(ask(HI, CALLED, results(ToolResult("b", ()), ToolResult("a", (Text("A"),), is_error=True))))
    assert [r["outputs"] for r in built["tool_results"]] == [[{"output": "Error: A"}], [{"output": ""}]]


def test_calls_without_a_result_get_one_and_results_without_a_call_are_lost() -> None:
    made = [{"call": c, "outputs": [{"output": ERROR + NO_RESULT}]} for c in (A, B)]
    assert build(ask(HI, CALLED))["tool_results"] == made
    assert build(ask(HI, CALLED, HI))["chat_history"][-1] == {"role": "TOOL", "tool_results": made}
    orphan = ask(HI, results(ToolResult("zzz", (Text("?"),))))
    assert build(orphan)["message"] == "Hi"
    assert losses(orphan) == ("messages.tool_result",)


@pytest.mark.parametrize(
    ("messages", "system", "wire"),
    [
        ((), (Text("Just this."),), {"message": "Just this."}),
        ((HI, Message(Role.SYSTEM, (Text("Now."),))), (), {
            "chat_history": [{"role": "USER", "message": "Hi"}], "message": "Now."
        }),
        ((HI, Message(Role.ASSISTANT, ()), HI), (), {
            "chat_history": [{"role": "USER", "message": "Hi"}], "message": "Hi"
        }),
    ],
)  # fmt: skip
def test_odd_talks(messages: tuple[Message, ...], system: tuple[Text, ...], wire: dict[str, Any]) -> None:
    built = build(Request(model="m", messages=messages, system=system))
    assert {k: v for k, v in built.items() if k not in ("model", "stream")} == wire


def test_files_of_text_are_told_and_other_media_refused() -> None:
    told = Message(Role.USER, (File(text="abc", name="a.txt"), File(text="bare"), Text("?")))
    assert build(ask(told))["message"] == "a.txt:\nabc\n\nbare\n\n?"
    for part in (
        Image("image/png", "QUJD"),
        Image(url="https://x"),
        Audio("QUJD", "wav"),
        File("application/pdf", "QUJD"),
    ):
        for message in (Message(Role.USER, (part,)), results(ToolResult("a", (part,)))):  # type: ignore[arg-type]
            with pytest.raises(ApiError) as raised:
                build(ask(HI, CALLED, message))
            assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, "messages")


def test_wishes() -> None:
    request = ask(
        stream=True,
        tools=(F,),
        max_tokens=7,
        stop=("END",),
        sampling=Sampling(temperature=0.3, top_p=0.9, top_k=5, seed=1),
        response_format=ResponseFormat(Format.JSON_SCHEMA, {"type": "object"}, "n"),
        local=Local(raw=True),
    )
    assert build(request) == {
        "model": "up",
        "message": "Hi",
        "stream": True,
        "tools": [{"name": "f", "description": "d", "parameter_definitions": {}}],
        "response_format": {"type": "json_object", "schema": {"type": "object"}},
        "temperature": 0.3,
        "p": 0.9,
        "k": 5,
        "seed": 1,
        "max_tokens": 7,
        "stop_sequences": ["END"],
        "raw_prompting": True,
    }
    assert losses(request) == ()
    assert DIALECT.build_request(request, "up").path == "/chat"
    assert build(ask(response_format=ResponseFormat(Format.JSON)))["response_format"] == {"type": "json_object"}


def test_a_tool_that_python_types_can_say() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where"},
            "days": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["city"],
    }
    request = ask(tools=(Tool("f", None, schema),))
    assert build(request)["tools"] == [
        {
            "name": "f",
            "description": "",
            "parameter_definitions": {
                "city": {"type": "str", "description": "where", "required": True},
                "days": {"type": "list[int]", "required": False},
            },
        }
    ]
    assert losses(request) == ()


@pytest.mark.parametrize(
    ("schema", "definitions", "lost"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, {
            "a": {"type": "str", "required": False}
        }, ()),
        ({"type": "object", "properties": {}, "required": [], "$schema": "x"}, {}, ()),
        ({"type": "object", "properties": {"a": {"enum": ["x", 1]}}}, {
            "a": {"type": "str", "required": False, "description": 'One of: "x", 1'}
        }, ("tool.parameters",)),
        ({"type": "object", "properties": {"a": {"type": ["null", "number"], "description": "d"}}}, {
            "a": {"type": "float", "required": False, "description": "d"}
        }, ("tool.parameters",)),
        ({"$ref": "#/x", "properties": 7, "required": True}, {}, ("tool.parameters",)),
        ({"properties": {"a": True}}, {"a": {"type": "str", "required": False}}, ("tool.parameters",)),
    ],
)  # fmt: skip
def test_what_python_types_cannot_say_goes_beside_them(
    schema: dict[str, Any], definitions: dict[str, Any], lost: tuple[str, ...]
) -> None:
    request = ask(tools=(Tool("f", "d", schema),))
    assert build(request)["tools"] == [
        {"name": "f", "description": "d", "parameter_definitions": definitions, "parameters": schema}
    ]
    assert losses(request) == lost
    back = DIALECT.parse_request(DIALECT.build_request(request, "up").body, route(), None)
    assert back.tools == request.tools


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"tools": (F,), "tool_choice": ToolChoice(Choose.NAMED, "f")}, "tool_choice"),
        ({"tools": (F,), "tool_choice": ToolChoice(Choose.REQUIRED)}, "tool_choice"),
        ({"n": 2}, "n"),
        ({"untranslatable": ("suffix",)}, "suffix"),
        ({"messages": (HI, Message(Role.ASSISTANT, (Text("Once"),)))}, "messages"),
    ],
)
def test_what_would_make_the_answer_wrong_is_refused(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as raised:
        build(ask(**changes))
    assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, param)


def test_no_tool_to_be_called_is_no_tool_at_all() -> None:
    assert "tools" not in build(ask(tools=(F,), tool_choice=ToolChoice(Choose.NONE)))
    assert "tools" in build(ask(tools=(F,), tool_choice=ToolChoice(Choose.AUTO)))


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"user": "u", "metadata": {"a": "b"}}, ("metadata", "user")),
        ({"local": Local(keep_alive_s=0, context_tokens=4096, raw=True)}, ("context_tokens", "keep_alive_s")),
        ({"tools": (F,), "parallel_tools": False}, ("parallel_tools",)),
        ({"tools": (msgspec.structs.replace(F, strict=True),)}, ("tool.strict",)),
        ({"thinking": Thinking(enabled=False)}, ("thinking",)),
        ({"messages": (Message(Role.USER, (Text("Hi"),), "Ann"),)}, ("message.name",)),
        ({"messages": (HI, Message(Role.SYSTEM, (Text("Now."),)))}, ("messages.system",)),
        (
            {"messages": (HI, Message(Role.ASSISTANT, (Reasoning("hm"), Text("x"), Image(url="https://x"))), HI)},
            ("messages.image", "messages.reasoning"),
        ),
        ({"unmodelled": ("x",)}, ("x",)),
    ],
)
def test_what_has_no_place_is_named(changes: dict[str, Any], lost: tuple[str, ...]) -> None:
    assert losses(ask(**changes)) == lost


@pytest.mark.parametrize(("sent", "wanted"), [({}, True), ({"stream": False}, True), ({"stream": True}, False)])
def test_a_client_of_this_dialect_gets_its_own_body_through(sent: dict[str, Any], wanted: bool) -> None:
    body = {"x": {"deep": 1.5}, "message": "Hi", "connectors": [{"id": "web"}], **sent}
    request = DIALECT.parse_request(json.dumps(body).encode(), route(), None)
    built = DIALECT.build_request(msgspec.structs.replace(request, stream=wanted), "up")
    assert json.loads(built.body) == {**body, "model": "up", "stream": wanted}


@given(requests(images=False))
def test_whatever_is_asked_it_is_either_a_message_or_results(request: Request) -> None:
    wire = build(request)
    assert bool(wire["message"]) is not ("tool_results" in wire)
    owed: list[Any] = []
    tail = [{"role": "TOOL", "tool_results": wire["tool_results"]}] if "tool_results" in wire else []
    for turn in [*wire.get("chat_history", []), *tail]:
        if turn["role"] == "TOOL":
            assert sorted(map(repr, owed)) == sorted(repr(r["call"]) for r in turn["tool_results"])
        else:
            assert not owed or turn is None
        owed = turn.get("tool_calls", [])
    assert not owed
