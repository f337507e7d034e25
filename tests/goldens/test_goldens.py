"""What goes over a wire is what was reviewed: a change fails here until `make goldens` and a person have seen it."""

from __future__ import annotations

import pytest
from botocore.eventstream import ChecksumMismatch
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.conformance import DIALECTS
from tests.dialects.recordings import CASES
from tests.goldens.cases import ANSWERS, QUESTIONS, REFUSALS
from tests.goldens.pages import GOLDENS, Page, golden, pages
from tests.goldens.visible import MOST_LINES, abridged, document, invisible, messages, visible
from tests.goldens.ways import WAYS, match_of

MODEST_BYTES = 600_000


@pytest.mark.fault("F5")
@pytest.mark.parametrize("page", list(pages()), ids=lambda page: f"{page.way}-{page.case}")
def test_what_is_sent_is_what_was_reviewed(page: Page) -> None:
    assert page.path.exists(), "run `make goldens`, and read what it wrote"
    assert golden(page).splitlines() == page.path.read_text(encoding="utf-8").splitlines(), "or `make goldens`"


def test_no_golden_is_left_of_what_is_not_there_any_more() -> None:
    assert set(GOLDENS.glob("*/*.txt")) == {page.path for page in pages()}


def test_every_dialect_has_a_main_way_and_every_way_its_route() -> None:
    assert {way.dialect for way in WAYS.values() if not way.brief} == set(DIALECTS)
    assert {name: match_of(way).dialect.name for name, way in WAYS.items()} == {n: w.dialect for n, w in WAYS.items()}
    assert {*ANSWERS, *REFUSALS} == set(CASES), "what upstreams say and what clients are told are the same cases"
    assert set(QUESTIONS) == {"tool_results", "image", "json_schema"}


def test_goldens_stay_of_a_size_that_a_person_can_read() -> None:
    assert sum(page.path.stat().st_size for page in pages()) < MODEST_BYTES


class TestVisible:
    @given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
    def test_nothing_is_hidden_and_nothing_lost(self, data: bytes) -> None:
        lines = visible(data)
        assert invisible(lines) == data
        assert all(line.isprintable() for line in lines)

    @pytest.mark.parametrize(
        ("data", "lines"),
        [
            (b"", []),
            (b"a\n\n", ["a", ""]),
            (b"a\r\nb", ["a‹U+000D›", "b‹no line end›"]),
            ("a\u2028\u0085e\u0301😀\n".encode(), ["a‹U+2028›‹U+0085›e‹U+0301›😀"]),
            (b'{"a":"\\u2028"}\n', ['{"a":"\\u2028"}']),
            (b"\xff\xe2\x80\n", ["‹0xFF›‹0xE2›‹0x80›"]),
            ("‹U+0041›\n".encode(), ["‹U+2039›U+0041›"]),
        ],
    )
    def test_what_is_special_is_named(self, data: bytes, lines: list[str]) -> None:
        assert visible(data) == lines
        assert invisible(lines) == data

    def test_a_document_is_laid_out_only_if_nothing_of_it_is_lost_by_that(self) -> None:
        assert document(b'{"a":[1,"\\u2028\xc3\xa9"]}')[1:] == ["{", ' "a": [', "  1,", '  "\\u2028é"', " ]", "}"]
        assert document(b'{"a": 1}') == ['{"a": 1}‹no line end›']
        assert document(b"no json\n") == ["no json"]

    def test_of_very_long_text_the_digest_is_kept(self) -> None:
        lines = [str(number) for number in range(MOST_LINES + 1)]
        short = abridged(lines, b"one")
        assert len(short) < MOST_LINES / 2
        assert max(map(len, abridged(["x" * 3000], b""))) < 400
        assert short != abridged(lines, b"two")
        assert abridged(lines[1:], b"") == lines[1:]

    def test_a_message_with_a_wrong_checksum_is_none(self) -> None:
        with pytest.raises(ChecksumMismatch):
            messages(bytes(16))
