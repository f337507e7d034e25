from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.dialect import Operation
from rivermouth.dialects.openai_responses import DIALECT
from rivermouth.dialects.openai_responses.opaque import to_client
from rivermouth.dialects.openai_responses.talk import PART_READERS, ROLE_PARTS
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
    Audio,
    File,
    Format,
    Image,
    Keeping,
    Message,
    Reasoning,
    Refusal,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tests.dialects.openai_responses.case import HI, parse, route
from tests.goldens.cases import PIXEL


def talk(*items: Any, **fields: Any) -> tuple[Message, ...]:
    return parse(input=list(items), **fields).messages


def refused(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(**fields)
    assert caught.value.kind is Kind.INVALID_REQUEST
    return caught.value


USER: Any = {"role": "user", "content": "Hi"}
CALL: Any = {"type": "function_call", "id": "fc_9", "call_id": "call_1", "name": "weather", "arguments": '{"a":1}'}
RESULT: Any = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}


class TestInput:
    def test_a_text_is_what_the_user_says(self) -> None:
        assert parse(input="Hi").messages == (Message(Role.USER, (Text("Hi"),)),)

    def test_messages_come_with_and_without_their_type(self) -> None:
        full = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}], "status": "done"}
        assert talk(full) == talk(USER) == talk({**full, "content": "Hi"})

    def test_leading_instructions_are_the_system_and_later_ones_stay(self) -> None:
        developer, system = {"role": "developer", "content": "Be brief."}, {"role": "system", "content": "In French."}
        request = parse(instructions="Be kind.", input=[developer, USER, system])
        assert [t.text for t in request.system] == ["Be kind.", "Be brief."]
        assert [(m.role, m.text) for m in request.messages] == [(Role.USER, "Hi"), (Role.SYSTEM, "In French.")]

    def test_a_turn_of_an_assistant_is_one_message_and_its_results_another(self) -> None:
        said = {"role": "assistant", "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}]}
        thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
        other = {**CALL, "call_id": "call_2", "arguments": ""}
        results = ({**RESULT, "call_id": "call_2", "output": "noon"}, RESULT)
        assert talk(USER, thought, said, CALL, other, *results, USER) == (
            Message(Role.USER, (Text("Hi"),)),
            Message(
                Role.ASSISTANT,
                (
                    Reasoning("hm"),
                    Text("Let me see."),
                    ToolCall("call_1", "weather", '{"a":1}'),
                    ToolCall("call_2", "weather", ""),
                ),
            ),
            Message(Role.TOOL, (ToolResult("call_2", (Text("noon"),)), ToolResult("call_1", (Text("rain"),)))),
            Message(Role.USER, (Text("Hi"),)),
        )

    def test_users_messages_stay_apart(self) -> None:
        assert len(talk(USER, USER)) == 2

    def test_calls_of_free_form_and_of_namespaces(self) -> None:
        patch = {"type": "custom_tool_call", "call_id": "call_1", "name": "apply_patch", "input": '+"q"\n'}
        click = {**CALL, "call_id": "call_2", "name": "click", "namespace": "mcp__browser", "arguments": "{}"}
        outputs = ({**RESULT, "type": "custom_tool_call_output"}, {**RESULT, "call_id": "call_2"})
        assistant, results = talk(USER, patch, click, *outputs)[1:]
        first, second = assistant.parts
        assert isinstance(first, ToolCall)
        assert isinstance(second, ToolCall)
        assert (first.name, json.loads(first.arguments)) == ("apply_patch", {"input": '+"q"\n'})
        assert second == ToolCall("call_2", "mcp__browser__click", "{}")
        assert [p.id for p in results.parts if isinstance(p, ToolResult)] == ["call_1", "call_2"]

    def test_media(self) -> None:
        uri = f"data:image/png;base64,{PIXEL}"
        parts = [
            {"type": "input_text", "text": "Look"},
            {"type": "input_image", "image_url": uri, "detail": "high"},
            {"type": "input_image", "image_url": "https://example.org/x.png"},
            {"type": "input_image", "image_url": {"url": uri}},
            {"type": "input_image", "file_id": "file_1"},
            {"type": "input_file", "file_data": "data:application/pdf;base64,JVBE", "filename": "x.pdf"},
            {"type": "input_file", "file_url": "https://example.org/x.pdf"},
            {"type": "input_file", "file_id": "file_2"},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ]
        (message,) = talk({"role": "user", "content": parts})
        assert message.parts == (
            Text("Look"),
            Image("image/png", PIXEL, detail="high"),
            Image(url="https://example.org/x.png"),
            Image("image/png", PIXEL),
            File("image/*", file_id="file_1"),
            File("application/pdf", "JVBE", name="x.pdf"),
            File(url="https://example.org/x.pdf"),
            File(file_id="file_2"),
            Audio("AAAA", "wav"),
        )

    def test_results_hold_media_too(self) -> None:
        output = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "https://x.org/a.png"}]
        (_, _, results) = talk(USER, CALL, {**RESULT, "output": output})
        assert results.parts == (ToolResult("call_1", (Text("see"), Image(url="https://x.org/a.png"))),)

    def test_refusals_and_pictures_that_were_made(self) -> None:
        refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
        picture = {"type": "image_generation_call", "id": "ig_1", "result": "/9j/4AAQ", "status": "completed"}
        assert talk(USER, refusal, picture, USER)[1].parts == (Refusal("No."), Image("image/jpeg", "/9j/4AAQ"))

    @pytest.mark.fault("F25")
    def test_thoughts_come_back_and_never_as_text(self) -> None:
        seal = {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": "gAAA"}
        own = {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "ab"}]}
        wrapped = {**seal, "id": "rs_ours", "encrypted_content": to_client("anthropic:EqQB", redacted=True)}
        empty = {"type": "reasoning", "id": "rs_3", "summary": []}
        (message,) = talk(seal, own, wrapped, empty)
        assert message.parts == (
            Reasoning("", "openai:rs_1:gAAA", redacted=True),
            Reasoning("ab"),
            Reasoning("", "anthropic:EqQB", redacted=True),
        )
        assert message.text == ""

    def test_several_summaries_are_paragraphs(self) -> None:
        summary = [{"type": "summary_text", "text": t} for t in ("one", "two")]
        (message,) = talk({"type": "reasoning", "id": "r", "summary": summary, "encrypted_content": "gA"})
        assert message.parts == (Reasoning("one\n\ntwo", "openai:r:gA"),)

    def test_an_unknown_item_is_left_out_and_named(self) -> None:
        request = parse(input=[USER, {"type": "compaction", "encrypted_content": "x"}, {"type": "shell_call"}])
        assert [m.text for m in request.messages] == ["Hi"]
        assert request.unmodelled == ("input.compaction", "input.shell_call")
        alone = parse(input=[{"type": "compaction", "encrypted_content": "x"}])
        assert (alone.messages, alone.untranslatable) == ((), ("input",))

    @pytest.mark.parametrize(
        ("items", "param"),
        [
            (None, "input"),
            ("", "input"),
            ([], "input"),
            ([{"role": "user", "content": []}], "input"),
            (3, "input"),
            ([3], "input[0]"),
            ([{"content": "x"}], "input[0].type"),
            ([{"role": "robot", "content": "x"}], "input[0].role"),
            ([{"role": "user"}], "input[0].content"),
            ([USER, {"role": "user", "content": [{"type": "poem", "text": "x"}]}], "input[1].content[0].type"),
            ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
            ([{"role": "user", "content": [{"type": "input_image"}]}], "input[0].content[0].image_url"),
            (
                [{"role": "user", "content": [{"type": "input_image", "image_url": "ftp://x"}]}],
                "input[0].content[0].image_url",
            ),
            ([{"role": "user", "content": [{"type": "input_file"}]}], "input[0].content[0]"),
            ([{"role": "assistant", "content": [{"type": "input_image", "file_id": "f"}]}], "input[0].content[0].type"),
            ([{"type": "function_call", "name": "f"}], "input[0].call_id"),
            ([{"type": "function_call", "call_id": "c"}], "input[0].name"),
            ([{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}], "input[0].arguments"),
            ([{"type": "function_call_output", "output": "x"}], "input[0].call_id"),
            ([{"type": "item_reference"}], "input[0].id"),
        ],
    )
    def test_what_cannot_be_read_names_its_field(self, items: Any, param: str) -> None:
        assert refused(input=items).param == param

    def test_every_part_that_a_role_may_have_can_be_read(self) -> None:
        assert set(ROLE_PARTS) == set(Role)
        assert frozenset().union(*ROLE_PARTS.values()) == set(PART_READERS)


class TestWishes:
    def test_limits_and_sampling(self) -> None:
        wish = {"max_output_tokens": 7, "temperature": 0.5, "top_p": 0.25, "top_logprobs": 2}
        request = parse(**wish, include=["message.output_text.logprobs", "reasoning.encrypted_content"])
        assert request.max_tokens == 7
        assert request.sampling == Sampling(temperature=0.5, top_p=0.25, logprobs=True, top_logprobs=2)
        assert request.unmodelled == ()
        assert request.include_usage

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"max_output_tokens": 0}, "max_output_tokens"),
            ({"temperature": 3}, "temperature"),
            ({"top_p": -0.1}, "top_p"),
            ({"top_logprobs": 21}, "top_logprobs"),
            ({"temperature": "hot"}, "temperature"),
            ({"reasoning": {"effort": "wild"}}, "reasoning.effort"),
            ({"text": {"format": {"type": "poem"}}}, "text.format.type"),
            ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
            ({"model": None}, "model"),
        ],
    )
    def test_what_is_out_of_range_names_its_field(self, fields: Any, param: str) -> None:
        assert refused(**fields).param == param

    def test_formats_are_flat(self) -> None:
        schema = {"type": "json_schema", "name": "place", "schema": {"type": "object"}, "strict": True}
        wish = ResponseFormat(Format.JSON_SCHEMA, {"type": "object"}, "place", strict=True)
        assert parse(text={"format": schema}).response_format == wish
        assert parse(text={"format": {"type": "json_object"}}).response_format == ResponseFormat(Format.JSON)
        assert parse(text={"format": {"type": "text"}}).response_format is None

    def test_how_hard_to_think(self) -> None:
        assert parse(reasoning={"effort": "high", "summary": "auto"}).thinking == Thinking(
            effort="high", summary="auto"
        )
        assert parse(reasoning={"effort": "none"}).thinking == Thinking(enabled=False)
        assert parse(reasoning={"summary": "auto"}).thinking is None, "to see thoughts is no wish to think"
        assert parse(reasoning=None).thinking is None

    def test_what_nobody_else_can_do_is_named(self) -> None:
        request = parse(
            truncation="auto",
            text={"verbosity": "low"},
            include=["file_search_call.results"],
            context_management=[{"type": "compaction"}],
            moderation={"model": "x"},
        )
        assert set(request.unmodelled) == {
            "truncation",
            "text.verbosity",
            "include.file_search_call.results",
            "context_management",
            "moderation",
        }

    def test_what_agents_send_besides_is_taken_in_silence(self) -> None:
        request = parse(
            client_metadata={"x-codex-turn-metadata": "{}"},
            prompt_cache_key="k",
            service_tier="auto",
            stream_options={"include_obfuscation": False},
            truncation="disabled",
            parallel_tool_calls=True,
            max_tool_calls=3,
        )
        assert (request.unmodelled, request.parallel_tools) == ((), True)

    def test_who_asks(self) -> None:
        assert parse(user="u", metadata={"team": "y"}).user == "u"
        assert parse(safety_identifier="s").user == "s"
        assert parse(metadata={"team": "y"}).metadata == {"team": "y"}

    def test_a_prompt_that_the_vendor_keeps_goes_to_it_alone(self) -> None:
        assert parse(input=None, prompt={"id": "pmpt_1"}).untranslatable == ("prompt",)


class TestKept:
    def test_nothing_is_asked_of_who_keeps_nothing(self) -> None:
        assert parse().kept is None
        assert parse(background=False, previous_response_id=None, conversation=None, store=None).kept is None

    @pytest.mark.parametrize(
        ("fields", "kept"),
        [
            ({"store": False}, Keeping(store=False)),
            ({"store": True, "background": True}, Keeping(store=True, background=True)),
            ({"previous_response_id": "resp_1"}, Keeping(previous="resp_1")),
            ({"previous_response_id": "resp_1", "input": None}, Keeping(previous="resp_1")),
            ({"conversation": "conv_1"}, Keeping(conversation="conv_1")),
            ({"conversation": {"id": "conv_1"}}, Keeping(conversation="conv_1")),
            (
                {"input": [{"type": "item_reference", "id": "msg_1"}, *HI]},
                Keeping(references=(("input[0]", "msg_1"),)),
            ),
        ],
    )
    def test_each_wish_is_told_apart(self, fields: Any, kept: Keeping) -> None:
        assert parse(**fields).kept == kept


def test_tokens_are_counted_of_the_same_body() -> None:
    counting = route(Operation.COUNT_TOKENS)
    body = json.dumps({"model": "m", "input": "How many?", "instructions": "Be brief."}).encode()
    request = DIALECT.parse_request(body, counting, None)
    assert (request.messages[0].text, counting.path) == ("How many?", "/responses/input_tokens")
    assert DIALECT.encode_count is not None
    assert json.loads(DIALECT.encode_count(5)) == {"object": "response.input_tokens", "input_tokens": 5}
