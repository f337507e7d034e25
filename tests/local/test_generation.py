"""Tools, thoughts and forced answers through real engine processes, for each family of chat templates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Event, Finish, Reason
from rivermouth.ir.fold import Fold
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
from rivermouth.local.machine.places import Limits
from rivermouth.local.provider import LocalProvider, model_info
from tests.local import templates
from tests.local.asking import ask, asking, begin, install, usage_of, whole
from tests.thorough import THOROUGH
from tests.tiny_gguf import build, cut

pytestmark = pytest.mark.anyio

CITY: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Final = Tool("weather", "How is it there?", CITY)
CLOCK: Final = Tool("time")
TOOLS: Final = (WEATHER, CLOCK)
OSLO: Final = '{"city": "Oslo"}'

HERMES_MARKS: Final = ("<tool_call>", "</tool_call>")
HERMES_SAYS: Final = f'Let me see.\n<tool_call>\n{{"name": "weather", "arguments": {OSLO}}}\n</tool_call>'
# The second call is spelled out: a token may stand only once in a script.
TWO_SAY: Final = f'{HERMES_SAYS}\n<tool_call>{{"name": "time", "arguments": {{}}}}</tool_call>'
THINKS_SAYS: Final = "<think>\nShe greets me.\n</think>\n\nHello!"
OPENS_SAYS: Final = "Greet back.\n</think>\n\nHello!"
MISTRAL_SAYS: Final = f'[TOOL_CALLS][{{"name": "weather", "arguments": {OSLO}, "id": "abcdefghi"}}]'
LLAMA3_SAYS: Final = (
    f'<|python_tag|>{{"name": "weather", "parameters": {OSLO}}}; {{"name": "time", "parameters": {{}}}}'
)
FORCED_SAYS: Final = f'{{"name": "weather", "arguments": {OSLO}}}'
THOUGHT_MARKS: Final = ("<think>", "</think>")

MODELS: Final[dict[str, tuple[str, tuple[str, ...], str | None]]] = {
    "hermes": (HERMES_SAYS, HERMES_MARKS, templates.HERMES),
    "two": (TWO_SAY, (), templates.HERMES),
    "mistral": (MISTRAL_SAYS, ("[TOOL_CALLS]",), templates.MISTRAL),
    "llama3": (LLAMA3_SAYS, ("<|python_tag|>",), templates.LLAMA3),
    "thinks": (THINKS_SAYS, THOUGHT_MARKS, templates.THINKS),
    "opens": (OPENS_SAYS, THOUGHT_MARKS, templates.OPENS),
    "forced": (FORCED_SAYS, (), templates.HERMES),
    "forced-thinking": (FORCED_SAYS, THOUGHT_MARKS, templates.OPENS),
    "forced-plain": (FORCED_SAYS, (), None),
}


@pytest.fixture(scope="module")
async def local(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[LocalProvider]:
    """Every model under its name, with a process of its own."""
    folder = tmp_path_factory.mktemp("generation")
    provider = LocalProvider(folder / "models", max_models=len(MODELS))
    for name, (says, marks, template) in MODELS.items():
        path = build(folder / f"{name}.gguf", cut(says, marks), marks=marks, template=template)
        install(provider.registry, name, path)
    yield provider
    await provider.close()


async def said(local: LocalProvider, request: Request) -> tuple[tuple[object, ...], Reason, list[str]]:
    """The parts of the answer with the calls' ids left out, how it ended, and what was ignored."""
    warned: list[str] = []
    events = await whole(await begin(local, request.model, request, warned))
    return parts_of(events), reason_of(events), warned


def parts_of(events: list[Event]) -> tuple[object, ...]:
    fold = Fold()
    fold.feed_all(events)
    parts = fold.reply().choices[0].parts
    ids = [part.id for part in parts if isinstance(part, ToolCall)]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    return tuple(ToolCall("", part.name, part.arguments) if isinstance(part, ToolCall) else part for part in parts)


def reason_of(events: list[Event]) -> Reason:
    end = events[-1]
    assert isinstance(end, Finish)
    assert end.stop_sequence is None
    return end.reason


def of(model: str, text: str = "Hi", **fields: Any) -> Request:
    return asking(text, **{"model": model, "max_tokens": 200} | fields)


WEATHER_CALL: Final = ToolCall("", "weather", OSLO)
TIME_CALL: Final = ToolCall("", "time", "{}")


@pytest.mark.promise(10)
@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ("hermes", (Text("Let me see."), WEATHER_CALL)),
        ("two", (Text("Let me see."), WEATHER_CALL, TIME_CALL)),
        ("mistral", (WEATHER_CALL,)),
        ("llama3", (WEATHER_CALL, TIME_CALL)),
    ],
)
async def test_what_a_family_writes_is_a_call(local: LocalProvider, model: str, parts: tuple[object, ...]) -> None:
    assert await said(local, of(model, tools=TOOLS)) == (parts, Reason.TOOL_CALLS, [])


@pytest.mark.parametrize("model", ["hermes", "mistral", "llama3"])
async def test_the_template_shows_the_tools(local: LocalProvider, model: str) -> None:
    """Without tools, or with `none`, it does not; and what is written then is text."""
    counts = {}
    for name, fields in {
        "without": {},
        "none": {"tools": TOOLS, "tool_choice": ToolChoice(Choose.NONE)},
        "with": {"tools": TOOLS},
        "one": {"tools": (CLOCK,)},
    }.items():
        events = await ask(local, model, of(model, **fields))
        counts[name] = usage_of(events).input_tokens or 0
        assert (reason_of(events) is Reason.TOOL_CALLS) == (name == "with")
    assert counts["without"] == counts["none"] < counts["one"] < counts["with"]


@pytest.mark.parametrize(("model", "calls"), [("two", 1), ("llama3", 1), ("hermes", 1), ("mistral", 1)])
async def test_at_most_one_call_where_only_one_is_wanted(local: LocalProvider, model: str, calls: int) -> None:
    events = await ask(local, model, of(model, tools=TOOLS, parallel_tools=False))
    assert [part for part in parts_of(events) if isinstance(part, ToolCall)] == [WEATHER_CALL]
    assert reason_of(events) is Reason.TOOL_CALLS


async def test_no_more_is_made_than_the_one_call(local: LocalProvider) -> None:
    every = usage_of(await ask(local, "two", of("two", tools=TOOLS))).output_tokens
    one = usage_of(await ask(local, "two", of("two", tools=TOOLS, parallel_tools=False))).output_tokens
    assert one is not None
    assert every is not None
    assert one < every


async def test_tools_that_a_template_does_not_know_are_a_named_loss(local: LocalProvider) -> None:
    parts, reason, warned = await said(local, of("thinks", tools=TOOLS))
    assert (parts, reason) == ((Reasoning("She greets me."), Text("Hello!")), Reason.STOP)
    assert warned == ["tools"]


async def test_an_answer_in_json_is_no_call(local: LocalProvider) -> None:
    wanted = ResponseFormat(Format.JSON)
    parts, reason, warned = await said(local, of("forced", tools=TOOLS, response_format=wanted))
    assert (parts, reason, warned) == ((Text(FORCED_SAYS),), Reason.STOP, ["tools"])


CHOICES: Final[dict[str, ToolChoice]] = {
    "required": ToolChoice(Choose.REQUIRED),
    "named": ToolChoice(Choose.NAMED, "weather"),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("model", ["forced", "forced-plain", "forced-thinking"])
async def test_a_call_can_be_forced(local: LocalProvider, model: str, choice: str) -> None:
    """Also where no template shows tools, and where the template begins a thought."""
    request = of(model, tools=TOOLS, tool_choice=CHOICES[choice])
    assert await said(local, request) == ((WEATHER_CALL,), Reason.TOOL_CALLS, [])


@pytest.mark.parametrize("model", ["thinks", "opens", "hermes"])
async def test_a_forced_call_is_forced_whatever_the_model_would_say(local: LocalProvider, model: str) -> None:
    """These models say something else, so the grammar alone makes the name; blanks may follow until the limit."""
    forced = of(model, tools=TOOLS, tool_choice=ToolChoice(Choose.NAMED, "time"), max_tokens=40)
    parts, reason, _ = await said(local, forced)
    (call,) = parts
    assert isinstance(call, ToolCall)
    assert call.name == "time"
    assert (call.arguments, reason) in (("{}", Reason.TOOL_CALLS), (call.arguments, Reason.LENGTH))


async def test_the_tools_are_in_the_prompt_of_a_forced_call(local: LocalProvider) -> None:
    for model in ("forced", "forced-plain", "forced-thinking"):
        plain = usage_of(await ask(local, model, of(model))).input_tokens
        for tools in ((WEATHER,), TOOLS):
            more = of(model, tools=tools, tool_choice=CHOICES["named"])
            counted = usage_of(await ask(local, model, more)).input_tokens
            assert counted is not None
            assert plain is not None
            assert counted > plain
            plain = counted


async def test_a_forced_call_that_is_cut_ends_by_length(local: LocalProvider) -> None:
    """As it is when the model is cut in its own call: what was written of the arguments is there."""
    forced = of("forced", tools=TOOLS, tool_choice=CHOICES["named"], max_tokens=13)
    parts, reason, _ = await said(local, forced)
    (call,) = parts
    assert isinstance(call, ToolCall)
    assert OSLO.startswith(call.arguments)
    assert call.arguments != OSLO
    assert reason is Reason.LENGTH


@pytest.mark.promise(17)
async def test_json_that_is_cut_ends_by_length(local: LocalProvider) -> None:
    wanted = ResponseFormat(Format.JSON)
    parts, reason, _ = await said(local, of("forced", response_format=wanted, max_tokens=5))
    assert (parts, reason) == ((Text(FORCED_SAYS[:15]),), Reason.LENGTH)


@pytest.mark.parametrize("model", ["thinks", "opens"])
async def test_a_thought_is_a_part_of_its_own_and_its_tokens_are_counted(local: LocalProvider, model: str) -> None:
    events = await ask(local, model, of(model))
    thought = "She greets me." if model == "thinks" else "Greet back."
    assert parts_of(events) == (Reasoning(thought), Text("Hello!"))
    usage = usage_of(events)
    says, marks, _ = MODELS[model]
    before = len(cut(says[: says.index("</think>")], marks)) + 1
    assert usage.reasoning_tokens == before
    assert usage.output_tokens is not None
    assert usage.reasoning_tokens < usage.output_tokens


async def test_a_thought_that_was_cut_is_all_there_is(local: LocalProvider) -> None:
    events = await ask(local, "opens", of("opens", max_tokens=3))
    assert parts_of(events) == (Reasoning("Greet bac"),)
    assert reason_of(events) is Reason.LENGTH
    assert usage_of(events).reasoning_tokens == 3


async def test_where_no_thought_can_be_none_are_counted(local: LocalProvider) -> None:
    assert usage_of(await ask(local, "hermes", of("hermes"))).reasoning_tokens is None


@pytest.mark.parametrize(("model", "more"), [("thinks", 4), ("opens", 2)])
async def test_thinking_can_be_switched_off(local: LocalProvider, model: str, more: int) -> None:
    """By the template's switch, or by an end of the thought that it opens: two marks, two pairs of line ends."""
    plain = await ask(local, model, of(model, max_tokens=1))
    quiet = await ask(local, model, of(model, thinking=Thinking(enabled=False), max_tokens=1))
    assert (usage_of(quiet).input_tokens or 0) - (usage_of(plain).input_tokens or 0) == more


async def test_wishes_about_thoughts_that_cannot_be_met_are_named(local: LocalProvider) -> None:
    hard = Thinking(effort="high", budget_tokens=100)
    for model, fields, names in (
        ("hermes", {}, ["thinking"]),
        ("thinks", {}, ["thinking.effort", "thinking.budget_tokens"]),
        ("forced-thinking", {"response_format": ResponseFormat(Format.JSON)}, ["thinking"]),
    ):
        _, _, warned = await said(local, of(model, thinking=hard, **fields))
        assert warned == names


async def test_thoughts_of_earlier_turns_go_to_a_template_that_takes_them(local: LocalProvider) -> None:
    talk = (Message(Role.ASSISTANT, (Reasoning("abc"), Text("d"))), Message(Role.USER, (Text("e"),)))
    bare = (Message(Role.ASSISTANT, (Text("d"),)), Message(Role.USER, (Text("e"),)))
    for model, more, names in (("thinks", len("abc") + 2, []), ("opens", 0, ["reasoning"])):
        warned: list[str] = []
        events = await whole(await begin(local, model, of(model, messages=talk, max_tokens=1), warned))
        plain = await ask(local, model, of(model, messages=bare, max_tokens=1))
        assert (usage_of(events).input_tokens or 0) - (usage_of(plain).input_tokens or 0) == more
        assert warned == names


HISTORY: Final = (
    Message(Role.USER, (Text("Hi"),)),
    Message(Role.ASSISTANT, (ToolCall("toolu_1", "weather", OSLO), ToolCall("call_2", "time", "{}"))),
    Message(Role.TOOL, (ToolResult("toolu_1", (Text("warm"),)), ToolResult("call_2", (Text("noon"),)))),
)


@pytest.mark.parametrize("model", ["hermes", "mistral", "llama3", "thinks", "forced-plain"])
async def test_earlier_calls_and_their_results_are_rendered(local: LocalProvider, model: str) -> None:
    """The templates refuse ids, turns and arguments that are not as their models were trained."""
    events = await ask(local, model, of(model, messages=HISTORY, tools=TOOLS if model != "thinks" else ()))
    assert (usage_of(events).input_tokens or 0) > 40
    assert isinstance(events[-1], Finish)


async def test_a_talk_that_the_template_refuses_is_refused_with_its_reason(local: LocalProvider) -> None:
    broken = (Message(Role.ASSISTANT, (ToolCall("1", "weather", "not json"),)),)
    with pytest.raises(ApiError, match=r"refuses these messages: not an object$") as refused:
        await ask(local, "hermes", of("hermes", messages=broken))
    assert (refused.value.kind, refused.value.param) == (Kind.INVALID_REQUEST, "messages")


async def test_a_raw_prompt_is_neither_thought_nor_call(local: LocalProvider) -> None:
    parts, reason, _ = await said(local, of("hermes", "Hi", local=Local(raw=True)))
    assert (parts, reason) == ((Text("Let me see.\n\n" + HERMES_SAYS.split("\n")[2] + "\n"),), Reason.STOP)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": ToolChoice(Choose.REQUIRED)}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": ToolChoice(Choose.NAMED, "none")}, "tool_choice"),
        ({"tools": TOOLS, "local": Local(raw=True)}, "tools"),
        ({"tools": (Tool("f", parameters={"type": "nonsense"}),), "tool_choice": CHOICES["required"]}, "tools"),
        ({"tools": (Tool("f", parameters={"type": "string"}),), "tool_choice": CHOICES["required"]}, "tools"),
        ({"tools": (Tool("f", "x" * 100_000),)}, "tools"),
        ({"response_format": ResponseFormat(Format.JSON_SCHEMA, schema={"type": "x"})}, "response_format"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(local: LocalProvider, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as refused:
        await ask(local, "hermes", of("hermes", **fields))
    assert (refused.value.kind, refused.value.param) == (Kind.INVALID_REQUEST, param)


async def test_a_model_says_what_it_can(local: LocalProvider) -> None:
    can = {str(model.name.name): model_info(model).capabilities for model in local.registry.models()}
    assert can["hermes"] == can["mistral"] == can["llama3"] == ("completion", "tools")
    assert can["thinks"] == can["opens"] == ("completion", "thinking")
    assert can["forced-plain"] == ("completion",)


@pytest.fixture(scope="module")
async def single(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[LocalProvider]:
    """The profile that makes one answer at a time, from what an earlier load kept where there was one."""
    folder = tmp_path_factory.mktemp("single")
    provider = LocalProvider(folder / "models", max_models=1, limits=Limits(max_active=1))
    for name in ("two", "hermes", "opens", "forced-thinking"):
        says, marks, template = MODELS[name]
        install(
            provider.registry, name, build(folder / f"{name}.gguf", cut(says, marks), marks=marks, template=template)
        )
    yield provider
    await provider.close()


@pytest.mark.thorough(quick=True)
async def test_one_answer_at_a_time_is_read_no_differently(single: LocalProvider) -> None:
    """Each model is loaded anew when another was asked before; in the suite only what differs most is, and once."""
    forced = {"tools": TOOLS, "tool_choice": CHOICES["required"]}
    more: tuple[tuple[str, dict[str, Any], tuple[object, ...]], ...] = (
        ("opens", {}, (Reasoning("Greet back."), Text("Hello!"))),
        ("opens", {"local": Local(regex="(yes|no)!")}, (Text("no!"),)),
        ("hermes", {"tools": TOOLS}, (Text("Let me see."), WEATHER_CALL)),
    )
    again = (("two", {"tools": TOOLS}, (Text("Let me see."), WEATHER_CALL, TIME_CALL)),)
    cases: tuple[tuple[str, dict[str, Any], tuple[object, ...]], ...] = (
        *again,
        ("two", {"tools": TOOLS, "parallel_tools": False}, (Text("Let me see."), WEATHER_CALL)),
        *(more if THOROUGH else ()),
        ("forced-thinking", forced, (WEATHER_CALL,)),
        ("forced-thinking", {}, (Reasoning(FORCED_SAYS),)),
        ("forced-thinking", {"local": Local(regex="(yes|no)!")}, (Text("no!"),)),
        *(again if THOROUGH else ()),
    )
    for model, fields, parts in cases:
        assert (await said(single, of(model, **fields)))[0] == parts
