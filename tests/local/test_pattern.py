"""Which regular expressions reach the engine, how they are spelled for it, and what is refused."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Finish, Reason
from rivermouth.ir.request import Format, Local, ResponseFormat, Sampling, Tool, check_translatable
from rivermouth.local.provider import LocalProvider
from rivermouth.local.words.pattern import CHARS_CAP, pattern_text
from tests.in_turn import in_turn
from tests.local.asking import ask, asking, begin, install, text_of
from tests.tiny_gguf import build

GOOD: Final[dict[str, str]] = {
    "abc": "abc",
    "^abc$": "abc",
    "a|b": "a|b",
    "^(a|b)$": "(a|b)",
    "(?:ab)+c?": "(ab)+c?",
    "a+?b*?c??d{1,2}?": "a+b*c?d{1,2}",
    "a{3}b{2,}c{0,4}": "a{3}b{2,}c{0,4}",
    ".": r"[^\n\r]",
    r"\d\D\w\W": "[0-9][^0-9][a-zA-Z0-9_][^a-zA-Z0-9_]",
    r"\s": r"[ \t\n\r\f\v]",
    r"[\d\s]": r"[0-9 \t\n\r\f\v]",
    "[a-c]": "[a-c]",
    "[^^]": r"[^\^]",
    r"[\^]": r"\^",
    r"[\^ab]": r"[ab\^]",
    "[a-]": r"[a\-]",
    "[-a]": r"[\-a]",
    "[.*+]": r"[\.\*\+]",
    r"[\]\[]": r"[\]\[]",
    r"\x41b\u0042": "AbB",
    r"\x2e\x2D": r"\.-",
    r"\.\-\/\"": r"\.-/" + '"',
    r"\t\n": r"\t\n",
    "\t\n": r"\t\n",
    "é漢{2}[à-ÿ]": "é漢{2}[à-ÿ]",
}
BAD: Final = [
    "", "(", ")", "(a", "a)", "[", "[]", "[a", "[]a]", "*", "a**", "a++", "a{", "{", "}", "]", "a{,3}", "a{3,1}",
    "a{9999}", "(?=a)b", "(?!a)b", "(?i)a", "(?P<n>a)", "(?#c)a", r"(a)\1", r"\b", r"\B", r"\A", r"\z", r"\p{L}",
    r"\h", r"\0", r"\x4", r"\xzz", r"\u004", r"\ud800", "\\", "a|", "|a", "a||b", "()", "(a|)", "[z-a]", r"[a-\d]",
    r"[\D]", "[[:alpha:]]", "[a-z&&[b]]", "^a|b", "a|b$", "a$b", "a^b", "^^a", "a$$", r"[\^-a]",
    "(" * 60 + "a" + ")" * 60,
    "((a{100}){100}){100}", "a" * (CHARS_CAP + 1),
]  # fmt: skip


@pytest.mark.parametrize("pattern", GOOD)
def test_a_pattern_is_spelled_so_that_the_engine_means_the_same(pattern: str) -> None:
    made = pattern_text(pattern)
    assert made == GOOD[pattern]
    assert pattern_text(made) == made
    re.compile(made)


@in_turn("pattern", BAD)
def test_what_the_engine_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(ApiError) as refused:
        pattern_text(pattern)
    assert (refused.value.kind, refused.value.param) == (Kind.INVALID_REQUEST, "regex")


@pytest.fixture(scope="module")
async def local(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[LocalProvider]:
    folder = tmp_path_factory.mktemp("patterns")
    provider = LocalProvider(folder / "models")
    install(provider.registry, "tiny", build(folder / "tiny.gguf"))
    yield provider
    await provider.close()


@pytest.mark.anyio
@pytest.mark.parametrize("pattern", GOOD)
async def test_the_whole_answer_matches(local: LocalProvider, pattern: str) -> None:
    """At a temperature that makes any token as likely as another.  One that the engine did not know would end it."""
    for seed in range(3):
        hot = Sampling(temperature=3.0, seed=seed)
        events = await ask(local, "tiny", asking(local=Local(regex=pattern), sampling=hot, max_tokens=40))
        end = events[-1]
        assert isinstance(end, Finish)
        text = text_of(events)
        if end.reason is Reason.STOP and "�" not in text:
            assert re.fullmatch(pattern, text, re.ASCII)


@pytest.mark.anyio
async def test_it_is_forced_whatever_the_model_would_say(local: LocalProvider) -> None:
    events = await ask(local, "tiny", asking(local=Local(regex="(yes|no)!")))
    assert text_of(events) in ("yes!", "no!")
    assert events[-1] == Finish(Reason.STOP)
    events = await ask(local, "tiny", asking(local=Local(regex="[0-9]{100}"), max_tokens=5))
    assert events[-1] == Finish(Reason.LENGTH)


@pytest.mark.anyio
async def test_beside_other_wishes(local: LocalProvider) -> None:
    warned: list[str] = []
    upstream = await begin(local, "tiny", asking(local=Local(regex="a"), tools=(Tool("f"),)), warned)
    await upstream.close()
    assert warned == ["tools"]
    with pytest.raises(ApiError) as refused:
        await ask(local, "tiny", asking(local=Local(regex="a"), response_format=ResponseFormat(Format.JSON)))
    assert refused.value.param == "response_format"
    with pytest.raises(ApiError) as refused:
        await ask(local, "tiny", asking(local=Local(regex="a**")))
    assert refused.value.code == "unsupported_pattern"


def test_no_other_target_leaves_it_out() -> None:
    with pytest.raises(ApiError) as refused:
        check_translatable(asking(local=Local(regex="a")))
    assert refused.value.param == "regex"
