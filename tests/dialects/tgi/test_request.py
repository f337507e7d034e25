"""Requests of the native routes and of the OpenAI route, both ways."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rivermouth.dialects.dialect import Operation
from rivermouth.dialects.tgi import DIALECT
from rivermouth.dialects.tgi.tables import LOSSES
from rivermouth.http.routes import Match, Routes
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.names import OTHERS
from rivermouth.ir.request import (
    Choose,
    Format,
    Image,
    Local,
    Message,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    ToolChoice,
)
from tests.dialects.tgi.case import CHAT, CHAT_BODY, GENERATE, ROOT, STREAM, built, parse, route

ASK = Request(model="m", messages=(Message(Role.USER, (Text("Hi"),)),))
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
PROMPT = msgspec.structs.replace(ASK, local=Local(raw=True))


class TestNative:
    def test_a_prompt_is_for_the_default_model_and_no_template(self) -> None:
        got = parse({"inputs": "Hi"})
        assert (got.model, got.messages, got.local.raw) == ("tgi", ASK.messages, True)

    @pytest.mark.parametrize(
        ("path", "body", "stream"),
        [
            ("/generate_stream", {}, True),
            ("/generate_stream", {"stream": False}, True),
            ("/generate", {}, False),
            ("", {}, False),
            ("", {"stream": True}, True),
            ("/invocations", {"stream": True}, True),
        ],
    )
    def test_the_route_or_on_the_root_the_body_says_whether_it_streams(
        self, path: str, body: dict[str, Any], stream: bool
    ) -> None:
        assert parse({"inputs": "Hi", **body}, route(path)).stream is stream

    def test_parameters(self) -> None:
        given = {
            "max_new_tokens": 5,
            "stop": ["END", ""],
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 4,
            "seed": 7,
            "repetition_penalty": 1.1,
            "frequency_penalty": 0.2,
        }
        got = parse({"inputs": "Hi", "parameters": given})
        assert (got.max_tokens, got.stop) == (5, ("END",))
        assert got.sampling == Sampling(
            temperature=0.5, top_p=0.9, top_k=4, seed=7, repetition_penalty=1.1, frequency_penalty=0.2
        )

    def test_not_to_sample_is_a_temperature_of_zero(self) -> None:
        assert parse({"inputs": "x", "parameters": {"do_sample": False}}).sampling == Sampling(temperature=0.0)
        assert parse({"inputs": "x", "parameters": {"do_sample": True}}).sampling == Sampling()
        assert parse({"inputs": "x", "parameters": {"do_sample": False, "temperature": 1}}).sampling.temperature == 1

    @pytest.mark.parametrize(
        "grammar",
        [
            {"type": "json", "value": SCHEMA},
            {"type": "json", "value": json.dumps(SCHEMA)},
            {"type": "json_schema", "value": {"name": "x", "schema": SCHEMA}},
        ],
    )
    def test_a_json_grammar_is_a_format(self, grammar: dict[str, Any]) -> None:
        got = parse({"inputs": "x", "parameters": {"grammar": grammar}})
        assert got.response_format == ResponseFormat(Format.JSON_SCHEMA, SCHEMA)

    def test_what_has_no_neutral_form_is_named(self) -> None:
        """R30."""
        odd = {"best_of": 2, "typical_p": 0.9, "new": 1, "watermark": False, "truncate": None}
        given = {**odd, "adapter_id": "a", "grammar": {"type": "regex", "value": "a+"}}
        got = parse({"inputs": "x", "parameters": given, "more": 1, "stream": True})
        assert got.unmodelled == ("more", "parameters.best_of", "parameters.typical_p", "parameters.new")
        assert got.untranslatable == ("parameters.adapter_id",)
        assert got.local.regex == "a+"
        assert parse({"inputs": "x", "parameters": {"grammar": {"type": "odd"}}}).untranslatable == (
            "parameters.grammar",
        )

    @pytest.mark.fault("F36")
    def test_a_clients_parameters_are_losses_that_can_be_shown(self) -> None:
        got = parse({"inputs": "x", "parameters": {"a\r\nx-evil: 1": 1, "fine": 1}})
        assert got.unmodelled == ("parameters.fine", OTHERS)

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            (b"[]", None),
            ({}, "inputs"),
            ({"inputs": ""}, "inputs"),
            ({"inputs": ["x"]}, "inputs"),
            ({"inputs": "x", "parameters": {"max_new_tokens": 0}}, "parameters.max_new_tokens"),
            ({"inputs": "x", "parameters": {"top_p": 2}}, "parameters.top_p"),
            ({"inputs": "x", "parameters": {"temperature": "hot"}}, "parameters.temperature"),
            ({"inputs": "x", "parameters": {"grammar": {"type": "json"}}}, "parameters.grammar.value"),
        ],
    )
    def test_what_cannot_be_served_is_named(self, body: Any, param: str | None) -> None:
        with pytest.raises(ApiError) as raised:
            parse(body)
        assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, param)


class TestChat:
    @pytest.mark.parametrize("named", [{}, {"model": None}, {"model": ""}, {"model": "tgi"}])
    def test_no_model_is_the_default_model(self, named: dict[str, Any]) -> None:
        assert parse({**CHAT_BODY, **named}, CHAT).model == "tgi"

    def test_a_named_model_is_kept(self) -> None:
        assert parse({**CHAT_BODY, "model": "dummy"}, CHAT).model == "dummy"

    @pytest.mark.parametrize("kind", ["json", "json_object", "json_schema"])
    def test_a_schema_stands_in_value(self, kind: str) -> None:
        value = {"name": "x", "schema": SCHEMA} if kind == "json_schema" else SCHEMA
        got = parse({**CHAT_BODY, "response_format": {"type": kind, "value": value}}, CHAT).response_format
        assert got is not None
        assert (got.kind, got.schema) == (Format.JSON_SCHEMA, SCHEMA)

    @pytest.mark.parametrize(
        "choice", ["f", {"function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}]
    )
    def test_a_tool_may_be_chosen_by_its_bare_name(self, choice: Any) -> None:
        tools = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
        got = parse({**CHAT_BODY, "tools": tools, "tool_choice": choice}, CHAT)
        assert got.tool_choice == ToolChoice(Choose.NAMED, "f")

    def test_fields_of_this_server_alone_are_losses_elsewhere(self) -> None:
        assert parse({**CHAT_BODY, "tool_prompt": "x"}, CHAT).unmodelled == ("tool_prompt",)

    def test_a_regular_expression_is_refused(self) -> None:
        with pytest.raises(ApiError) as raised:
            parse({**CHAT_BODY, "response_format": {"type": "regex", "value": "a+"}}, CHAT)
        assert raised.value.param == "response_format.type"


class TestBuild:
    def test_a_talk_goes_to_the_chat(self) -> None:
        request = msgspec.structs.replace(
            ASK,
            stream=True,
            max_tokens=5,
            user="u",
            thinking=Thinking(effort="high"),
            response_format=ResponseFormat(Format.JSON_SCHEMA, SCHEMA),
        )
        outgoing, body = built(request)
        assert outgoing.path == "/v1/chat/completions"
        assert body["max_tokens"] == 5
        assert "max_completion_tokens" not in body
        assert body["response_format"] == {"type": "json_object", "value": SCHEMA}
        assert outgoing.losses == ("thinking", "user")

    def test_json_without_a_schema_is_any_object(self) -> None:
        _, body = built(msgspec.structs.replace(ASK, response_format=ResponseFormat(Format.JSON)))
        assert body["response_format"]["value"] == {"type": "object"}

    def test_several_answers_are_refused(self) -> None:
        with pytest.raises(ApiError) as raised:
            built(msgspec.structs.replace(ASK, n=2))
        assert raised.value.param == "n"

    def test_a_prompt_goes_to_the_native_route(self) -> None:
        request = msgspec.structs.replace(
            PROMPT,
            stream=True,
            max_tokens=5,
            stop=("END",),
            sampling=Sampling(temperature=0.5, top_p=1.0, top_k=4, seed=7, min_p=0.1, presence_penalty=0.1),
            response_format=ResponseFormat(Format.JSON_SCHEMA, SCHEMA),
            thinking=Thinking(),
            user="u",
            metadata={"a": "b"},
            local=Local(raw=True, keep_alive_s=3),
        )
        outgoing, body = built(request)
        assert outgoing.path == "/generate_stream"
        assert body == {
            "inputs": "Hi",
            "parameters": {
                "details": True,
                "seed": 7,
                "temperature": 0.5,
                "top_k": 4,
                "do_sample": True,
                "max_new_tokens": 5,
                "stop": ["END"],
                "grammar": {"type": "json", "value": SCHEMA},
            },
        }
        assert outgoing.losses == ("keep_alive_s", "metadata", "min_p", "presence_penalty", "thinking", "user")
        assert set(outgoing.losses) <= LOSSES

    @pytest.mark.parametrize("sampling", [Sampling(temperature=0.0), Sampling(top_p=0.0)])
    def test_a_temperature_that_servers_refuse_is_said_otherwise(self, sampling: Sampling) -> None:
        _, body = built(msgspec.structs.replace(PROMPT, sampling=sampling))
        assert body["parameters"] == {"details": True, "do_sample": False}

    def test_a_prompt_with_a_picture_goes_to_the_chat(self) -> None:
        message = Message(Role.USER, (Text("Hi"), Image("image/png", "iVBORw0KGgo=")))
        outgoing, body = built(msgspec.structs.replace(PROMPT, messages=(message,)))
        assert outgoing.path == "/v1/chat/completions"
        assert [p["type"] for p in body["messages"][0]["content"]] == ["text", "image_url"]
        assert "raw" in outgoing.losses

    def test_what_only_a_server_of_its_own_dialect_knows_is_refused(self) -> None:
        with pytest.raises(ApiError) as raised:
            built(msgspec.structs.replace(ASK, untranslatable=("modalities",)))
        assert raised.value.param == "modalities"


class TestOriginal:
    @pytest.mark.parametrize(
        ("where", "path"), [(ROOT, "/generate"), (GENERATE, "/generate"), (STREAM, "/generate_stream")]
    )
    def test_a_native_body_goes_on_to_its_route_and_is_counted(self, where: Any, path: str) -> None:
        body = {"inputs": "Hi", "parameters": {"typical_p": 0.5, "details": False}, "more": 1.5}
        outgoing = DIALECT.build_request(parse(body, where), "up")
        assert outgoing.path == path
        assert json.loads(outgoing.body) == body | {"parameters": {"typical_p": 0.5, "details": True}}

    def test_a_stream_on_the_root_goes_on_to_the_route_that_streams(self) -> None:
        outgoing = DIALECT.build_request(parse({"inputs": "Hi", "stream": True, "parameters": None}, ROOT), "up")
        assert outgoing.path == "/generate_stream"
        assert json.loads(outgoing.body) == {"inputs": "Hi", "parameters": {"details": True}}

    def test_a_chat_body_goes_on_as_it_came_with_its_usage_asked_for(self) -> None:
        body = {**CHAT_BODY, "stream": True, "guideline": "x", "response_format": {"type": "json", "value": SCHEMA}}
        outgoing = DIALECT.build_request(parse(body, CHAT), "up")
        want = body | {"model": "up", "stream_options": {"include_usage": True}}
        assert json.loads(outgoing.body) == want


@pytest.mark.parametrize("path", ["/tgi", "/tgi/", "/tgi/invocations"])
def test_the_root_answers_with_and_without_its_slash(path: str) -> None:
    found = Routes([DIALECT]).find("POST", path, [])
    assert isinstance(found, Match)
    assert found.route.kind == "compat"


def test_the_routes_are_those_of_the_server() -> None:
    served = {(r.method, r.path): r for r in DIALECT.routes}
    assert served["GET", "/info"].operation is Operation.INFO
    assert served["GET", "/health"].operation is Operation.HEALTH
    assert not served["POST", "/generate"].streams
    assert set(DIALECT.documents) == {Operation.INFO, Operation.HEALTH}
