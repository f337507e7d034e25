"""What a request may come to."""

from __future__ import annotations

import pytest

from rivermouth.ir.request import EmbedRequest, Image, Message, Request, Role, Text, ToolResult
from rivermouth.platform.estimate import LONGEST_TOKENS, MEDIA_TOKENS, Estimate, estimate, tokens_of


def request(text: str = "x" * 40, **more: object) -> Request:
    return Request(model="m", messages=(Message(Role.USER, (Text(text),)),), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("日本語", 3), ("Größe", 3), ("a" * 400, 100)]
)
def test_tokens_of_a_text(text: str, tokens: int) -> None:
    assert tokens_of(text) == tokens


def test_the_answer_is_as_long_as_the_request_allows() -> None:
    assert estimate(request(), 100) == Estimate(14, 100)
    assert estimate(request(max_tokens=7), 100) == Estimate(14, 7)
    assert estimate(request(max_tokens=7, n=3), 100) == Estimate(14, 21)
    assert estimate(request(max_tokens=7), 100).total == 21
    assert estimate(request(max_tokens=10**400, n=10**400), 100).output == LONGEST_TOKENS


def test_everything_that_a_model_reads_counts() -> None:
    plain = estimate(request(), 1).input
    assert estimate(request(system=(Text("y" * 40),)), 1).input == plain + 10
    picture = Request(model="m", messages=(Message(Role.USER, (Image(data="aaaa", media_type="image/png"),)),))
    assert estimate(picture, 1).input == MEDIA_TOKENS + 4
    told = ToolResult(id="1", content=(Text("z" * 40),))
    assert estimate(Request(model="m", messages=(Message(Role.TOOL, (told,)),)), 1).input == 14


def test_an_embedding_has_no_answer() -> None:
    assert estimate(EmbedRequest(model="m", input=("abcd", "abcd")), 100) == Estimate(2, 0)
