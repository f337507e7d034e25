"""What every store of chats does.  The suite knows the port alone; `ADAPTERS` says over what it runs."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rivermouth.chat.machine import LIVE, State
from rivermouth.store.chats.port import ChatStore, Taken, Turn, Tx
from rivermouth.store.chats.sqlite import SqliteChatStore
from rivermouth.store.chats.tables import LIVE_WORDS
from rivermouth.store.database import open_database
from rivermouth.store.port import StoreError
from tests.databases import laid

pytestmark = pytest.mark.anyio

NS = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.ns = 1_000 * NS

    def __call__(self) -> int:
        return self.ns


async def _sqlite(folder: Path, clock: Clock) -> ChatStore:
    return SqliteChatStore(open_database(laid(folder / "rivermouth.db")), clock_ns=clock)


ADAPTERS: dict[str, Callable[[Path, Clock], Awaitable[ChatStore]]] = {"sqlite": _sqlite}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ADAPTERS.values(), ids=ADAPTERS.keys())
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[ChatStore]:
    made: ChatStore = await request.param(tmp_path, clock)
    yield made
    await made.close()


async def new_chat(store: ChatStore, owner: str = "anna", title: str = "") -> int:
    return (await store.run(lambda tx: tx.insert_chat(owner, title, titled=False, instructions=""))).id


async def new_turn(store: ChatStore, chat_id: int, state: State = State.QUEUED, **values: Any) -> Turn:
    values.setdefault("request_id", f"r{values}{state}")
    return await store.run(lambda tx: tx.insert_turn(chat_id, state=state, **values))


def test_the_index_knows_the_machines_live_states():
    assert set(LIVE_WORDS) == set(LIVE)


async def test_a_chat_is_its_owners(store: ChatStore):
    chat = await new_chat(store)
    assert await store.read(lambda tx: tx.chat(chat, "bob")) is None
    mine = await store.read(lambda tx: tx.chat(chat, "anna"))
    assert mine is not None
    assert (mine.generation, mine.active_turn, mine.titled) == (0, None, False)


@pytest.mark.promise(79, 80)
@pytest.mark.parametrize("state", sorted(LIVE))
async def test_a_second_live_turn_is_refused_by_the_database(store: ChatStore, state: State):
    chat, other = await new_chat(store), await new_chat(store)
    await new_turn(store, chat, state, request_id="a")
    await new_turn(store, chat, State.QUEUED, request_id="b")
    await new_turn(store, chat, State.COMPLETED, request_id="c")
    for second in LIVE:
        with pytest.raises(Taken):
            await new_turn(store, chat, second, request_id="d")
    waiting = await store.read(lambda tx: tx.turn_of_request(chat, "b"))
    assert waiting is not None
    with pytest.raises(Taken):
        await store.run(lambda tx: tx.move_turn(waiting.id, {State.QUEUED}, State.STARTING))
    await new_turn(store, other, state, request_id="a")


async def test_a_request_has_one_turn(store: ChatStore):
    chat = await new_chat(store)
    first = await new_turn(store, chat, request_id="a")
    with pytest.raises(Taken):
        await new_turn(store, chat, request_id="a")
    assert await store.read(lambda tx: tx.turn_of_request(chat, "a")) == first
    assert (await new_turn(store, await new_chat(store), request_id="a")).id != first.id


async def test_a_turn_moves_only_from_its_sources_and_with_its_generation(store: ChatStore):
    chat = await new_chat(store)
    turn = await new_turn(store, chat)

    async def move(sources: set[State], to: State, **more: Any) -> bool:
        return await store.run(lambda tx: tx.move_turn(turn.id, sources, to, **more))

    assert not await move({State.STREAMING}, State.STOPPING)
    assert await move({State.QUEUED}, State.STARTING, new_generation=7, worker="w")
    assert not await move({State.STARTING}, State.STREAMING, generation=6)
    assert await move({State.STARTING}, State.STREAMING, generation=7, upstream_called=True)
    now = await store.read(lambda tx: tx.turn(turn.id))
    assert now is not None
    assert (now.state, now.generation, now.worker, now.upstream_called) == ("streaming", 7, "w", True)


async def test_a_transaction_is_whole_or_not_at_all(store: ChatStore):
    chat = await new_chat(store)

    def half(tx: Tx) -> None:
        tx.update_chat(chat, title="changed")
        tx.insert_turn(chat, state=State.QUEUED, request_id="x")
        raise LookupError("no")

    with pytest.raises(LookupError):
        await store.run(half)
    found = await store.read(lambda tx: (tx.chat(chat), list(tx.turns(chat))))
    assert found[0] is not None
    assert (found[0].title, found[1]) == ("", [])


async def test_transactions_do_not_see_each_other(store: ChatStore):
    chat = await new_chat(store)

    def count(tx: Tx) -> None:
        row = tx.chat(chat)
        assert row is not None
        tx.update_chat(chat, generation=row.generation + 1)

    await asyncio.gather(*(store.run(count) for _ in range(100)))
    row = await store.read(lambda tx: tx.chat(chat))
    assert row is not None
    assert row.generation == 100


async def test_who_is_cancelled_meanwhile_has_done_it_or_not(store: ChatStore):
    chat = await new_chat(store)
    task = asyncio.ensure_future(store.run(lambda tx: tx.update_chat(chat, title="done")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    row = await store.read(lambda tx: tx.chat(chat))
    assert row is not None
    assert row.title in ("", "done")


async def test_nothing_is_written_in_a_reading(store: ChatStore):
    chat = await new_chat(store)
    with contextlib.suppress(StoreError):
        await store.read(lambda tx: tx.update_chat(chat, title="x"))
    row = await store.read(lambda tx: tx.chat(chat))
    assert row is not None
    assert row.title == ""


@pytest.mark.promise(131)
async def test_ids_grow_and_are_never_used_again(store: ChatStore):
    chat = await new_chat(store)
    turn = await new_turn(store, chat)
    first = await store.run(lambda tx: tx.insert_message(chat, turn.id, "user", "[]", "x"))
    await store.run(lambda tx: tx.delete_message(first.id))
    second = await store.run(lambda tx: tx.insert_message(chat, turn.id, "user", "[]", "x"))
    assert second.id > first.id > 0
    await store.run(lambda tx: tx.delete_chat(chat))
    assert await new_chat(store) > chat


async def test_a_deleted_chat_leaves_nothing(store: ChatStore):
    chat = await new_chat(store, title="findable")
    turn = await new_turn(store, chat)
    await store.run(lambda tx: tx.insert_message(chat, turn.id, "user", "[]", "findable"))
    assert await store.run(lambda tx: tx.delete_chat(chat))
    assert not await store.run(lambda tx: tx.delete_chat(chat))
    left = await store.read(
        lambda tx: (tx.chat(chat), tx.turn(turn.id), list(tx.messages(chat)), list(tx.search("anna", ["findable"], 9)))
    )
    assert left == (None, None, [], [])


async def test_messages_are_in_order_and_of_one_role_where_that_is_asked(store: ChatStore):
    chat = await new_chat(store)
    turn = await new_turn(store, chat)
    for role, text in (("user", "a"), ("assistant", "b"), ("user", "c")):
        await store.run(lambda tx, r=role, t=text: tx.insert_message(chat, turn.id, r, "[]", t))  # type: ignore[misc]
    assert [m.text for m in await store.read(lambda tx: tx.messages(chat))] == ["a", "b", "c"]
    assert [m.text for m in await store.read(lambda tx: tx.messages(chat, "assistant"))] == ["b"]


async def test_chats_are_listed_by_the_last_touch_page_by_page(store: ChatStore, clock: Clock):
    made = [await new_chat(store) for _ in range(5)]
    await new_chat(store, "bob")
    clock.ns += NS
    await store.run(lambda tx: tx.update_chat(made[1], updated_ns=tx.now_ns()))
    order = [made[1], made[4], made[3], made[2], made[0]]
    first = await store.read(lambda tx: list(tx.chats("anna", 2, None)))
    rest = await store.read(lambda tx: list(tx.chats("anna", 9, (first[-1].updated_ns, first[-1].id))))
    assert [chat.id for chat in (*first, *rest)] == order


# -- workers


async def test_turns_of_a_dead_worker_and_late_ones_are_orphans(store: ChatStore, clock: Clock):
    turns = {}
    late = {"stop_deadline_ns": clock.ns + NS}
    overdue = {"hard_deadline_ns": clock.ns + NS}
    for name, state, values in (
        ("alive", State.STREAMING, {"worker": "alive"}),
        ("dead", State.STREAMING, {"worker": "dead"}),
        ("late", State.STOPPING, {"worker": "alive", **late}),
        ("overdue", State.STARTING, {"worker": "alive", **overdue}),
        ("recovering", State.RECOVERING, {"worker": "alive", **late}),
        ("half recovered", State.RECOVERING, {"worker": "dead"}),
        ("ended", State.COMPLETED, {"worker": "dead"}),
        ("never had one", State.STARTING, {"worker": None}),
    ):
        turns[(await new_turn(store, await new_chat(store), state, **values)).id] = name
    await store.run(lambda tx: tx.beat("dead"))
    clock.ns += 10 * NS
    await store.run(lambda tx: tx.beat("alive"))

    def orphans(tx: Tx) -> set[str]:
        found = tx.orphans(LIVE, beat_before_ns=clock.ns - 5 * NS, now_ns=clock.ns)
        return {turns[turn.id] for turn in found}

    assert await store.read(orphans) == {"dead", "late", "overdue", "half recovered", "never had one"}
    assert {turns[t.id] for t in await store.read(lambda tx: tx.turns_of("dead", LIVE))} == {"dead", "half recovered"}
    foreign = {turns[t.id] for t in await store.read(lambda tx: tx.foreign(LIVE, "alive"))}
    assert foreign == {"dead", "half recovered", "never had one"}
    await store.run(lambda tx: tx.forget_workers(clock.ns))
    assert "alive" not in await store.read(orphans)


async def test_the_first_of_every_queue_without_an_active_turn_waits_for_a_worker(store: ChatStore):
    free, busy, empty = await new_chat(store), await new_chat(store), await new_chat(store)
    first = await new_turn(store, free, request_id="a")
    await new_turn(store, free, request_id="b")
    await new_turn(store, busy, request_id="a")
    await new_turn(store, empty, State.COMPLETED, request_id="a")
    await store.run(lambda tx: tx.update_chat(busy, active_turn=99))
    assert [turn.id for turn in await store.read(lambda tx: tx.heads(State.QUEUED))] == [first.id]


# -- people


async def test_a_preference_is_kept_for_each_person(store: ChatStore):
    await store.run(lambda tx: tx.prefer("anna", "model", "kimi"))
    await store.run(lambda tx: tx.prefer("anna", "model", "groq"))
    assert await store.read(lambda tx: (tx.preference("anna", "model"), tx.preference("bob", "model"))) == (
        "groq",
        None,
    )


@pytest.mark.parametrize("words", [["riv"], ["RIVER"], ["deep", "riv"], ["riv", "dee"]])
async def test_a_search_finds_the_beginnings_of_words(store: ChatStore, words: list[str]):
    chat = await new_chat(store, title="talk")
    turn = await new_turn(store, chat)
    message = await store.run(lambda tx: tx.insert_message(chat, turn.id, "user", "[]", "A deep river runs"))
    hits = await store.read(lambda tx: list(tx.search("anna", words, 9)))
    assert [(hit.chat_id, hit.message_id, hit.title) for hit in hits] == [(chat, message.id, "talk")]
    assert "river" in hits[0].snippet
    assert list(await store.read(lambda tx: tx.search("bob", words, 9))) == []


async def test_titles_are_found_and_so_is_a_text_once_it_is_final(store: ChatStore):
    chat = await new_chat(store, title="About 100% boats")
    turn = await new_turn(store, chat)
    message = await store.run(lambda tx: tx.insert_message(chat, turn.id, "assistant", "[]", ""))
    await store.run(lambda tx: tx.write_message(message.id, text="half a wo"))
    search = lambda *words: store.read(lambda tx: [hit.message_id for hit in tx.search("anna", words, 9)])  # noqa: E731
    assert await search("half") == []
    await store.run(lambda tx: tx.write_message(message.id, searchable=True, text="half a word"))
    await store.run(lambda tx: tx.write_message(message.id, searchable=True, text="a whole word"))
    assert (await search("whole"), await search("half")) == ([message.id], [])
    assert await search("100%") == [None]
    assert await search("%") == [None]
    assert await search() == []


@pytest.mark.parametrize(
    "word", ['"', '" OR *', "a:b", "NEAR(", "-x", "^", "(", "*", "x AND", "'; DROP", "\x00", "é\u2028"]
)
async def test_a_search_is_never_a_language(store: ChatStore, word: str):
    await new_chat(store, title="talk")
    assert isinstance(await store.read(lambda tx: list(tx.search("anna", [word], 9))), list)


async def test_half_an_emoji_is_refused_and_breaks_nothing(store: ChatStore):
    chat = await new_chat(store)
    with pytest.raises(StoreError):
        await store.run(lambda tx: tx.update_chat(chat, title="\ud83d"))
    assert await store.run(lambda tx: tx.update_chat(chat, title="whole"))


async def test_what_is_at_work_is_told_over_all_chats_without_what_is_said(store: ChatStore, clock: Clock):
    first, second = await new_chat(store), await new_chat(store, "bob")
    live = await new_turn(store, first, State.STREAMING, generation=3, worker="w", hard_deadline_ns=7)
    await new_turn(store, first, State.COMPLETED)
    waiting = await new_turn(store, second, State.QUEUED)

    def answer(tx: Tx) -> None:
        message = tx.insert_message(first, live.id, "assistant", "[]", "secret")
        tx.write_message(message.id, folded_to="3-9")
        tx.set_turns([live.id], assistant_message_id=message.id)

    await store.run(answer)
    found = await store.read(lambda tx: tx.at_work({State.STREAMING, State.QUEUED}))
    assert [(one.id, one.chat_id, one.owner, one.state) for one in found] == [
        (live.id, first, "anna", "streaming"),
        (waiting.id, second, "bob", "queued"),
    ]
    assert (found[0].generation, found[0].worker, found[0].hard_deadline_ns, found[0].folded_to) == (3, "w", 7, "3-9")
    assert (found[1].worker, found[1].hard_deadline_ns, found[1].folded_to) == (None, None, "")
    assert found[0].created_ns == clock.ns
    assert "secret" not in repr(found)
    assert await store.read(lambda tx: tx.at_work({State.STOPPING})) == []


async def test_the_last_beat_of_each_process_is_known(store: ChatStore, clock: Clock):
    assert await store.read(lambda tx: tx.beats()) == {}
    for boot_id in ("a", "b", "a"):
        clock.ns += NS
        await store.run(lambda tx, boot_id=boot_id: tx.beat(boot_id))  # type: ignore[misc]
    assert await store.read(lambda tx: tx.beats()) == {"a": clock.ns, "b": clock.ns - NS}


# -- SQLite's own


async def test_a_busy_database_is_a_failure_that_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rivermouth.store.database._PRAGMAS", ("PRAGMA journal_mode=WAL", "PRAGMA busy_timeout=1"))
    store = SqliteChatStore(open_database(tmp_path / "rivermouth.db"), clock_ns=Clock())
    raw = sqlite3.connect(tmp_path / "rivermouth.db")
    raw.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as failed:
        await new_chat(store)
    assert failed.value.passing
    raw.rollback()
    raw.close()
    assert await new_chat(store)
    await store.close()


async def test_a_pulse_tells_of_every_change_that_a_follower_may_see(store: ChatStore, clock: Clock):
    chat, other = await new_chat(store), await new_chat(store)

    async def pulse() -> Any:
        return (await store.read(lambda tx: tx.pulses([chat, 99]))).get(chat)

    async def changed(work: Callable[[Tx], Any]) -> None:
        before = await pulse()
        await store.run(work)
        assert await pulse() != before

    assert set(await store.read(lambda tx: tx.pulses([chat, other, 99]))) == {chat, other}
    assert await store.read(lambda tx: tx.pulses([])) == {}
    await changed(lambda tx: tx.insert_turn(chat, request_id="a", state=State.QUEUED))
    turn = (await store.read(lambda tx: tx.turns(chat)))[0]
    answer = await store.run(lambda tx: tx.insert_message(chat, turn.id, "assistant", "[]", ""))
    await store.run(lambda tx: tx.set_turns([turn.id], assistant_message_id=answer.id))
    await changed(lambda tx: tx.update_chat(chat, generation=1, active_turn=turn.id))
    await changed(lambda tx: tx.move_turn(turn.id, {State.QUEUED}, State.STARTING))
    await changed(lambda tx: tx.write_message(answer.id, folded_to="1-5", text="x"))
    await changed(lambda tx: tx.update_chat(chat, active_turn=None))
    await changed(lambda tx: tx.update_chat(chat, updated_ns=clock.ns + 1))
    still = await pulse()
    await store.run(lambda tx: tx.insert_turn(other, request_id="a", state=State.QUEUED))
    assert await pulse() == still
    await changed(lambda tx: tx.delete_chat(chat))
    assert await pulse() is None


async def test_more_pulses_than_one_statement_takes(store: ChatStore):
    chat = await new_chat(store)
    assert set(await store.read(lambda tx: tx.pulses(list(range(chat, chat + 25_000))))) == {chat}


async def test_an_answer_is_read_without_its_parts_and_with_the_state_of_its_turn(store: ChatStore):
    chat = await new_chat(store)
    turn = await new_turn(store, chat, State.STREAMING)
    asked = await store.run(lambda tx: tx.insert_message(chat, turn.id, "user", "[]", "q"))
    made = await store.run(lambda tx: tx.insert_message(chat, turn.id, "assistant", "[]", ""))
    await store.run(lambda tx: tx.write_message(made.id, parts="[1]", text="so far", folded_to="1-7"))
    answer = await store.read(lambda tx: tx.answer(made.id))
    assert answer is not None
    assert (answer.id, answer.state, answer.folded_to, answer.text) == (made.id, "streaming", "1-7", "so far")
    assert await store.read(lambda tx: tx.folded(chat)) == {made.id: "1-7"}
    assert await store.read(lambda tx: tx.answer(99)) is None
    assert asked.id not in await store.read(lambda tx: tx.folded(chat))
