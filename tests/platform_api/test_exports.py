"""Exports: what the API tells, as CSV and as JSON lines; no formulas; no more memory for more calls; never half."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.http.api.platform import exports
from rivermouth.http.api.platform.exports import CALL_COLUMNS, PAGE_ROWS, cell, csv_lines
from rivermouth.store.archive import Page, Place
from rivermouth.store.port import CallFilter, StoreError
from rivermouth.store.sqlite import SqliteCallStore
from rivermouth.store.sqlite_archive import SqliteCallArchive
from tests.engine.client import Cut, asking, connected
from tests.engine.lab import lab, until
from tests.platform_api.office import CONFIG, KEYS, Office
from tests.store.records import ended, opened

pytestmark = pytest.mark.anyio


async def test_both_forms_say_what_the_api_says(place: Office):
    for _ in range(3):
        await place.call()
    await place.call(model="gpt-us")
    listed = (await place.get("/platform/v1/calls?limit=500"))["data"]
    status, headers, data = await place.raw("GET", "/platform/v1/calls.jsonl")
    assert (status, headers["content-type"]) == (200, "application/jsonl")
    lines = [json.loads(line) for line in data.splitlines()]
    assert [{name: line[name] for name in listed[0]} for line in lines] == listed
    assert all(line["text"] is None for line in lines)
    status, headers, data = await place.raw("GET", "/platform/v1/calls.csv")
    assert (status, headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert headers["content-disposition"] == 'attachment; filename="calls.csv"'
    titles, *rows = csv.reader(io.StringIO(data.decode(), newline=""))
    assert tuple(titles) == CALL_COLUMNS
    assert [row[0] for row in rows] == [call["id"] for call in listed]
    assert [row[titles.index("tokens.output")] for row in rows] == [
        "" if call["tokens"]["output"] is None else str(call["tokens"]["output"]) for call in listed
    ]
    costs = [float(row[titles.index("cost.amount")] or 0) for row in rows]
    assert costs == pytest.approx([(call["cost"] or {"amount": 0})["amount"] for call in listed])


async def test_sums_are_exported_too(place: Office):
    await place.call()
    query = "group_by=model&group_by=status"
    usage = await place.get(f"/platform/v1/usage?{query}")
    _, _, data = await place.raw("GET", f"/platform/v1/usage.csv?{query}")
    rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    assert sum(int(row["calls"]) for row in rows) == usage["total"]["calls"]["total"]
    assert {row["model"] for row in rows} == {row["group"]["model"] for row in usage["data"]}
    _, _, data = await place.raw("GET", f"/platform/v1/usage.jsonl?{query}")
    assert [json.loads(line)["calls"] for line in data.splitlines()] == [int(row["calls"]) for row in rows]


async def test_a_user_exports_its_own(place: Office):
    await place.call("other")
    _, _, data = await place.raw("GET", "/platform/v1/calls.jsonl", "other")
    assert {json.loads(line)["key_name"] for line in data.splitlines()} == {"eve"}


# -- cells


async def test_a_models_name_is_no_formula(place: Office):
    """What a client sends stands in a cell."""
    name = '=HYPERLINK("https://evil.example";"x")'
    await place.call("other", model=name)
    _, _, data = await place.raw("GET", "/platform/v1/calls.csv?key_name=eve")
    rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    assert rows[0]["model"] == "'" + name


@given(st.text())
def test_no_text_becomes_a_formula_and_none_is_lost(text: str):
    written = cell(text)
    assert not written.startswith(tuple("=+-@\t\r\n＝＋－＠"))
    assert written in (text, "'" + text)


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=4), max_size=5))
def test_what_is_written_is_read_again(lines: list[list[str]]):
    assert list(csv.reader(io.StringIO(csv_lines(lines).decode(), newline=""))) == lines


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(None, ""), (True, "true"), (-3, "-3"), (0.000205, "0.000205"), (2.0, "2"), (1e-9, "0.000000001"), ("-", "'-")],
)
def test_a_cell(value: object, wanted: str):
    assert cell(value) == wanted


# -- size

READS = 4
"""So many documents, asked for at once on one connection, are more than a system's buffers take."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with many calls."""
    folder = tmp_path_factory.mktemp("filled")
    (folder / "data").mkdir()
    store = SqliteCallStore.open(folder / "data" / "rivermouth.db")
    store.close([ended(opened(n), message="why " * 100) for n in range(1, 4 * PAGE_ROWS + 2)])
    store.dispose()
    return folder


async def test_many_calls_are_sent_in_pieces_and_all_of_them(filled: Path):
    with lab(filled, CONFIG) as server:
        tracemalloc.start()
        try:
            headers = {"authorization": f"Bearer {KEYS['admin']}"}
            async with asking(server.port, "/platform/v1/calls.jsonl", None, headers, method="GET") as answer:
                met = largest = taken = 0
                tail = b""
                while not answer.ended:
                    await answer.more()
                    lines = (tail + answer.body).split(b"\n")
                    met, tail, answer.body = met + len(lines) - 1, lines[-1], b""
                    taken += sum(map(len, lines))
                    largest = max(largest, tracemalloc.get_traced_memory()[1])
            assert tail == b""
            assert met == 4 * PAGE_ROWS + 1
        finally:
            tracemalloc.stop()
        assert taken > 4_000_000
        assert largest < 4 * taken, "a page at a time"


async def test_half_a_document_is_seen_to_be_half(filled: Path, monkeypatch: pytest.MonkeyPatch):
    page = SqliteCallArchive.page

    def fails(archive: SqliteCallArchive, limit: int, where: CallFilter, after: Place | None = None) -> Page:
        if after is not None:
            raise StoreError("disk I/O error")
        return page(archive, limit, where, after)

    monkeypatch.setattr(SqliteCallArchive, "page", fails)
    with lab(filled, CONFIG) as server:
        headers = {"authorization": f"Bearer {KEYS['admin']}"}
        async with asking(server.port, "/platform/v1/calls.jsonl", None, headers, method="GET") as answer:
            with pytest.raises(Cut):
                await answer.rest()
        assert [line["event"] for line in server.log if line["log_level"] == "error"] == ["export.cut"]


@pytest.mark.fault("F35")
async def test_a_reader_that_takes_nothing_is_cut_off(filled: Path, monkeypatch: pytest.MonkeyPatch):
    """It would keep the edition that it asks, with its providers, for as long as it likes."""
    monkeypatch.setattr(exports, "STALL_S", 0.2)
    with lab(filled, CONFIG) as server:
        editions = server.inside.services.editions
        async with connected(server.port, receive_bytes=8192) as client:
            head = {"authorization": f"Bearer {KEYS['admin']}"}
            for _ in range(READS):
                await client.send("GET", "/platform/v1/calls.jsonl", None, head)
            await until(lambda: editions.current.users, "it is being sent")
            await until(lambda: not editions.current.users, "it is over")
            assert server.connections() == 0
        assert "export.stalled" in [line["event"] for line in server.log]


def test_every_column_is_one_of_a_call():
    from rivermouth.http.api.platform.shapes import CallSummary, Money, Timings, Tokens

    parts: dict[str, Sequence[str]] = {
        "tokens": Tokens.__struct_fields__,
        "timings": Timings.__struct_fields__,
        "cost": Money.__struct_fields__,
    }
    for name in CALL_COLUMNS:
        table, _, field = name.partition(".")
        assert table in CallSummary.__struct_fields__
        assert not field or field in parts[table]
    told: set[Any] = {name.partition(".")[0] for name in CALL_COLUMNS}
    assert set(CallSummary.__struct_fields__) - told == {"chunks", "erased"}
