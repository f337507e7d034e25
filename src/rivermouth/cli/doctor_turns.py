"""`rivermouth doctor turns`: every turn of a chat that has not ended, and whether one should have.

Two things are read.  The store holds the truth, and is read as it is beside a running server, or without one.  Of a
server that runs on it is asked what only it knows: the newest frame of each log, and who follows.  Another server may
answer at the same address; one that never beat in this store is not believed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import typer

from rivermouth.chat.machine import LIVE, UNENDED
from rivermouth.chat.ports import slot_key
from rivermouth.chat.slots import Slot, Slots
from rivermouth.cli.client import Client
from rivermouth.cli.places import configured, data_of, running
from rivermouth.cli.term import Exit, emit, fail, say, show, table
from rivermouth.cli.words import UNKNOWN, ago, span
from rivermouth.config import Config
from rivermouth.ir.errors import ApiError
from rivermouth.secrets import Secret
from rivermouth.store.chats.port import AtWork, Tx
from rivermouth.store.datadir import DataDir
from rivermouth.store.port import StoreError
from rivermouth.wire import json

TURNS: Final = "/platform/v1/turns"
NS: Final = 1e9
TITLES: Final = ("SLOT", "TURN", "STATE", "GENERATION", "BEAT", "LAST ID", "FOLLOWERS", "AGE", "DEADLINE")
IDLE: Final = "idle"


class TurnLook(msgspec.Struct, frozen=True, kw_only=True):
    """One turn that has not ended.

    beat_age_s: since the last sign of life of its writer; None where none was ever seen, or none is needed.
    late_s: since its hard deadline; below 0 before it, None where it has none yet.
    last_id: the newest frame of its log, folded_to: the newest that its row includes.
    last_id, followers: None where no server tells.
    """

    slot: str
    chat: int
    turn: int
    state: str
    reason: str | None
    generation: int
    worker: str | None
    beat_age_s: float | None
    age_s: float
    late_s: float | None
    folded_to: str
    last_id: str | None = None
    followers: int | None = None

    @property
    def overdue(self) -> bool:
        """Live, and older than it may ever become."""
        return self.state in LIVE and self.late_s is not None and self.late_s > 0


class Kept(msgspec.Struct, frozen=True):
    """What the store says, at `now_ns` by its clock."""

    turns: Sequence[AtWork] = ()
    beats: Mapping[str, int] = {}
    now_ns: int = 0


class Told(msgspec.Struct, frozen=True):
    """What a server says.  url: of one that runs on this store.  why: it could not be asked."""

    url: str | None = None
    slots: Mapping[str, Slot] = {}
    why: str | None = None


def run(*, key: str | None, config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """Says what is at work.  Exits with `Exit.FAILED` when a live turn is older than its hard deadline."""
    config = configured(config_file)
    data = data_of(data_dir, config=config)
    kept = read(data)
    found = running(config, data)
    wanted = Secret(key) if key else _key_to_read_with(config)
    if found is not None and wanted is not None:
        found = Client(found.url, wanted)
    told = ask(found, kept.beats)
    looks = [look(turn, kept, told) for turn in kept.turns]
    written = {one.slot for one in looks}
    idle = [slot for slot in told.slots.values() if slot.slot not in written]
    overdue = [one for one in looks if one.overdue]
    if as_json:
        slots = [one.slot for one in overdue]
        emit({"ok": not slots, "overdue": slots, "server": told.url, "turns": looks, "idle": idle})
    elif looks or idle:
        show(table(TITLES, (*map(_row, looks), *map(_idle_row, idle))))
    else:
        say("no turn is at work")
    for line in remarks(overdue, told):
        say(line)
    if overdue:
        raise typer.Exit(Exit.FAILED)


def _key_to_read_with(config: Config) -> Secret | None:
    """A configured key that may read what everybody does; None where the usual one must do."""
    return next((one.key for one in config.keys.values() if one.role in ("auditor", "admin")), None)


def read(data: DataDir) -> Kept:
    """What has not ended, from the store of a server that may be running.  Exits when that cannot be read."""
    if not data.database.exists():
        return Kept()
    from rivermouth.store.chats.sqlite import SqliteChatStore
    from rivermouth.store.database import open_reader

    def every(tx: Tx) -> Kept:
        return Kept(tx.at_work(UNENDED), tx.beats(), tx.now_ns())

    async def once() -> Kept:
        store = SqliteChatStore(open_reader(data.database), clock_ns=time.time_ns, inline=True)
        try:
            return await store.read(every)
        finally:
            await store.close()

    try:
        return asyncio.run(once())
    except StoreError as error:
        fail(str(error), Exit.FAILED)


def ask(client: Client | None, beats: Mapping[str, int]) -> Told:
    """What the server knows, if it is one of this store's."""
    if client is None:
        return Told()
    try:
        said = json.convert(client.get(TURNS), Slots)
    except ApiError as error:
        return Told(why=f"{client.url} does not tell: {error.message}")
    if said.worker not in beats:
        return Told(why=f"{client.url} serves another data directory")
    return Told(client.url, {slot.slot: slot for slot in said.slots})


def look(turn: AtWork, kept: Kept, told: Told) -> TurnLook:
    """The turn with everything that is known of it.  Pure."""
    key = slot_key(turn.owner, turn.chat_id)
    slot = told.slots.get(key)
    beat_ns = kept.beats.get(turn.worker) if turn.worker is not None else None
    deadline_ns = turn.hard_deadline_ns
    return TurnLook(
        slot=key,
        chat=turn.chat_id,
        turn=turn.id,
        state=turn.state,
        reason=turn.reason,
        generation=turn.generation,
        worker=turn.worker,
        beat_age_s=(kept.now_ns - beat_ns) / NS if beat_ns is not None else None,
        age_s=(kept.now_ns - turn.created_ns) / NS,
        late_s=(kept.now_ns - deadline_ns) / NS if deadline_ns is not None else None,
        folded_to=turn.folded_to,
        last_id=slot.last_id if slot is not None else None,
        followers=slot.followers if slot is not None else None,
    )


def remarks(overdue: Sequence[TurnLook], told: Told) -> Iterator[str]:
    """What a person should know beside the table."""
    if told.why is not None:
        yield told.why
    for one in overdue:
        yield f"{one.slot}: turn {one.turn} is {one.state} and should have ended {span(one.late_s or 0)} ago"
    if overdue and told.url is None:
        yield "a server that starts here ends what another one left"


def _row(one: TurnLook) -> tuple[str, ...]:
    return (
        one.slot,
        str(one.turn),
        f"{one.state} ({one.reason})" if one.reason is not None else one.state,
        str(one.generation) if one.generation else UNKNOWN,
        ago(-one.beat_age_s, 0) if one.beat_age_s is not None else "never" if one.worker is not None else UNKNOWN,
        one.last_id or one.folded_to or UNKNOWN,
        str(one.followers) if one.followers is not None else UNKNOWN,
        span(one.age_s),
        _deadline(one.late_s),
    )


def _deadline(late_s: float | None) -> str:
    if late_s is None:
        return UNKNOWN
    return f"{span(late_s)} late" if late_s > 0 else f"in {span(-late_s)}"


def _idle_row(slot: Slot) -> tuple[str, ...]:
    """A chat that is followed, and in which nothing is written."""
    return (slot.slot, UNKNOWN, IDLE, UNKNOWN, UNKNOWN, slot.last_id or UNKNOWN, str(slot.followers), UNKNOWN, UNKNOWN)
