"""Requests of both bodies, into the neutral model and out of it, and whole replies."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.bedrock_invoke import DIALECT
from rivermouth.dialects.bedrock_invoke.tables import (
    ANTHROPIC,
    COHERE,
    LLAMA,
    MISTRAL,
    NOVA,
    TEXT_LOSSES,
    TITAN,
    body_of_model,
)
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Reason, Usage
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import (
    Format,
    Image,
    Message,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    Tool,
)
from tests.dialects.bedrock_invoke.case import (
    CLAUDE,
    CLAUDE_BODY,
    COUNT,
    INVOKE,
    TITAN_BODY,
    TITAN_MODEL,
    answer,
    build,
    parse,
)

ASK = Request(model="m", messages=(Message(Role.USER, (Text("Hi"),)),))
CONFIG = {"maxTokenCount": 5, "temperature": 0.5, "topP": 0.25, "stopSequences": ["User:", ""]}


class TestParse:
    def test_titan(self) -> None:
        got = parse({"inputText": "Hi", "textGenerationConfig": CONFIG}, model="amazon.titan:0")
        assert (got.model, got.stream, got.max_tokens, got.stop) == ("amazon.titan:0", True, 5, ("User:",))
        assert got.messages == ASK.messages
        assert got.sampling == Sampling(temperature=0.5, top_p=0.25)
        assert parse(TITAN_BODY, INVOKE).stream is False

    def test_anthropic(self) -> None:
        got = parse({**CLAUDE_BODY, "anthropic_version": "any", "anthropic_beta": ["a", "b"]}, model=CLAUDE)
        assert (got.model, got.stream, got.max_tokens) == (CLAUDE, True, 100)
        assert got.messages == ASK.messages
        assert got.original is not None
        assert got.original.headers == {"anthropic-beta": "a,b"}

    def test_fields_that_are_not_ours_are_losses_elsewhere(self) -> None:
        got = parse({"inputText": "Hi", "textGenerationConfig": {"maxTokenCount": 1, "topKey": 3, "none": None}})
        assert got.unmodelled == ("textGenerationConfig.topKey",)

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            (b"[]", None),
            ({}, "body"),
            ({"messages": []}, "messages"),
            ({"inputText": ""}, "inputText"),
            ({"inputText": 3}, "inputText"),
            ({"inputText": "x", "textGenerationConfig": {"topP": 2}}, "textGenerationConfig.topP"),
            ({"inputText": "x", "textGenerationConfig": {"temperature": "hot"}}, "textGenerationConfig.temperature"),
            ({"inputText": "x", "textGenerationConfig": {"maxTokenCount": -1}}, "textGenerationConfig.maxTokenCount"),
            ({k: v for k, v in CLAUDE_BODY.items() if k != "max_tokens"}, "max_tokens"),
            ({**CLAUDE_BODY, "messages": [{"role": "user", "content": 3}]}, "messages.0.content"),
            ({**CLAUDE_BODY, "anthropic_beta": "x"}, "anthropic_beta"),
        ],
    )
    def test_what_cannot_be_served_is_named(self, body: Any, param: str | None) -> None:
        with pytest.raises(ApiError) as raised:
            parse(body)
        assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, param)

    def test_the_path_must_name_the_model(self) -> None:
        with pytest.raises(ApiError) as raised:
            parse(TITAN_BODY, model=None)
        assert raised.value.param == "modelId"

    def test_a_body_to_be_counted_is_wrapped_once_more(self) -> None:
        inner = b64encode(json.dumps(CLAUDE_BODY).encode()).decode()
        assert parse({"input": {"invokeModel": {"body": inner}}}, COUNT).messages == ASK.messages
        for odd in ({}, {"input": {"converse": {}}}, {"input": {"invokeModel": {"body": "*"}}}):
            with pytest.raises(ApiError) as raised:
                parse(odd, COUNT)
            assert (raised.value.param or "").startswith("input")


class TestBuild:
    @pytest.mark.parametrize(
        ("model", "body"),
        [
            (CLAUDE, ANTHROPIC),
            ("eu.anthropic.claude-sonnet-4-20250514-v1:0", ANTHROPIC),
            ("arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc", ANTHROPIC),
            ("arn:aws:bedrock:eu-west-1:1:inference-profile/us.anthropic.claude-x", ANTHROPIC),
            (TITAN_MODEL, TITAN),
            ("us.amazon.titan-x", TITAN),
            ("amazon.nova-lite-v1:0", NOVA),
            ("us.meta.llama3-1-8b-instruct-v1:0", LLAMA),
            ("mistral.mistral-7b-instruct-v0:2", MISTRAL),
            ("mistral.mistral-large-2402-v1:0", MISTRAL),
            ("mistral.mistral-large-2407-v1:0", None),
            ("mistral.magistral-small-2509", None),
            ("cohere.command-r-plus-v1:0", COHERE),
            ("cohere.command-text-v14", None),
            ("eu.qwen.qwen3-32b-v1:0", None),
        ],
    )
    def test_the_models_vendor_decides_the_body(self, model: str, body: str | None) -> None:
        assert body_of_model(model) == body

    def test_a_vendor_whose_body_is_not_spoken_is_refused(self) -> None:
        with pytest.raises(ApiError) as raised:
            DIALECT.build_request(ASK, "deepseek.r1-v1:0")
        assert raised.value.param == "model"
        assert "bedrock-converse" in raised.value.message

    def test_the_path_and_the_accept_header_say_how(self) -> None:
        whole = DIALECT.build_request(ASK, "arn:aws:bedrock::1:inference-profile/eu.anthropic.x")
        assert whole.path == "/model/arn%3Aaws%3Abedrock%3A%3A1%3Ainference-profile%2Feu.anthropic.x/invoke"
        assert whole.headers["accept"] == "application/json"
        stream = DIALECT.build_request(msgspec.structs.replace(ASK, stream=True), TITAN_MODEL)
        assert stream.path == f"/model/{TITAN_MODEL}/invoke-with-response-stream"
        assert stream.headers["accept"] == "application/vnd.amazon.eventstream"

    def test_anthropic_goes_without_model_and_stream(self) -> None:
        assert build(msgspec.structs.replace(ASK, stream=True, max_tokens=9), CLAUDE) == {
            "anthropic_version": "bedrock-2023-05-31",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
            "max_tokens": 9,
        }

    def test_titan_takes_one_question_as_it_is(self) -> None:
        request = msgspec.structs.replace(
            ASK, system=(Text("Be brief."),), max_tokens=9, stop=("END",), sampling=Sampling(temperature=1.5, top_p=0.5)
        )
        built = DIALECT.build_request(request, TITAN_MODEL)
        assert json.loads(built.body) == {
            "inputText": "Be brief.\nHi",
            "textGenerationConfig": {"maxTokenCount": 9, "temperature": 1.0, "topP": 0.5, "stopSequences": ["END"]},
        }
        assert built.losses == ("temperature",)

    def test_titan_takes_a_talk_as_the_vendor_writes_it(self) -> None:
        talk = (*ASK.messages, Message(Role.ASSISTANT, (Text("Ho"),)), Message(Role.USER, (Text("So?"),)))
        assert build(msgspec.structs.replace(ASK, messages=talk), TITAN_MODEL) == {
            "inputText": "User: Hi\nBot: Ho\nUser: So?\nBot:"
        }

    @pytest.mark.parametrize(
        ("changes", "param"),
        [
            ({"tools": (Tool("f"),)}, "tools"),
            ({"n": 2}, "n"),
            ({"response_format": ResponseFormat(Format.JSON)}, "response_format"),
            ({"messages": (Message(Role.USER, (Image("image/png", "eA=="),)),)}, "messages"),
            ({"untranslatable": ("modalities",)}, "modalities"),
        ],
    )
    def test_what_titan_cannot_do_is_refused(self, changes: dict[str, Any], param: str) -> None:
        with pytest.raises(ApiError) as raised:
            DIALECT.build_request(msgspec.structs.replace(ASK, **changes), TITAN_MODEL)
        assert raised.value.param == param

    def test_what_titan_goes_without_is_named(self) -> None:
        request = msgspec.structs.replace(
            ASK, sampling=Sampling(top_k=1, seed=2, logprobs=True), thinking=Thinking(), user="u", metadata={"a": "b"}
        )
        built = DIALECT.build_request(request, TITAN_MODEL)
        assert built.losses == ("logprobs", "metadata", "seed", "thinking", "top_k", "user")
        assert set(built.losses) <= TEXT_LOSSES <= DIALECT.losses


class TestOriginal:
    def test_titan_goes_back_as_it_came(self) -> None:
        body = {"inputText": "Hi", "x": {"deep": [1.5]}, "textGenerationConfig": {"odd": 1}}
        assert json.loads(DIALECT.build_request(parse(body), TITAN_MODEL).body) == body

    def test_a_body_that_the_model_does_not_take_is_translated(self) -> None:
        got = json.loads(DIALECT.build_request(parse(TITAN_BODY), CLAUDE).body)
        assert got["messages"][0]["content"][0]["text"] == "Hi"
        assert json.loads(DIALECT.build_request(parse(CLAUDE_BODY), TITAN_MODEL).body)["inputText"] == "Hi"

    def test_anthropic_is_lossless_to_and_from_the_vendors_own_dialect(self) -> None:
        messages = discover()["anthropic"]
        cached = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
        body = {**CLAUDE_BODY, "messages": [{"role": "user", "content": [cached]}], "anthropic_beta": ["b"]}
        out = messages.build_request(parse(body, INVOKE), "claude-x")
        assert json.loads(out.body) == {
            "model": "claude-x",
            "max_tokens": 100,
            "stream": False,
            "messages": body["messages"],
        }
        assert out.headers["anthropic-beta"] == "b"
        route = messages.routes[0]
        request = messages.parse_request(out.body, route, None)
        assert request.original is not None
        passed = msgspec.structs.replace(
            request, original=msgspec.structs.replace(request.original, headers={"anthropic-beta": "b"})
        )
        assert json.loads(DIALECT.build_request(passed, CLAUDE).body) == body


class TestReplies:
    def test_titan_both_ways(self) -> None:
        reply = Reply(choices=(Choice((Text("Hi"),), Reason.LENGTH),), usage=Usage(3, 2))
        body = DIALECT.encode_reply(reply, answer())
        assert json.loads(body)["results"][0]["completionReason"] == "LENGTH"
        assert DIALECT.parse_reply(body) == reply

    def test_the_documented_word_for_the_end_is_read_and_an_unknown_one_warns(self) -> None:
        for word, warnings in (("FINISHED", 0), ("ODD", 1)):
            body = {"results": [{"outputText": "x", "completionReason": word}]}
            got = DIALECT.parse_reply(json.dumps(body).encode())
            assert (got.choices[0].reason, len(got.warnings)) == (Reason.STOP, warnings)

    def test_another_body_is_written_anew(self) -> None:
        titan = b'{"results":[{"outputText":"x","tokenCount":1,"completionReason":"FINISH"}],"more":1}'
        assert DIALECT.relay_reply is not None
        assert json.loads(DIALECT.relay_reply(titan, answer()))["more"] == 1
        assert json.loads(DIALECT.relay_reply(titan, answer("anthropic")))["content"] == [{"type": "text", "text": "x"}]

    @pytest.mark.parametrize("body", [b"{}", b'{"results":[]}', b'{"results":[{}]}', b"[]"])
    def test_what_is_no_reply_is_a_wire_error(self, body: bytes) -> None:
        with pytest.raises(WireError):
            DIALECT.parse_reply(body)
