from __future__ import annotations

from hypothesis import given

from rivermouth.ir.request import FreeForm, Inside
from rivermouth.vendors.openai import free_form
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
