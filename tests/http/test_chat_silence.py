"""A stop, and a newer message, end an answer at once also when its upstream is silent and deaf: on real sockets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chat.lab import events, read_frames, tokens
from tests.engine.lab import lab
from tests.http.test_chats import Client, until

BOUND_S = 2.0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    config = '[providers.stuck]\npython = "tests.chat.tellers:stuck"\n'
    with lab(tmp_path_factory.mktemp("silence"), config) as server:
        yield Client(server)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """Where a stuck model is let go when the test is over."""
    yield tmp_path / "gate"
    (tmp_path / "gate").touch()


SAID = pytest.mark.parametrize("said", ["", "so far"], ids=["before the first token", "after some"])


@SAID
@pytest.mark.promise(94, 104, 123, 132)
def test_a_stop_ends_a_silent_answer_and_keeps_its_text(client: Client, gate: Path, said: str):
    chat = client.chat()
    path, body = f"/api/chats/{chat}", {"content": f"{gate} {said}", "model": "stuck"}
    with client.open("POST", f"{path}/stream", body) as stream:
        head = until(stream, b'"event":"token"' if said else b'"event":"start"')
        began_s = time.monotonic()
        assert client.json("POST", f"{path}/cancel") == {"cancelled": True}
        frames = read_frames(head + stream.read())
        assert time.monotonic() - began_s < BOUND_S
    assert (frames[-1]["event"], frames[-1]["reason"]) == ("cancelled", "stopped by the user")
    assert [f["event"] for f in frames].count("cancelled") == 1
    answer = client.json("GET", path)["messages"][-1]
    assert (answer["content"], answer["state"]) == (said, "stopped")
    assert tokens(frames) == said


@SAID
@pytest.mark.promise(81, 104, 123, 129, 130)
def test_a_newer_message_ends_a_silent_answer_before_its_own_begins(client: Client, gate: Path, said: str):
    chat = client.chat()
    path, body = f"/api/chats/{chat}", {"content": f"{gate} {said}", "model": "stuck"}
    answered: list[bytes] = []

    def newer() -> None:
        answered.append(client.ask("POST", f"{path}/stream", {"content": "y", "model": "scripted"})[2])

    with (
        client.open("GET", f"{path}/events?after=0-0") as watching,
        client.open("POST", f"{path}/stream", body) as stream,
    ):
        head = until(stream, b'"event":"token"' if said else b'"event":"start"')
        began_s = time.monotonic()
        other = threading.Thread(target=newer, daemon=True)
        other.start()
        frames = read_frames(head + stream.read())
        assert time.monotonic() - began_s < BOUND_S
        other.join(15.0)
        seen = read_frames(until(watching, b'"event":"done"'))
    assert (frames[-1]["event"], frames[-1]["reason"]) == ("cancelled", "superseded by a newer request")
    assert events(read_frames(answered[0])) == ["start", "provider", "token", "done"]
    told = [f for f in seen if f["event"] in ("start", "cancelled", "done")]
    assert [f["event"] for f in told] == ["start", "cancelled", "start", "done"]
    assert told[0]["message_id"] == told[1]["message_id"] < told[2]["message_id"] == told[3]["message_id"]
    messages: list[dict[str, Any]] = client.json("GET", path)["messages"]
    assert [(m["role"], m["state"]) for m in messages] == [
        ("user", "completed"),
        ("assistant", "superseded"),
        ("user", "completed"),
        ("assistant", "completed"),
    ]
    assert messages[1]["content"] == said


@pytest.mark.promise(80)
def test_two_devices_with_one_chat_see_one_stream_each_and_the_same(client: Client, gate: Path):
    """A phone and a desk: what one asks ends what the other asked, on both screens."""
    chat = client.chat()
    path = f"/api/chats/{chat}"
    with (
        client.open("GET", f"{path}/events?after=0-0") as phone,
        client.open("GET", f"{path}/events?after=0-0") as desk,
        client.open("POST", f"{path}/stream", {"content": f"{gate} one", "model": "stuck"}) as asked,
    ):
        until(asked, b'"event":"token"')
        client.ask("POST", f"{path}/stream", {"content": "two", "model": "scripted"})
        seen = [[f for f in read_frames(until(s, b'"event":"done"')) if "#" in f] for s in (phone, desk)]
    assert seen[0] == seen[1]
    live = 0
    for frame in seen[0]:
        live += {"start": 1, "done": -1, "cancelled": -1}.get(frame["event"], 0)
        assert live in (0, 1)
