from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.request import FreeForm, Inside
from rivermouth.vendors.openai import free_form
from tests.cost import assert_linear
from tests.strategies import texts


@given(text=texts, more=texts)
def test_a_text_comes_out_of_its_wrapping_whole_or_in_pieces(text: str, more: str) -> None:
    assert free_form.unwrap(free_form.wrap(text)) == text
    assert free_form.HEAD + free_form.inner(text) + free_form.inner(more) + free_form.TAIL == free_form.wrap(
        text + more
    )


def test_a_broken_wrapping_is_what_the_model_wrote() -> None:
    for broken in ("", "ls -l", "[1]", '{"input":7}', '{"cmd":"ls"}', '{"input":"'):
        assert free_form.unwrap(broken) == broken


def test_the_function_tells_the_grammar_and_the_form_keeps_it() -> None:
    form = FreeForm("Runs it.", "lark", "start: WORD")
    tool = free_form.as_function("ns__sh", form, Inside("ns", "sh"))
    assert (tool.name, tool.free_form, tool.inside) == ("ns__sh", form, Inside("ns", "sh"))
    assert tool.description == "Runs it.\n\nThe input must match this lark grammar:\nstart: WORD"
    assert tool.parameters == free_form.PARAMETERS
    assert free_form.as_function("sh", FreeForm()).description is None


def fed(arguments: str, cuts: set[int]) -> str:
    edges = [0, *sorted(c for c in cuts if c < len(arguments)), len(arguments)]
    unwrapping = free_form.Unwrapping()
    pieces = [unwrapping.feed(arguments[a:b]) for a, b in pairwise(edges)]
    return "".join(pieces) + unwrapping.end()


ESCAPED = st.lists(
    st.sampled_from(["a", "é", "😀", "\\n", '\\"', "\\\\", "\\/", "\\u00e9", "\\ud83d\\ude00", "\\u2028", " ", "}"])
).map("".join)
SPACE = st.text(" \n\t\r", max_size=3)
CUTS = st.sets(st.integers(1, 80), max_size=12)


@pytest.mark.fault("F1", "F2")
@given(text=ESCAPED, spaces=st.tuples(SPACE, SPACE, SPACE, SPACE, SPACE), cuts=CUTS)
def test_the_text_is_the_same_wherever_the_arguments_are_cut(
    text: str, spaces: tuple[str, ...], cuts: set[int]
) -> None:
    a, b, c, d, e = spaces
    arguments = f'{a}{{{b}"input"{c}:{d}"{text}"{e}}}'
    assert fed(arguments, cuts) == free_form.unwrap(arguments)
    assert fed(arguments, set(range(1, len(arguments)))) == free_form.unwrap(arguments)


@given(arguments=st.one_of(texts, st.text('{}":\\ inputx\n', max_size=20), st.just("{" + " " * 1000)), cuts=CUTS)
def test_whatever_is_no_wrapping_comes_whole(arguments: str, cuts: set[int]) -> None:
    if free_form.unwrap(arguments) == arguments and '"input"' not in arguments:
        assert fed(arguments, cuts) == arguments


@given(text=ESCAPED, cuts=CUTS)
def test_of_arguments_that_were_cut_off_it_is_what_was_there(text: str, cuts: set[int]) -> None:
    whole = free_form.unwrap(f'{{"input":"{text}"}}')
    assert whole.startswith(fed(f'{{"input":"{text}', cuts))


def test_what_is_no_escape_is_kept_as_it_stands_and_costs_what_it_is() -> None:
    assert fed('{"input":"a\\x' + "b" * 100, {12, 14, 40}) == "a\\x" + "b" * 100

    def prepare(count: int) -> Callable[[], object]:
        pieces = ['{"input":"\\x', *["bc"] * count]

        def unwrap() -> None:
            unwrapping = free_form.Unwrapping()
            for piece in pieces:
                unwrapping.feed(piece)
            unwrapping.end()

        return unwrap

    assert_linear(prepare, 500)
