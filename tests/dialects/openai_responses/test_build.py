from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.openai_responses import DIALECT
from rivermouth.dialects.openai_responses.opaque import to_client
from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import (
    Audio,
    Choose,
    File,
    Format,
    FreeForm,
    Image,
    Local,
    Message,
    Original,
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
from rivermouth.ir.turns import NO_RESULT
from rivermouth.vendors.openai import free_form
from tests.dialects.openai_responses.case import parse

SHELL = free_form.as_function("sh", FreeForm("Runs it."))


def said(role: Role, *parts: Any, name: str | None = None) -> Message:
    return Message(role, parts, name)


def ask(*messages: Message, **more: Any) -> Request:
    return Request(model="asked", messages=messages or (said(Role.USER, Text("Hi")),), **more)


def built(request: Request) -> tuple[dict[str, Any], set[str]]:
    outgoing = DIALECT.build_request(request, "up")
    assert outgoing.path == "/responses"
    assert set(outgoing.losses) <= DIALECT.losses | set(request.unmodelled)
    return json.loads(outgoing.body), set(outgoing.losses)


class TestAnew:
    def test_nothing_is_stored_and_thoughts_come_back_encrypted(self) -> None:
        body, losses = built(ask())
        assert body == {
            "model": "up",
            "input": [{"role": "user", "content": "Hi"}],
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        assert losses == set()

    def test_a_talk(self) -> None:
        calls = (ToolCall("c1", "weather", ""), ToolCall("c2", "sh", '{"input":"ls"}'))
        body, losses = built(
            ask(
                said(Role.USER, Text("Look"), Image("image/png", "iVBO", detail="low")),
                said(Role.ASSISTANT, Text("So."), Refusal("Not that."), *calls),
                said(Role.TOOL, ToolResult("c2", (Text("a.txt"),)), ToolResult("c1", (Text("no"),), is_error=True)),
                said(Role.SYSTEM, Text("Be brief.")),
                said(Role.USER, File("application/pdf", "JVBE", name="x.pdf")),
                system=(Text("Be kind."), Text("Be fair.")),
                tools=(Tool("weather"), SHELL),
            )
        )
        assert body["instructions"] == "Be kind.\n\nBe fair."
        assert body["input"] == [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look"},
                    {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "low"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "So.", "annotations": []},
                    {"type": "refusal", "refusal": "Not that."},
                ],
            },
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "ls"},
            {"type": "function_call_output", "call_id": "c1", "output": "Error: no"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "a.txt"},
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {
                        "type": "input_file",
                        "filename": "x.pdf",
                        "file_data": "data:application/pdf;base64,JVBE",
                    }
                ],
            },
        ]
        assert losses == set()

    def test_calls_and_results_are_paired(self) -> None:
        body, losses = built(
            ask(
                said(Role.ASSISTANT, ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}")),
                said(Role.TOOL, ToolResult("other", (Text("x"),)), ToolResult("c2", (Text("y"),))),
                said(Role.USER, Text("So?")),
            )
        )
        outputs = [(i["call_id"], i["output"]) for i in body["input"] if i.get("type") == "function_call_output"]
        assert outputs == [("c1", f"Error: {NO_RESULT}"), ("c2", "y")]
        assert body["input"][-1] == {"role": "user", "content": "So?"}
        assert losses == {"messages.tool_result"}

    def test_results_with_media_are_lists(self) -> None:
        result = ToolResult("c1", (Text("see"), Image(url="https://x.org/a.png")), is_error=True)
        body, _ = built(ask(said(Role.ASSISTANT, ToolCall("c1", "f", "{}")), said(Role.TOOL, result)))
        assert body["input"][-1]["output"] == [
            {"type": "input_text", "text": "Error: see"},
            {"type": "input_image", "image_url": "https://x.org/a.png", "detail": "auto"},
        ]

    @pytest.mark.fault("F25")
    def test_a_thought_goes_back_to_its_maker_alone_and_before_what_it_led_to(self) -> None:
        own = Reasoning("hm", "openai:rs_1:gA")
        hidden = Reasoning("", "openai:rs_2:gB", redacted=True)
        body, losses = built(ask(said(Role.ASSISTANT, own, hidden, ToolCall("c", "f", "{}"))))
        assert body["input"][:3] == [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "gA",
            },
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gB"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        ]
        assert losses == set()
        for lost in (Reasoning("hm"), Reasoning("hm", "anthropic:EqQB")):
            body, losses = built(ask(said(Role.ASSISTANT, lost, Text("So."))))
            assert body["input"] == [{"role": "assistant", "content": "So."}]
            assert losses == {"messages.reasoning"}
        body, losses = built(ask(said(Role.USER, Text("Hi")), said(Role.ASSISTANT, own)))
        assert (len(body["input"]), losses) == (1, {"messages.reasoning"})

    def test_wishes(self) -> None:
        body, losses = built(
            ask(
                max_tokens=7,
                stop=("END",),
                sampling=Sampling(temperature=0.5, top_p=0.25, seed=7, logprobs=True, top_logprobs=2),
                tools=(Tool("f", "d", strict=True), SHELL),
                tool_choice=ToolChoice(Choose.NAMED, "sh"),
                parallel_tools=False,
                thinking=Thinking(effort="high", summary="detailed"),
                response_format=ResponseFormat(Format.JSON_SCHEMA, {"type": "object"}, "place", "a place", strict=True),
                user="u",
                metadata={"team": "y"},
                local=Local(keep_alive_s=3),
                stream=True,
            )
        )
        assert {n: body[n] for n in ("max_output_tokens", "temperature", "top_p", "top_logprobs", "user")} == {
            "max_output_tokens": 7,
            "temperature": 0.5,
            "top_p": 0.25,
            "top_logprobs": 2,
            "user": "u",
        }
        assert body["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]
        assert body["tool_choice"] == {"type": "custom", "name": "sh"}
        assert body["parallel_tool_calls"] is False
        assert body["reasoning"] == {"effort": "high", "summary": "detailed"}
        assert body["text"]["format"] == {
            "type": "json_schema",
            "name": "place",
            "schema": {"type": "object"},
            "description": "a place",
            "strict": True,
        }
        assert (body["metadata"], body["stream"]) == ({"team": "y"}, True)
        assert losses == {"stop", "seed", "keep_alive_s"}

    @pytest.mark.parametrize(
        ("thinking", "want"),
        [
            (Thinking(enabled=False), {"effort": "none"}),
            (Thinking(effort="low"), {"effort": "low"}),
            (Thinking(budget_tokens=8192), {"effort": "medium", "summary": "auto"}),
            (Thinking(), {"effort": "medium", "summary": "auto"}),
        ],
    )
    def test_who_thinks_by_a_budget_wants_to_see_it(self, thinking: Thinking, want: dict[str, str]) -> None:
        assert built(ask(thinking=thinking))[0]["reasoning"] == want

    @pytest.mark.parametrize(
        ("request_", "param"),
        [
            (ask(n=2), "n"),
            (ask(said(Role.USER, Audio("AAAA", "wav"))), "messages"),
            (ask(said(Role.USER, File())), "messages"),
            (ask(said(Role.USER, ToolCall("c", "f"))), "messages"),
            (ask(untranslatable=("modalities",)), "modalities"),
        ],
    )
    def test_what_cannot_be_said_is_refused(self, request_: Request, param: str) -> None:
        with pytest.raises(ApiError) as caught:
            DIALECT.build_request(request_, "up")
        assert caught.value.param == param


class TestAsItCame:
    def test_the_talk_is_whole_so_nothing_is_kept_there(self) -> None:
        request = parse(store=True, background=True, previous_response_id="resp_1", x_new={"deep": 1}, stream=True)
        body, losses = built(request)
        assert body == {
            "model": "up",
            "input": "Hi",
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "x_new": {"deep": 1},
            "stream": True,
        }
        assert losses == set()

    @pytest.mark.parametrize("include", [None, [], ["reasoning.encrypted_content"], ["file_search_call.results"]])
    def test_what_was_to_be_included_still_is(self, include: Any) -> None:
        body, _ = built(parse(include=include))
        assert body["include"][: len(include or [])] == (include or [])
        assert body["include"].count("reasoning.encrypted_content") == 1

    @pytest.mark.fault("F25")
    def test_our_wrappings_are_taken_off_and_foreign_thoughts_left_out(self) -> None:
        thought = {"type": "reasoning", "id": "rs_ours", "summary": [], "content": None}
        items = [
            {"role": "user", "content": "Hi"},
            {**thought, "encrypted_content": to_client("openai:rs_1:gA")},
            {**thought, "encrypted_content": to_client("anthropic:EqQB", redacted=True)},
            {**thought, "id": "rs_2", "encrypted_content": "gB"},
        ]
        body, losses = built(parse(input=items))
        assert body["input"] == [
            items[0],
            {**thought, "id": "rs_1", "encrypted_content": "gA"},
            items[3],
        ]
        assert losses == {"messages.reasoning"}

    def test_words_that_look_like_a_wrapping_are_words(self) -> None:
        assert built(parse(input="rivermouth.1.x"))[0]["input"] == "rivermouth.1.x"

    def test_another_dialects_original_is_written_anew(self) -> None:
        request = ask(original=Original("openai_chat", {}))
        assert built(request)[0]["input"] == [{"role": "user", "content": "Hi"}]
