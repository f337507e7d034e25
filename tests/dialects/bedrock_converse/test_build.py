"""The call of a model, from a neutral request and from a client's own body."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import msgspec
import pytest

from rivermouth.dialects.bedrock_converse import DIALECT
from rivermouth.dialects.bedrock_converse.parse import RETIRED
from rivermouth.dialects.bedrock_converse.tables import Family, family_of
from rivermouth.dialects.bedrock_converse.turns import NO_USER
from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import (
    Audio,
    Choose,
    File,
    Format,
    Image,
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
    ToolChoice,
    ToolResult,
)
from rivermouth.ir.turns import NO_RESULT
from tests.dialects.bedrock_converse.case import (
    ASK,
    BODY,
    CLAUDE,
    GPT,
    NOVA,
    OLD_CLAUDE,
    QWEN,
    WHOLE,
    build,
    outgoing,
    parse,
)

HARD = {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}
TOOL = Tool("f", "does it", {"type": "object", "properties": {}})
CALL = Message(Role.ASSISTANT, (ToolCall("c1", "f", '{"a":1}'),))
RESULT = Message(Role.TOOL, (ToolResult("c1", (Text("done"),)),))


def changed(**changes: Any) -> Request:
    return msgspec.structs.replace(ASK, **changes)


def talk(*messages: Message) -> Request:
    return changed(messages=(*ASK.messages, *messages))


def content(request: Request, at: int = -1, model: str = CLAUDE) -> Any:
    return build(request, model)["messages"][at]["content"]


class TestCall:
    def test_the_path_and_the_accept_header_say_how(self) -> None:
        arn = "arn:aws:bedrock::1:inference-profile/eu.anthropic.x:0"
        whole = DIALECT.build_request(ASK, arn)
        assert whole.path == "/model/arn%3Aaws%3Abedrock%3A%3A1%3Ainference-profile%2Feu.anthropic.x%3A0/converse"
        assert whole.headers["accept"] == "application/json"
        stream = DIALECT.build_request(changed(stream=True), CLAUDE)
        assert stream.path.endswith("/converse-stream")
        assert stream.headers["accept"] == "application/vnd.amazon.eventstream"

    @pytest.mark.parametrize(
        ("model", "family"),
        [
            (CLAUDE, Family.CLAUDE),
            ("arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc", Family.CLAUDE),
            (NOVA, Family.NOVA),
            (GPT, Family.OPENAI),
            (QWEN, Family.OTHER),
            ("us.deepseek.r1-v1:0", Family.OTHER),
        ],
    )
    def test_the_name_tells_the_family(self, model: str, family: Family) -> None:
        assert family_of(model) is family

    def test_limits_and_stops(self) -> None:
        request = changed(max_tokens=9, stop=("END", " "), sampling=Sampling(temperature=1.5))
        assert build(request) == {
            **BODY,
            "inferenceConfig": {"maxTokens": 9, "temperature": 1.0, "stopSequences": ["END"]},
            "additionalModelResponseFieldPaths": ["/stop_sequence"],
        }
        assert outgoing(request).losses == ("stop", "temperature")

    def test_sampling_by_family(self) -> None:
        request = changed(sampling=Sampling(top_p=0.5, top_k=7))
        assert build(request)["additionalModelRequestFields"] == {"top_k": 7}
        assert build(request, NOVA)["additionalModelRequestFields"] == {"inferenceConfig": {"topK": 7}}
        assert "additionalModelRequestFields" not in build(request, QWEN)
        assert outgoing(request, QWEN).losses == ("top_k",)
        both = changed(sampling=Sampling(temperature=0.5, top_p=0.5))
        assert build(both)["inferenceConfig"] == {"temperature": 0.5}
        assert build(both, QWEN)["inferenceConfig"] == {"temperature": 0.5, "topP": 0.5}

    def test_labels_where_they_fit(self) -> None:
        assert build(changed(metadata={"team": "y"}))["requestMetadata"] == {"team": "y"}
        odd = changed(metadata={"team": "é"}, user="u")
        assert "requestMetadata" not in build(odd)
        assert outgoing(odd).losses == ("metadata", "user")

    def test_an_output_format(self) -> None:
        schema = {"type": "object"}
        request = changed(response_format=ResponseFormat(Format.JSON_SCHEMA, schema, "place"))
        told = build(request)["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
        assert (json.loads(told["schema"]), told["name"]) == (schema, "place")
        loose = changed(response_format=ResponseFormat(Format.JSON))
        assert "JSON" in build(loose)["system"][-1]["text"]
        assert outgoing(loose).losses == ("response_format",)

    @pytest.mark.parametrize(
        ("changes", "param"),
        [
            ({"n": 2}, "n"),
            ({"untranslatable": ("modalities",)}, "modalities"),
            ({"messages": (Message(Role.USER, (Image(url="https://example.org/x.png"),)),)}, "messages"),
            ({"messages": (Message(Role.USER, (Image("image/bmp", "QUJD"),)),)}, "messages"),
            ({"messages": (Message(Role.USER, (File("application/zip", "QUJD"),)),)}, "messages"),
            ({"messages": (Message(Role.USER, (File(url="https://example.org/x.pdf"),)),)}, "messages"),
            ({"messages": (Message(Role.USER, (Audio("QUJD", "amr"),)),)}, "messages"),
        ],
    )
    def test_what_would_be_answered_wrongly_is_refused(self, changes: dict[str, Any], param: str) -> None:
        with pytest.raises(ApiError) as raised:
            outgoing(changed(**changes))
        assert raised.value.param == param


class TestTools:
    @pytest.mark.parametrize(
        ("choice", "wire"),
        [
            (None, None),
            (ToolChoice(Choose.AUTO), {"auto": {}}),
            (ToolChoice(Choose.REQUIRED), {"any": {}}),
            (ToolChoice(Choose.NAMED, "f"), {"tool": {"name": "f"}}),
        ],
    )
    def test_choices(self, choice: ToolChoice | None, wire: Any) -> None:
        config = build(changed(tools=(TOOL,), tool_choice=choice))["toolConfig"]
        assert config.get("toolChoice") == wire
        assert config["tools"][0]["toolSpec"]["inputSchema"] == {"json": TOOL.parameters}

    def test_none_is_offered_where_none_may_be_called(self) -> None:
        assert "toolConfig" not in build(changed(tools=(TOOL,), tool_choice=ToolChoice(Choose.NONE)))

    def test_a_talk_with_calls_says_what_was_called(self) -> None:
        """Without tools it would be refused; that they are gone is said, and read so."""
        request = talk(CALL, RESULT)
        built = build(request)
        (spec,) = built["toolConfig"]["tools"]
        assert (spec["toolSpec"]["name"], spec["toolSpec"]["description"]) == ("f", RETIRED)
        assert parse(built).tools == ()

    def test_one_call_at_a_time_cannot_be_said(self) -> None:
        assert outgoing(changed(tools=(TOOL,), parallel_tools=False)).losses == ("parallel_tools",)

    def test_ids_are_spelled_and_stay_apart(self) -> None:
        odd = (ToolCall("a/b", "f", ""), ToolCall("a?b", "f", "[1]"), ToolCall("x" * 65, "f", ""))
        results = Message(Role.TOOL, tuple(ToolResult(c.id, (Text(c.id),)) for c in reversed(odd)))
        used, answered = build(talk(Message(Role.ASSISTANT, odd), results))["messages"][1:]
        ids = [block["toolUse"]["toolUseId"] for block in used["content"]]
        assert ids == ["a_b", "a_b_2", "x" * 48]
        assert [block["toolUse"]["input"] for block in used["content"]] == [{}, {"input": [1]}, {}]
        told = [block["toolResult"] for block in answered["content"]]
        first = [(t["toolUseId"], t["content"][0]["text"][:3]) for t in told]
        assert first == [*zip(ids, ["a/b", "a?b", "xxx"], strict=True)]

    def test_every_call_gets_one_result_and_no_result_stands_alone(self) -> None:
        stray = Message(Role.TOOL, (ToolResult("nobody's", (Text("x"),)),))
        request = talk(CALL, Message(Role.USER, (Text("And?"),)), stray)
        told = build(request)["messages"][-1]["content"]
        assert told[0]["toolResult"] == {"toolUseId": "c1", "content": [{"text": NO_RESULT}], "status": "error"}
        assert told[1] == {"text": "And?"}
        assert outgoing(request).losses == ("messages.tool_result",)


class TestTurns:
    def test_they_alternate_and_begin_with_the_user(self) -> None:
        said = Message(Role.ASSISTANT, (Text("a "),))
        built = build(changed(messages=(said, Message(Role.ASSISTANT, (Text("b "),)))))["messages"]
        assert built == [
            {"role": "user", "content": [{"text": NO_USER}]},
            {"role": "assistant", "content": [{"text": "a "}, {"text": "b"}]},
        ]
        merged = build(talk(Message(Role.SYSTEM, (Text("Now."),)), Message(Role.USER, (Text(" "),))))["messages"]
        assert merged == [{"role": "user", "content": [{"text": "Hi"}, {"text": "Now."}]}]

    def test_documents_have_plain_names_each_once_and_a_text_beside_them(self) -> None:
        files = (
            File("application/pdf", "QUJD", name="a/b.pdf"),
            File("application/pdf", "QUJD", name="a b pdf"),
            File(text="é"),
        )
        request = changed(messages=(Message(Role.USER, files),))
        blocks = content(request)
        assert [b["document"]["name"] for b in blocks[:3]] == ["a b pdf", "a b pdf 2", "document"]
        assert (blocks[2]["document"]["format"], b64decode(blocks[2]["document"]["source"]["bytes"])) == (
            "txt",
            "é".encode(),
        )
        assert "text" in blocks[3]
        assert outgoing(request).losses == ("file.name",)

    def test_images_in_a_data_url_are_data(self) -> None:
        image = Image(url="data:image/png;base64,QUJD")
        assert content(changed(messages=(Message(Role.USER, (image,)),))) == [
            {"image": {"format": "png", "source": {"bytes": "QUJD"}}}
        ]


class TestReasoning:
    SIGNED = Message(
        Role.ASSISTANT,
        (Reasoning("hm", "anthropic:EqQB"), Reasoning("", "anthropic:QUJD", True), Reasoning("x", "gAAA"), Text("a")),
    )

    def test_it_goes_back_to_its_maker_alone(self) -> None:
        request = talk(self.SIGNED, Message(Role.USER, (Text("b"),)))
        assert content(request, 1) == [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "EqQB"}}},
            {"reasoningContent": {"redactedContent": "QUJD"}},
            {"text": "a"},
        ]
        assert content(request, 1, NOVA) == [{"text": "a"}]
        assert outgoing(request).losses == outgoing(request, NOVA).losses == ("messages.reasoning",)

    @pytest.mark.parametrize(
        ("model", "thinking", "fields", "effort"),
        [
            (CLAUDE, Thinking(effort="high"), {"thinking": {"type": "adaptive"}}, "high"),
            (CLAUDE, Thinking(budget_tokens=2000), {"thinking": {"type": "enabled", "budget_tokens": 2000}}, None),
            (CLAUDE, Thinking(enabled=False), {"thinking": {"type": "disabled"}}, None),
            (OLD_CLAUDE, Thinking(effort="low"), {"thinking": {"type": "enabled", "budget_tokens": 2048}}, None),
            (NOVA, Thinking(effort="max"), HARD, None),
            (NOVA, Thinking(enabled=False), {"reasoningConfig": {"type": "disabled"}}, None),
            (GPT, Thinking(effort="minimal"), {"reasoning_effort": "low"}, None),
            (GPT, Thinking(enabled=False), {"reasoning_effort": "none"}, None),
            (QWEN, Thinking(enabled=False), None, None),
        ],
    )  # fmt: skip
    def test_how_hard_to_think_in_the_words_of_each_family(
        self, model: str, thinking: Thinking, fields: Any, effort: str | None
    ) -> None:
        built = build(changed(thinking=thinking), model)
        assert built.get("additionalModelRequestFields") == fields
        assert built.get("outputConfig", {}).get("effort") == effort

    def test_it_yields_where_it_would_be_refused(self) -> None:
        forced = changed(thinking=Thinking(), tools=(TOOL,), tool_choice=ToolChoice(Choose.REQUIRED))
        assert outgoing(forced).losses == ("thinking",)
        unsigned = talk(CALL, RESULT)
        assert outgoing(msgspec.structs.replace(unsigned, thinking=Thinking())).losses == ("thinking",)
        narrow = changed(thinking=Thinking(budget_tokens=4000), max_tokens=2000)
        assert build(narrow)["additionalModelRequestFields"]["thinking"]["budget_tokens"] == 1999
        assert outgoing(narrow).losses == ("thinking.budget_tokens",)
        assert outgoing(changed(thinking=Thinking()), QWEN).losses == ("thinking",)


class TestOriginal:
    def test_it_goes_back_as_it_came(self) -> None:
        body = {**BODY, "guardrailConfig": {"guardrailIdentifier": "g"}, "x": {"deep": [1.5]}}
        sent = DIALECT.build_request(parse(body, WHOLE), CLAUDE)
        assert json.loads(sent.body) == body
        assert sent.losses == ()

    @pytest.mark.fault("F36")
    def test_reasoning_that_was_signed_here_stays_here(self) -> None:
        minted = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "rivermouth.1.LnwwfGE"}}}
        hidden = {"reasoningContent": {"redactedContent": "cml2ZXJtb3V0aC4xLmdBQUE="}}
        own = {"reasoningContent": {"reasoningText": {"text": "h", "signature": "EqQB"}}}
        use = {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}
        result = {"toolResult": {"toolUseId": "t", "content": []}}
        more = {"thinking": {"type": "adaptive"}, "top_k": 3}

        def sent(*blocks: Any) -> Any:
            talk = [
                *BODY["messages"],
                {"role": "assistant", "content": [*blocks, use]},
                {"role": "user", "content": [result]},
            ]
            return DIALECT.build_request(parse({"messages": talk, "additionalModelRequestFields": more}, WHOLE), CLAUDE)

        kept = sent(own, minted, hidden)
        assert json.loads(kept.body)["messages"][1]["content"] == [own, use]
        assert (json.loads(kept.body)["additionalModelRequestFields"], kept.losses) == (more, ())
        lost = sent(minted)
        assert json.loads(lost.body)["additionalModelRequestFields"] == {"top_k": 3}
        assert lost.losses == ("thinking",)
