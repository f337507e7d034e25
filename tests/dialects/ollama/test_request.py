from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.ollama.request import parse_request
from rivermouth.dialects.ollama.tables import SAMPLING
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
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
    ToolResult,
)
from tests.dialects.ollama.case import route

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()


def chat(**members: Any) -> Request:
    return parse_request(json.dumps({"model": "m", **members}).encode(), route("/chat"), None)


def generate(**members: Any) -> Request:
    return parse_request(json.dumps({"model": "m", **members}).encode(), route("/generate"), None)


def user(text: str = "Hi") -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def refused(path: str, body: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse_request(body, route(path), None)
    assert caught.value.kind is Kind.INVALID_REQUEST
    return caught.value


@pytest.mark.promise(11, 12)
@pytest.mark.parametrize(("members", "stream"), [({}, True), ({"stream": None}, True), ({"stream": False}, False)])
def test_a_stream_is_the_default(members: dict[str, Any], stream: bool) -> None:
    assert chat(messages=user(), **members).stream is stream
    assert generate(prompt="Hi", **members).stream is stream


def test_a_chat() -> None:
    request = chat(
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What?", "images": [PNG]},
            {"role": "assistant", "content": "So.", "thinking": "hm"},
            {"role": "system", "content": "Later."},
            {"role": "user", "content": ""},
        ]
    )
    assert request.system == (Text("Be brief."),)
    assert request.messages == (
        Message(Role.USER, (Text("What?"), Image(media_type="image/png", data=PNG))),
        Message(Role.ASSISTANT, (Reasoning("hm"), Text("So."))),
        Message(Role.SYSTEM, (Text("Later."),)),
        Message(Role.USER, ()),
    )


def test_instructions_alone_are_still_something_to_answer() -> None:
    request = chat(messages=[{"role": "system", "content": "Greet."}])
    assert request.messages == (Message(Role.SYSTEM, (Text("Greet."),)),)


def test_a_generate() -> None:
    request = generate(prompt="Why?", system="Be brief.", images=[PNG], raw=True)
    assert request.system == (Text("Be brief."),)
    assert request.messages == (Message(Role.USER, (Text("Why?"), Image(media_type="image/png", data=PNG))),)
    assert request.local.raw is True
    assert request.untranslatable == ()


def test_what_has_no_neutral_form_is_named() -> None:
    request = generate(prompt="def f(", suffix=")", context=[1], template="{{ .Prompt }}")
    assert request.untranslatable == ("suffix", "template", "context")
    assert generate(prompt="x", suffix="", context=[], template="").untranslatable == ()


@pytest.mark.parametrize("request_", [chat(), chat(messages=[]), generate(), generate(prompt="", system="x")])
def test_nothing_to_answer_has_no_messages(request_: Request) -> None:
    assert request_.messages == ()


def test_options_and_the_rest() -> None:
    request = chat(
        messages=user(),
        tools=[],
        format={"type": "object"},
        think="high",
        keep_alive="1h30m",
        logprobs=True,
        top_logprobs=2,
        options={
            "num_predict": 7.0,
            "temperature": 0,
            "top_k": 40.0,
            "top_p": 0.9,
            "min_p": 0.1,
            "seed": 3,
            "stop": ["a", ""],
            "repeat_penalty": 1.1,
            "presence_penalty": 0.2,
            "frequency_penalty": 0.3,
            "num_ctx": 4096,
            "mirostat": 1,
            "numa": None,
        },
    )
    assert request.max_tokens == 7
    assert request.stop == ("a",)
    assert request.sampling == Sampling(
        temperature=0.0,
        top_k=40,
        top_p=0.9,
        min_p=0.1,
        seed=3,
        repetition_penalty=1.1,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        logprobs=True,
        top_logprobs=2,
    )
    assert request.response_format == ResponseFormat(Format.JSON_SCHEMA, schema={"type": "object"})
    assert request.thinking == Thinking(effort="high")
    assert request.local == Local(keep_alive_s=5400.0, context_tokens=4096)
    assert request.original is not None
    assert json.loads(bytes(request.original.fields["options"]))["mirostat"] == 1


def test_every_sampling_option_names_a_field() -> None:
    assert {field for field, _ in SAMPLING.values()} < set(Sampling.__struct_fields__)


@pytest.mark.parametrize("predict", [-1, -2, 0])
def test_no_limit(predict: int) -> None:
    assert chat(messages=user(), options={"num_predict": predict, "seed": -1}).max_tokens is None


@pytest.mark.parametrize(
    ("keep_alive", "seconds"),
    [(300, 300.0), (0.0, 0.0), (-1, -1.0), ("5m", 300.0), ("-1s", -1.0), ("0", 0.0), ("1.5h2ms", 5400.002)],
)
def test_keep_alive(keep_alive: float | str, seconds: float) -> None:
    assert chat(messages=user(), keep_alive=keep_alive).local.keep_alive_s == seconds


@pytest.mark.parametrize(
    ("think", "thinking"),
    [(None, None), (True, Thinking()), (False, Thinking(enabled=False)), ("max", Thinking(effort="max"))],
)
def test_think(think: bool | str | None, thinking: Thinking | None) -> None:
    assert chat(messages=user(), think=think).thinking == thinking


@pytest.mark.parametrize("value", ["", None])
def test_no_format(value: str | None) -> None:
    assert chat(messages=user(), format=value).response_format is None


def test_format_json() -> None:
    assert generate(prompt="x", format="json").response_format == ResponseFormat(Format.JSON)


def test_tools() -> None:
    request = chat(
        messages=user(),
        tools=[
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
            {"function": {"name": "g", "parameters": None}},
        ],
    )
    assert request.tools == (Tool("f", "d", {"type": "object"}), Tool("g"))


def call(name: str, id_: str | None = None, arguments: object = None) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **({"id": id_} if id_ else {})}


def asked(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": list(calls)}


def told(text: str, **members: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, **members}


def pairs(*messages: dict[str, Any]) -> tuple[list[str], list[tuple[str, str | None]]]:
    """The ids of the calls, and of the results with their names."""
    parts = [p for m in chat(messages=list(messages)).messages for p in m.parts]
    return [p.id for p in parts if isinstance(p, ToolCall)], [
        (p.id, p.name) for p in parts if isinstance(p, ToolResult)
    ]


@pytest.mark.fault("F20")
def test_calls_without_ids_get_them_from_their_position() -> None:
    calls, results = pairs(*user(), asked(call("f"), call("g")), told("a"), told("b"))
    assert calls == ["call_1_0", "call_1_1"]
    assert results == [("call_1_0", "f"), ("call_1_1", "g")]


def test_results_find_their_call_by_id_then_by_name_then_by_order() -> None:
    calls, results = pairs(
        *user(),
        asked(call("f", "one"), call("g"), call("g"), call("h")),
        told("a", tool_name="g"),
        told("b", tool_call_id="one"),
        told("c", tool_name="g"),
        told("d"),
    )
    assert calls == ["one", "call_1_1", "call_1_2", "call_1_3"]
    assert results == [("call_1_1", "g"), ("one", "f"), ("call_1_2", "g"), ("call_1_3", "h")]


def test_a_result_without_a_call_keeps_its_own_id_or_gets_one() -> None:
    _, results = pairs(*user(), told("a", tool_call_id="lost"), told("b", name="f"))
    assert results == [("lost", None), ("call_2", "f")]


def test_an_id_that_is_made_never_meets_one_that_was_given() -> None:
    calls, _ = pairs(*user(), asked(call("f"), call("g", "call_1_0")))
    assert calls == ["call_1_0x", "call_1_0"]


@pytest.mark.fault("F20")
@pytest.mark.parametrize(
    ("arguments", "text"), [({"a": 1}, '{"a": 1}'), (None, ""), ('{"a":1}', '{"a":1}'), ({}, "{}")]
)
def test_arguments_are_text(arguments: object, text: str) -> None:
    request = chat(messages=[*user(), asked(call("f", arguments=arguments))])
    assert request.messages[1].parts == (ToolCall("call_1_0", "f", text),)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/chat", b"{", None),
        ("/chat", b"[]", None),
        ("/chat", b"\xff", None),
        ("/chat", b"{}", "model"),
        ("/chat", b'{"model":1}', "model"),
        ("/generate", b'{"model":"m","prompt":1}', "prompt"),
        ("/generate", b'{"model":"m","prompt":"x","images":["!"]}', "images[0]"),
    ],
)
def test_what_is_wrong_is_named(path: str, body: bytes, param: str | None) -> None:
    error = refused(path, body)
    assert (error.param, error.status) == (param, 400)
    assert error.message


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"tools": [{"type": "web_search", "function": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"function": {"name": ""}}]}, "tools[0].function.name"),
        ({"format": "xml"}, "format"),
        ({"think": "hard"}, "think"),
        ({"keep_alive": "soon"}, "keep_alive"),
        ({"keep_alive": "-1"}, "keep_alive"),
        ({"options": {"temperature": "hot"}}, "options.temperature"),
        ({"options": {"seed": True}}, "options.seed"),
        ({"options": {"stop": [1]}}, "options.stop"),
    ],
)
def test_a_wrong_member_is_named(members: dict[str, Any], param: str) -> None:
    assert refused("/chat", json.dumps({"model": "m", **members}).encode()).param == param


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user", "content": ["x"]}, "content"),
        ({"content": "x"}, "role"),
        ({"role": "robot"}, "role"),
        ({"role": "user", "images": ["data:image/png;base64,QQ=="]}, "images[0]"),
        ({"role": "user", "images": ["https://x/y.png"]}, "images[0]"),
        ({"role": "user", "images": ["!"]}, "images[0]"),
        ({"role": "user", "images": [""]}, "images[0]"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": ""}}]}, "tool_calls[0].function.name"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]},
            "tool_calls[0].function.arguments",
        ),
    ],
)
def test_a_wrong_message_is_named(message: dict[str, Any], param: str) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user"}, message]}).encode()
    assert refused("/chat", body).param == f"messages[1].{param}"


def test_what_other_targets_go_without_is_named() -> None:
    request = chat(messages=user(), shift=True, truncate=None, options={"mirostat": 1, "numa": None, "top_k": 2})
    assert request.unmodelled == ("shift", "options.mirostat")
    assert generate(prompt="x", width=8).unmodelled == ("width",)


def test_old_clients_say_name() -> None:
    assert parse_request(b'{"name":"old","prompt":"x"}', route("/generate"), None).model == "old"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
members = (
    "model",
    "messages",
    "prompt",
    "options",
    "tools",
    "format",
    "think",
    "keep_alive",
    "images",
    "stream",
    "system",
)


@pytest.mark.parametrize("path", ["/chat", "/generate"])
@given(body=st.dictionaries(st.sampled_from(members), json_values) | st.binary(max_size=6))
def test_any_body_is_a_request_or_a_typed_refusal(path: str, body: dict[str, Any] | bytes) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = None
    try:
        assert parse_request(data, route(path), None).model
    except ApiError as error:
        kind = error.kind
    assert kind in (None, Kind.INVALID_REQUEST)
