"""What every store of call records does.  The suite knows the port alone; `ADAPTERS` says over what it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.store.port import CallFilter, CallStore, Checkpoint, Outcome, Status, StoreError
from rivermouth.store.sqlite import SqliteCallStore
from tests.databases import laid
from tests.store.records import attempt, ended, opened

ADAPTERS: dict[str, Callable[[Path], CallStore]] = {
    "sqlite": lambda path: SqliteCallStore.open(laid(path / "rivermouth.db")),
}


@pytest.fixture(params=ADAPTERS.values(), ids=ADAPTERS.keys())
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CallStore]:
    made = request.param(tmp_path)
    yield made
    made.dispose()


def test_an_open_row_is_what_was_put_in(store: CallStore):
    store.insert_open([opened(1), opened(2)])
    assert store.get(opened(1).id) == opened(1)
    assert store.get("req_none") is None


def test_opening_twice_changes_nothing(store: CallStore):
    store.insert_open([opened(1)])
    store.insert_open([opened(1, model_asked="other")])
    assert [c.model_asked for c in store.list(10)] == ["gpt-x"]


@pytest.mark.fault("F30")
def test_a_closed_call_keeps_every_field_and_a_line_for_each_attempt(store: CallStore):
    store.insert_open([opened(1)])
    final = ended(opened(1))
    assert store.close([final]) == 1
    assert store.get(final.id) == final


@pytest.mark.fault("F16", "F30")
@pytest.mark.promise(74, 75)
@pytest.mark.parametrize(
    ("status", "kind", "by"),
    [
        (Status.COMPLETED, None, None),
        (Status.FAILED, Kind.TIMEOUT, None),
        (Status.CANCELLED, Kind.CANCELLED, "client"),
        (Status.INTERRUPTED, None, None),
    ],
)
def test_how_a_call_ended_is_kept(store: CallStore, status, kind, by):
    store.insert_open([opened(1)])
    store.close([ended(opened(1), status, kind=kind, cancelled_by=by)])
    found = store.list(10, CallFilter(status=status))
    assert [(c.status, c.kind, c.cancelled_by) for c in found] == [(status, kind, by)]
    assert [(u.status, u.calls, u.output_tokens) for u in store.usage()] == [(status, 1, 7)]


@pytest.mark.fault("F30")
def test_a_call_ends_once(store: CallStore):
    store.insert_open([opened(1)])
    first = ended(opened(1), Status.CANCELLED, cancelled_by="client")
    assert store.close([first]) == 1
    assert store.close([ended(opened(1), attempts=(attempt(1), attempt(3)))]) == 0
    store.checkpoint([Checkpoint(first.id, 99, 99, attempt=attempt(4))])
    assert store.interrupt_open() == 0
    assert store.get(first.id) == first


def test_two_ends_in_one_batch_are_one_end(store: CallStore):
    store.insert_open([opened(1)])
    first = ended(opened(1), Status.CANCELLED, attempts=())
    assert store.close([first, ended(opened(1), attempts=())]) == 1
    assert store.get(first.id) == first


def test_a_call_that_was_never_opened_is_kept_ended(store: CallStore):
    store.insert_open([opened(1)])
    assert store.close([ended(opened(1)), ended(opened(2))]) == 2
    assert store.get(opened(2).id) == ended(opened(2))


def test_an_end_must_be_an_end(store: CallStore):
    store.insert_open([opened(1)])
    with pytest.raises(StoreError):
        store.close([opened(1)])


@pytest.mark.fault("F29")
def test_null_is_not_zero(store: CallStore):
    zero, unknown = ended(opened(1), output_tokens=0), ended(opened(2), output_tokens=None, input_tokens=None)
    store.close([zero, unknown])
    found = store.get(zero.id), store.get(unknown.id)
    assert [c and c.output_tokens for c in found] == [0, None]


@pytest.mark.fault("F29")
def test_an_estimate_is_flagged_in_the_record_and_in_the_sums(store: CallStore):
    store.close([ended(opened(1), estimated=True), ended(opened(2))])
    assert [c.estimated for c in store.list(2)] == [False, True]
    assert [(u.calls, u.estimated) for u in store.usage()] == [(2, 1)]


@pytest.mark.fault("F30")
@pytest.mark.promise(73)
def test_what_was_left_open_counts_its_last_checkpoint(store: CallStore):
    store.insert_open([opened(1), opened(2), opened(3)])
    running = attempt(1, ended_ns=None)
    store.checkpoint([Checkpoint(opened(1).id, 3, 9, attempt=running), Checkpoint(opened(1).id, 5, 14, False)])
    store.close([ended(opened(3))])
    assert store.interrupt_open() == 2
    assert store.interrupt_open() == 0
    one, two = store.get(opened(1).id), store.get(opened(2).id)
    assert one is not None
    assert two is not None
    assert (one.status, one.output_tokens, one.text_chars, one.at_least) == (Status.INTERRUPTED, 5, 14, True)
    assert (one.endpoint_id, one.provider, one.model_used, one.estimated) == ("lab-eu", "lab", "gpt-x-2026", False)
    assert [a.outcome for a in one.attempts] == [Outcome.INTERRUPTED]
    assert (two.status, two.output_tokens, two.text_chars, two.at_least) == (Status.INTERRUPTED, None, 0, True)


def test_a_checkpoint_of_an_unknown_count_keeps_the_known_one(store: CallStore):
    store.insert_open([opened(1)])
    store.checkpoint([Checkpoint(opened(1).id, 5, 14)])
    store.checkpoint([Checkpoint(opened(1).id, None, 15)])
    found = store.get(opened(1).id)
    assert found is not None
    assert (found.output_tokens, found.text_chars) == (5, 15)


def test_the_end_replaces_what_a_checkpoint_said_of_an_attempt(store: CallStore):
    store.insert_open([opened(1)])
    store.checkpoint([Checkpoint(opened(1).id, 3, 9, attempt=attempt(1, output_tokens=3))])
    final = ended(opened(1), attempts=(attempt(1),))
    store.close([final])
    assert store.get(final.id) == final


def test_the_list_is_newest_first_and_limited(store: CallStore):
    store.insert_open([opened(n) for n in (2, 1, 3)])
    assert [c.started_ns // 1_000_000_000 for c in store.list(2)] == [3, 2]
    assert len(store.list(10)) == 3


FILTERS = {
    "status": (CallFilter(status=Status.FAILED), [2]),
    "model asked": (CallFilter(model="llama"), [3]),
    "model used": (CallFilter(model="gpt-x-2026"), [2, 1]),
    "provider": (CallFilter(provider="other"), [4]),
    "key": (CallFilter(key_name="k2"), [4]),
    "time": (CallFilter(since_ns=2_000_000_000, until_ns=4_000_000_000), [3, 2]),
    "both": (CallFilter(model="gpt-x-2026", status=Status.COMPLETED), [1]),
}


@pytest.mark.parametrize(("where", "numbers"), FILTERS.values(), ids=FILTERS.keys())
def test_filters(store: CallStore, where, numbers):
    store.close([ended(opened(1)), ended(opened(2), Status.FAILED)])
    store.insert_open([opened(3, model_asked="llama")])
    store.close([ended(opened(4, key_name="k2"), provider="other", model_used="m")])
    assert [c.started_ns // 1_000_000_000 for c in store.list(10, where)] == numbers


@pytest.mark.fault("F30")
def test_usage_sums_by_model_status_and_currency(store: CallStore):
    store.close(
        [
            ended(opened(1), price_nano=500_000_000),
            ended(opened(2), price_nano=250_000_000, at_least=True),
            ended(opened(3), price_currency="USD", price_nano=1_000_000_000),
            ended(opened(4), Status.CANCELLED, price_nano=125_000_000),
            ended(opened(5), Status.FAILED, model_used=None, output_tokens=None, price_nano=None, price_currency=None),
        ]
    )
    rows = {
        (u.model, u.status, u.currency): (u.calls, u.output_tokens, u.price_amount, u.at_least) for u in store.usage()
    }
    assert rows == {
        ("lab/gpt-x-2026", Status.COMPLETED, "EUR"): (2, 14, 0.75, 1),
        ("lab/gpt-x-2026", Status.COMPLETED, "USD"): (1, 7, 1.0, 0),
        ("lab/gpt-x-2026", Status.CANCELLED, "EUR"): (1, 7, 0.125, 0),
        ("gpt-x", Status.FAILED, None): (1, 0, None, 0),
    }
    assert [u.calls for u in store.usage(since_ns=4_000_000_000, until_ns=5_000_000_000)] == [1]


def test_a_write_is_whole_or_not_at_all(store: CallStore):
    with pytest.raises(StoreError) as caught:
        store.write([opened(1)], (), [ended(opened(2), message="half an emoji \ud83d")])
    assert not caught.value.passing
    assert store.list(10) == []
    store.insert_open([opened(1)])
    assert len(store.list(10)) == 1


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_too_large_is_refused_in_the_ports_words(store: CallStore, value):
    with pytest.raises(StoreError):
        store.close([ended(opened(1), output_tokens=value)])


def test_reading_does_not_wait_for_writing(store: CallStore):
    """Reads come from other threads than writes, at the same time."""
    store.insert_open([opened(n) for n in range(1, 51)])
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.extend(len(store.list(100)) for _ in range(20)))
    reader.start()
    for n in range(51, 101):
        store.insert_open([opened(n)])
    reader.join()
    assert len(seen) == 20
    assert seen == sorted(seen)
    assert seen[0] >= 50
