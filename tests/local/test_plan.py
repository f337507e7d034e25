"""What is asked of an engine process, decided without one: tools, thoughts, earlier calls, forced answers."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import (
    Choose,
    Format,
    Local,
    Message,
    Reasoning,
    Request,
    ResponseFormat,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from rivermouth.local.inference.detokenize import Detokenizer, spelling
from rivermouth.local.words.families import MARKS, Calls, Family
from rivermouth.local.words.offer import Offer, offer_of
from rivermouth.local.words.plan import Plan, plan_of, thoughts_of
from rivermouth.local.words.prompt import MISTRAL_ID_CHARS, turns_of
from rivermouth.local.words.protocol import CallSchema, Turn
from rivermouth.local.words.schema import call_schemas
from tests.local import templates
from tests.local.asking import asking
from tests.local.test_options import MANIFEST
from tests.local.test_sampling import GOOD_SCHEMAS

TOOLS: Final = (Tool("f", "d"), Tool("g"))
EMPTY: Final = '{"type":"object","properties":{},"additionalProperties":false}'
REQUIRED: Final = ToolChoice(Choose.REQUIRED)
HERMES: Final = Family(Calls.HERMES, tools=True)
JSON: Final = ResponseFormat(Format.JSON)


def plan(request: Request, template: str | None = templates.HERMES, **fields: Any) -> tuple[Plan, list[str]]:
    warned: list[str] = []
    return plan_of(
        request, msgspec.structs.replace(MANIFEST, template=template), warned.append, lambda: 1, **fields
    ), warned


@pytest.mark.parametrize("mode", Choose)
@pytest.mark.parametrize("family", [Family(calls, tools=calls is not Calls.NONE) for calls in Calls])
@pytest.mark.parametrize("shape", [None, JSON])
def test_what_becomes_of_tools_in_every_case(mode: Choose, family: Family, shape: ResponseFormat | None) -> None:
    warned: list[str] = []
    name = "f" if mode is Choose.NAMED else None
    offer = offer_of(
        asking(tools=TOOLS, tool_choice=ToolChoice(mode, name), response_format=shape), family, warned.append
    )
    if mode is Choose.NONE:
        assert (offer, warned) == (Offer(), [])
    elif mode in (Choose.REQUIRED, Choose.NAMED):
        assert (offer.tools, offer.calls, offer.most_calls, warned) == (TOOLS, Calls.FORCED, 1, [])
        assert offer.names == ({"f"} if mode is Choose.NAMED else {"f", "g"})
    elif family.calls is Calls.NONE or shape is not None:
        assert (offer, warned) == (Offer(), ["tools"])
    else:
        assert (offer, warned) == (Offer(TOOLS, family.calls), [])
        assert offer.marks == MARKS[family.calls]


def test_without_a_choice_it_is_the_model_s() -> None:
    assert offer_of(asking(tools=TOOLS), HERMES, [].append) == Offer(TOOLS, Calls.HERMES)
    assert offer_of(asking(), HERMES, [].append) == Offer()
    assert offer_of(asking(tool_choice=ToolChoice(Choose.AUTO)), HERMES, [].append) == Offer()


def test_hermes_is_stopped_behind_the_only_call_wanted() -> None:
    request = asking(tools=TOOLS, parallel_tools=False, stop=("x",))
    made, _ = plan(request)
    assert (made.stops, made.wanted.stop) == (("x",), ("x", "</tool_call>"))
    for template in (templates.LLAMA3, templates.MISTRAL):
        assert plan(request, template)[0].wanted.stop == ("x",)
    assert plan(asking(tools=TOOLS))[0].wanted.stop == ()


def test_tools_as_templates_know_them() -> None:
    wanted = plan(asking(tools=TOOLS))[0].wanted
    assert [tool["type"] for tool in wanted.tools] == ["function"] * 2
    assert wanted.tools[0]["function"] == {
        "name": "f",
        "description": "d",
        "parameters": {"type": "object", "properties": {}},
    }
    assert wanted.tools[1]["function"] == {
        "name": "g",
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    }


@pytest.mark.parametrize(
    ("template", "chat_template"), [(None, True), (templates.OPENS, True), (templates.HERMES, False)]
)
def test_a_forced_call_is_described_where_no_template_does(template: str | None, chat_template: bool) -> None:
    """In the instructions, behind the client's own."""
    request = asking(tools=TOOLS, tool_choice=REQUIRED, system=(Text("Be brief."),))
    made, warned = plan(request, template, chat_template=chat_template)
    wanted = made.wanted
    said = wanted.turns[0].content if wanted.turns is not None else wanted.prompt or ""
    assert said.removeprefix("System: ").startswith("Be brief.\n\nYou can call these functions:\n{")
    assert '"name":"g"' in said
    assert (wanted.tools, warned) == ((), [])
    assert wanted.calls == (CallSchema("f", EMPTY), CallSchema("g", EMPTY))
    assert '"name":"g"' not in repr(plan(asking(tools=TOOLS, tool_choice=REQUIRED))[0].wanted.turns)


def test_a_forced_call_wins_over_a_forced_answer() -> None:
    wanted = plan(asking(tools=TOOLS, tool_choice=REQUIRED, response_format=JSON))[0].wanted
    assert (len(wanted.calls), wanted.schema) == (2, None)


def test_a_prompt_without_messages_is_refused_also_with_tools() -> None:
    with pytest.raises(ApiError) as refused:
        plan(asking(messages=(), tools=TOOLS, tool_choice=REQUIRED), None)
    assert refused.value.param == "messages"


@pytest.mark.parametrize("switch", [False, True])
@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("asked", [None, Thinking(), Thinking(enabled=False), Thinking(effort="low")])
def test_what_is_said_of_thinking_in_every_case(
    switch: bool, thinks: bool, forced: bool, asked: Thinking | None
) -> None:
    warned: list[str] = []
    said = thoughts_of(asking(thinking=asked), Family(thinks=thinks, switch=switch), warned.append, forced=forced)
    off = forced or (asked is not None and not asked.enabled)
    wanted = asked is not None and asked.enabled
    assert said.at_once == (thinks and off)
    if not switch:
        assert said.switch is None
    elif thinks:
        assert said.switch is (False if off else True if wanted else None)
    if wanted and (forced or not thinks):
        assert warned == ["thinking"]
    else:
        assert warned == (["thinking.effort"] if asked is not None and asked.effort else [])


def test_marks_of_thoughts_and_calls_are_shown_where_they_may_come() -> None:
    thought = ("<think>", "</think>")
    assert plan(asking())[0].wanted.marks == ()
    assert plan(asking(tools=TOOLS))[0].wanted.marks == MARKS[Calls.HERMES]
    assert plan(asking(), templates.OPENS)[0].wanted.marks == thought
    assert plan(asking(local=Local(raw=True)), templates.OPENS)[0].wanted.marks == ()
    both = plan(asking(tools=TOOLS), templates.HERMES + templates.OPENS)[0]
    assert both.wanted.marks == (*thought, *MARKS[Calls.HERMES])


CALLS: Final = tuple(ToolCall(identity, "f", "{}") for identity in ("abcdefgh9", "toolu_1", "call_2"))
RESULTS: Final = tuple(ToolResult(call.id, (Text(f"of {call.id}"),)) for call in reversed(CALLS))
TALK: Final = (
    Message(Role.USER, (Text("Hi"),)),
    Message(Role.ASSISTANT, (Text("Well."), *CALLS)),
    Message(Role.TOOL, (*RESULTS, ToolResult("nobody", (Text("lost"),)))),
    Message(Role.USER, (Text("And?"),)),
)


def turns(family: Family, *messages: Message) -> tuple[Turn, ...]:
    return turns_of(asking(messages=messages), [].append, family)


def test_mistral_has_ids_of_its_own_and_always_the_same() -> None:
    made = turns(Family(Calls.MISTRAL), *TALK)
    ids = [str(call["id"]) for call in made[1].tool_calls]
    assert ids[0] == "abcdefgh9"
    assert len(set(ids)) == 3
    assert all(len(identity) == MISTRAL_ID_CHARS and identity.isalnum() for identity in ids)
    assert [turn.tool_call_id for turn in made[2:5]] == list(reversed(ids))
    assert made == turns(Family(Calls.MISTRAL), *TALK)


def test_llama_has_one_call_in_each_turn_and_its_result_behind_it() -> None:
    made = turns(Family(Calls.LLAMA3), *TALK)
    assert [(turn.role, turn.content) for turn in made] == [
        ("user", "Hi"),
        ("assistant", "Well."),
        ("tool", "of abcdefgh9"),
        ("assistant", ""),
        ("tool", "of toolu_1"),
        ("assistant", ""),
        ("tool", "of call_2"),
        ("tool", "lost"),
        ("user", "And?"),
    ]
    assert [[call["id"] for call in turn.tool_calls] for turn in made if turn.role == "assistant"] == [
        [call.id] for call in CALLS
    ]


def test_others_have_them_as_they_came() -> None:
    made = turns(HERMES, *TALK)
    assert [len(turn.tool_calls) for turn in made] == [0, 3, 0, 0, 0, 0, 0]
    assert [call["id"] for call in made[1].tool_calls] == [call.id for call in CALLS]


def test_arguments_are_an_object_or_text_as_the_template_wants_them() -> None:
    spaced = Message(
        Role.ASSISTANT, (ToolCall("1", "f", '{"a": 1}'), ToolCall("2", "f"), ToolCall("3", "f", "not json"))
    )
    for family, wanted in (
        (Family(), [{"a": 1}, {}, "not json"]),
        (Family(quotes=True), ['{"a": 1}', "{}", "not json"]),
    ):
        (turn,) = turns(family, spaced)
        assert [call["function"]["arguments"] for call in turn.tool_calls] == wanted


def test_a_result_has_the_name_of_its_call() -> None:
    named = Message(Role.TOOL, (ToolResult("call_2", name="own"), ToolResult("call_2"), ToolResult("nobody")))
    made = turns(Family(Calls.MISTRAL), TALK[1], named)
    assert [turn.name for turn in made[1:]] == ["own", "f", None]


def test_thoughts_of_earlier_turns() -> None:
    thought = Message(Role.ASSISTANT, (Reasoning("a"), Reasoning("b"), Text("c")))
    hidden = Message(Role.ASSISTANT, (Reasoning("", "sig", redacted=True), Text("c")))
    for family, message, kept, names in (
        (Family(recalls=True), thought, "ab", []),
        (Family(recalls=True), hidden, None, ["reasoning"]),
        (Family(), thought, None, ["reasoning", "reasoning"]),
    ):
        warned: list[str] = []
        (turn,) = turns_of(asking(messages=(message,)), warned.append, family)
        assert (turn.reasoning_content, turn.content, warned) == (kept, "c", names)


def test_that_a_result_is_an_error_is_a_named_loss() -> None:
    _, warned = plan(asking(messages=(Message(Role.TOOL, (ToolResult("1", (Text("no"),), is_error=True),)),)))
    assert warned == ["tool_result.is_error"]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, '{"type":"object"}'),
        ({"type": "object"}, '{"type":"object"}'),
        ({"properties": {"a": {}}}, '{"type":"object","properties":{"a":{}},"additionalProperties":false}'),
        (
            {"type": "object", "properties": {}, "additionalProperties": True},
            '{"type":"object","properties":{},"additionalProperties":true}',
        ),
    ],
)
def test_arguments_hold_nothing_that_the_schema_does_not_name(parameters: dict[str, Any], text: str) -> None:
    assert call_schemas([Tool("f", parameters=parameters)]) == (CallSchema("f", text),)


@pytest.mark.parametrize(
    ("parameters", "where"),
    [
        ({"type": "string"}, "must be object"),
        ({"type": ["object", "null"]}, "must be object"),
        ({"anyOf": [{"type": "object"}]}, "must be object"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}, "schema.properties.a.pattern"),
        ({"type": "nonsense"}, "schema.type"),
    ],
)
def test_arguments_that_cannot_be_forced_name_the_tool_and_the_place(parameters: dict[str, Any], where: str) -> None:
    with pytest.raises(ApiError, match=where) as refused:
        call_schemas([Tool("f"), Tool("the_tool", parameters=parameters)])
    assert "the_tool" in refused.value.message
    assert (refused.value.param, refused.value.code) == ("tools", "unsupported_schema")


def test_the_cost_of_all_schemas_is_bounded_together() -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(100)}}
    assert call_schemas([Tool("f", parameters=wide)])
    with pytest.raises(ApiError, match="too large"):
        call_schemas([Tool(f"f{n}", parameters=wide) for n in range(20)])


def test_every_object_that_an_answer_can_be_arguments_can_be_too() -> None:
    for schema in GOOD_SCHEMAS:
        if schema.get("type") == "object":
            assert call_schemas([Tool("f", parameters=schema)])


def test_some_tokens_are_shown_and_some_are_not() -> None:
    """Letters are tokens here; the tokenizer leaves out A and M, shows Z."""

    def decode(tokens: list[int]) -> str:
        assert tokens
        return "".join(chr(token) for token in tokens if chr(token) not in "AM")

    decoded = spelling(decode, {ord("M"): "[mark]"}, {ord("Z")})
    assert decoded(list(map(ord, "abAMcZ"))) == "ab[mark]c"
    assert decoded(list(map(ord, "MM"))) == "[mark][mark]"
    assert decoded([]) == decoded([ord("Z")]) == ""
    pieces = Detokenizer(decoded)
    text = "x" * 30 + "M" + "y" * 30 + "MZ"
    assert "".join(pieces.feed([ord(letter)]) for letter in text) == text.replace("M", "[mark]").removesuffix("Z")
