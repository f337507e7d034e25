"""What the scripted models answer, as a plain function: each feature by an example, the whole by properties."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Finish,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    TextDelta,
    Usage,
)
from rivermouth.ir.fold import Fold, fold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.reply import Reply
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
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from rivermouth.providers.scripted import PERSONAS, count_prompt, script, tokens_of
from rivermouth.providers.scripted.conform import conforms
from rivermouth.providers.scripted.script import MOST_CHOICES, by_token, chosen_tool, cut_at_stop
from rivermouth.wire import json
from tests import strategies

GENERATING = [name for name, persona in PERSONAS.items() if not persona.embeds]
WEATHER = Tool(
    "weather",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "minLength": 1}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city", "days"],
    },
)
CLOCK = Tool("clock")


def user(text: str) -> Message:
    return Message(Role.USER, (Text(text),))


def asking(text: str = "Hello wörld", **fields: Any) -> Request:
    return Request(**{"model": "scripted", "messages": (user(text),), **fields})


def answered(request: Request, model: str = "scripted") -> Reply:
    events = script(request, model)
    grammar = Grammar()
    grammar.feed_all(events)
    assert grammar.done
    return fold(events)


def text_of(request: Request, model: str = "scripted") -> str:
    return answered(request, model).choices[0].text


def calls_of(request: Request) -> list[ToolCall]:
    return [p for p in answered(request).choices[0].parts if isinstance(p, ToolCall)]


# Text.


@pytest.mark.promise(32)
def test_it_echoes_the_last_message_of_the_user() -> None:
    text = text_of(asking("Hello wörld"))
    assert text.startswith('You said: "Hello wörld". ')
    assert all(sign in text for sign in "éà✓🌊"), "the text has characters of two, three and four bytes"
    assert answered(asking()).choices[0].reason is Reason.STOP


def test_a_long_message_is_quoted_short_and_on_one_line() -> None:
    text = text_of(asking("one\ntwo\u2028three " + "x" * 100_000))
    assert 'You said: "one two three xxx' in text
    assert "…" in text
    assert len(text) < 250


def test_no_message_is_answered_too() -> None:
    assert text_of(asking(messages=())).startswith("You said nothing.")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((Text("look"), Image(data="QUJD", media_type="image/png")), "I was given 1 image."),
        ((Image(url="http://x/a.png"), Image(url="http://x/b.png")), "I was given 2 images."),
        ((File(text="abc"), Audio("QUJD", "wav")), "I was given 1 file. I was given 1 sound."),
        ((ToolResult("c", (Image(data="QUJD"),)),), "I was given 1 image."),
    ],
)
def test_it_names_the_number_of_images(parts: Any, said: str) -> None:
    assert said in text_of(asking(messages=(Message(Role.USER, parts),)))


# Limits.


@pytest.mark.promise(17)
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_token_limit_ends_it_with_length(limit: int) -> None:
    reply = answered(asking(max_tokens=limit))
    whole = tokens_of(text_of(asking()))
    assert reply.choices[0].text == "".join(whole[:limit])
    assert reply.choices[0].reason is Reason.LENGTH
    assert reply.usage is not None
    assert reply.usage.output_tokens == limit


@pytest.mark.promise(16)
def test_a_limit_that_is_just_enough_is_no_limit() -> None:
    whole = len(tokens_of(text_of(asking())))
    assert answered(asking(max_tokens=whole)).choices[0].reason is Reason.STOP
    assert answered(asking(max_tokens=whole - 1)).choices[0].reason is Reason.LENGTH


def test_a_stop_sequence_ends_it_and_is_reported() -> None:
    choice = answered(asking(stop=("model", "scripted", ""))).choices[0]
    assert choice.text == 'You said: "Hello wörld". This is the '
    assert (choice.reason, choice.stop_sequence) == (Reason.STOP, "scripted")


def test_the_limit_comes_before_a_stop_sequence_that_is_never_reached() -> None:
    choice = answered(asking(stop=("scripted",), max_tokens=2)).choices[0]
    assert (choice.reason, choice.stop_sequence) == (Reason.LENGTH, None)


@given(st.text(max_size=20), st.lists(st.text(max_size=3), max_size=4))
def test_the_text_before_the_first_stop_sequence_has_none(text: str, stop: list[str]) -> None:
    kept, sequence = cut_at_stop(text, stop)
    assert not any(s and s in kept for s in stop)
    assert (sequence is None) == (kept == text)
    assert sequence is None or text.startswith(kept + sequence)


@given(strategies.texts)
def test_tokens_are_the_text(text: str) -> None:
    tokens = tokens_of(text)
    assert "".join(tokens) == text
    assert all(tokens)
    assert all(len(t.strip()) <= 8 for t in tokens)


# Reasoning.


def reasoning_of(request: Request, model: str) -> list[Reasoning]:
    return [p for p in answered(request, model).choices[0].parts if isinstance(p, Reasoning)]


@pytest.mark.fault("F25")
def test_it_reasons_first_and_signs_when_asked() -> None:
    events = script(asking(thinking=Thinking(effort="high")), "scripted")
    kinds = [e.kind for e in events if isinstance(e, PartStart)]
    assert kinds == [PartKind.REASONING, PartKind.TEXT]
    assert len([e for e in events if isinstance(e, Signature)]) == 1
    usage = next(e for e in events if isinstance(e, Usage))
    assert usage.reasoning_tokens == len([e for e in events if isinstance(e, ReasoningDelta)]) > 0


@pytest.mark.parametrize(
    ("model", "thinking", "thinks"),
    [
        ("scripted", None, False),
        ("scripted", Thinking(), True),
        ("scripted", Thinking(budget_tokens=-1), True),
        ("scripted", Thinking(budget_tokens=0), False),
        ("scripted", Thinking(enabled=False), False),
        ("scripted-think", None, True),
        ("scripted-think", Thinking(enabled=False), False),
    ],
)
def test_who_reasons(model: str, thinking: Thinking | None, thinks: bool) -> None:
    assert bool(reasoning_of(asking(thinking=thinking), model)) is thinks


def test_the_budget_bounds_the_reasoning_and_not_the_answer() -> None:
    request = asking(thinking=Thinking(budget_tokens=3))
    (reasoning,) = reasoning_of(request, "scripted")
    assert len(tokens_of(reasoning.text)) == 3
    assert answered(request).choices[0].reason is Reason.STOP


def test_reasoning_cut_by_the_token_limit_is_not_signed_and_nothing_follows() -> None:
    reply = answered(asking(max_tokens=2), "scripted-think")
    (reasoning,) = reply.choices[0].parts
    assert isinstance(reasoning, Reasoning)
    assert reasoning.signature is None
    assert reply.choices[0].reason is Reason.LENGTH


# Tools.


@pytest.mark.fault("F24")
def test_it_calls_the_first_tool_with_valid_arguments() -> None:
    request = asking(tools=(WEATHER, CLOCK))
    (call,) = calls_of(request)
    assert call.name == "weather"
    assert json.decode(call.arguments.encode()) == {"city": "a", "days": 1}
    choice = answered(request).choices[0]
    assert (choice.text, choice.reason) == ("", Reason.TOOL_CALLS)


@pytest.mark.parametrize(
    ("choice", "want"),
    [
        (ToolChoice(Choose.AUTO), "weather"),
        (ToolChoice(Choose.REQUIRED), "weather"),
        (ToolChoice(Choose.NAMED, "clock"), "clock"),
        (ToolChoice(Choose.NONE), None),
        (None, "weather"),
    ],
)
def test_which_tool_is_called(choice: ToolChoice | None, want: str | None) -> None:
    tool = chosen_tool(asking(tools=(WEATHER, CLOCK), tool_choice=choice))
    assert (tool.name if tool is not None else None) == want


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": (CLOCK,), "tool_choice": ToolChoice(Choose.NAMED, "absent")},
        {"tool_choice": ToolChoice(Choose.NAMED, "absent")},
        {"tool_choice": ToolChoice(Choose.REQUIRED)},
    ],
)
def test_a_tool_that_is_not_offered_cannot_be_demanded(fields: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        script(asking(**fields), "scripted")
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, "tool_choice")


@pytest.mark.parametrize(
    ("text", "parallel", "count"),
    [
        ("Paris and Rome, both please", None, 2),
        ("BOTH", True, 2),
        ("both", False, 1),
        ("no bother", None, 1),
    ],
)
def test_two_calls_for_both(text: str, parallel: bool | None, count: int) -> None:
    calls = calls_of(asking(text, tools=(WEATHER,), parallel_tools=parallel))
    assert len(calls) == len({c.id for c in calls}) == count


AFTER_TOOLS = (
    user("both"),
    Message(Role.ASSISTANT, (ToolCall("c1", "weather", "{}"), ToolCall("c2", "clock", "{}"))),
    Message(Role.TOOL, (ToolResult("c1", (Text("18 "), Text("degrees"))), ToolResult("c2", (Text("no"),), True))),
)


@pytest.mark.parametrize("choice", [None, ToolChoice(Choose.REQUIRED), ToolChoice(Choose.NAMED, "weather")])
@pytest.mark.parametrize("more", [(), (user("Go on."),)])
def test_after_results_it_answers_with_a_text_that_quotes_them(choice: ToolChoice | None, more: Any) -> None:
    request = asking(messages=AFTER_TOOLS + more, tools=(WEATHER, CLOCK), tool_choice=choice)
    reply = answered(request).choices[0]
    assert reply.text.startswith('weather answered "18 degrees". clock failed with "no". ')
    assert reply.reason is Reason.STOP


def test_the_next_turn_may_call_again() -> None:
    talk = (*AFTER_TOOLS, Message(Role.ASSISTANT, (Text("It is 18."),)), user("And now?"))
    assert len(calls_of(asking(messages=talk, tools=(WEATHER,)))) == 1


def test_a_result_without_its_call_is_quoted_as_well() -> None:
    talk = (Message(Role.TOOL, (ToolResult("lost", (Text("found"),)),)),)
    assert 'The tool answered "found".' in text_of(asking(messages=talk))


def test_a_tool_with_an_impossible_schema_is_refused() -> None:
    tool = Tool("f", parameters={"type": "object", "required": ["a"], "properties": {"a": False}})
    with pytest.raises(ApiError) as caught:
        script(asking(tools=(tool,)), "scripted")
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, "tools")


# Formats.


def test_a_json_schema_gets_its_smallest_document() -> None:
    assert WEATHER.parameters is not None
    wanted = ResponseFormat(Format.JSON_SCHEMA, WEATHER.parameters, "answer")
    assert text_of(asking(response_format=wanted)) == '{"city":"a","days":1}'


def test_json_gets_an_object() -> None:
    document = json.decode(text_of(asking(response_format=ResponseFormat(Format.JSON))).encode())
    assert document["answer"].startswith('You said: "Hello')


def test_an_impossible_schema_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        script(asking(response_format=ResponseFormat(Format.JSON_SCHEMA, {"not": {}})), "scripted")
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, "response_format")


# Several choices.


def test_choices_take_turns_and_their_parts_are_numbered_in_the_order_of_opening() -> None:
    events = script(asking(n=3, max_tokens=2, thinking=Thinking(budget_tokens=1)), "scripted")
    heads = [(e.part, e.choice, e.kind) for e in events if isinstance(e, PartStart)]
    kinds = (PartKind.REASONING, PartKind.TEXT)
    assert heads == [(3 * k + choice, choice, kind) for k, kind in enumerate(kinds) for choice in range(3)]
    order = [e.part for e in events if isinstance(e, TextDelta | ReasoningDelta)]
    assert order == [0, 1, 2, 3, 4, 5]
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert finish.reasons == (Reason.LENGTH,) * 3
    assert Usage(count_prompt(asking()), 6, reasoning_tokens=3) in events


def test_choices_differ_and_say_which_they_are() -> None:
    choices = answered(asking(n=2)).choices
    assert [re.findall(r"Choice \d of \d", c.text) for c in choices] == [["Choice 1 of 2"], ["Choice 2 of 2"]]


def test_calls_of_several_choices_have_ids_of_their_own() -> None:
    reply = answered(asking("both", n=3, tools=(WEATHER,)))
    ids = [p.id for c in reply.choices for p in c.parts if isinstance(p, ToolCall)]
    assert len(set(ids)) == len(ids) == 6


def test_there_is_a_limit_to_choices() -> None:
    with pytest.raises(ApiError) as caught:
        script(asking(n=MOST_CHOICES + 1), "scripted")
    assert caught.value.param == "n"


# The other models.


def test_slow_says_six_hundred_tokens() -> None:
    reply = answered(asking(), "scripted-slow")
    assert reply.usage is not None
    assert reply.usage.output_tokens == 600
    assert PERSONAS["scripted-slow"].pause_s == 0.05


@pytest.mark.fault("F10")
@pytest.mark.parametrize("n", [1, 2])
def test_error_fails_after_five_tokens_with_parts_open(n: int) -> None:
    events = script(asking(n=n), "scripted-error")
    Grammar().feed_all(events)
    assert len([e for e in events if isinstance(e, TextDelta)]) == 5
    assert isinstance(events[-1], Error)
    assert events[-1].error.kind is Kind.UPSTREAM


@pytest.mark.fault("F12")
def test_empty_ends_well_with_nothing() -> None:
    reply = answered(asking(), "scripted-empty")
    assert reply.choices[0].parts == ()
    assert reply.usage == Usage(count_prompt(asking()), 0, reasoning_tokens=0)


@pytest.mark.parametrize("model", ["scripted-embed", "absent", ""])
def test_a_model_that_does_not_generate_is_not_found(model: str) -> None:
    with pytest.raises(ApiError) as caught:
        script(asking(), model)
    assert caught.value.kind is Kind.NOT_FOUND


# The whole.


@st.composite
def wishes(draw: st.DrawFn) -> Request:
    """Any request, with the fields that not every dialect has."""
    request = draw(strategies.requests())
    offered = request.tools
    modes = [Choose.AUTO, Choose.NONE, *([Choose.REQUIRED] if offered else [])]
    choices = st.none() | st.builds(ToolChoice, st.sampled_from(modes))
    named = st.builds(lambda t: ToolChoice(Choose.NAMED, t.name), st.sampled_from(offered)) if offered else st.none()
    tail = draw(st.sampled_from(((), (user("both"),), AFTER_TOOLS)))
    return msgspec.structs.replace(
        request,
        messages=request.messages + tail,
        n=draw(st.integers(1, 3)),
        max_tokens=draw(st.none() | st.integers(0, 80)),
        tool_choice=draw(choices | named),
        parallel_tools=draw(st.none() | st.booleans()),
        response_format=draw(st.none() | strategies.response_formats),
        thinking=draw(st.none() | strategies.thinkings),
        stop=request.stop + draw(st.sampled_from(((), ("said",), ("the ", "🌊")))),
    )


@pytest.mark.fault("F13")
@pytest.mark.fault("F24")
@given(wishes(), st.sampled_from(GENERATING))
def test_every_script_is_legal_exact_and_true_to_its_request(request: Request, model: str) -> None:
    events = script(request, model)
    grammar = Grammar()
    grammar.feed_all(events)
    assert grammar.done
    folded = Fold().feed_all(events)
    pieces = [e for e in events if isinstance(e, TextDelta | ReasoningDelta | ArgsDelta)]
    if model == "scripted-error":
        assert len(pieces) <= 5
        return
    reply = folded.reply()
    usage = folded.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (count_prompt(request), len(pieces), False)
    if model == "scripted-empty":
        assert not pieces
        return
    assert len(reply.choices) == request.n
    offered = {tool.name: tool for tool in request.tools}
    for choice in reply.choices:
        calls = [p for p in choice.parts if isinstance(p, ToolCall)]
        assert not any(s in choice.text for s in request.stop)
        if choice.reason is Reason.LENGTH:
            assert request.max_tokens is not None
            continue
        assert (choice.reason is Reason.TOOL_CALLS) == bool(calls)
        assert not (calls and choice.text)
        assert len(calls) <= (1 if request.parallel_tools is False else 2)
        for call in calls:
            assert conforms(offered[call.name].parameters, json.decode(call.arguments.encode()))
    if request.max_tokens is not None:
        assert len(pieces) <= request.max_tokens * request.n


@given(wishes(), st.sampled_from(GENERATING))
def test_the_same_request_gets_the_same_events_however_it_is_sent(request: Request, model: str) -> None:
    again = msgspec.structs.replace(
        request, stream=not request.stream, include_usage=True, user="somebody", model="another name for it"
    )
    assert script(request, model) == script(again, model)


def test_another_request_gets_other_ids() -> None:
    one, two = (calls_of(asking(text, tools=(WEATHER,)))[0].id for text in ("a", "b"))
    assert one != two


@given(wishes(), st.sampled_from(GENERATING))
def test_groups_hold_one_token_each(request: Request, model: str) -> None:
    events = script(request, model)
    groups = list(by_token(events))
    assert [e for g in groups for e in g] == events
    tokens = [sum(isinstance(e, TextDelta | ReasoningDelta | ArgsDelta) for e in group) for group in groups]
    assert tokens == [1] * (len(groups) - 1) + [0]
