from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import (
    Audio,
    Choose,
    File,
    Image,
    Local,
    Message,
    Part,
    Reasoning,
    Refusal,
    Request,
    Role,
    Sampling,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from rivermouth.ir.turns import ERROR, NO_RESULT
from tests.dialects.openai_chat.case import asked, build, foreign, parse, route
from tests.strategies import requests, response_formats

CALL = ToolCall("a", "f", '{"x":1}')


def as_sent(raw: bytes, **changes: Any) -> bytes:
    """A body of this dialect, parsed and built again for an upstream of it."""
    request = msgspec.structs.replace(DIALECT.parse_request(raw, route(), None), **changes)
    built = DIALECT.build_request(request, "up-model")
    assert (built.path, built.losses) == ("/chat/completions", ())
    return built.body


def messages(*talk: Message, system: tuple[Text, ...] = ()) -> list[dict[str, Any]]:
    return build(asked(messages=talk, system=system))["messages"]  # type: ignore[no-any-return]


def losses(request: Request) -> tuple[str, ...]:
    found = DIALECT.build_request(foreign(request), "m").losses
    assert set(found) <= DIALECT.losses | set(request.unmodelled)
    return found


def user(*parts: Part) -> Message:
    return Message(Role.USER, parts or (Text("Hi"),))


def results(*found: ToolResult) -> Message:
    return Message(Role.TOOL, found)


# -- the same dialect -------------------------------------------------------------------------------------------------


def test_fields_of_the_same_dialect_keep_their_bytes() -> None:
    raw = (
        b'{ "messages" : [ {"role":"user", "content":"caf\\u00e9 \xe2\x80\xa8"} ], "model":"gpt-x",'
        b' "temperature": 1.50, "vendor": {"deep" : [1, 2]} }'
    )
    assert as_sent(raw) == (
        b'{"messages":[ {"role":"user", "content":"caf\\u00e9 \xe2\x80\xa8"} ],"model":"up-model",'
        b'"temperature":1.50,"vendor":{"deep" : [1, 2]}}'
    )


@pytest.mark.fault("F27")
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (b"", b'{"include_usage":true}'),
        (b',"stream_options":null', b'{"include_usage":true}'),
        (b',"stream_options":{"include_usage":false,"x": 1}', b'{"include_usage":true,"x":1}'),
    ],
)
def test_a_stream_is_always_asked_for_its_usage(options: bytes, wanted: bytes) -> None:
    raw = b'{"model":"gpt-x","messages":[{"role":"user","content":"Hi"}],"stream":true' + options + b"}"
    assert b'"stream":true,"stream_options":' + wanted in as_sent(raw)


def test_without_a_stream_there_are_no_stream_options() -> None:
    raw = b'{"model":"gpt-x","messages":[{"role":"user","content":"Hi"}],"stream_options":{}}'
    assert json.loads(as_sent(raw)) == {"model": "up-model", "messages": [{"role": "user", "content": "Hi"}]}
    raw = b'{"model":"gpt-x","messages":[{"role":"user","content":"Hi"}],"stream":true,"stream_options":{}}'
    whole = json.loads(as_sent(raw, stream=False))
    assert (whole["stream"], "stream_options" in whole) == (False, False)


def test_the_original_of_another_dialect_is_not_sent() -> None:
    request = parse(temperature=0.5)
    assert request.original is not None
    other = msgspec.structs.replace(request, original=msgspec.structs.replace(request.original, dialect="other"))
    assert DIALECT.build_request(other, "m").body == DIALECT.build_request(foreign(request), "m").body


def test_what_only_this_dialect_can_do_needs_the_original() -> None:
    request = parse(tools=[{"type": "web_search"}], verbosity="low")
    assert json.loads(DIALECT.build_request(request, "m").body)["tools"] == [{"type": "web_search"}]
    with pytest.raises(ApiError) as caught:
        DIALECT.build_request(foreign(request), "m")
    assert caught.value.param == "tools[0]"
    assert losses(parse(verbosity="low")) == ("verbosity",)


# -- from the neutral model -------------------------------------------------------------------------------------------


def test_every_field_that_can_be_said_is_said() -> None:
    wire = {
        "n": 2,
        "max_completion_tokens": 9,
        "stop": ["END"],
        "temperature": 0.0,
        "top_p": 0.5,
        "seed": 7,
        "frequency_penalty": 1.0,
        "presence_penalty": -1.0,
        "logit_bias": {"1": 2.0},
        "logprobs": True,
        "top_logprobs": 2,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
        "reasoning_effort": "xhigh",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": False}},
        "user": "u",
    }
    assert build(parse(stream=True, **wire)) == {
        "model": "up-model",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        **wire,
    }


def test_what_cannot_be_said_is_named() -> None:
    request = asked(
        messages=(user(),),
        sampling=Sampling(top_k=1, min_p=0.1, repetition_penalty=1.1, seed=1),
        thinking=Thinking(budget_tokens=5000),
        local=Local(keep_alive_s=0, context_tokens=1, raw=True),
        metadata={"a": "b"},
    )
    named = {"top_k", "min_p", "repetition_penalty", "thinking.budget_tokens", "metadata"}
    assert set(losses(request)) == named | {"keep_alive_s", "context_tokens", "raw"}
    assert losses(asked(messages=(user(),))) == ()


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        (Thinking(enabled=False), "none"),
        (Thinking(effort="minimal"), "minimal"),
        (Thinking(budget_tokens=4095), "low"),
        (Thinking(budget_tokens=4096), "medium"),
        (Thinking(budget_tokens=16384), "high"),
        (Thinking(effort="low", budget_tokens=99999), "low"),
        (Thinking(), "medium"),
    ],
)
def test_a_budget_becomes_an_effort(thinking: Thinking, effort: str) -> None:
    assert build(asked(messages=(user(),), thinking=thinking))["reasoning_effort"] == effort


def test_without_tools_there_is_no_choice() -> None:
    wire = build(asked(messages=(user(),), tool_choice=ToolChoice(Choose.AUTO), parallel_tools=True))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(wire)


def test_the_system_is_one_message_before_all_others() -> None:
    later = Message(Role.SYSTEM, (Text("later"),))
    assert messages(user(), later, system=(Text("a"), Text("b"))) == [
        {"role": "system", "content": "a\n\nb"},
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "later"},
    ]


def test_every_part_of_a_user() -> None:
    parts = (
        Text("t"),
        Text(""),
        Image("image/png", "QUJD", detail="low"),
        Image(url="https://e.org/a"),
        Audio("QUJD", "mp3"),
        File("application/pdf", "QUJD", name="a.pdf"),
        File(file_id="f"),
        File(text="words", name="a.txt"),
    )
    (message,) = messages(Message(Role.USER, parts, "bob"))
    assert message["name"] == "bob"
    assert message["content"] == [
        {"type": "text", "text": "t"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://e.org/a"}},
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}},
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "text", "text": "a.txt:\nwords"},
    ]
    assert messages(Message(Role.USER, ())) == [{"role": "user", "content": ""}]


def test_the_url_of_a_file_cannot_be_sent() -> None:
    with pytest.raises(ApiError) as caught:
        messages(user(File(url="https://e.org/a.pdf")))
    assert caught.value.param == "messages"


@pytest.mark.fault("F25")
def test_an_assistants_message() -> None:
    parts = (
        Reasoning("a", "sig"),
        Reasoning("", "hidden", redacted=True),
        Reasoning("b"),
        Text("x"),
        CALL,
        Text("y"),
        Refusal("no"),
    )
    wire = messages(user(), Message(Role.ASSISTANT, parts, "ann"), results(ToolResult("a", (Text("1"),))))
    assert wire[1] == {
        "role": "assistant",
        "name": "ann",
        "content": "xy",
        "refusal": "no",
        "reasoning_content": "ab",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
    }
    request = asked(messages=(user(), Message(Role.ASSISTANT, (*parts[:3], Image(url="https://e.org")))))
    assert losses(request) == ("messages.reasoning", "messages.image")


@pytest.mark.fault("F20", "F21")
def test_a_call_without_arguments_is_an_empty_object_and_without_text_content_is_null() -> None:
    wire = messages(user(), Message(Role.ASSISTANT, (ToolCall("a", "f"),)), results(ToolResult("a")))
    assert wire[1]["content"] is None
    assert wire[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert wire[2] == {"role": "tool", "tool_call_id": "a", "content": ""}
    assert messages(user(), Message(Role.ASSISTANT, ()))[1] == {"role": "assistant", "content": ""}


def test_results_are_paired_by_id_and_every_call_is_answered_before_the_next_turn() -> None:
    calls = Message(Role.ASSISTANT, (CALL, ToolCall("b", "g"), ToolCall("c", "h")))
    request = asked(
        messages=(
            user(),
            calls,
            results(
                ToolResult("b", (Text("2"),)), ToolResult("stray", (Text("?"),)), ToolResult("b", (Text("again"),))
            ),
            results(ToolResult("a", (Text("1"),), is_error=True)),
            user(Text("and?")),
        )
    )
    assert build(request)["messages"][2:] == [
        {"role": "tool", "tool_call_id": "a", "content": ERROR + "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "tool", "tool_call_id": "c", "content": ERROR + NO_RESULT},
        {"role": "user", "content": "and?"},
    ]
    assert losses(request) == ("messages.tool_result",)


def test_a_call_that_the_talk_ends_with_is_answered_too() -> None:
    assert messages(user(), Message(Role.ASSISTANT, (CALL,)))[-1]["content"] == ERROR + NO_RESULT


def test_pictures_in_results_follow_in_a_message_of_the_user() -> None:
    calls = Message(Role.ASSISTANT, (CALL, ToolCall("b", "g")))
    shown = ToolResult("a", (Text("see"), Image("image/png", "QUJD"), File(text="more")))
    wire = messages(user(), calls, results(shown), results(ToolResult("b", (Image(url="https://e.org/b"),))))
    assert [m["role"] for m in wire] == ["user", "assistant", "tool", "tool", "user"]
    assert wire[2]["content"] == "see\nmore"
    assert wire[3]["content"]
    assert [p["type"] for p in wire[4]["content"]] == ["text", "image_url", "text", "image_url"]
    assert "a" in wire[4]["content"][0]["text"]


# -- there and back ---------------------------------------------------------------------------------------------------


@given(requests(sampling=("temperature", "top_p", "presence_penalty")))
def test_what_is_built_parses_to_the_same_request(request: Request) -> None:
    built = DIALECT.build_request(request, "model-x")
    assert built.losses == ()
    back = DIALECT.parse_request(built.body, route(), None)
    kept = ("model", "system", "stream", "max_tokens", "stop", "tools", "tool_choice", "sampling")
    assert [getattr(back, f) for f in kept] == [getattr(request, f) for f in kept]
    assert without_seams(back.messages) == without_seams(request.messages)


def without_seams(talk: tuple[Message, ...]) -> list[Any]:
    """Messages as (role, parts); tool messages next to each other are one."""
    found: list[Any] = []
    for message in talk:
        if message.role is Role.TOOL and found and found[-1][0] is Role.TOOL:
            found[-1][1].extend(message.parts)
        else:
            found.append((message.role, list(message.parts)))
    return found


@given(response_formats)
def test_formats_come_back(wanted: Any) -> None:
    built = DIALECT.build_request(asked(messages=(user(),), response_format=wanted), "m")
    assert DIALECT.parse_request(built.body, route(), None).response_format == wanted
