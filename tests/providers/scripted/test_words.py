"""What the scripted model reads of a request."""

from __future__ import annotations

from collections.abc import Callable

from rivermouth.ir.request import Message, Request, Role, Text, ToolResult
from rivermouth.providers.scripted.words import trailing_results
from tests.cost import assert_linear


def result(name: str) -> Message:
    return Message(Role.TOOL, (ToolResult(name, (Text(name),)),))


def test_the_results_since_the_model_spoke_come_in_order() -> None:
    messages = (result("old"), Message(Role.ASSISTANT, (Text("so"),)), result("a"), result("b"))
    assert [found.id for found in trailing_results(Request(model="m", messages=messages))] == ["a", "b"]
    assert [found.id for found in trailing_results(Request(model="m", messages=messages[:1]))] == ["old"]
    assert trailing_results(Request(model="m", messages=())) == []


def test_many_results_cost_no_more_than_their_number() -> None:
    def reading(count: int) -> Callable[[], object]:
        request = Request(model="m", messages=(result("a"),) * count)
        return lambda: trailing_results(request)

    assert_linear(reading, 2_000)
