"""Streams of a chat that are cut on real sockets, at any byte, and gone on with after the last whole frame."""

from __future__ import annotations

import http.client
import json
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chat.front import Screen
from tests.chat.lab import read_frames, tokens
from tests.chat.tellers import piece_by_piece
from tests.engine.lab import lab
from tests.http.test_chats import Client

TELLER = '[providers.teller]\npython = "tests.chat.tellers:flow"\n'
AT_ONCE = struct.pack("ii", 1, 0)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with lab(tmp_path_factory.mktemp("cuts"), TELLER) as server:
        yield Client(server)


def cut(client: Client, method: str, path: str, body: Any, headers: dict[str, str], after_bytes: int) -> bytes:
    """What had come of an answer's body when its connection was cut: all of it, if it ended before."""
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=15.0)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        with connection.getresponse() as answer:
            assert answer.status == 200, answer.read()
            out = b""
            while len(out) < after_bytes and (piece := answer.read1(after_bytes - len(out))):
                out += piece
            if connection.sock is not None:
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            return out
    finally:
        connection.close()


def last_of(screen: Screen) -> dict[str, str]:
    return {"Last-Event-ID": str(screen.cursor)} if screen.cursor.generation else {}


@pytest.mark.promise(124)
@pytest.mark.parametrize("route", ["stream", "events"])
def test_a_long_stream_cut_at_two_hundred_places_is_the_uncut_one(client: Client, route: str):
    chat, chance = client.chat(), random.Random(1)
    body, key = {"content": "150 40", "model": "teller"}, {"Idempotency-Key": "long"}
    _, _, uncut = client.ask("POST", f"/api/chats/{chat}/stream", body, key)
    if route == "events":
        turn = client.json("GET", f"/api/chats/{chat}")["messages"][0]["turn"]
        asked: tuple[str, str, Any, dict[str, str]] = ("GET", f"/api/chats/{chat}/events?turn={turn}", None, {})
        uncut = client.ask("GET", f"{asked[1]}&after=0-0")[2]
    else:
        asked = ("POST", f"/api/chats/{chat}/stream", body, key)
    want = Screen()
    want.feed(uncut)
    assert want.text == "".join(piece_by_piece(150, 40))
    assert len(want.text) > 100_000
    assert want.ends == ["done"]
    screens: dict[int, Screen] = {}
    reading, at = Screen(), 0
    for offset in sorted(chance.sample(range(len(uncut)), 200)):
        reading.feed(uncut[at:offset])
        at = offset
        screens[offset] = reading.copy()
    answers: dict[str, bytes] = {}
    for offset, screen in screens.items():
        last = str(screen.cursor)
        if last not in answers:
            answers[last] = client.ask(asked[0], asked[1], asked[2], {**asked[3], **last_of(screen)})[2]
        screen.feed(answers[last])
        assert screen.shown == want.shown, offset


@pytest.mark.promise(124)
@pytest.mark.parametrize("route", ["stream", "events"])
def test_connections_cut_while_the_answer_is_written_lose_and_repeat_nothing(client: Client, route: str):
    chat, chance = client.chat(), random.Random(2)
    stream = ("POST", f"/api/chats/{chat}/stream", {"content": "x", "model": "scripted-slow"}, {"Idempotency-Key": "k"})
    events = ("GET", f"/api/chats/{chat}/events", None, {})
    screen = Screen()
    screen.feed(cut(client, *stream, after_bytes=1))
    for _ in range(30):
        screen = screen.copy()
        method, path, body, headers = stream if route == "stream" else events
        more = last_of(screen) or ({} if route == "stream" else {"Last-Event-ID": "0-0"})
        screen.feed(cut(client, method, path, body, {**headers, **more}, after_bytes=chance.randrange(1, 400)))
        if len(screen.text) > 120:
            break
    assert client.json("POST", f"/api/chats/{chat}/cancel") == {"cancelled": True}
    screen = screen.copy()
    screen.feed(client.ask(stream[0], stream[1], stream[2], {**stream[3], **last_of(screen)})[2])
    answer = client.json("GET", f"/api/chats/{chat}")["messages"][-1]
    assert (screen.text, screen.ends) == (answer["content"], ["cancelled"])
    assert answer["content"] == tokens(read_frames(client.ask(*stream[:2], stream[2], stream[3])[2]))
    assert answer["state"] == "stopped"


@pytest.mark.parametrize("detach", [True, False])
def test_who_detaches_may_leave_though_leaving_is_a_stop(tmp_path: Path, detach: bool):
    """The page does so: it reads its answer from `/events`."""
    with lab(tmp_path, '[chat]\non_disconnect = "cancel"\n') as server:
        client = Client(server)
        chat = client.chat()
        path = f"/api/chats/{chat}"
        body = {"content": "x", "model": "scripted-slow", "detach": detach}
        left = cut(client, "POST", f"{path}/stream", body, {}, after_bytes=60)
        start = left.partition(b"\n\n")[0]
        assert b'"event":"start"' in start
        with client.open("GET", f"{path}/events?after=0-0") as rest:
            said = b""
            while said.count(b'"event":"token"') < 5 and b'"event":"cancelled"' not in said:
                said += rest.read1(65_536)
            assert (b'"event":"cancelled"' in said) is not detach
            assert client.json("POST", f"{path}/cancel") == {"cancelled": detach}
        assert client.json("GET", path)["messages"][-1]["state"] == "stopped"
