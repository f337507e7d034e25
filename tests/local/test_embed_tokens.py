"""Texts to tokens: what is cut is what it would be if the whole text were read, and not all of it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.local.embedding.tokens import LOOK_CHARS, Cut, Encoding, Tokenizer, load_tokenizer, read, shorten
from tests.tiny_bert import CLS, SEP, VOCABULARY, build, ids_of
from tests.tiny_bert import tokenizer as tokenizer_json

TEXTS = st.text("aé[]SEP .!\n\t中̈x", max_size=400) | st.lists(
    st.sampled_from(["river", "[SEP]", "zzz", " ", "!!", "\U0001f600", "中", "a" * 120]), max_size=300
).map(" ".join)


class Counting:
    """A tokenizer that knows how many characters it was given."""

    def __init__(self, inner: Tokenizer) -> None:
        self._inner = inner
        self.chars = 0

    def encode(self, text: str) -> Encoding:
        self.chars += len(text)
        return self._inner.encode(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return load_tokenizer(tokenizers, folder, len(VOCABULARY))


def test_the_limits_of_the_file_are_not_obeyed(tokenizer: Tokenizer) -> None:
    """It says 8 tokens, filled up to 8."""
    for text in ("sea", "the river the river the river the river"):
        assert list(tokenizer.encode(text).ids) == ids_of(text)


@pytest.mark.parametrize(
    ("cut", "ids"),
    [(Cut.END, [CLS, 5, 6, SEP]), (Cut.START, [CLS, 7, 8, SEP]), (Cut.NONE, None)],
)
def test_what_is_left_of_a_text(tokenizer: Tokenizer, cut: Cut, ids: list[int] | None) -> None:
    read_of_it = read(tokenizer, "river mouth sea stream", 4, cut)
    assert (list(read_of_it.ids) if read_of_it else None) == ids
    whole = read(tokenizer, "river mouth sea stream", 6, cut)
    assert whole is not None
    assert (list(whole.ids), whole.cut) == (ids_of("river mouth sea stream"), False)


@given(text=TEXTS, limit=st.integers(3, 20), cut=st.sampled_from(Cut))
def test_the_same_as_of_the_whole_text(tokenizer: Tokenizer, text: str, limit: int, cut: Cut) -> None:
    encoding = tokenizer.encode(text)
    seen = read(tokenizer, text, limit, cut)
    if len(encoding.ids) <= limit:
        assert seen == (tuple(encoding.ids), False)
    elif cut is Cut.NONE:
        assert seen is None
    else:
        assert seen == (shorten(encoding.ids, encoding.special_tokens_mask, limit, cut), True)
        assert len(seen.ids) == limit


@pytest.mark.parametrize("cut", Cut)
def test_a_book_costs_what_a_page_does(tokenizer: Tokenizer, cut: Cut) -> None:
    counting = Counting(tokenizer)
    seen = read(counting, "the river " * 500_000, 16, cut)
    assert counting.chars <= 5 * LOOK_CHARS * 16
    assert (len(seen.ids) if seen else None) == (None if cut is Cut.NONE else 16)


@pytest.mark.parametrize("cut", Cut)
def test_a_long_word_and_nothing_else_is_read_to_its_end(tokenizer: Tokenizer, cut: Cut) -> None:
    """It is one unknown token, so nothing is cut, and it is looked at twice at most."""
    counting = Counting(tokenizer)
    assert read(counting, "a" * 100_000, 16, cut) == ((CLS, VOCABULARY.index("[UNK]"), SEP), False)
    assert counting.chars < 200_000


def test_a_tokenizer_that_does_not_fit_the_network_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"token {len(VOCABULARY) - 1}, and the network knows 20"):
        load_tokenizer(tokenizers, folder, 20)
    nothing_unknown = tokenizer_json()
    del nothing_unknown["model"]["vocab"]["[UNK]"]
    for bad in ({"model": {}}, nothing_unknown):
        (tmp_path / "tokenizer.json").write_text(json.dumps(bad))
        with pytest.raises(ValueError, match=r"tokenizer\.json cannot be read"):
            load_tokenizer(tokenizers, tmp_path, len(VOCABULARY))
