"""A client's body, read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
    Audio,
    Choose,
    File,
    Format,
    Image,
    Message,
    Reasoning,
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
from tests.dialects.bedrock_converse.case import BODY, STREAM, WHOLE, asked, parse

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
SPEC = {"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": SCHEMA}, "strict": True}}
NO_SCHEMA = {"jsonSchema": {"schema": "["}}
S3 = {"s3Location": {"uri": "s3://bucket/x"}}


def source(data: str = "QUJD") -> dict[str, str]:
    return {"bytes": data}


class TestFields:
    def test_all_of_them(self) -> None:
        got = parse(
            {
                **BODY,
                "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
                "inferenceConfig": {"maxTokens": 5, "temperature": 0.5, "topP": 0.25, "stopSequences": ["END", ""]},
                "toolConfig": {"tools": [SPEC, {"cachePoint": {"type": "default"}}], "toolChoice": {"any": {}}},
                "additionalModelRequestFields": {"top_k": 7},
                "requestMetadata": {"team": "y"},
                "performanceConfig": {"latency": "optimized"},
                "serviceTier": {"type": "flex"},
            },
            STREAM,
            "arn:aws:bedrock:eu-west-1:1:inference-profile/x",
        )
        assert got.model == "arn:aws:bedrock:eu-west-1:1:inference-profile/x"
        assert got.messages == (Message(Role.USER, (Text("Hi"),)),)
        assert got.system == (Text("Be brief."),)
        assert (got.stream, got.max_tokens, got.stop, got.metadata) == (True, 5, ("END",), {"team": "y"})
        assert got.sampling == Sampling(temperature=0.5, top_p=0.25, top_k=7)
        assert got.tools == (Tool("f", "d", SCHEMA, True),)
        assert got.tool_choice == ToolChoice(Choose.REQUIRED)
        assert (got.unmodelled, got.untranslatable) == ((), ())
        assert parse(BODY, WHOLE).stream is False

    @pytest.mark.parametrize(
        ("choice", "wanted"),
        [
            ({"auto": {}}, ToolChoice(Choose.AUTO)),
            ({"any": {}}, ToolChoice(Choose.REQUIRED)),
            ({"tool": {"name": "f"}}, ToolChoice(Choose.NAMED, "f")),
            ({"tool": {"name": "of the service"}}, None),
        ],
    )
    def test_choices_of_tools(self, choice: Any, wanted: ToolChoice | None) -> None:
        assert parse({**BODY, "toolConfig": {"tools": [SPEC], "toolChoice": choice}}).tool_choice == wanted

    @pytest.mark.parametrize(
        ("fields", "wanted"),
        [
            ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, Thinking(budget_tokens=2048)),
            ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, Thinking(effort="high")),
            ({"thinking": {"type": "disabled"}}, Thinking(enabled=False)),
            ({"reasoning_effort": "low"}, Thinking(effort="low")),
            ({"reasoning_effort": "none"}, Thinking(enabled=False)),
            ({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}}, Thinking(effort="medium")),
            ({"reasoningConfig": {"type": "disabled"}}, Thinking(enabled=False)),
            ({}, None),
        ],
    )
    def test_reasoning_in_the_words_of_each_vendor(self, fields: Any, wanted: Thinking | None) -> None:
        assert parse({**BODY, "additionalModelRequestFields": fields}).thinking == wanted
        assert parse({**BODY, "outputConfig": {"effort": "high"}}).thinking == Thinking(effort="high")

    def test_top_k_where_nova_has_it(self) -> None:
        more = {"inferenceConfig": {"topK": 9}}
        assert parse({**BODY, "additionalModelRequestFields": more}).sampling.top_k == 9

    def test_an_output_format(self) -> None:
        schema = {"jsonSchema": {"schema": json.dumps(SCHEMA), "name": "place", "description": "d"}}
        got = parse({**BODY, "outputConfig": {"textFormat": {"type": "json_schema", "structure": schema}}})
        assert got.response_format == ResponseFormat(Format.JSON_SCHEMA, SCHEMA, "place", "d")

    def test_what_is_not_read_is_named(self) -> None:
        got = parse(
            {
                **BODY,
                "projectIdentifier": "p",
                "additionalModelRequestFields": {"speed": "fast"},
                "toolConfig": {"tools": [SPEC, {"systemTool": {"name": "web"}}]},
            }
        )
        assert got.unmodelled == ("projectIdentifier", "additionalModelRequestFields.speed", "toolConfig.systemTool")

    @pytest.mark.parametrize("field", ["guardrailConfig", "promptVariables"])
    def test_what_only_the_service_has_goes_nowhere_else(self, field: str) -> None:
        got = parse({**BODY, field: {"guardrailIdentifier": "g"}})
        assert got.untranslatable == (field,)
        assert got.unmodelled == ()

    def test_a_stored_prompt_needs_no_messages(self) -> None:
        got = parse({"promptVariables": {"a": {"text": "b"}}})
        assert (got.messages, got.untranslatable) == ((), ("promptVariables",))


class TestBlocks:
    @pytest.mark.parametrize(
        ("block", "wanted"),
        [
            ({"text": "a"}, Text("a")),
            ({"image": {"format": "jpeg", "source": source()}}, Image("image/jpeg", "QUJD")),
            (
                {"document": {"format": "pdf", "name": "n", "source": source()}},
                File("application/pdf", "QUJD", name="n"),
            ),
            ({"document": {"name": "n", "source": {"text": "t"}}}, File("text/plain", text="t", name="n")),
            (
                {"document": {"name": "n", "source": {"content": [{"text": "a"}, {"text": "b"}]}}},
                File("text/plain", text="a\nb", name="n"),
            ),
            ({"audio": {"format": "wav", "source": source()}}, Audio("QUJD", "wav")),
            ({"guardContent": {"text": {"text": "g", "qualifiers": ["query"]}}}, Text("g")),
            ({"guardContent": {"image": {"format": "png", "source": source()}}}, Image("image/png", "QUJD")),
            ({"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}}, Text("t\ns\nx")),
        ],
    )
    def test_what_a_user_says(self, block: Any, wanted: Any) -> None:
        assert asked(block).messages[-1].parts == (wanted,)

    @pytest.mark.parametrize(
        ("block", "wanted"),
        [
            ({"toolUse": {"toolUseId": "t", "name": "f", "input": {"a": 1}}}, ToolCall("t", "f", '{"a": 1}')),
            ({"reasoningContent": {"reasoningText": {"text": "h", "signature": "E"}}}, Reasoning("h", "anthropic:E")),
            ({"reasoningContent": {"reasoningText": {"text": "hm"}}}, Reasoning("hm")),
            ({"reasoningContent": {"redactedContent": "QUJD"}}, Reasoning("", "anthropic:QUJD", True)),
            ({"citationsContent": {"content": [{"text": "a"}, {"text": "b"}], "citations": []}}, Text("ab")),
        ],
    )  # fmt: skip
    def test_what_the_model_said(self, block: Any, wanted: Any) -> None:
        assert asked(block, role="assistant").messages[-1].parts == (wanted,)

    def test_results_are_messages_of_their_own(self) -> None:
        picture = {"image": {"format": "png", "source": source()}}
        result = {"toolUseId": "t", "content": [{"text": "a"}, {"json": {"b": 1}}, picture], "status": "error"}
        got = asked({"text": "And?"}, {"toolResult": result}).messages
        assert [m.role for m in got] == [Role.USER, Role.TOOL, Role.USER]
        assert got[1].parts == (ToolResult("t", (Text("a"), Text('{"b": 1}'), Image("image/png", "QUJD")), True),)

    @pytest.mark.parametrize(
        ("block", "names"),
        [
            ({"cachePoint": {"type": "default"}}, ()),
            ({"toolAddition": {"tool": {"name": "f"}}}, ("messages.toolAddition",)),
            ({"newThing": {}}, ("messages.newThing",)),
        ],
    )
    def test_what_has_no_neutral_form_is_skipped_and_named(self, block: Any, names: tuple[str, ...]) -> None:
        got = asked(block)
        assert len(got.messages) == 1
        assert got.unmodelled == names

    @pytest.mark.parametrize(
        ("block", "path"),
        [
            ({"image": {"format": "png", "source": S3}}, "image.source.s3Location"),
            ({"document": {"format": "pdf", "name": "n", "source": S3}}, "document.source.s3Location"),
            ({"video": {"format": "mp4", "source": source()}}, "video"),
            ({"audio": {"format": "pcm", "source": source()}}, "audio"),
        ],
    )
    def test_what_only_an_upstream_of_this_dialect_can_be_asked(self, block: Any, path: str) -> None:
        assert asked(block, {"text": "x"}).untranslatable == (f"messages.1.content.0.{path}",)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"[]", None),
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": []}]}, "messages"),
        ({"messages": [{"role": "poet", "content": [{"text": "x"}]}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": "x"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"text": 3}]}]}, "messages.0.content.0.text"),
        ({"messages": [{"role": "user", "content": [{"text": "a", "image": {}}]}]}, "messages.0.content.0"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages.0.content.0"),
        (
            {"messages": [{"role": "user", "content": [{"image": {"format": "bmp", "source": source()}}]}]},
            "messages.0.content.0.image.format",
        ),
        (
            {"messages": [{"role": "user", "content": [{"image": {"format": "png", "source": {}}}]}]},
            "messages.0.content.0.image.source.bytes",
        ),
        (
            {"messages": [{"role": "user", "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}]}]},
            "messages.0.content",
        ),
        ({**BODY, "system": [{"image": {"format": "png", "source": source()}}]}, "system"),
        ({**BODY, "inferenceConfig": {"maxTokens": 0}}, "inferenceConfig.maxTokens"),
        ({**BODY, "inferenceConfig": {"temperature": 2}}, "inferenceConfig.temperature"),
        ({**BODY, "inferenceConfig": {"topP": "much"}}, "inferenceConfig.topP"),
        ({**BODY, "toolConfig": {"tools": [{}]}}, "toolConfig.tools.0"),
        (
            {**BODY, "additionalModelRequestFields": {"thinking": {"type": "odd"}}},
            "additionalModelRequestFields.thinking.type",
        ),
        (
            {**BODY, "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 0}}},
            "additionalModelRequestFields.thinking.budget_tokens",
        ),
        ({**BODY, "outputConfig": {"textFormat": {"type": "xml"}}}, "outputConfig.textFormat.type"),
        (
            {**BODY, "outputConfig": {"textFormat": {"type": "json_schema", "structure": NO_SCHEMA}}},
            "outputConfig.textFormat.structure.jsonSchema.schema",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_named(body: Any, param: str | None) -> None:
    with pytest.raises(ApiError) as raised:
        parse(body)
    assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, param)


def test_the_path_must_name_the_model() -> None:
    with pytest.raises(ApiError) as raised:
        parse(BODY, model=None)
    assert raised.value.param == "modelId"
