from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from rivermouth.dialects.ollama import DIALECT
from rivermouth.dialects.ollama.request import parse_request
from rivermouth.dialects.ollama.tables import EFFORTS, LOSSES
from rivermouth.dialects.ollama.upstream import build_request
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
    Audio,
    Choose,
    EmbedRequest,
    File,
    Format,
    Image,
    Local,
    Message,
    Original,
    Part,
    Reasoning,
    Refusal,
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
from tests.dialects.ollama.case import route
from tests.strategies import requests


def ask(*parts: Part, **changes: Any) -> Request:
    return Request(model="x", messages=(Message(Role.USER, parts or (Text("Hi"),)),), **changes)


def built(request: Request) -> dict[str, Any]:
    return json.loads(build_request(request, "up:1b").body)


def refused(request: Request) -> ApiError:
    with pytest.raises(ApiError) as caught:
        build_request(request, "up:1b")
    assert caught.value.kind is Kind.INVALID_REQUEST
    return caught.value


def test_the_least() -> None:
    out = build_request(ask(), "up:1b")
    assert (out.path, out.losses) == ("/chat", ())
    assert json.loads(out.body) == {"model": "up:1b", "messages": [{"role": "user", "content": "Hi"}], "stream": False}


def test_everything_that_can_be_carried() -> None:
    request = ask(
        system=(Text("a"), Text("b")),
        stream=True,
        max_tokens=5,
        stop=("s",),
        tools=(Tool("f", "d", {"type": "object"}),),
        tool_choice=ToolChoice(Choose.AUTO),
        response_format=ResponseFormat(Format.JSON_SCHEMA, schema={"type": "object"}),
        sampling=Sampling(
            temperature=0.0,
            top_p=0.5,
            top_k=3,
            min_p=0.1,
            seed=0,
            frequency_penalty=0.2,
            presence_penalty=0.3,
            repetition_penalty=1.1,
        ),
        thinking=Thinking(effort="high"),
        local=Local(keep_alive_s=60.0, context_tokens=2048),
    )
    assert build_request(request, "x").losses == ()
    assert built(request) == {
        "model": "up:1b",
        "messages": [{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "Hi"}],
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
        ],
        "stream": True,
        "format": {"type": "object"},
        "think": "high",
        "keep_alive": 60.0,
        "options": {
            "temperature": 0.0,
            "top_p": 0.5,
            "top_k": 3,
            "min_p": 0.1,
            "seed": 0,
            "presence_penalty": 0.3,
            "frequency_penalty": 0.2,
            "repeat_penalty": 1.1,
            "num_predict": 5,
            "num_ctx": 2048,
            "stop": ["s"],
        },
    }


def test_a_talk_with_tools() -> None:
    request = Request(
        model="x",
        messages=(
            Message(Role.USER, (Text("a"), Image(media_type="image/png", data="QUJD"))),
            Message(
                Role.ASSISTANT,
                (Reasoning("hm", "sig"), Text("b"), ToolCall("c1", "f", '{"q": 1}'), ToolCall("c2", "g")),
            ),
            Message(Role.TOOL, (ToolResult("c2", name="h"), ToolResult("c1", (Text("r"), Image(data="QUJD")), True))),
            Message(Role.ASSISTANT, (Refusal("no"), Reasoning("", "hidden", redacted=True))),
        ),
    )
    assert built(request)["messages"] == [
        {"role": "user", "content": "a", "images": ["QUJD"]},
        {
            "role": "assistant",
            "content": "b",
            "thinking": "hm",
            "tool_calls": [
                {"id": "c1", "function": {"index": 0, "name": "f", "arguments": {"q": 1}}},
                {"id": "c2", "function": {"index": 1, "name": "g", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "Error: r", "images": ["QUJD"], "tool_name": "f", "tool_call_id": "c1"},
        {"role": "tool", "content": "", "tool_name": "h", "tool_call_id": "c2"},
        {"role": "assistant", "content": "no"},
    ]


def test_a_past_call_that_is_no_object_stays_a_call_and_has_a_result() -> None:
    request = Request(model="x", messages=(Message(Role.ASSISTANT, (ToolCall("c1", "f", '{"q": '),)),))
    called, answered = built(request)["messages"]
    assert called["tool_calls"][0]["function"]["arguments"] == {"input": '{"q": '}
    assert answered["tool_call_id"] == "c1"


def test_what_is_lost_is_named() -> None:
    request = ask(
        Image(data="QUJD", detail="high"),
        user="u",
        metadata={"a": "b"},
        tools=(Tool("f", strict=True),),
        parallel_tools=False,
        sampling=Sampling(logit_bias={"1": 1.0}, logprobs=True, top_logprobs=2),
        thinking=Thinking(effort="heroic", budget_tokens=5),
    )
    named = msgspec.structs.replace(
        request,
        messages=(
            Message(Role.USER, (Text("x"),), name="ann"),
            Message(Role.TOOL, (ToolResult("c", is_error=True),)),
            Message(Role.ASSISTANT, (Reasoning("", "hidden", redacted=True),)),
            *request.messages,
        ),
    )
    assert DIALECT.build_embed is not None
    embedded = DIALECT.build_embed(EmbedRequest(model="x", input=("x",), keep_end=True), "x")
    assert {*build_request(named, "x").losses, *embedded.losses} == LOSSES == DIALECT.losses
    assert build_request(ask(unmodelled=("store",)), "x").losses == ("store",)


def test_every_request_field_is_carried_lost_or_refused() -> None:
    carried = {
        "model", "messages", "system", "stream", "max_tokens", "stop", "tools", "response_format", "sampling",
        "thinking", "local", "original", "include_usage", "unmodelled", "kept",
    }  # fmt: skip
    refused_ = {"n", "tool_choice", "untranslatable"}
    assert carried | refused_ | (LOSSES & set(Request.__struct_fields__)) == set(Request.__struct_fields__)


@pytest.mark.parametrize(
    ("wanted", "think"),
    [
        (Thinking(enabled=False), False),
        (Thinking(), True),
        (Thinking(budget_tokens=9), True),
        *((Thinking(effort=effort), think) for effort, think in EFFORTS.items()),
        (Thinking(effort="heroic"), True),
    ],
)
def test_thinking(wanted: Thinking, think: bool | str) -> None:
    assert built(ask(thinking=wanted))["think"] == think


def test_format_json_and_text() -> None:
    assert built(ask(response_format=ResponseFormat(Format.JSON)))["format"] == "json"
    assert "format" not in built(ask(response_format=ResponseFormat(Format.TEXT)))


def test_tool_choice_none_offers_no_tools() -> None:
    assert "tools" not in built(ask(tools=(Tool("f"),), tool_choice=ToolChoice(Choose.NONE)))


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (ask(n=2), "n"),
        (ask(tools=(Tool("f"),), tool_choice=ToolChoice(Choose.REQUIRED)), "tool_choice"),
        (ask(tools=(Tool("f"),), tool_choice=ToolChoice(Choose.NAMED, "f")), "tool_choice"),
        (ask(tools=(Tool("f"),), local=Local(raw=True)), "tools"),
        (ask(untranslatable=("suffix",)), "suffix"),
        (ask(Image(url="https://x/y.png")), "messages[0].content"),
        (ask(Image(url="data:image/png,abc")), "messages[0].content"),
        (ask(File(media_type="application/pdf", data="QUJD")), "messages[0].content"),
        (ask(Audio("QUJD", "wav")), "messages[0].content"),
    ],
)
def test_what_would_make_the_answer_wrong_is_refused(request_: Request, param: str) -> None:
    assert refused(request_).param == param


def test_a_data_uri_and_a_text_file_can_be_carried() -> None:
    message = built(ask(Image(url="data:image/png;base64,QUJD"), File(text="notes")))["messages"][0]
    assert message == {"role": "user", "content": "notes", "images": ["QUJD"]}


def test_a_raw_prompt_goes_to_generate() -> None:
    out = build_request(ask(Text("a"), Text("b"), Image(data="QUJD"), local=Local(raw=True)), "up")
    assert out.path == "/generate"
    assert json.loads(out.body) == {"model": "up", "prompt": "ab", "raw": True, "images": ["QUJD"], "stream": False}


@pytest.mark.parametrize(
    ("path", "body", "want"),
    [
        ("/chat", '{"model":"a","messages":[],"new":{"x":[1.50]}}', '{"model":"up","messages":[],"new":{"x":[1.50]}}'),
        ("/chat", '{"model":"a","stream":false}', '{"model":"up","stream":false,"messages":[]}'),
        ("/generate", '{"name":"a","prompt":"x"}', '{"model":"up","prompt":"x"}'),
        ("/generate", '{"name":"b","model":"a","messages":7,"suffix":"s"}', '{"model":"up","suffix":"s"}'),
    ],
)
def test_our_own_dialect_passes_with_only_the_model_changed(path: str, body: str, want: str) -> None:
    out = build_request(parse_request(body.encode(), route(path), None), "up")
    assert (out.path, out.body.decode(), out.losses) == (path, want, ())


@pytest.mark.parametrize(("said", "stream"), [("", False), (',"stream":true', False), (',"stream":false', True)])
def test_stream_is_changed_only_where_we_want_it_otherwise(said: str, stream: bool) -> None:
    request = parse_request(f'{{"model":"a","prompt":"x"{said}}}'.encode(), route("/generate"), None)
    flipped = msgspec.structs.replace(request, stream=stream)
    assert json.loads(build_request(flipped, "up").body)["stream"] is stream


def test_the_body_of_another_dialect_is_not_passed() -> None:
    request = ask(original=Original("openai_chat", {"model": msgspec.Raw(b'"a"'), "secret": msgspec.Raw(b"1")}))
    assert "secret" not in built(request)


@given(requests(sampling=("temperature", "top_p", "min_p", "presence_penalty")))
def test_what_is_built_reads_as_what_was_meant(request_: Request) -> None:
    out = build_request(request_, "model-x")
    back = parse_request(out.body, route(out.path), None)
    assert build_request(msgspec.structs.replace(back, original=None), "model-x").body == out.body
    same = ("model", "system", "stream", "max_tokens", "stop", "tools", "sampling")
    assert [getattr(back, f) for f in same] == [getattr(request_, f) for f in same]
    assert [m.role for m in back.messages] == [m.role for m in request_.messages]
    assert [m.text for m in back.messages] == [m.text for m in request_.messages]
    calls = [[p for m in r.messages for p in m.parts if isinstance(p, ToolCall)] for r in (back, request_)]
    assert [(c.id, c.name) for c in calls[0]] == [(c.id, c.name) for c in calls[1]]
    results = [[p.id for m in r.messages for p in m.parts if isinstance(p, ToolResult)] for r in (back, request_)]
    assert results[0] == results[1]
