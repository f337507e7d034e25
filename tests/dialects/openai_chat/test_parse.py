from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.dialects.openai_chat.shapes import ChatRequest
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
    Choose,
    Format,
    FreeForm,
    Message,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    Tool,
    ToolChoice,
)
from rivermouth.vendors.openai import free_form
from tests.dialects.openai_chat.case import body, parse, route

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
TIME = {"type": "function", "function": {"name": "time", "description": "now", "strict": True}}


def refused(raw: bytes | None = None, **changes: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        DIALECT.parse_request(raw if raw is not None else json.dumps(body(**changes)).encode(), route(), None)
    assert caught.value.kind is Kind.INVALID_REQUEST
    assert caught.value.status == 400
    return caught.value


def test_the_smallest_request() -> None:
    request = parse()
    assert request.model == "gpt-x"
    assert request.messages == (Message(Role.USER, (Text("Hi"),)),)
    assert (request.stream, request.n, request.max_tokens, request.tools, request.thinking) == (
        False,
        1,
        None,
        (),
        None,
    )
    assert request.original is not None
    assert request.original.dialect == "openai_chat"
    assert bytes(request.original.fields["model"]) == b'"gpt-x"'


def test_every_optional_field_may_be_null() -> None:
    names = [n for n in ChatRequest.__struct_fields__ if n not in ("model", "messages")]
    request = parse(**dict.fromkeys(names))
    assert (request.sampling, request.stop, request.n, request.unmodelled) == (Sampling(), (), 1, ())


def test_sampling_and_limits() -> None:
    given_ = {
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 40,
        "min_p": 0.1,
        "seed": 7,
        "frequency_penalty": -2,
        "presence_penalty": 2,
        "repetition_penalty": 1.1,
        "logit_bias": {"50256": -100},
        "logprobs": True,
        "top_logprobs": 3,
    }
    assert parse(**given_).sampling == Sampling(**given_)  # type: ignore[arg-type]
    assert parse(max_tokens=5).max_tokens == 5
    assert parse(max_tokens=5, max_completion_tokens=6).max_tokens == 6
    assert parse(stop="END").stop == ("END",)
    assert parse(stop=["a", "", "b"]).stop == ("a", "b")
    assert parse(n=3).n == 3
    assert (parse(user="u").user, parse(safety_identifier="s").user) == ("u", "s")
    assert parse(metadata={"a": "b"}).metadata == {"a": "b"}


@pytest.mark.promise(143)
def test_usage_in_the_stream_is_a_wish_of_streams_only() -> None:
    wish = {"include_usage": True, "include_obfuscation": False}
    assert parse(stream=True, stream_options=wish).include_usage
    assert not parse(stream=True).include_usage
    assert not parse(stream=True, stream_options={"include_usage": None}).include_usage
    assert not parse(stream=False, stream_options=wish).include_usage


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 1}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "Hi"}, {"role": "oracle", "content": "x"}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"stream": "yes"}, "stream"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"stop": [1]}, "stop[0]"),
        ({"logit_bias": {"1": "x"}}, "logit_bias"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [WEATHER], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tools": [WEATHER], "tool_choice": {"type": "magic"}}, "tool_choice.type"),
        ({"functions": [{"name": "f"}], "function_call": {"name": "g"}}, "function_call"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"reasoning_effort": "brutal"}, "reasoning_effort"),
    ],
)
def test_a_fault_is_named_by_the_path_of_its_field(changes: Any, param: str) -> None:
    assert refused(**changes).param == param


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"x"', b"\xff", b'{"model":' + b"[" * 5000])
def test_a_body_that_is_no_json_object_is_refused(raw: bytes) -> None:
    assert refused(raw).code in ("invalid_json", "invalid_type")


def test_the_model_may_stand_in_the_path() -> None:
    raw = json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode()
    assert DIALECT.parse_request(raw, route(), "from-the-path").model == "from-the-path"


# -- tools ------------------------------------------------------------------------------------------------------------


def test_tools_and_how_they_may_be_called() -> None:
    request = parse(tools=[WEATHER, TIME], tool_choice="required", parallel_tool_calls=False)
    empty = {"type": "object", "properties": {}}
    assert request.tools == (Tool("weather", None, {"type": "object"}), Tool("time", "now", empty, strict=True))
    assert (request.tool_choice, request.parallel_tools) == (ToolChoice(Choose.REQUIRED), False)
    named = {"type": "function", "function": {"name": "time"}}
    assert parse(tools=[WEATHER, TIME], tool_choice=named).tool_choice == ToolChoice(Choose.NAMED, "time")
    assert parse(tools=[], tool_choice="auto").tool_choice is None
    assert parse(tool_choice="required").tool_choice is None


def test_allowed_tools_leave_the_others_out() -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "time"}}]}
    request = parse(tools=[WEATHER, TIME], tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    assert [t.name for t in request.tools] == ["time"]
    assert request.tool_choice == ToolChoice(Choose.REQUIRED)
    unknown = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "x"}}]}
    error = refused(tools=[TIME], tool_choice={"type": "allowed_tools", "allowed_tools": unknown})
    assert error.param == "tool_choice.allowed_tools.tools"


def test_functions_of_before_2023_are_tools_called_one_at_a_time() -> None:
    request = parse(functions=[{"name": "f", "parameters": {"type": "object"}}], function_call={"name": "f"})
    assert request.tools == (Tool("f", None, {"type": "object"}),)
    assert request.tool_choice == ToolChoice(Choose.NAMED, "f")
    assert request.parallel_tools is False
    assert parse(functions=[{"name": "f"}], function_call="none").tool_choice == ToolChoice(Choose.NONE)


def test_a_free_form_tool_is_wrapped_and_its_grammar_told() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: WORD"}}
    (tool,) = parse(tools=[{"type": "custom", "custom": {"name": "sh", "description": "d", "format": grammar}}]).tools
    assert (tool.name, tool.parameters) == ("sh", free_form.PARAMETERS)
    assert tool.free_form == FreeForm("d", "lark", "start: WORD")
    assert tool.description is not None
    assert tool.description.startswith("d\n\n")
    assert "start: WORD" in tool.description


def test_what_only_a_server_of_this_dialect_can_do_is_called_untranslatable() -> None:
    assert parse().untranslatable == ()
    hosted = parse(tools=[WEATHER, {"type": "builtin_function", "function": {"name": "$web"}}])
    assert hosted.untranslatable == ("tools[1]",)
    assert [t.name for t in hosted.tools] == ["weather"]
    assert parse(modalities=["text", "audio"], audio={"voice": "x"}).untranslatable == ("modalities",)


def test_what_has_no_neutral_form_is_named_but_for_mere_hints() -> None:
    request = parse(verbosity="low", prediction={}, store=True, prompt_cache_key="k", vendor=1, absent=None, off=False)
    assert request.unmodelled == ("verbosity", "prediction", "vendor")


# -- format and thinking ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "neutral"),
    [
        ({"type": "text"}, ResponseFormat(Format.TEXT)),
        ({"type": "json_object"}, ResponseFormat(Format.JSON)),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}},
            ResponseFormat(Format.JSON_SCHEMA, {"type": "object"}, "n", None, strict=True),
        ),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, ResponseFormat(Format.JSON_SCHEMA, {}, "n")),
    ],
)
def test_response_formats(wire: Any, neutral: ResponseFormat) -> None:
    assert parse(response_format=wire).response_format == neutral


@pytest.mark.parametrize(
    ("changes", "neutral"),
    [
        ({"reasoning_effort": "high"}, Thinking(effort="high")),
        ({"reasoning_effort": "none"}, Thinking(enabled=False)),
        ({"reasoning": {"effort": "low"}}, Thinking(effort="low")),
        ({"reasoning": {"max_tokens": 2000}}, Thinking(budget_tokens=2000)),
        ({"reasoning": {"enabled": False}}, Thinking(enabled=False)),
        ({"reasoning": {"exclude": True}}, None),
        ({"thinking": {"type": "disabled"}}, Thinking(enabled=False)),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, Thinking(budget_tokens=1024)),
        ({"reasoning_effort": None}, None),
    ],
)
def test_how_hard_to_think(changes: Any, neutral: Thinking | None) -> None:
    assert parse(**changes).thinking == neutral


# -- anything ---------------------------------------------------------------------------------------------------------

MEMBERS = ("role", "content", "type", "text", "tool_calls", "id", "function", "name", "image_url", "url", "custom")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["user", "tool", "text", "auto"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(MEMBERS),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(ChatRequest.__struct_fields__), values, max_size=4), st.booleans())
def test_any_object_is_a_request_or_an_invalid_request(fields: Any, complete: bool) -> None:
    data = json.dumps({**body(), **fields} if complete else fields).encode()
    outcome: Any
    try:
        outcome = DIALECT.build_request(DIALECT.parse_request(data, route(), None), "m").path
    except ApiError as error:
        outcome = error.kind
    assert outcome in ("/chat/completions", Kind.INVALID_REQUEST)
