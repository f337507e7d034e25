"""`doctor turns`: what is at work, from the store alone and from a server that runs on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rivermouth.chat.machine import LIVE, State
from rivermouth.cli import doctor_turns
from rivermouth.cli.client import Client
from rivermouth.cli.doctor_turns import Kept, Told
from rivermouth.secrets import Secret
from rivermouth.store.chats.port import AtWork, Tx
from rivermouth.store.chats.sqlite import SqliteChatStore
from rivermouth.store.database import open_database
from rivermouth.store.datadir import DataDir
from rivermouth.wire import json
from tests.cli.asking import Cli
from tests.running import Running, running
from tests.sdk.wire import Wire

T = TypeVar("T")

NS = 1_000_000_000
COLUMNS = ["SLOT", "TURN", "STATE", "GENERATION", "BEAT", "LAST", "ID", "FOLLOWERS", "AGE", "DEADLINE"]

KEYED = """
[server]
keys = ["env:COMMON_KEY"]
[keys.ops]
key = "env:TEST_KEY"
role = "admin"
"""


def written(data: Path, work: Callable[[Tx], T]) -> T:
    """One transaction of a store that no server has."""

    async def once() -> T:
        store = SqliteChatStore(open_database(data / "rivermouth.db"), clock_ns=time.time_ns, inline=True)
        try:
            return await store.run(work)
        finally:
            await store.close()

    return asyncio.run(once())


def a_turn(state: State, **values: Any) -> Callable[[Tx], int]:
    """A chat of anna's with one turn in that state; its id."""

    def write(tx: Tx) -> int:
        chat = tx.insert_chat("anna", "", titled=False, instructions="")
        turn = tx.insert_turn(chat.id, request_id="r", state=state, user_message_id=0, **values)
        message = tx.insert_message(chat.id, turn.id, "assistant", "[]", "a secret text")
        tx.write_message(message.id, folded_to="4-17")
        tx.set_turns([turn.id], assistant_message_id=message.id)
        return turn.id

    return write


def of_json(cli: Cli, *words: str | Path, code: int = 0) -> Any:
    ran = cli("doctor", "turns", "--json", *words)
    assert ran.code == code, ran.err
    return json.decode(ran.out.encode())


def test_nothing_is_at_work_where_no_server_has_run(cli: Cli, silent: Path) -> None:
    ran = cli("doctor", "turns", "--config", silent)
    assert (ran.code, ran.out, ran.err) == (0, "", "no turn is at work\n")
    assert of_json(cli, "--config", silent) == {"ok": True, "overdue": [], "server": None, "turns": [], "idle": []}


def test_a_live_turn_that_should_have_ended_is_named_and_makes_it_fail(cli: Cli, data_dir: Path, silent: Path) -> None:
    now_ns = time.time_ns()
    written(data_dir, lambda tx: tx.beat("boot"))
    values = {"generation": 4, "worker": "boot"}
    late = written(data_dir, a_turn(State.STREAMING, hard_deadline_ns=now_ns - 90 * NS, **values))
    written(data_dir, a_turn(State.STARTING, hard_deadline_ns=now_ns + 90 * NS, **values))
    written(data_dir, a_turn(State.COMPLETED, hard_deadline_ns=now_ns - 90 * NS, **values))
    written(data_dir, a_turn(State.QUEUED))
    ran = cli("doctor", "turns", "--config", silent)
    assert ran.code == 1
    titles, *rows = [line.split() for line in ran.out.splitlines()]
    assert titles == COLUMNS
    assert [(row[0], row[2], row[3]) for row in rows] == [
        ("uanna:c1", "streaming", "4"),
        ("uanna:c2", "starting", "4"),
        ("uanna:c4", "queued", "-"),
    ]
    assert rows[0][-3:] == ["1", "minute", "late"]
    assert rows[1][-3:] == ["in", "1", "minute"]
    assert "4-17" in rows[0]
    assert f"uanna:c1: turn {late} is streaming and should have ended 1 minute ago\n" in ran.err
    assert "uanna:c2" not in ran.err
    assert "a server that starts here ends what another one left" in ran.err
    told = of_json(cli, "--config", silent, code=1)
    assert (told["ok"], told["overdue"], told["server"]) == (False, ["uanna:c1"], None)
    first, _, waiting = told["turns"]
    assert first["late_s"] > 89
    assert 0 <= first["beat_age_s"] < 60
    assert (first["folded_to"], first["last_id"], first["followers"]) == ("4-17", None, None)
    assert (waiting["late_s"], waiting["beat_age_s"]) == (None, None)
    assert "secret" not in ran.out + str(told)


@pytest.mark.parametrize("state", list(State))
def test_only_a_live_turn_is_ever_overdue(state: State) -> None:
    turn = at_work(state=state.value, hard_deadline_ns=1 * NS)
    assert doctor_turns.look(turn, Kept(now_ns=2 * NS), Told()).overdue is (state in LIVE)
    assert not doctor_turns.look(turn, Kept(now_ns=1 * NS), Told()).overdue


def at_work(**changes: Any) -> AtWork:
    plain: dict[str, Any] = {"id": 1, "chat_id": 7, "owner": "anna", "state": "streaming", "generation": 3}
    plain |= {"worker": "boot", "reason": None, "stop_deadline_ns": None, "hard_deadline_ns": None}
    return AtWork(**{**plain, "created_ns": 0, "folded_to": "", **changes})


def test_a_database_of_another_version_is_no_traceback(cli: Cli, data_dir: Path, silent: Path) -> None:
    (data_dir / "rivermouth.db").write_bytes(b"no database")
    ran = cli("doctor", "turns", "--config", silent)
    assert (ran.code, ran.out) == (1, "")
    assert "rivermouth: " in ran.err


# -- beside a server


def post(server: Running, path: str, body: object, headers: dict[str, str] | None = None) -> Any:
    with Wire(server.port, "POST", path, body, headers) as wire:
        return wire.json()


@contextmanager
def written_and_followed(server: Running, headers: dict[str, str] | None = None) -> Iterator[int]:
    """A chat whose answer has begun and is followed by two, until this ends; its id."""
    chat_id = post(server, "/api/chats", {}, headers)["id"]
    path = f"/api/chats/{chat_id}"
    body = {"content": "Hi", "model": "scripted/scripted-slow"}
    with (
        Wire(server.port, "POST", f"{path}/stream", body, headers) as stream,
        Wire(server.port, "GET", f"{path}/events", headers=headers) as events,
    ):
        stream.read_until(b'"token"')
        events.read_until(b'"token"')
        try:
            yield chat_id
        finally:
            post(server, f"{path}/cancel", {}, headers)
            stream.read()


def test_a_server_adds_what_only_it_knows(cli: Cli, server: Running, silent: Path) -> None:
    where = ("--data-dir", server.data, "--config", silent)
    with written_and_followed(server) as chat_id:
        told = of_json(cli, *where)
        (turn,) = told["turns"]
        assert (told["ok"], told["server"]) == (True, server.url)
        assert (turn["slot"], turn["chat"], turn["state"]) == (f"uguest:c{chat_id}", chat_id, "streaming")
        assert turn["followers"] == 2
        assert int(turn["last_id"].partition("-")[2]) > 0
        assert turn["last_id"].partition("-")[0] == str(turn["generation"])
        assert turn["late_s"] < 0
        assert 0 <= turn["beat_age_s"] < 10
        ran = cli("doctor", "turns", *where)
        row = ran.out.splitlines()[1].split()
        assert (ran.code, row[0], row[2]) == (0, f"uguest:c{chat_id}", "streaming")
        said = Client(server.url).get(doctor_turns.TURNS)
        assert {slot["slot"]: slot["followers"] for slot in said["slots"]} == {turn["slot"]: 2}


def test_a_chat_that_is_only_followed_is_idle(cli: Cli, server: Running, silent: Path) -> None:
    chat_id = post(server, "/api/chats", {})["id"]
    with Wire(server.port, "GET", f"/api/chats/{chat_id}/events") as events:
        events.read_until(b"caught_up")
        told = of_json(cli, "--data-dir", server.data, "--config", silent)
        row = cli("doctor", "turns", "--data-dir", server.data, "--config", silent).out.splitlines()[1].split()
    assert told["turns"] == []
    assert told["idle"] == [{"slot": f"uguest:c{chat_id}", "chat": chat_id, "last_id": None, "followers": 1}]
    assert row[:3] == [f"uguest:c{chat_id}", "-", "idle"]


def test_another_directory_s_server_is_not_believed(cli: Cli, server: Running, data_dir: Path, tmp_path: Path) -> None:
    written(data_dir, a_turn(State.STREAMING, generation=1, worker="elsewhere"))
    file = tmp_path / "there.toml"
    file.write_text(f"[server]\nport = {server.port}\n", encoding="utf-8")
    ran = cli("doctor", "turns", "--config", file)
    assert ran.code == 0
    assert f"{server.url} serves another data directory" in ran.err
    assert ran.out.splitlines()[1].split()[4] == "never"
    assert of_json(cli, "--config", file)["turns"][0]["followers"] is None


def test_a_key_is_asked_for_and_the_store_is_told_without_one(
    cli: Cli, tmp_path: Path, silent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"authorization": "Bearer river-key-1"}
    with running(tmp_path, KEYED, env={"TEST_KEY": "river-key-1", "COMMON_KEY": "river-key-2"}) as server:
        where = ("--data-dir", server.data, "--config", silent)
        with Wire(server.port, "GET", doctor_turns.TURNS) as wire:
            assert wire.status == 401
        with written_and_followed(server, key):
            ran = cli("doctor", "turns", *where)
            assert (ran.code, "does not tell" in ran.err) == (0, True)
            assert ran.out.splitlines()[1].split()[2] == "streaming"
            monkeypatch.setenv("RIVERMOUTH_API_KEY", "river-key-2")
            assert "this needs a key of the role auditor or admin" in cli("doctor", "turns", *where).err
            monkeypatch.setenv("RIVERMOUTH_API_KEY", "river-key-1")
            assert of_json(cli, *where)["turns"][0]["followers"] == 2
            monkeypatch.delenv("RIVERMOUTH_API_KEY")
            monkeypatch.setenv("TEST_KEY", "river-key-1")
            monkeypatch.setenv("COMMON_KEY", "river-key-2")
            own = ("--data-dir", server.data, "--config", tmp_path / "rivermouth.toml")
            assert of_json(cli, *own)["turns"][0]["followers"] == 2
        client = Client(server.url, Secret("river-key-1"))
        while client.get(doctor_turns.TURNS)["slots"]:
            pass
        server.kill()
        assert DataDir(server.data).database.exists()
        assert of_json(cli, *where)["server"] is None
