from __future__ import annotations

from typing import Any

import pytest

from rivermouth.dialects.openai_responses.tools import NAME_CHARS, Called, called_as, flat_name, one_name, write_tools
from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import Choose, FreeForm, Inside, ToolChoice
from tests.dialects.openai_responses.case import parse

WEATHER: Any = {"type": "function", "name": "weather", "description": "Today's", "parameters": {"type": "object"}}
PATCH: Any = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: WORD"},
}
BROWSER: Any = {
    "type": "namespace",
    "name": "mcp__browser",
    "description": "A browser.",
    "tools": [
        {"type": "function", "name": "click", "parameters": {"type": "object"}, "strict": True},
        {"type": "custom", "name": "script"},
        {"type": "tool_search"},
    ],
}
SEARCH: Any = {"type": "web_search", "user_location": {"type": "approximate"}}
EVERY: Any = [WEATHER, PATCH, BROWSER, SEARCH]


def test_what_an_agent_sends_together_is_taken_and_what_only_the_vendor_runs_is_named() -> None:
    request = parse(tools=EVERY)
    assert [t.name for t in request.tools] == ["weather", "apply_patch", "mcp__browser__click", "mcp__browser__script"]
    weather, patch, click, script = request.tools
    assert (weather.free_form, weather.inside, weather.strict) == (None, None, None)
    assert patch.free_form == FreeForm("Edits.", "lark", "start: WORD")
    assert "start: WORD" in (patch.description or "")
    assert (click.inside, click.strict) == (Inside("mcp__browser", "click"), True)
    assert (script.inside, script.free_form) == (Inside("mcp__browser", "script"), FreeForm())
    assert request.unmodelled == ("tools.tool_search", "tools.web_search")
    assert request.untranslatable == ()


def test_the_client_is_given_its_own_names_again() -> None:
    request = parse(tools=EVERY)
    assert called_as(request) == {
        "apply_patch": Called("apply_patch", None, True),
        "mcp__browser__click": Called("click", "mcp__browser"),
        "mcp__browser__script": Called("script", "mcp__browser", True),
    }
    assert one_name(request.tools)["mcp__browser", "click"] == "mcp__browser__click"
    assert called_as(None) == {}


def test_a_name_of_two_is_short_and_always_the_same() -> None:
    long = flat_name("n" * 40, "t" * 40)
    assert len(long) == NAME_CHARS
    assert long == flat_name("n" * 40, "t" * 40) != flat_name("n" * 40, "t" * 39 + "u")
    assert flat_name("ns", "tool") == "ns__tool"


def test_a_tool_outside_with_the_same_name_keeps_it() -> None:
    outside = {"type": "function", "name": "mcp__browser__click", "parameters": {"type": "object"}}
    request = parse(tools=[outside, BROWSER])
    assert [t.name for t in request.tools][:2] == ["mcp__browser__click", "mcp__browser__clickx"]
    assert called_as(request)["mcp__browser__clickx"] == Called("click", "mcp__browser")


@pytest.mark.parametrize(
    ("choice", "want"),
    [
        ("auto", ToolChoice(Choose.AUTO)),
        ("none", ToolChoice(Choose.NONE)),
        ("required", ToolChoice(Choose.REQUIRED)),
        ({"type": "function", "name": "weather"}, ToolChoice(Choose.NAMED, "weather")),
        ({"type": "custom", "name": "apply_patch"}, ToolChoice(Choose.NAMED, "apply_patch")),
        ({"type": "function", "name": "click"}, ToolChoice(Choose.NAMED, "mcp__browser__click")),
        (
            {"type": "function", "name": "click", "namespace": "mcp__browser"},
            ToolChoice(Choose.NAMED, "mcp__browser__click"),
        ),
    ],
)
def test_every_choice_is_read(choice: Any, want: ToolChoice) -> None:
    assert parse(tools=EVERY, tool_choice=choice).tool_choice == want


def test_the_choice_of_a_tool_that_was_left_out_is_left_out_too() -> None:
    request = parse(tools=EVERY, tool_choice={"type": "web_search"})
    assert request.tool_choice is None
    assert "tool_choice" in request.unmodelled
    assert parse(tools=[SEARCH], tool_choice="required").tool_choice is None


def test_allowed_tools_are_the_only_ones() -> None:
    def allowed(*entries: Any) -> list[str]:
        choice = {"type": "allowed_tools", "mode": "required", "tools": list(entries)}
        request = parse(tools=EVERY, tool_choice=choice)
        assert request.tool_choice in (ToolChoice(Choose.REQUIRED), None)
        return [t.name for t in request.tools]

    assert allowed({"type": "function", "name": "weather"}) == ["weather"]
    assert allowed({"type": "custom", "name": "script"}, SEARCH) == ["mcp__browser__script"]
    assert allowed({"type": "namespace", "name": "mcp__browser"}) == ["mcp__browser__click", "mcp__browser__script"]
    assert allowed(SEARCH) == []


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"name": "x"}]}, "tools[0].type"),
        ({"tools": [WEATHER, {"type": "function", "name": "f", "parameters": 3}]}, "tools[1].parameters"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]}, "tools[0].tools[0].name"),
        ({"tools": [{"type": "namespace", "tools": []}]}, "tools[0].name"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function"}}, "tool_choice.name"),
        ({"tools": [WEATHER], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "mode": "x", "tools": []}}, "tool_choice.mode"),
    ],
)
def test_what_is_no_tool_names_its_field(fields: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_an_upstream_is_offered_free_forms_as_they_are_and_namespaces_by_one_name() -> None:
    request = parse(tools=EVERY, tool_choice={"type": "custom", "name": "apply_patch"}, parallel_tool_calls=False)
    wire = write_tools(request)
    assert wire["tools"][:2] == [WEATHER, PATCH]
    assert wire["tools"][2]["name"] == "mcp__browser__click"
    assert wire["tools"][3] == {"type": "custom", "name": "mcp__browser__script"}
    assert (wire["tool_choice"], wire["parallel_tool_calls"]) == ({"type": "custom", "name": "apply_patch"}, False)
    assert write_tools(parse(tool_choice="auto", parallel_tool_calls=True)) == {}
