"""The scripted vectors: deterministic, of unit length, near each other when words are shared."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError
from rivermouth.providers.scripted.embedding import DIMENSIONS, vector_of


@given(st.text(), st.none() | st.integers(1, DIMENSIONS))
def test_every_vector_has_unit_length_and_is_the_same_each_time(text: str, dimensions: int | None) -> None:
    vector = vector_of(text, dimensions)
    assert len(vector) == (dimensions or DIMENSIONS)
    assert math.isclose(math.fsum(x * x for x in vector), 1.0, rel_tol=1e-9)
    assert vector == vector_of(text, dimensions)


def test_texts_that_share_words_are_nearer() -> None:
    river, mouth, other = map(
        vector_of, ("The river runs to the sea", "a RIVER runs, to a lake", "quarterly tax report")
    )

    def near(a: tuple[float, ...], b: tuple[float, ...]) -> float:
        return math.fsum(x * y for x, y in zip(a, b, strict=True))

    assert near(river, mouth) > 0.3 > abs(near(river, other))


@pytest.mark.parametrize("dimensions", [0, -1, DIMENSIONS + 1])
def test_other_dimensions_are_refused(dimensions: int) -> None:
    with pytest.raises(ApiError) as caught:
        vector_of("x", dimensions)
    assert caught.value.param == "dimensions"
