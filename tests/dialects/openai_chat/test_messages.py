from __future__ import annotations

from typing import Any

import pytest

from rivermouth.dialects.openai_chat.messages import PART_READERS, ROLE_PARTS
from rivermouth.dialects.openai_chat.tables import ROLES_IN
from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import (
    Audio,
    File,
    Image,
    Message,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from tests.dialects.openai_chat.case import talk

USER = {"role": "user", "content": "Hi"}


def part(**members: Any) -> Any:
    """What a user's single part reads as."""
    (message,) = talk({"role": "user", "content": [members]}).messages
    (found,) = message.parts
    return found


def said(**members: Any) -> tuple[Any, ...]:
    """The parts of an assistant's message."""
    return talk(USER, {"role": "assistant", **members}).messages[1].parts


def refused(*messages: dict[str, Any]) -> str | None:
    with pytest.raises(ApiError) as caught:
        talk(*messages)
    return caught.value.param


def test_tables_are_total() -> None:
    assert set(ROLES_IN.values()) == set(Role)
    assert set(ROLE_PARTS) == set(Role)
    assert set().union(*ROLE_PARTS.values()) == set(PART_READERS)


def test_leading_instructions_are_the_system_and_later_ones_stay_in_place() -> None:
    request = talk(
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "b"}]},
        USER,
        {"role": "developer", "content": "c"},
    )
    assert request.system == (Text("a"), Text("b"))
    assert request.messages == (Message(Role.USER, (Text("Hi"),)), Message(Role.SYSTEM, (Text("c"),)))


def test_instructions_that_nothing_follows_are_messages() -> None:
    request = talk({"role": "system", "content": "a"}, {"role": "developer", "content": "b", "name": "bob"})
    assert request.system == ()
    assert request.messages == (Message(Role.SYSTEM, (Text("a"),)), Message(Role.SYSTEM, (Text("b"),), "bob"))


def test_every_kind_of_part_of_a_user() -> None:
    assert part(type="text", text="t") == Text("t")
    assert part(text="t") == Text("t")
    assert part(type="image_url", image_url={"url": "https://e.org/a", "detail": "low"}) == Image(
        url="https://e.org/a", detail="low"
    )
    assert part(type="image_url", image_url="data:image/gif;base64,QU JD") == Image("image/gif", "QUJD")
    assert part(type="input_audio", input_audio={"data": "QUJD", "format": "wav"}) == Audio("QUJD", "wav")
    assert part(type="file", file={"file_id": "f-1"}) == File(file_id="f-1")
    pdf = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}
    assert part(type="file", file=pdf) == File("application/pdf", "QUJD", name="a.pdf")
    assert part(type="file", file={"file_data": "https://e.org/a.pdf"}) == File(url="https://e.org/a.pdf")
    assert part(type="file", file={"file_data": "QUJD"}) == File("application/pdf", "QUJD")
    assert part(type="text", text="t", prompt_cache_breakpoint={"mode": "explicit"}) == Text("t")


@pytest.mark.parametrize("url", ["ftp://e.org/a", "file:///etc/passwd", "data:image/png,abc", "a.png", ""])
def test_an_image_that_is_neither_a_link_nor_base64_is_refused(url: str) -> None:
    image = {"type": "image_url", "image_url": {"url": url}}
    assert refused({"role": "user", "content": [image]}) == "messages[0].content[0].image_url.url"


def test_a_megabyte_of_image_is_read() -> None:
    data = "QUJD" * 300_000
    assert part(type="image_url", image_url=f"data:image/png;base64,{data}") == Image("image/png", data)


@pytest.mark.fault("F21")
def test_null_and_empty_contents_are_no_parts() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": None}}
    for content in (None, "", [], [{"type": "text", "text": ""}]):
        assert said(content=content, tool_calls=[call]) == (ToolCall("c", "f", ""),)
    assert said(tool_calls=[call]) == (ToolCall("c", "f", ""),)
    assert talk({"role": "user", "content": ""}).messages == (Message(Role.USER, ()),)


@pytest.mark.fault("F25")
@pytest.mark.parametrize(
    ("members", "parts"),
    [
        ({"reasoning_content": "r"}, (Reasoning("r"),)),
        ({"reasoning": "r"}, (Reasoning("r"),)),
        ({"reasoning_content": "r", "reasoning": "r"}, (Reasoning("r"),)),
        (
            {"reasoning_content": "ab", "reasoning_details": [{"text": "a", "signature": "s"}, {"text": "b"}]},
            (Reasoning("a", "openai_chat:s"), Reasoning("b")),
        ),
        ({"reasoning_content": "ab", "reasoning_details": [{"signature": "s"}]}, (Reasoning("ab", "openai_chat:s"),)),
        (
            {"reasoning_content": "ab", "reasoning_details": [{"signature": "s"}, {"signature": "z"}, {"data": "h"}]},
            (Reasoning("ab"), Reasoning("", "openai_chat:h", redacted=True)),
        ),
        (
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "h"}]},
            (Reasoning("", "openai_chat:h", redacted=True),),
        ),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}]}, (Reasoning("r"),)),
    ],
)
def test_reasoning_comes_back_with_its_signatures(members: Any, parts: tuple[Any, ...]) -> None:
    content = members.get("content", "x")
    wanted = parts if isinstance(content, list) else (*parts, Text("x"))
    assert said(**{"content": content, **members}) == wanted


def test_what_else_an_assistant_says() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "sh", "input": 'a"b'}}
    assert said(content=None, refusal="no") == (Refusal("no"),)
    assert said(content=[{"type": "refusal", "refusal": "no"}]) == (Refusal("no"),)
    assert said(content="x", tool_calls=[custom]) == (Text("x"), ToolCall("c", "sh", '{"input":"a\\"b"}'))
    spelled = {"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}
    assert said(tool_calls=[spelled]) == (ToolCall("c", "f", '{"a":1}'),)
    assert talk({**USER, "name": "bob"}).messages[0].name == "bob"


def test_tool_messages_are_results_and_neighbours_one_message() -> None:
    image = {"type": "image_url", "image_url": "https://e.org/a"}
    request = talk(
        USER,
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "1"}, image]},
        USER,
        {"role": "tool", "tool_call_id": "c", "content": None},
    )
    assert [m.role for m in request.messages] == [Role.USER, Role.TOOL, Role.USER, Role.TOOL]
    assert request.messages[1].parts == (
        ToolResult("b", (Text("2"),)),
        ToolResult("a", (Text("1"), Image(url="https://e.org/a"))),
    )
    assert request.messages[3].parts == (ToolResult("c"),)


def test_a_function_of_before_2023_is_paired_by_its_name() -> None:
    request = talk(
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "2"},
    )
    first, result, second, other = (m.parts[0] for m in request.messages[1:])
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert result == ToolResult(first.id, (Text("1"),), name="f")
    assert other == ToolResult(second.id, (Text("2"),), name="f")
    assert first.id != second.id


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "tool", "content": "x"}, "messages[1].tool_call_id"),
        ({"role": "function", "name": "f", "content": "x"}, "messages[1].name"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}, "messages[1].tool_calls[0].id"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "messages[1].tool_calls[0].function.name"),
        (
            {"role": "system", "content": [{"type": "image_url", "image_url": "https://e.org"}]},
            "messages[1].content[0].type",
        ),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "messages[1].content[0].input_audio"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[1].content[0].image_url"),
        ({"role": "user", "content": [{"type": "file", "file": {}}]}, "messages[1].content[0].file"),
    ],
)
def test_a_message_that_cannot_be_read_is_named(message: dict[str, Any], param: str) -> None:
    assert refused(USER, message) == param
