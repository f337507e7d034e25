"""Stop strings across pieces, and text out of tokens: neither depends on how the pieces were cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rivermouth.local.inference.detokenize import CONTEXT_TOKENS, WINDOW_TOKENS, Detokenizer
from rivermouth.local.words.stops import StopFilter

ALPHABET = st.text("ab", max_size=12)
STOPS = st.lists(st.text("ab", min_size=1, max_size=4), max_size=3).map(tuple)


def filtered(stops: tuple[str, ...], pieces: list[str]) -> tuple[str, str | None]:
    stop = StopFilter(stops)
    shown = "".join(stop.feed(piece) for piece in pieces) + stop.flush()
    return shown, stop.matched


def expected(stops: tuple[str, ...], text: str) -> tuple[str, str | None]:
    """By its definition: the text up to the stop string that is complete first, the longer of two that end together."""
    for end in range(len(text) + 1):
        ended = [stop for stop in stops if stop and text[:end].find(stop) >= 0]
        if ended:
            best = min(ended, key=lambda stop: text[:end].find(stop))
            return text[: text.find(best)], best
    return text, None


@given(text=ALPHABET, stops=STOPS)
def test_byte_by_byte_it_is_as_defined(text: str, stops: tuple[str, ...]) -> None:
    assert filtered(stops, list(text)) == expected(stops, text)


@given(text=ALPHABET, stops=STOPS, cuts=st.lists(st.integers(0, 12), max_size=3))
def test_it_is_so_however_the_text_is_cut(text: str, stops: tuple[str, ...], cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert filtered(stops, [text[a:b] for a, b in pairwise(places)]) == expected(stops, text)


def test_only_what_may_become_a_stop_string_is_held() -> None:
    stop = StopFilter(("\nUser:",))
    assert stop.feed("Hello") == "Hello"
    assert stop.feed(" there\nUs") == " there"
    assert stop.feed("ual") == "\nUsual"
    assert stop.flush() == ""


def test_after_a_match_nothing_comes_out() -> None:
    stop = StopFilter(("x",))
    assert stop.feed("axb") == "a"
    assert stop.feed("c") == ""
    assert stop.flush() == ""
    assert stop.matched == "x"


def test_without_stop_strings_nothing_is_held() -> None:
    stop = StopFilter(("",))
    assert [stop.feed("a"), stop.feed("b"), stop.flush()] == ["a", "b", ""]


def dropping(tokens: list[int]) -> str:
    """A tokenizer of bytes that drops what is no character, as the engine's does."""
    return bytes(tokens).decode("utf-8", "ignore")


def replacing(tokens: list[int]) -> str:
    """One that shows it as U+FFFD, as others do."""
    return bytes(tokens).decode("utf-8", "replace")


@given(text=st.text("aé漢\U0001f600 ", max_size=80), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_text_out_of_tokens_is_exact(text: str, sizes: list[int]) -> None:
    tokens = list(text.encode())
    for decode in (dropping, replacing):
        detokenizer = Detokenizer(decode)
        pieces, at, turn = [], 0, 0
        while at < len(tokens):
            size = sizes[turn % len(sizes)]
            pieces.append(detokenizer.feed(tokens[at : at + size]))
            at, turn = at + size, turn + 1
        assert "".join(pieces) + detokenizer.flush() == text
        assert all("�" not in piece for piece in pieces)


def test_a_cut_character_is_not_shown() -> None:
    detokenizer = Detokenizer(dropping)
    assert detokenizer.feed(list(b"a\xf0\x9f\x98")) == "a"
    assert detokenizer.flush() == ""


def test_the_work_for_a_token_does_not_grow() -> None:
    sizes: list[int] = []

    def counting(tokens: list[int]) -> str:
        sizes.append(len(tokens))
        return dropping(tokens)

    detokenizer = Detokenizer(counting)
    for token in b"x" * 500:
        detokenizer.feed([token])
    assert max(sizes) <= WINDOW_TOKENS
    assert CONTEXT_TOKENS < WINDOW_TOKENS
