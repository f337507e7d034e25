from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.anthropic import DIALECT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
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
from tests.dialects.anthropic.case import body, foreign, parse, route

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"name": "f", "description": "d", "input_schema": SCHEMA}


def said(*blocks: Any, role: str = "user") -> tuple[Message, ...]:
    """The neutral messages of one turn with these blocks."""
    return parse(messages=[{"role": role, "content": list(blocks)}]).messages


def refused(path: str = "/messages", **changes: Any) -> ApiError:
    with pytest.raises(ApiError) as raised:
        parse(path, **changes)
    assert raised.value.kind is Kind.INVALID_REQUEST
    return raised.value


def test_the_smallest_request() -> None:
    request = parse()
    assert request.model == "claude-x"
    assert request.messages == (Message(Role.USER, (Text("Hi"),)),)
    assert (request.max_tokens, request.stream, request.system, request.n) == (100, False, (), 1)
    assert request.tool_choice is request.thinking is request.response_format is request.parallel_tools is None


def test_every_field_has_its_neutral_place() -> None:
    request = parse(
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        stream=True,
        stop_sequences=["END"],
        temperature=1,
        top_p=0.5,
        top_k=3,
        tools=[{**TOOL, "strict": True, "cache_control": {"type": "ephemeral"}}],
        tool_choice={"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        thinking={"type": "enabled", "budget_tokens": 2000},
        output_config={"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}},
        metadata={"user_id": "u1", "other": 1},
    )
    assert request.system == (Text("Be brief."),)
    assert request.stream is True
    assert request.stop == ("END",)
    assert request.sampling == Sampling(temperature=1.0, top_p=0.5, top_k=3)
    assert request.tools == (Tool("f", "d", SCHEMA, True),)
    assert request.tool_choice == ToolChoice(Choose.NAMED, "f")
    assert request.parallel_tools is False
    assert request.thinking == Thinking(effort="high", budget_tokens=2000)
    assert request.response_format == ResponseFormat(Format.JSON_SCHEMA, SCHEMA)
    assert request.user == "u1"


def test_optional_fields_may_be_null_and_unknown_ones_are_ignored() -> None:
    nothing = {"system": None, "stream": None, "tools": None, "thinking": None, "temperature": None}
    data = {**body(), **nothing, "context_management": {"edits": [7]}, "mcp_servers": None}
    request = DIALECT.parse_request(json.dumps(data).encode(), route(), None)
    assert request.unmodelled == ("context_management",)
    assert request.original is not None
    assert bytes(request.original.fields["context_management"]) == b'{"edits": [7]}'


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "a", "citations": None}, Text("a")),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
            Image("image/png", "QUJD"),
        ),
        ({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, Image(url="https://x/y.png")),
        ({"type": "image", "source": {"type": "file", "file_id": "f1"}}, File("image/*", file_id="f1")),
        (
            {
                "type": "document",
                "title": "T",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
            },
            File("application/pdf", "QQ==", name="T"),
        ),
        (
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "abc"}},
            File("text/plain", text="abc"),
        ),
        ({"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}}, File(url="https://x/y.pdf")),
        ({"type": "document", "source": {"type": "file", "file_id": "f2"}}, File(file_id="f2")),
        (
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "abc"}]}},
            File("text/plain", text="abc"),
        ),
        (
            {
                "type": "search_result",
                "title": "T",
                "source": "https://x",
                "content": [{"type": "text", "text": "found"}],
            },
            Text("T\nhttps://x\nfound"),
        ),
    ],
)
def test_blocks_of_a_user(block: dict[str, Any], part: Any) -> None:
    assert said(block) == (Message(Role.USER, (part,)),)


def test_blocks_of_an_assistant() -> None:
    assert said(
        {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
        {"type": "thinking", "thinking": "own", "signature": "rivermouth.1."},
        {"type": "thinking", "thinking": "theirs", "signature": "rivermouth.1.LnwwfGZvcmVpZ24"},
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "redacted_thinking", "data": "EmwK"},
        {"type": "text", "text": ""},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1.50}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "from_the_future", "id": 7},
        role="assistant",
    ) == (
        Message(
            Role.ASSISTANT,
            (
                Reasoning("hm", "anthropic:EqQB"),
                Reasoning("own"),
                Reasoning("theirs", "foreign"),
                Reasoning(signature="anthropic:EmwK", redacted=True),
                Text("a"),
                ToolCall("toolu_1", "f", '{"a": 1.5}'),
            ),
        ),
    )


def test_tool_results_become_a_message_of_their_own_before_the_rest() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
    assert said(
        {"type": "text", "text": "and now?"},
        {"type": "tool_result", "tool_use_id": "t2", "content": "boom", "is_error": True},
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "ok"}, picture]},
        {"type": "tool_result", "tool_use_id": "rmid_Y2FsbDox"},
    ) == (
        Message(
            Role.TOOL,
            (
                ToolResult("t2", (Text("boom"),), True),
                ToolResult("t1", (Text("ok"), Image(url="https://x/y.png"))),
                ToolResult("call:1", ()),
            ),
        ),
        Message(Role.USER, (Text("and now?"),)),
    )


def test_a_system_message_in_the_middle_stays_there() -> None:
    request = parse(messages=[{"role": "user", "content": "a"}, {"role": "system", "content": "b"}])
    assert request.messages[1] == Message(Role.SYSTEM, (Text("b"),))


def test_tools_of_the_vendor_are_named_as_losses() -> None:
    request = parse(
        tools=[{"type": "web_search_20260318", "name": "web_search", "max_uses": 2}, {**TOOL, "type": "custom"}],
        tool_choice={"type": "tool", "name": "web_search"},
        mcp_servers=[{"type": "url"}],
    )
    assert [t.name for t in request.tools] == ["f"]
    assert request.tool_choice is None
    assert request.unmodelled == ("mcp_servers", "tools.web_search_20260318")


@pytest.mark.parametrize(
    ("asked", "mode"),
    [("auto", Choose.AUTO), ("any", Choose.REQUIRED), ("none", Choose.NONE)],
)
def test_tool_choices(asked: str, mode: Choose) -> None:
    request = parse(tools=[TOOL], tool_choice={"type": asked})
    assert (request.tool_choice, request.parallel_tools) == (ToolChoice(mode), None)


@pytest.mark.parametrize(
    ("asked", "config", "thinking"),
    [
        ({"type": "adaptive"}, None, Thinking()),
        ({"type": "adaptive", "display": "omitted"}, {"effort": "max"}, Thinking(effort="max")),
        ({"type": "between_tools"}, None, Thinking()),
        ({"type": "disabled"}, None, Thinking(enabled=False)),
        (None, {"effort": "low"}, Thinking(effort="low")),
        (None, {}, None),
    ],
)
def test_thinking(asked: Any, config: Any, thinking: Thinking | None) -> None:
    assert parse(thinking=asked, output_config=config).thinking == thinking


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "thinking.budget_tokens"),
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "messages"),
        ({"messages": [{"role": "robot", "content": "a"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"text": "a"}]}]}, "messages.0.content.0.type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}]},
            "messages.0.content.0.source.media_type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "carrier"}}]}]},
            "messages.0.content.0.source.type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "t", "name": "f"}]}]},
            "messages.0.content",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]},
            "messages.0.content",
        ),
        ({"tools": [{"name": "f"}]}, "tools.0.input_schema"),
        ({"tools": [{"input_schema": {}}]}, "tools.0.name"),
        ({"tool_choice": {"type": "maybe"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"temperature": "hot"}, "temperature"),
        ({"stop_sequences": [1]}, "stop_sequences.0"),
        ({"system": [{"type": "image", "source": {"type": "url", "url": "u"}}]}, "system"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
    ],
)
def test_a_fault_names_its_field(changes: dict[str, Any], param: str) -> None:
    assert refused(**changes).param == param


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'"x"', b"\xff", b"null"])
def test_what_is_no_object_is_an_invalid_request(data: bytes) -> None:
    with pytest.raises(ApiError) as raised:
        DIALECT.parse_request(data, route(), None)
    assert raised.value.kind is Kind.INVALID_REQUEST


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "container_upload", "file_id": "f"}],
        [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "container_upload"}]}],
        [{"type": "search_result", "title": "t", "content": [{"type": "container_upload"}]}],
        [{"type": "document", "source": {"type": "content", "content": [{"type": "container_upload"}]}}],
    ],
)
def test_a_block_without_a_neutral_form_is_named_wherever_it_stands(content: Any) -> None:
    """R30."""
    request = parse(messages=[{"role": "user", "content": "a"}, {"role": "user", "content": content}])
    assert request.unmodelled == ("messages.container_upload",)
    assert DIALECT.build_request(request, "x").losses == (), "an upstream of this dialect gets it"
    assert "messages.container_upload" in DIALECT.build_request(foreign(request), "x").losses


def test_what_cannot_stand_in_a_result_and_unknown_instructions_are_named_too() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "thinking", "thinking": "hm"}]}
    request = parse(
        system=[{"type": "text", "text": "a"}, {"type": "new"}], messages=[{"role": "user", "content": [result]}]
    )
    assert request.messages == (Message(Role.TOOL, (ToolResult("t"),)),)
    assert request.unmodelled == ("messages.thinking", "system.new")


def test_a_talk_of_nothing_but_unknown_blocks_is_for_this_dialect_only() -> None:
    request = parse(messages=[{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}])
    assert (request.messages, request.untranslatable) == ((), ("messages",))
    assert b"container_upload" in DIALECT.build_request(request, "x").body
    with pytest.raises(ApiError) as raised:
        DIALECT.build_request(foreign(request), "x")
    assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, "messages")


@pytest.mark.parametrize("field", ["cache_control", "service_tier"])
def test_hints_are_no_losses(field: str) -> None:
    assert parse(**{field: {"type": "ephemeral"}}).unmodelled == ()


def test_documents_within_documents_are_few() -> None:
    """Each level is read once more for every level around it."""

    def nested(depth: int) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = [{"type": "text", "text": "x"}]
        for _ in range(depth):
            content = [{"type": "document", "source": {"type": "content", "content": content}}]
        return content

    result = {"type": "tool_result", "tool_use_id": "t", "content": nested(2)}
    assert parse(messages=[{"role": "user", "content": [result]}]).unmodelled == ()
    for depth in (4, 100, 300):
        error = refused(messages=[{"role": "user", "content": nested(depth)}])
        assert (error.param or "").startswith("messages.0.content.0.source.content.0.source")


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": [{"role": "r" * 5000, "content": "a"}]},
        {"tool_choice": {"type": "r" * 5000}},
        {"thinking": {"type": "r" * 5000}},
        {"output_config": {"format": {"type": "r" * 5000}}},
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "r" * 5000}}]}]},
    ],
)
def test_a_clients_word_is_not_repeated_at_length(changes: dict[str, Any]) -> None:
    assert len(refused(**changes).message) < 200


def test_counting_needs_no_max_tokens_and_cannot_stream() -> None:
    assert parse("/messages/count_tokens", max_tokens=None).max_tokens is None
    assert refused("/messages/count_tokens", max_tokens=None, stream=True).param == "stream"


words = st.sampled_from(("type", "text", "role", "content", "user", "tool_use", "input", "source", "id", "x"))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(body(system=1, tools=1, thinking=1, tool_choice=1))), values))
def test_random_bodies_are_refused_or_parsed(changes: dict[str, Any]) -> None:
    data = json.dumps({**body(), **changes}).encode()
    try:
        request = DIALECT.parse_request(data, route(), None)
    except ApiError as error:
        outcome: object = error.kind
    else:
        outcome = request.original is not None
    assert outcome in (Kind.INVALID_REQUEST, True)
