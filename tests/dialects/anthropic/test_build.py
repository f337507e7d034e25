from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.anthropic import DIALECT
from rivermouth.dialects.anthropic.tables import DEFAULT_MAX_TOKENS, LOSSES
from rivermouth.dialects.anthropic.turns import NO_USER
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
    Audio,
    Choose,
    File,
    Format,
    Image,
    Local,
    Message,
    Original,
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
from rivermouth.ir.turns import NO_RESULT
from tests.dialects.anthropic.case import build, parse, route
from tests.strategies import requests, response_formats, thinkings

USER, ASSISTANT, TOOL = Role.USER, Role.ASSISTANT, Role.TOOL
HI = Message(USER, (Text("Hi"),))
F = Tool("f", None, {"type": "object", "properties": {}})


def ask(*messages: Message, **fields: Any) -> Request:
    return Request(**{"model": "m", "messages": messages or (HI,), "max_tokens": 50_000, **fields})


def losses(request: Request, model: str = "claude-y") -> tuple[str, ...]:
    lost = DIALECT.build_request(request, model).losses
    assert {name for name in lost if not name.startswith("tools.")} <= LOSSES
    return lost


def turns(*messages: Message) -> list[dict[str, Any]]:
    return list(build(ask(*messages))["messages"])


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def test_the_smallest_call() -> None:
    out = DIALECT.build_request(ask(stream=True), "claude-y")
    assert out.path == "/messages"
    assert out.headers == {"anthropic-version": "2023-06-01"}
    assert out.losses == ()
    assert json.loads(out.body) == {
        "model": "claude-y",
        "messages": [{"role": "user", "content": [text("Hi")]}],
        "max_tokens": 50_000,
        "stream": True,
    }


def test_a_body_of_the_same_dialect_goes_on_with_only_the_model_changed() -> None:
    sent = '{"model":"x", "max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"beta_thing":{"b": [1.50]}}'
    request = DIALECT.parse_request(sent.encode(), route(), None)
    out = DIALECT.build_request(request, "claude-y")
    assert out.body.decode() == sent.replace('"x", ', '"claude-y",')
    assert out.losses == ()


def test_headers_that_the_body_depends_on_travel_with_it() -> None:
    request = parse()
    assert request.original is not None
    headers = {"anthropic-beta": "context-management-2025-06-27", "anthropic-version": "2026-10-21"}
    assert set(headers) == DIALECT.passed_headers
    with_headers = msgspec.structs.replace(request.original, headers=headers)
    out = DIALECT.build_request(msgspec.structs.replace(request, original=with_headers), "claude-y")
    assert out.headers == headers


@pytest.mark.parametrize(("asked", "wanted"), [(True, False), (False, True), (None, True)])
def test_stream_follows_the_request_and_not_the_original(asked: bool | None, wanted: bool) -> None:
    request = msgspec.structs.replace(parse(stream=asked), stream=wanted)
    assert json.loads(DIALECT.build_request(request, "m").body)["stream"] is wanted


@pytest.mark.fault("F25")
def test_reasoning_that_was_signed_here_never_reaches_anthropic() -> None:
    own = {"type": "thinking", "thinking": "a", "signature": "rivermouth.1."}
    hidden = {"type": "redacted_thinking", "data": "rivermouth.1.Zm9yZWlnbg"}
    theirs = {"type": "thinking", "thinking": "b", "signature": "EqQB"}
    says = {"type": "text", "text": "rivermouth.1."}
    request = parse(
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [own, theirs, says, hidden]},
            {"role": "user", "content": "go on"},
            {"role": "assistant", "content": [own]},
        ]
    )
    repeated = json.loads(DIALECT.build_request(request, "m").body)["messages"]
    assert [t["content"] for t in repeated] == ["Hi", [theirs, says], "go on"]
    rebuilt = build(request)["messages"]
    assert rebuilt[1]["content"] == [theirs, says]
    assert "messages.reasoning" in losses(msgspec.structs.replace(request, original=None))


def test_thinking_yields_in_the_clients_own_body_too_when_its_reasoning_was_not_anthropics() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    talk: list[Any] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "rivermouth.1."}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]},
    ]
    out = DIALECT.build_request(parse(messages=talk, thinking={"type": "adaptive"}), "m")
    assert "thinking" not in json.loads(out.body)
    assert out.losses == ("thinking",)
    talk[1]["content"].insert(0, {"type": "thinking", "thinking": "b", "signature": "EqQB"})
    out = DIALECT.build_request(parse(messages=talk, thinking={"type": "adaptive"}), "m")
    assert json.loads(out.body)["thinking"] == {"type": "adaptive"}
    assert out.losses == ()


def test_another_dialects_original_is_not_sent() -> None:
    request = ask(original=Original("openai_chat", {"model": msgspec.Raw(b'"x"'), "n": msgspec.Raw(b"1")}))
    assert "n" not in json.loads(DIALECT.build_request(request, "m").body)


def test_neighbours_merge_empty_texts_vanish_and_the_user_begins() -> None:
    assert turns(
        Message(ASSISTANT, (Text("Welcome"), Text(""))),
        Message(USER, (Text(" "),)),
        Message(ASSISTANT, (Text("again"),)),
        HI,
        Message(Role.SYSTEM, (Text("be brief"),)),
        Message(USER, (Text("now"),)),
        Message(ASSISTANT, (Text("Sure: \n"),)),
    ) == [
        {"role": "user", "content": [text(NO_USER)]},
        {"role": "assistant", "content": [text("Welcome"), text("again")]},
        {"role": "user", "content": [text("Hi"), text("be brief"), text("now")]},
        {"role": "assistant", "content": [text("Sure:")]},
    ]
    assert turns(Message(USER, ())) == [{"role": "user", "content": [text(NO_USER)]}]


def test_results_come_first_in_one_turn_paired_by_id() -> None:
    assert turns(
        HI,
        Message(ASSISTANT, (Text("ok"), ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "f", ""))),
        Message(TOOL, (ToolResult("b", (Text("B"),)),)),
        Message(USER, (Text("and?"),)),
        Message(TOOL, (ToolResult("a", (Image("image/png", "QUJD"),), True), ToolResult("zzz", (Text("orphan"),)))),
    )[1:] == [
        {
            "role": "assistant",
            "content": [
                text("ok"),
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "content": [
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
                    ],
                    "is_error": True,
                },
                {"type": "tool_result", "tool_use_id": "b", "content": [text("B")]},
                text("and?"),
            ],
        },
    ]


def test_calls_without_a_result_get_one_and_results_without_a_call_are_lost() -> None:
    called = Message(ASSISTANT, (ToolCall("a", "f"),))
    missing = {"type": "tool_result", "tool_use_id": "a", "content": [text(NO_RESULT)], "is_error": True}
    assert turns(HI, called)[-1] == {"role": "user", "content": [missing]}
    assert turns(HI, called, Message(USER, (Text("stop"),)))[-1] == {"role": "user", "content": [missing, text("stop")]}
    orphan = ask(HI, Message(TOOL, (ToolResult("zzz", (Text("?"),)),)))
    assert build(orphan)["messages"] == [{"role": "user", "content": [text("Hi")]}]
    assert losses(orphan) == ("messages.tool_result",)


@pytest.mark.fault("F20")
def test_ids_are_unique_and_spelled_in_the_small_alphabet() -> None:
    def round_trip(name: str) -> tuple[Message, Message]:
        return Message(ASSISTANT, (ToolCall(name, "f"),)), Message(TOOL, (ToolResult(name, (Text("r"),)),))

    wire = turns(HI, *round_trip("call_0"), *round_trip("call_0"), *round_trip("a:b/c"))
    calls = [b["id"] for t in wire for b in t["content"] if b["type"] == "tool_use"]
    results = [b["tool_use_id"] for t in wire for b in t["content"] if b["type"] == "tool_result"]
    assert calls == results == ["call_0", "call_0_2", "rmid_YTpiL2M"]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (Image(url="https://x/y"), {"type": "image", "source": {"type": "url", "url": "https://x/y"}}),
        (
            File("application/pdf", "QUJD", name="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"},
                "title": "a.pdf",
            },
        ),
        (
            File("text/markdown", "IyBB"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "# A"}},
        ),
        (
            File(text="abc"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "abc"}},
        ),
        (File(url="https://x/y"), {"type": "document", "source": {"type": "url", "url": "https://x/y"}}),
        (File(file_id="f"), {"type": "document", "source": {"type": "file", "file_id": "f"}}),
        (File("image/*", file_id="f"), {"type": "image", "source": {"type": "file", "file_id": "f"}}),
        (
            File("image/png", "QUJD"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
        ),
    ],
)
def test_media(part: Any, block: dict[str, Any]) -> None:
    assert turns(Message(USER, (part,)))[0]["content"] == [block]


@pytest.mark.parametrize(
    "part", [Image("image/tiff", "QUJD"), Image(), Audio("QUJD", "wav"), File("application/zip", "QUJD"), File()]
)
def test_media_that_cannot_be_carried_are_refused(part: Any) -> None:
    with pytest.raises(ApiError) as raised:
        turns(Message(USER, (part,)))
    assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, "messages")


def test_several_choices_are_refused() -> None:
    with pytest.raises(ApiError) as raised:
        DIALECT.build_request(ask(n=2), "m")
    assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, "n")


@pytest.mark.parametrize(
    ("thinking", "model", "wire", "config"),
    [
        (Thinking(enabled=False), "claude-y", {"type": "disabled"}, None),
        (Thinking(), "claude-y", {"type": "adaptive"}, None),
        (Thinking(effort="minimal"), "claude-y", {"type": "adaptive"}, {"effort": "low"}),
        (Thinking(effort="max"), "claude-opus-4-6", {"type": "adaptive"}, {"effort": "max"}),
        (Thinking(budget_tokens=5000), "claude-y", {"type": "enabled", "budget_tokens": 5000}, None),
        (Thinking(budget_tokens=10), "claude-y", {"type": "enabled", "budget_tokens": 1024}, None),
        (Thinking(effort="low"), "claude-3-7-sonnet-20250219", {"type": "enabled", "budget_tokens": 2048}, None),
        (Thinking(effort="high"), "claude-sonnet-4-5-20250929", {"type": "enabled", "budget_tokens": 16384}, None),
        (Thinking(), "claude-haiku-4-5", {"type": "enabled", "budget_tokens": 8192}, None),
    ],
)
def test_thinking(thinking: Thinking, model: str, wire: Any, config: Any) -> None:
    built = build(ask(thinking=thinking), model)
    assert built["thinking"] == wire
    assert built.get("output_config") == config


def test_an_effort_that_is_no_word_of_ours_is_a_loss() -> None:
    request = ask(thinking=Thinking(effort="heroic"))
    assert build(request)["thinking"] == {"type": "adaptive"}
    assert losses(request) == ("thinking.effort",)


def test_max_tokens_is_filled_and_leaves_room_for_the_budget() -> None:
    assert build(ask(max_tokens=None), "other")["max_tokens"] == DEFAULT_MAX_TOKENS
    roomy = build(ask(max_tokens=None, thinking=Thinking(budget_tokens=8000)), "other")
    assert roomy["max_tokens"] == 8000 + DEFAULT_MAX_TOKENS
    tight = ask(max_tokens=2000, thinking=Thinking(budget_tokens=8000))
    assert build(tight)["thinking"]["budget_tokens"] == 1999
    assert losses(tight) == ("thinking.budget_tokens",)
    assert "thinking" not in build(ask(max_tokens=500, thinking=Thinking(budget_tokens=8000)))


def test_max_tokens_are_no_more_than_a_model_that_is_known_gives() -> None:
    old = "claude-3-opus-20240229"
    assert build(ask(max_tokens=None), old)["max_tokens"] == 4096
    assert build(ask(max_tokens=32_000), old)["max_tokens"] == 4096
    assert DIALECT.build_request(ask(max_tokens=32_000), old).losses == ("max_tokens",)
    tight = build(ask(max_tokens=None, thinking=Thinking(budget_tokens=90_000)), "claude-sonnet-4-5")
    assert (tight["max_tokens"], tight["thinking"]["budget_tokens"]) == (64_000, 63_999)


def test_a_forced_tool_wins_over_thinking() -> None:
    request = ask(tools=(F,), tool_choice=ToolChoice(Choose.REQUIRED), thinking=Thinking(effort="high"))
    assert "thinking" not in build(request)
    assert build(request)["tool_choice"] == {"type": "any"}
    assert losses(request) == ("thinking",)


def test_thinking_yields_when_the_calls_being_answered_lost_their_reasoning() -> None:
    results = Message(TOOL, (ToolResult("a", (Text("r"),)),))
    foreign = ask(HI, Message(ASSISTANT, (Reasoning("x"), ToolCall("a", "f"))), results, thinking=Thinking())
    assert "thinking" not in build(foreign)
    assert losses(foreign) == ("messages.reasoning", "thinking")
    signed = Message(ASSISTANT, (Reasoning("x", "anthropic:EqQB"), ToolCall("a", "f")))
    assert build(ask(HI, signed, results, thinking=Thinking()))["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    ("choice", "parallel", "wire"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(Choose.AUTO), None, {"type": "auto"}),
        (ToolChoice(Choose.NONE), False, {"type": "none"}),
        (ToolChoice(Choose.NAMED, "f"), False, {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choice(choice: ToolChoice | None, parallel: bool | None, wire: Any) -> None:
    assert build(ask(tools=(F,), tool_choice=choice, parallel_tools=parallel)).get("tool_choice") == wire
    assert "tool_choice" not in build(ask(tool_choice=choice, parallel_tools=parallel)), "no tools, no choice"


def test_schemas_are_objects_and_strictness_is_forwarded() -> None:
    built = build(ask(tools=(Tool("g", "d", {}, True),)))
    assert built["tools"] == [{"name": "g", "description": "d", "input_schema": {"type": "object"}, "strict": True}]


def test_response_formats() -> None:
    schema = {"type": "object", "properties": {}}
    strict = ask(response_format=ResponseFormat(Format.JSON_SCHEMA, schema, "n"), thinking=Thinking(effort="low"))
    assert build(strict)["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": schema}}
    loose = ask(response_format=ResponseFormat(Format.JSON), system=(Text("Be brief."),))
    assert build(loose)["system"][0]["text"] == "Be brief."
    assert "JSON" in build(loose)["system"][1]["text"]
    assert losses(loose) == ("response_format",)


def test_sampling_is_kept_within_what_is_taken() -> None:
    every = Sampling(0.5, None, 3, 0.1, 7, 0.1, 0.2, 1.1, {"5": 1.0}, True, 3)
    assert losses(ask(sampling=every)) == (
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "min_p",
        "presence_penalty",
        "repetition_penalty",
        "seed",
        "top_logprobs",
    )
    assert build(ask(sampling=Sampling(temperature=1.5)))["temperature"] == 1
    assert losses(ask(sampling=Sampling(temperature=1.5))) == ("temperature",)
    both = ask(sampling=Sampling(temperature=0.5, top_p=0.9))
    assert "top_p" not in build(both)
    assert losses(both) == ("top_p",)
    assert build(ask(sampling=Sampling(top_p=0.9)))["top_p"] == 0.9
    thoughtful = ask(sampling=Sampling(temperature=0.5, top_p=0.5, top_k=4), thinking=Thinking())
    assert not {"temperature", "top_p", "top_k"} & set(build(thoughtful))
    assert losses(thoughtful) == ("temperature", "top_k", "top_p")


def test_the_rest() -> None:
    request = ask(stop=("END", " \n"), user="u", metadata={"a": "b"}, unmodelled=("tools.x",))
    built = build(request)
    assert built["stop_sequences"] == ["END"]
    assert built["metadata"] == {"user_id": "u"}
    assert losses(request) == ("metadata", "stop", "tools.x")


def test_what_only_an_engine_of_ones_own_can_do_is_a_loss() -> None:
    request = ask(local=Local(keep_alive_s=0, context_tokens=4096, raw=True))
    assert losses(request) == ("context_tokens", "keep_alive_s", "raw")


def test_what_needs_the_clients_own_protocol_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        build(ask(untranslatable=("suffix",)))
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, "suffix")


@given(requests(), st.none() | thinkings, st.none() | response_formats)
def test_whatever_is_asked_the_turns_are_what_anthropic_takes(
    request: Request, thinking: Thinking | None, wanted: ResponseFormat | None
) -> None:
    wire = build(msgspec.structs.replace(request, thinking=thinking, response_format=wanted))
    assert [t["role"] for t in wire["messages"]] == ["user", "assistant"] * (len(wire["messages"]) // 2) + ["user"]
    owed: list[str] = []
    for turn in wire["messages"]:
        assert turn["content"]
        assert all(b["text"].strip() for b in turn["content"] if b["type"] == "text")
        results = [b["tool_use_id"] for b in turn["content"] if b["type"] == "tool_result"]
        assert [b["type"] for b in turn["content"][: len(results)]] == ["tool_result"] * len(results)
        assert sorted(results) == sorted(owed)
        owed = [b["id"] for b in turn["content"] if b["type"] == "tool_use"]
    assert not owed


@given(requests(sampling=("temperature",)))
def test_a_built_request_parses_as_what_it_was(request: Request) -> None:
    built = DIALECT.build_request(request, request.model)
    back = DIALECT.parse_request(built.body, route(), None)
    same = ("model", "stream", "max_tokens", "stop", "tools", "tool_choice", "sampling")
    assert [getattr(back, f) for f in same] == [getattr(request, f) for f in same]
    assert [t.text for t in back.system] == [t.text for t in request.system if t.text.strip()]
    calls = [p for m in request.messages for p in m.parts if isinstance(p, ToolCall)]
    again = [p for m in back.messages for p in m.parts if isinstance(p, ToolCall)]
    assert [(c.id, c.name) for c in again] == [(c.id, c.name) for c in calls]
    assert [json.loads(c.arguments) for c in again] == [json.loads(c.arguments) for c in calls]


@given(requests())
def test_what_a_client_sent_survives_a_trip_to_the_same_dialect(request: Request) -> None:
    sent = DIALECT.build_request(request, "a").body
    parsed = DIALECT.parse_request(sent, route(), None)
    again = DIALECT.build_request(parsed, "b").body
    assert again == sent.replace(b'"model":"a"', b'"model":"b"', 1)
