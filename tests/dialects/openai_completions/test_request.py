from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.openai_completions import DIALECT, tables
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Reason
from rivermouth.ir.request import (
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
    ToolChoice,
    check_translatable,
)


def parse(**fields: Any) -> Request:
    body = json.dumps({"model": "m", "prompt": "Once", **fields}).encode()
    return DIALECT.parse_request(body, DIALECT.routes[0], None)


def built(request: Request) -> tuple[dict[str, Any], set[str]]:
    outgoing = DIALECT.build_request(request, "up")
    assert outgoing.path == "/completions"
    return json.loads(outgoing.body), set(outgoing.losses)


def ask(*messages: Message, **more: Any) -> Request:
    return Request(model="asked", messages=messages or (Message(Role.USER, (Text("Hi"),)),), **more)


class TestParse:
    def test_a_prompt_is_what_no_template_may_touch(self) -> None:
        for prompt in ("Once", ["Once"]):
            request = parse(prompt=prompt)
            assert request.messages == (Message(Role.USER, (Text("Once"),)),)
            assert (request.local.raw, request.untranslatable) == (True, ())

    @pytest.mark.parametrize("prompt", [[1, 2], [[1, 2], [3]], ["a", "b"], ["a", [1]]])
    def test_tokens_and_several_prompts_are_for_an_upstream_of_this_dialect(self, prompt: Any) -> None:
        request = parse(prompt=prompt)
        with pytest.raises(ApiError) as caught:
            check_translatable(request)
        assert caught.value.param == "prompt"
        assert built(request)[0]["prompt"] == prompt

    @pytest.mark.parametrize("prompt", [None, "", [], [""]])
    def test_nothing_is_no_prompt(self, prompt: Any) -> None:
        with pytest.raises(ApiError) as caught:
            parse(prompt=prompt)
        assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, "prompt")

    def test_wishes(self) -> None:
        request = parse(
            max_tokens=0,
            n=2,
            stop="END",
            temperature=0.5,
            seed=7,
            logit_bias={"5": 1},
            user="u",
            stream=True,
            stream_options={"include_usage": True},
        )
        assert (request.max_tokens, request.n, request.stop, request.user) == (0, 2, ("END",), "u")
        assert request.sampling == Sampling(temperature=0.5, seed=7, logit_bias={"5": 1.0})
        assert (request.stream, request.include_usage, request.unmodelled) == (True, True, ())
        assert not parse(stream_options={"include_usage": True}).include_usage

    def test_what_only_a_server_of_this_dialect_does_is_named(self) -> None:
        request = parse(echo=True, suffix="end", best_of=3, logprobs=0, x_new=1)
        assert set(request.unmodelled) == {"echo", "suffix", "best_of", "logprobs", "x_new"}
        assert parse(echo=False, suffix="", best_of=1, logprobs=None).unmodelled == ()
        assert parse(best_of=2, n=2).unmodelled == ()

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"model": None}, "model"),
            ({"n": 0}, "n"),
            ({"temperature": 3}, "temperature"),
            ({"max_tokens": -1}, "max_tokens"),
            ({"logprobs": 21}, "logprobs"),
            ({"stop": 5}, "stop"),
            ({"prompt": {"a": 1}}, "prompt"),
        ],
    )
    def test_what_cannot_be_read_names_its_field(self, fields: Any, param: str) -> None:
        with pytest.raises(ApiError) as caught:
            parse(**fields)
        assert (caught.value.status, caught.value.param) == (400, param)


class TestBuild:
    def test_one_text_goes_as_it_is(self) -> None:
        body, losses = built(ask(stream=True, local=Local(raw=True)))
        assert body == {"model": "up", "prompt": "Hi", "stream": True, "stream_options": {"include_usage": True}}
        assert losses == set()

    def test_a_talk_is_written_line_by_line(self) -> None:
        body, losses = built(
            ask(
                Message(Role.USER, (Text("Hi"), File(text=" there"))),
                Message(Role.ASSISTANT, (Reasoning("hm"), Text("Hello."))),
                Message(Role.USER, (Text("So?"),)),
                system=(Text("Be brief."),),
            )
        )
        assert body["prompt"] == "Be brief.\nUser: Hi there\nAssistant: Hello.\nUser: So?\nAssistant:"
        assert losses == {"messages.reasoning"}
        assert set(tables.SPEAKERS) == set(Role) - {Role.TOOL}

    def test_wishes(self) -> None:
        body, losses = built(
            ask(
                n=2,
                max_tokens=7,
                stop=("END",),
                sampling=Sampling(temperature=0.5, top_k=3, logprobs=True),
                tools=(Tool("f"),),
                tool_choice=ToolChoice(Choose.NONE),
                thinking=Thinking(effort="low"),
                user="u",
                metadata={"team": "y"},
                local=Local(keep_alive_s=0),
            )
        )
        wanted = {"n": 2, "max_tokens": 7, "stop": ["END"], "temperature": 0.5, "user": "u"}
        assert body == {"model": "up", "prompt": "Hi", **wanted}
        assert losses == {"top_k", "logprobs", "thinking", "metadata", "keep_alive_s"}

    @pytest.mark.parametrize(
        ("request_", "param"),
        [
            (ask(tools=(Tool("f"),)), "tools"),
            (ask(response_format=ResponseFormat(Format.JSON)), "response_format"),
            (ask(Message(Role.USER, (Image(url="https://x.org/a.png"),))), "messages"),
            (ask(untranslatable=("modalities",)), "modalities"),
        ],
    )
    def test_what_cannot_be_said_is_refused(self, request_: Request, param: str) -> None:
        with pytest.raises(ApiError) as caught:
            DIALECT.build_request(request_, "up")
        assert caught.value.param == param


def test_every_field_of_sampling_is_sent_or_is_a_loss() -> None:
    for name in Sampling.__struct_fields__:
        assert (name in tables.SAMPLING) != (name in tables.LOSSES)
    assert set(tables.FINISH_OUT) == set(Reason)
