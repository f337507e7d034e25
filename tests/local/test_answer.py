"""What local models write, as events: every family, however the text is cut, and what only looks like a call."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.events import Event, Finish, PartKind, Reason, Start
from rivermouth.ir.fold import Fold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Reasoning, Text, ToolCall
from rivermouth.local.words.answer import HELD_CAP_CHARS, Answer
from rivermouth.local.words.families import (
    MARKS,
    Calls,
    Family,
    ThoughtTokens,
    family_of,
    opens_thought,
    template_reason,
    without_thought,
)

TOOLS: Final = frozenset({"weather", "time"})
HERMES: Final = Family(Calls.HERMES, thinks=True)
MISTRAL: Final = Family(Calls.MISTRAL)
LLAMA3: Final = Family(Calls.LLAMA3)
FORCED: Final = Family(Calls.FORCED)
PLAIN: Final = Family()


def call(number: int, name: str, arguments: str) -> ToolCall:
    return ToolCall(f"call_{number}", name, arguments)


def read(
    family: Family,
    pieces: list[str],
    tools: frozenset[str] = TOOLS,
    *,
    in_thought: bool = False,
    most_calls: int | None = None,
) -> tuple[object, ...]:
    """The parts of the message that the pieces say; the order of the events is legal."""
    answer = Answer(family, tools, in_thought=in_thought, most_calls=most_calls, call_id=lambda n: f"call_{n}")
    events: list[Event] = [Start()]
    for piece in pieces:
        events += answer.feed(piece)
    events += [*answer.end(), Finish(Reason.STOP)]
    Grammar().feed_all(events)
    fold = Fold()
    fold.feed_all(events)
    return fold.reply().choices[0].parts


OSLO: Final = '{"name": "weather", "arguments": {"city": "Oslo"}}'
NOW: Final = '{"name": "time", "arguments": {}}'

SAID: Final[dict[str, tuple[Family, str, tuple[object, ...]]]] = {
    "text": (PLAIN, " Hello, <think> is a tag.\n", (Text(" Hello, <think> is a tag.\n"),)),
    "nothing": (HERMES, "", ()),
    "blanks": (HERMES, " \n", (Text(" \n"),)),
    "a thought": (HERMES, "\n<think>\nHm.\n</think>\n\nYes.", (Reasoning("Hm."), Text("Yes."))),
    "an empty thought": (HERMES, "<think>\n\n</think>\n\nYes.", (Text("Yes."),)),
    "a thought that does not end": (HERMES, "<think>Hm. </thin", (Reasoning("Hm. </thin"),)),
    "a thought later is text": (HERMES, "Yes <think>no</think>", (Text("Yes <think>no</think>"),)),
    "a call": (HERMES, f"<tool_call>\n{OSLO}\n</tool_call>", (call(0, "weather", '{"city": "Oslo"}'),)),
    "words and two calls": (
        HERMES,
        f"<think>Two.</think>\nLet me see.\n<tool_call>{OSLO}</tool_call>\n<tool_call>\n{NOW}</tool_call>\n",
        (Reasoning("Two."), Text("Let me see."), call(0, "weather", '{"city": "Oslo"}'), call(1, "time", "{}")),
    ),
    "words after a call": (
        HERMES,
        f"<tool_call>{NOW}</tool_call>\n\nDone < here",
        (call(0, "time", "{}"), Text("Done < here")),
    ),
    "a call whose end is missing": (HERMES, f"<tool_call>{NOW}", (call(0, "time", "{}"),)),
    "a call that was cut": (HERMES, '<tool_call>{"name": "ti', (Text('<tool_call>{"name": "ti'),)),
    "a tool nobody offered": (
        HERMES,
        '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
        (Text('<tool_call>{"name": "rm", "arguments": {}}</tool_call>'),),
    ),
    "a call that was cut in its arguments": (
        HERMES,
        '<tool_call>{"name": "time", "arguments": {"a": [1, "}',
        (call(0, "time", '{"a": [1, "}'),),
    ),
    "arguments that hold what ends them": (
        HERMES,
        '<tool_call>{"name": "time", "arguments": {"a": "}\\"</tool_call>", "b": {}}}</tool_call>',
        (call(0, "time", '{"a": "}\\"</tool_call>", "b": {}}'),),
    ),
    "the name last": (
        HERMES,
        '<tool_call>{"arguments": {"city": "Oslo"}, "name": "weather"}</tool_call>',
        (call(0, "weather", '{"city":"Oslo"}'),),
    ),
    "no JSON": (HERMES, "<tool_call>time()</tool_call>!", (Text("<tool_call>time()</tool_call>!"),)),
    "arguments that are no object": (
        HERMES,
        '<tool_call>{"name": "time", "arguments": 3}</tool_call>',
        (Text('<tool_call>{"name": "time", "arguments": 3}</tool_call>'),),
    ),
    "arguments as text": (
        HERMES,
        '<tool_call>{"name": "time", "arguments": "{\\"at\\": 1}"}</tool_call>',
        (call(0, "time", '{"at": 1}'),),
    ),
    "Mistral's list": (
        MISTRAL,
        f"[TOOL_CALLS] [{OSLO}, {NOW}]",
        (call(0, "weather", '{"city": "Oslo"}'), call(1, "time", "{}")),
    ),
    "Mistral's names": (
        MISTRAL,
        '[TOOL_CALLS]weather[ARGS]{"city": "Oslo"}[TOOL_CALLS]time[ARGS]{}',
        (call(0, "weather", '{"city": "Oslo"}'), call(1, "time", "{}")),
    ),
    "Mistral's ids": (
        MISTRAL,
        f'[TOOL_CALLS] [{{"name": "time", "arguments": {{}}, "id": "abc"}}, {OSLO[:-1]}, "id": "d"}}]',
        (call(0, "time", "{}"), call(1, "weather", '{"city": "Oslo"}')),
    ),
    "Mistral's ids between": (
        MISTRAL,
        "[TOOL_CALLS]time[CALL_ID]abc[ARGS]{}",
        (call(0, "time", "{}"),),
    ),
    "Mistral's words": (MISTRAL, "No [TOOL] here", (Text("No [TOOL] here"),)),
    "Mistral's words before a call": (
        MISTRAL,
        f"One moment. [TOOL_CALLS][{NOW}]",
        (Text("One moment."), call(0, "time", "{}")),
    ),
    "Llama's call": (LLAMA3, '{"name": "time", "parameters": {"at": 1}}', (call(0, "time", '{"at": 1}'),)),
    "Llama's tag": (LLAMA3, '<|python_tag|>{"name": "time", "parameters": {}}', (call(0, "time", "{}"),)),
    "Llama's two": (
        LLAMA3,
        f'{OSLO.replace("arguments", "parameters")}; {{"name": "time", "parameters": {{}}}}',
        (call(0, "weather", '{"city": "Oslo"}'), call(1, "time", "{}")),
    ),
    "Llama's lines": (
        LLAMA3,
        f"{OSLO}\n{NOW}",
        (call(0, "weather", '{"city": "Oslo"}'), call(1, "time", "{}")),
    ),
    "Llama's list": (LLAMA3, f"<|python_tag|>[{NOW}, {NOW}]", (call(0, "time", "{}"), call(1, "time", "{}"))),
    "Llama's words after a call": (LLAMA3, f"{NOW}\n\nSo it is.", (call(0, "time", "{}"), Text("So it is."))),
    "Llama's call with its type": (
        LLAMA3,
        '{"type": "function", "name": "time", "parameters": {"at": 1}}',
        (call(0, "time", '{"at": 1}'),),
    ),
    "Llama's JSON with a name": (LLAMA3, '{"name": "Bob", "age": 4}', (Text('{"name": "Bob", "age": 4}'),)),
    "Llama's empty JSON": (LLAMA3, "{} and more", (Text("{} and more"),)),
    "Llama's JSON that is no call": (LLAMA3, '{"answer": 4}', (Text('{"answer": 4}'),)),
    "Llama's words": (LLAMA3, "Four {4}.", (Text("Four {4}."),)),
    "what the grammar forced": (FORCED, f" {OSLO}", (call(0, "weather", '{"city": "Oslo"}'),)),
    "what the grammar forced, cut in its arguments": (
        FORCED,
        '{"name": "weather", "arguments": {"ci',
        (call(0, "weather", '{"ci'),),
    ),
    "what the grammar forced, cut": (FORCED, '{"name": "weat', (Text('{"name": "weat'),)),
}


@pytest.mark.parametrize("case", SAID)
def test_what_was_written_is_what_is_said_however_it_is_cut(case: str) -> None:
    family, text, parts = SAID[case]
    assert read(family, [text]) == parts
    assert read(family, list(text)) == parts
    for at in range(len(text)):
        assert read(family, [text[:at], text[at:]]) == parts
    for size in (2, 3, 7):
        assert read(family, [text[n : n + size] for n in range(0, len(text), size)]) == parts


FRAGMENTS: Final = [
    "<think>", "</think>", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>", OSLO,
    NOW, '{"name": "rm", "arguments": {}}', '{"type": "function", "name": "time", "parameters": {}}', '"id": "x"', "{",
    "}", "[", "]", ",", ";", " ", "\n", "<", '"', "\\", '{"name"', ': "time", "arguments": {', "weather", "{}", "words",
]  # fmt: skip


@given(
    pieces=st.lists(st.sampled_from(FRAGMENTS), max_size=8),
    family=st.sampled_from([HERMES, MISTRAL, LLAMA3, FORCED, PLAIN]),
    in_thought=st.booleans(),
    most_calls=st.sampled_from([None, 1]),
)
def test_whatever_is_written_it_does_not_matter_how_it_is_cut(
    pieces: list[str], family: Family, in_thought: bool, most_calls: int | None
) -> None:
    text = "".join(pieces)
    ways = ([text], list(text), pieces)
    first, *others = (read(family, way, in_thought=in_thought, most_calls=most_calls) for way in ways)
    assert others == [first, first]


def test_without_tools_a_call_is_text() -> None:
    text = f"<tool_call>{NOW}</tool_call>"
    assert read(HERMES, [text], frozenset()) == (Text(text),)


def test_a_template_may_open_the_thought_itself() -> None:
    assert read(PLAIN, ["Hm", "m.</thi", "nk>\n\nYes."], in_thought=True) == (Reasoning("Hmm."), Text("Yes."))


@pytest.mark.parametrize("family", [HERMES, MISTRAL, LLAMA3])
def test_text_is_shown_as_it_comes(family: Family) -> None:
    answer = Answer(family, TOOLS, call_id=str)
    shown = [event for event in answer.feed("Well") if type(event).__name__ == "TextDelta"]
    assert [event.text for event in shown] == ["Well"]  # type: ignore[union-attr]
    assert answer.statistics()["held_chars"] == 0


@pytest.mark.parametrize("text", ['{"answer', '{"name": "Bob"', "{}"])
def test_json_that_is_no_call_is_shown_as_soon_as_that_is_sure(text: str) -> None:
    answer = Answer(LLAMA3, TOOLS, call_id=str)
    assert answer.feed(text) if text == "{}" else not answer.feed(text[:-1])
    shown = [*answer.feed('"'), *answer.feed(": 4")]
    assert [type(event).__name__ for event in shown][-1] == "TextDelta"


@pytest.mark.parametrize(
    ("family", "opens"), [(HERMES, "<tool_call>"), (MISTRAL, "[TOOL_CALLS]["), (LLAMA3, ""), (FORCED, "")]
)
def test_arguments_are_passed_on_as_they_are_written(family: Family, opens: str) -> None:
    """A slow model takes a minute for them, and silence looks like a stall."""
    answer = Answer(family, TOOLS, call_id=str)
    begun = answer.feed(opens + '{"name": "weather", "arguments": {"ci')
    assert [type(event).__name__ for event in begun] == ["PartStart", "ArgsDelta"]
    more = answer.feed('ty": "O')
    assert [event.json for event in more] == ['ty": "O']  # type: ignore[union-attr]
    assert answer.statistics()["held_chars"] == 0


@pytest.mark.parametrize("case", [case for case in SAID if sum(isinstance(p, ToolCall) for p in SAID[case][2]) > 0])
def test_what_follows_the_only_call_wanted_is_dropped(case: str) -> None:
    family, text, parts = SAID[case]
    first = next(n for n, part in enumerate(parts) if isinstance(part, ToolCall))
    for pieces in ([text], list(text)):
        assert read(family, pieces, most_calls=1) == parts[: first + 1]


@pytest.mark.parametrize("family", [HERMES, MISTRAL, LLAMA3, FORCED])
def test_what_is_held_is_bounded_and_nothing_of_it_is_lost(family: Family) -> None:
    opens = {Calls.HERMES: "<tool_call>", Calls.MISTRAL: "[TOOL_CALLS]"}.get(family.calls, "{")
    answer = Answer(family, TOOLS, call_id=str)
    piece = "x" * 1000
    said = 0
    for event in answer.feed(opens):
        said += len(getattr(event, "text", ""))
    for _ in range(2 * HELD_CAP_CHARS // len(piece)):
        for event in answer.feed(piece):
            said += len(getattr(event, "text", ""))
        assert answer.statistics()["held_chars"] <= HELD_CAP_CHARS + len(piece)
    for event in answer.end():
        said += len(getattr(event, "text", ""))
    assert said == len(opens) + 2 * HELD_CAP_CHARS // len(piece) * len(piece)


def test_endless_blanks_are_not_held_for_ever() -> None:
    answer = Answer(HERMES, TOOLS, call_id=str)
    answer.feed("a")
    for _ in range(2 * HELD_CAP_CHARS // 1000):
        answer.feed(" " * 1000)
        assert answer.statistics()["held_chars"] <= HELD_CAP_CHARS + 1000


@pytest.mark.parametrize(
    ("template", "family"),
    [
        (None, Family()),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", Family()),
        ("{% if tools %}<tool_call>{% endif %}<think>", Family(Calls.HERMES, thinks=True, tools=True)),
        ("{{ tools }}<tool_call><function=", Family(tools=True)),
        ("{{ tools }}[TOOL_CALLS]", Family(Calls.MISTRAL, tools=True)),
        ('{{ tools }}{"name": f, "parameters": {}}', Family(Calls.LLAMA3, tools=True)),
        ('{{ tools }}{"tool_name": f, "parameters": {}}', Family(tools=True)),
        ("{% set x = m.content.split('</think>') %}", Family(thinks=True)),
        ("{{ enable_thinking }}{{ m.reasoning_content }}", Family(switch=True, recalls=True)),
        ("<tool_call>", Family()),
        ("{{ c.function.arguments }}", Family(quotes=True)),
        ("{{ c.function.arguments | tojson }}", Family()),
    ],
)
def test_the_template_names_the_family(template: str | None, family: Family) -> None:
    assert family_of(template) == family


def test_every_kind_of_part_it_makes_is_one_of_three() -> None:
    kinds = {PartKind.TEXT, PartKind.REASONING, PartKind.TOOL}
    answer = Answer(HERMES, TOOLS, call_id=str)
    events = [*answer.feed(f"<think>a</think>b<tool_call>{NOW}</tool_call>"), *answer.end()]
    assert {event.kind for event in events if hasattr(event, "kind")} == kinds


@pytest.mark.parametrize(
    ("text", "in_thought", "count"),
    [
        ("Hello", False, 0),
        ("", False, 0),
        (" \n", False, 2),
        ("<think>a</think>b", False, 16),
        ("\n<think>a</think>b", False, 17),
        ("<think>a</thi", False, 13),
        ("<thanks", False, 0),
        ("a</think>b", True, 9),
        ("a", True, 1),
    ],
)
def test_tokens_of_a_thought_are_counted_with_its_marks(text: str, in_thought: bool, count: int) -> None:
    """A letter is a token here; one in which the thought ends belongs to it."""
    counter = ThoughtTokens(in_thought=in_thought)
    for letter in text:
        counter.feed(letter, 1)
    assert counter.count == count


@pytest.mark.parametrize(
    ("prompt", "switched", "rendered"),
    [
        ("a<think>\n", False, "a<think>\n\n</think>\n\n"),
        ("a<think>\n", True, "a<think>\n\n</think>\n\n"),
        ("a\n", True, "a\n"),
        ("a\n", False, "a\n<think>\n\n</think>\n\n"),
        ("a<think>\n\n</think>\n\n", True, "a<think>\n\n</think>\n\n"),
    ],
)
def test_a_prompt_can_say_that_the_thought_is_over(prompt: str, switched: bool, rendered: str) -> None:
    assert without_thought(prompt, switched=switched) == rendered
    assert not opens_thought(rendered)
    assert opens_thought(prompt) == prompt.endswith("<think>\n")


def test_the_marks_of_every_family_are_known() -> None:
    assert set(MARKS) == set(Calls)


def test_a_template_s_refusal_in_its_own_words() -> None:
    said = "Exception from x.cpp:1:\nMinja failed\nMinja's error: ids have 9 letters at row 1, column 2:\n{{ x }}\n ^\n"
    assert template_reason(said) == "ids have 9 letters"
    assert template_reason("something else") == "something else"
    assert template_reason("") == "no reason is given"
