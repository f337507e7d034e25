"""Interrupted turns, results in any order and results of nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.request import Image, Message, Reasoning, Role, Text, ToolCall, ToolResult
from rivermouth.ir.turns import ERROR, NO_RESULT, paired, told

pytestmark = pytest.mark.fault("F20")


def user(text: str = "hi") -> Message:
    return Message(Role.USER, (Text(text),))


def calls(*ids: str, text: str = "") -> Message:
    said = (Text(text),) if text else ()
    return Message(Role.ASSISTANT, (*said, *(ToolCall(i, "f") for i in ids)))


def result(identity: str, text: str = "r") -> ToolResult:
    return ToolResult(identity, (Text(text),))


def results(*given: str | ToolResult) -> Message:
    return Message(Role.TOOL, tuple(result(g) if isinstance(g, str) else g for g in given))


def missing(identity: str) -> ToolResult:
    return ToolResult(identity, (Text(NO_RESULT),), is_error=True, name="f")


CASES = {
    "as it should be": ([user(), calls("a", "b"), results("a", "b"), user()], None, False),
    "in the order of completion": (
        [calls("a", "b", "c"), results("c"), results("b", "a")],
        [calls("a", "b", "c"), results("a", "b", "c")],
        False,
    ),
    "after the user's own words": (
        [calls("a"), user("wait"), results("a"), user("so?")],
        [calls("a"), results("a"), user("wait"), user("so?")],
        False,
    ),
    "after another turn": (
        [calls("a"), results(), calls("b"), results("b", "a")],
        [calls("a", "b"), results("a", "b")],
        False,
    ),
    "long after its turn": (
        [calls("a"), user("stop"), calls("b"), results("b", "a")],
        [calls("a"), results("a"), user("stop"), calls("b"), results("b")],
        False,
    ),
    "interrupted at the end": ([user(), calls("a")], [user(), calls("a"), results(missing("a"))], False),
    "interrupted in the middle": (
        [calls("a", "b"), results("b"), user()],
        [calls("a", "b"), results(missing("a"), result("b")), user()],
        False,
    ),
    "of nothing": ([user(), results("z"), user()], [user(), user()], True),
    "before its call": ([results("a"), calls("a")], [calls("a"), results(missing("a"))], True),
    "twice": ([calls("a"), results("a", result("a", "again"))], [calls("a"), results("a")], True),
    "an id for each turn": ([calls("a"), results("a"), calls("a"), results(result("a", "2"))], None, False),
    "an id again after an interruption": (
        [calls("a"), user(), calls("a"), results("a")],
        [calls("a"), results(missing("a")), user(), calls("a"), results("a")],
        False,
    ),
    "one id for two calls": (
        [calls("a", "a"), results(result("a", "1"), result("a", "2"))],
        [calls("a", "a"), results(result("a", "1"), result("a", "2"))],
        False,
    ),
    "calls in messages of their own": (
        [calls("a", text="x"), calls("b"), results("b"), results("a"), user()],
        [calls("a", "b", text="x"), results("a", "b"), user()],
        False,
    ),
    "beside what a user says": (
        [calls("a"), Message(Role.USER, (Text("look"), result("a")))],
        [calls("a"), results("a"), user("look")],
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_call_has_its_one_result(case: str) -> None:
    given, wanted, lost = CASES[case]
    assert paired(given) == (tuple(wanted if wanted is not None else given), lost)


ids = st.sampled_from("abc")
talks = st.lists(
    st.one_of(
        st.just(user()),
        st.builds(lambda i: calls(*i), st.lists(ids, max_size=3)),
        st.builds(lambda i: results(*i), st.lists(ids, max_size=3)),
        st.just(Message(Role.ASSISTANT, (Reasoning("hm", "s"), Text("x")))),
    ),
    max_size=8,
)


@given(talks)
def test_whatever_a_client_sends_is_a_talk_that_servers_accept(talk: list[Message]) -> None:
    messages, _ = paired(talk)
    owed: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            assert [p.id for p in message.parts if isinstance(p, ToolResult)] == owed
            owed = []
            continue
        assert owed == [], "something stands between calls and their results"
        owed = [p.id for p in message.parts if isinstance(p, ToolCall)]
    assert owed == []
    assert paired(messages) == (messages, False), "a talk that is whole stays as it is"
    spoken = [p for m in talk for p in m.parts if not isinstance(p, ToolResult)]
    assert [p for m in messages for p in m.parts if not isinstance(p, ToolResult)] == spoken


def test_a_failure_is_told_in_words_where_a_wire_has_no_mark_for_it() -> None:
    fine, failed = (ToolResult("a", (Text("x"), Image(url="u")), is_error) for is_error in (False, True))
    assert told(fine) == fine.content
    assert told(failed) == (Text(ERROR + "x"), Image(url="u"))
    assert told(ToolResult("a", (Image(url="u"),), True)) == (Text(ERROR), Image(url="u"))
    assert told(ToolResult("a", (), True)) == (Text(ERROR),)
