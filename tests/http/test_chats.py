"""The chat over real sockets: its documents, its streams, its errors, and that it stands beside Ollama's routes."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.chat.lab import events, read_frames, tokens
from tests.engine.lab import Lab, lab

DEADLINE_S = 15.0


class Client:
    def __init__(self, server: Lab) -> None:
        self.server = server

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=DEADLINE_S)
        try:
            raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, raw, headers or {})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        got, _, data = self.ask(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        assert got == status, data
        return json.loads(data) if data else None

    def chat(self, **body: Any) -> int:
        return int(self.json("POST", "/api/chats", body, 201)["chatId"])

    @contextmanager
    def open(self, method: str, path: str, body: Any = None) -> Iterator[http.client.HTTPResponse]:
        """A stream that the test reads by itself, and leaves."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, json.dumps(body).encode() if body is not None else None)
            with connection.getresponse() as answer:
                assert answer.status == 200, answer.read()
                yield answer
        finally:
            connection.close()

    @contextmanager
    def watch(self, path: str) -> Iterator[Callable[[bytes], bytes]]:
        """Reads a stream beside the test; called, it gives what was said up to some words."""
        said: list[bytes] = []
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=DEADLINE_S)
        connection.request("GET", path)
        answer, sock = connection.getresponse(), connection.sock

        def read() -> None:
            with contextlib.suppress(http.client.HTTPException):
                while piece := answer.read1(65536):
                    said.append(piece)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()

        def upto(words: bytes) -> bytes:
            ends_at = time.monotonic() + DEADLINE_S
            while words not in (whole := b"".join(said)):
                assert time.monotonic() < ends_at, whole[-2_000:]
                time.sleep(0.01)
            return whole

        try:
            yield upto
        finally:
            sock.shutdown(socket.SHUT_RDWR)
            reader.join(DEADLINE_S)
            answer.close()
            connection.close()


def until(answer: http.client.HTTPResponse, text: bytes) -> bytes:
    out = b""
    while text not in out:
        piece = answer.read1(65536)
        assert piece, out
        out += piece
    return out


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with lab(tmp_path_factory.mktemp("chats"), "[chat]\nmax_content_chars = 1000\n") as server:
        yield Client(server)


@pytest.mark.promise(88, 89, 90, 91, 92)
def test_a_chat_is_made_named_read_and_deleted(client: Client):
    chat = client.chat()
    made = client.json("GET", "/api/chats")["chats"][0]
    assert (made["id"], made["title"]) == (chat, "")
    changed = client.json("PUT", f"/api/chats/{chat}", {"title": " Rivers ", "instructions": "Be brief."})["chat"]
    assert (changed["title"], changed["instructions"]) == ("Rivers", "Be brief.")
    whole = client.json("GET", f"/api/chats/{chat}")
    assert whole["chat"] == whole["session"] == changed
    assert (whole["messages"], whole["cursor"], whole["live"]) == ([], "0-0", None)
    assert client.ask("DELETE", f"/api/chats/{chat}")[0] == 204
    assert client.json("GET", f"/api/chats/{chat}", status=404)["error"]["code"] == "chat_not_found"


@pytest.mark.promise(93, 98, 107, 108, 109, 110, 111, 112, 113, 170)
def test_a_stream_is_frames_of_one_json_object_each(client: Client):
    chat = client.chat()
    status, headers, body = client.ask("POST", f"/api/chats/{chat}/stream", {"content": "hello", "model": "scripted"})
    assert status == 200
    assert headers["content-type"] == "text/event-stream"
    assert headers["x-accel-buffering"] == "no"
    assert "no-cache" in headers["cache-control"]
    assert headers["location"] == f"/api/chats/{chat}/events"
    for block in body.decode().removesuffix("\n\n").split("\n\n"):
        ident, data = block.split("\n")
        assert ident.startswith("id: 1-")
        assert data.startswith("data: {")
    frames = read_frames(body)
    assert events(frames) == ["start", "provider", "token", "done"]
    assert set(frames[-1]) == {"event", "message_id", "provider", "#"}
    assert "hello" in tokens(frames)
    whole = client.json("GET", f"/api/chats/{chat}")
    assert [m["role"] for m in whole["messages"]] == ["user", "assistant"]
    assert whole["messages"][1]["content"] == tokens(frames)
    assert whole["messages"][1]["usage"]["output_tokens"] > 0
    assert whole["chat"]["title"] == "hello"
    record = asyncio.run(client.server.last())
    assert (record.dialect, record.provider, record.status) == ("chat", "scripted", "completed")


@pytest.mark.promise(94, 103, 132, 173)
def test_a_stop_over_http_ends_the_stream(client: Client):
    chat = client.chat()
    assert client.json("POST", f"/api/chats/{chat}/cancel") == {"cancelled": False}
    with client.open("POST", f"/api/chats/{chat}/stream", {"content": "x", "model": "scripted-slow"}) as stream:
        head = until(stream, b'"event":"token"')
        generation = read_frames(head)[0]["generation"]
        other, this = {"generation": generation + 1}, {"generation": generation}
        assert client.json("POST", f"/api/chats/{chat}/cancel", other) == {"cancelled": False}
        assert client.json("POST", f"/api/chats/{chat}/cancel", this) == {"cancelled": True}
        frames = read_frames(head + stream.read())
    assert (frames[-1]["event"], frames[-1]["message_id"]) == ("cancelled", frames[0]["message_id"])
    whole = client.json("GET", f"/api/chats/{chat}")
    assert whole["messages"][-1]["content"] == tokens(frames)
    assert whole["messages"][-1]["state"] == "stopped"
    assert client.json("POST", f"/api/chats/{chat}/cancel", this) == {"cancelled": False}


@pytest.mark.promise(79, 129, 130, 131)
def test_a_second_stream_ends_the_first(client: Client):
    chat = client.chat()
    with client.open("POST", f"/api/chats/{chat}/stream", {"content": "x", "model": "scripted-slow"}) as first:
        head = until(first, b'"event":"token"')
        busy = client.json("POST", f"/api/chats/{chat}/stream", {"content": "y", "on_busy": "reject"}, 409)
        assert busy["error"]["code"] == "chat_busy"
        assert busy["generation"] == read_frames(head)[0]["generation"]
        _, _, body = client.ask("POST", f"/api/chats/{chat}/stream", {"content": "y", "model": "scripted"})
        ended, answered = read_frames(head + first.read()), read_frames(body)
    assert (ended[-1]["event"], ended[-1]["reason"]) == ("cancelled", "superseded by a newer request")
    assert events(answered) == ["start", "provider", "token", "done"]
    assert answered[0]["message_id"] > ended[0]["message_id"]


@pytest.mark.promise(79, 80)
def test_fifty_hostile_clients_never_get_two_streams_of_one_chat(client: Client):
    chat = client.chat()
    answers: list[list[dict[str, Any]]] = []

    def attack(number: int) -> None:
        body = {"content": f"{number}", "model": "scripted-slow" if number % 2 else "scripted"}
        answers.append(read_frames(client.ask("POST", f"/api/chats/{chat}/stream", body)[2]))

    threads = [threading.Thread(target=attack, args=(n,), daemon=True) for n in range(50)]
    with client.watch(f"/api/chats/{chat}/events?after=0-0") as watching:
        for thread in threads:
            thread.start()
        most = 0
        while any(thread.is_alive() for thread in threads):
            live = client.server.on_loop(
                lambda: [o for o in client.server.inside.services.chat.worker.owners.values() if o.chat.id == chat]
            )
            most = max(most, len(live))
            if len(answers) >= 49:
                client.json("POST", f"/api/chats/{chat}/cancel")
            threads[0].join(0.02)
        assert most == 1
        ends = [frames[-1]["event"] for frames in answers]
        assert len(ends) == 50
        assert set(ends) <= {"done", "cancelled"}
        started = [frames[0]["generation"] for frames in answers if frames[0]["event"] == "start"]
        assert len(started) == len(set(started))
        whole = client.json("GET", f"/api/chats/{chat}")
        assert len([m for m in whole["messages"] if m["role"] == "user"]) == 50
        _, _, body = client.ask("POST", f"/api/chats/{chat}/stream", {"content": "x", "model": "scripted"})
        last = read_frames(body)[-1]
        live = None
        for frame in read_frames(watching(f'"message_id":{last["message_id"]},"provider"'.encode())):
            if frame["event"] == "start":
                assert live is None, "two streams at once"
                live = frame["message_id"]
            elif frame["event"] in ("done", "cancelled") and live is not None:
                assert frame["message_id"] == live
                live = None
        assert live is None
        assert all(m["state"] in ("completed", "stopped", "superseded") for m in whole["messages"])


@pytest.mark.promise(124)
def test_who_leaves_and_comes_back_by_its_last_id_misses_nothing(client: Client):
    chat = client.chat()
    with client.open("POST", f"/api/chats/{chat}/stream", {"content": "x", "model": "scripted-slow"}) as stream:
        head = until(stream, b'"event":"token"')
    seen = [frame for frame in read_frames(head) if "#" in frame]
    with client.open("GET", f"/api/chats/{chat}/events?after={seen[-1]['#']}") as rest:
        body = until(rest, b'"event":"caught_up"')
        client.json("POST", f"/api/chats/{chat}/cancel")
        body += until(rest, b'"event":"cancelled"')
    later = read_frames(body)
    assert later[0]["event"] == "hello"
    whole = client.json("GET", f"/api/chats/{chat}")
    assert tokens(seen) + tokens(later) == whole["messages"][-1]["content"]
    assert later[-1]["#"] == whole["cursor"]


def test_the_larger_of_header_and_query_is_the_cursor_and_an_ended_turn_is_204(client: Client):
    chat = client.chat()
    client.ask("POST", f"/api/chats/{chat}/stream", {"content": "x", "model": "scripted"})
    whole = client.json("GET", f"/api/chats/{chat}")
    turn, end = whole["messages"][0]["turn"], whole["cursor"]
    path = f"/api/chats/{chat}/events?turn={turn}"
    assert client.ask("GET", f"{path}&after=1-0", headers={"Last-Event-ID": end})[0] == 204
    status, _, body = client.ask("GET", f"{path}&after=rubbish")
    assert status == 200
    assert read_frames(body)[-1]["event"] == "done"
    assert client.json("GET", f"/api/chats/{chat}/events?turn=x", status=400)["error"]["param"] == "turn"


def test_the_same_key_is_the_same_turn(client: Client):
    chat = client.chat()
    body = {"content": "once", "model": "scripted"}
    one = client.ask("POST", f"/api/chats/{chat}/stream", body, {"Idempotency-Key": "k-1"})
    two = client.ask("POST", f"/api/chats/{chat}/stream", body, {"Idempotency-Key": "k-1"})
    assert one[2] == two[2]
    assert len(client.json("GET", f"/api/chats/{chat}")["messages"]) == 2
    assert client.ask("POST", f"/api/chats/{chat}/stream", body, {"Idempotency-Key": "k k"})[0] == 400


@pytest.mark.promise(95, 96)
def test_the_choice_of_a_model_is_listed_and_saved(client: Client):
    listed = client.json("GET", "/api/ai/models")
    assert listed["selected"] == "auto"
    by_id = {row["id"]: row for row in listed["models"]}
    assert [by_id[name]["configured"] for name in ("kimi", "gemini", "groq", "scripted")] == [False, False, False, True]
    for name in ("kimi", "gemini", "groq", "auto"):
        assert client.json("PUT", "/api/ai/model", {"model": name}) == {"selected": name}
        assert client.json("GET", "/api/ai/models")["selected"] == name
    assert client.json("PUT", "/api/ai/model", {"model": "nobody"}, 404)["error"]["code"] == "model_not_found"


def test_chats_are_searched(client: Client):
    chat = client.chat()
    client.ask("POST", f"/api/chats/{chat}/stream", {"content": "the hippopotamus question", "model": "scripted"})
    found = client.json("GET", "/api/chats?q=hippo+quest")["chats"]
    assert [(row["id"], "hippopotamus" in row["snippet"]) for row in found] == [(chat, True)]


def test_the_list_is_read_in_pages(client: Client):
    made = [client.chat() for _ in range(3)]
    first = client.json("GET", "/api/chats?limit=2")
    assert [row["id"] for row in first["chats"]] == made[:0:-1]
    second = client.json("GET", f"/api/chats?limit=2&before={first['next']}")
    assert second["chats"][0]["id"] == made[0]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/chats/{}/stream", {"content": ""}, 400),
        ("POST", "/api/chats/{}/stream", {"content": "x" * 1001}, 400),
        ("POST", "/api/chats/{}/stream", {}, 400),
        ("POST", "/api/chats/{}/stream", {"content": 1}, 400),
        ("POST", "/api/chats/{}/stream", {"content": "x", "on_busy": "shout"}, 400),
        ("POST", "/api/chats/{}/stream", {"content": "x", "model": "nobody"}, 404),
        ("POST", "/api/chats/{}/stream", {"redo": 99999}, 404),
        ("POST", "/api/chats/{}/stream", b"{", 400),
        ("POST", "/api/chats/{}/stream", b"[]", 400),
        ("POST", "/api/chats/{}/stream", b"\xff", 400),
        ("POST", "/api/chats/{}/cancel", {"generation": "1"}, 400),
        ("GET", "/api/chats/{}/stream", None, 405),
        ("POST", "/api/chats/{}/events", {}, 405),
        ("PATCH", "/api/chats/{}", {}, 405),
        ("PUT", "/api/chats/{}", {"title": 5}, 400),
        ("PUT", "/api/chats/{}", {"title": "x" * 500}, 400),
        ("PUT", "/api/chats/{}", b"", 400),
        ("GET", "/api/chats/nine", None, 404),
        ("GET", "/api/chats/9" + "9" * 25, None, 404),
        ("GET", "/api/chats/99999", None, 404),
        ("GET", "/api/chats/99999/events", None, 404),
        ("POST", "/api/chats/99999/cancel", None, 404),
        ("GET", "/api/chats?limit=many", None, 400),
        ("GET", "/api/chats?before=now", None, 400),
        ("GET", "/api/ai/nothing", None, 404),
    ],
)
def test_bad_input_gets_a_typed_error(client: Client, method: str, path: str, body: Any, status: int):
    chat = client.chat()
    got, headers, data = client.ask(method, path.format(chat), body)
    assert got == status, data
    assert headers["content-type"] == "application/json"
    error = json.loads(data)["error"]
    assert error["type"]
    assert error["message"]
    assert client.json("GET", f"/api/chats/{chat}")["messages"] == []


@pytest.mark.parametrize(
    "content", ["<script>alert(1)</script>", "a\u2028b\u2029c\u0085d", "\x00\x01", "**" * 400, "🌊"]
)
def test_hostile_content_is_kept_as_it_is(client: Client, content: str):
    chat = client.chat()
    _, _, body = client.ask("POST", f"/api/chats/{chat}/stream", {"content": content, "model": "scripted"})
    assert events(read_frames(body)) == ["start", "provider", "token", "done"]
    assert client.json("GET", f"/api/chats/{chat}")["messages"][0]["content"] == content
    for raw in ("\u2028", "\u2029", "\x85"):
        assert raw not in body.decode()


def test_the_chats_stand_beside_ollamas_routes(client: Client):
    talk = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], "stream": False}
    assert client.json("POST", "/api/chat", talk)["done"] is True
    assert client.json("GET", "/api/tags")["models"]
    assert client.ask("GET", "/api/nothing")[0] == 404


def test_with_keys_a_chat_demands_one(tmp_path: Path):
    with lab(tmp_path, '[server]\nkeys = ["secret-key-1"]\n') as server:
        client = Client(server)
        for method, path in (("GET", "/api/chats"), ("POST", "/api/chats/1/stream"), ("GET", "/api/ai/models")):
            assert client.ask(method, path)[0] == 401
        assert client.json("GET", "/api/chats", authorization="Bearer secret-key-1") == {"chats": [], "next": None}


def test_leaving_can_be_a_stop(tmp_path: Path):
    with lab(tmp_path, '[chat]\non_disconnect = "cancel"\n') as server:
        client = Client(server)
        chat = client.chat()
        with client.open("POST", f"/api/chats/{chat}/stream", {"content": "x", "model": "scripted-slow"}) as stream:
            until(stream, b'"event":"token"')
        with client.open("GET", f"/api/chats/{chat}/events?after=0-0") as rest:
            until(rest, b'"event":"cancelled"')
        assert client.json("GET", f"/api/chats/{chat}")["messages"][-1]["state"] == "stopped"


def test_a_server_that_stops_finishes_its_chats_and_sends_followers_away(tmp_path: Path):
    with lab(tmp_path, "[timeouts]\ndrain_s = 0\n") as server:
        client = Client(server)
        chat = client.chat()
        path = f"/api/chats/{chat}"
        with (
            client.open("POST", f"{path}/stream", {"content": "x", "model": "scripted-slow"}) as stream,
            client.open("GET", f"{path}/events?after=0-0") as watching,
        ):
            head = until(stream, b'"event":"token"')
            server.stop()
            frames = read_frames(head + stream.read())
            assert (frames[-1]["event"], frames[-1]["interrupted"]) == ("done", {"type": "unavailable"})
            assert read_frames(watching.read())[-1]["event"] == "bye"
    with lab(tmp_path, "") as server:
        whole = Client(server).json("GET", path)
        assert whole["live"] is None
        assert whole["messages"][-1]["content"] == tokens(frames)
        assert whole["messages"][-1]["state"] == "interrupted"


def test_a_list_of_more_chats_than_a_page_has_goes_on_where_it_ended(client: Client):
    made = {client.chat(title=f"chat {n}") for n in range(205)}
    found: list[int] = []
    path = "/api/chats?limit=500"
    while path:
        page = client.json("GET", path)
        found += [chat["id"] for chat in page["chats"]]
        path = f"/api/chats?limit=500&before={page['next']}" if page["next"] else ""
    assert len(found) == len(set(found))
    assert made <= set(found)


@pytest.mark.parametrize(
    ("upload", "param"),
    [
        ({"mediaType": "image/png", "data": "%%% not base64"}, "attachments[0].data"),
        ({"mediaType": "image/png", "data": ""}, "attachments[0].data"),
        ({"mediaType": "", "data": "aGk="}, "attachments[0].mediaType"),
        ({"mediaType": "image/png\r\nx: y", "data": "aGk="}, "attachments[0].mediaType"),
    ],
)
def test_an_attachment_that_no_model_could_read_is_refused(client: Client, upload: dict[str, str], param: str):
    chat = client.chat()
    body = {"content": "look", "model": "scripted", "attachments": [upload]}
    assert client.json("POST", f"/api/chats/{chat}/stream", body, 400)["error"]["param"] == param
    assert client.json("GET", f"/api/chats/{chat}")["messages"] == []


def test_a_picture_needs_no_words(client: Client):
    chat = client.chat()
    body = {"content": "", "model": "scripted", "attachments": [{"mediaType": "image/png", "data": "aGk="}]}
    assert client.ask("POST", f"/api/chats/{chat}/stream", body)[0] == 200
    assert client.json("GET", f"/api/chats/{chat}")["messages"][0]["content"] == ""


@pytest.mark.parametrize("number", [10**30, 2**63, -1])
def test_numbers_that_no_store_could_hold_are_refused(client: Client, number: int):
    chat = client.chat()
    assert client.ask("POST", f"/api/chats/{chat}/stream", {"content": "x", "redo": number})[0] == 400
    assert client.ask("POST", f"/api/chats/{chat}/cancel", {"generation": number})[0] == 400
    assert client.ask("GET", f"/api/chats?before={number}-1")[0] == 400
    assert client.ask("GET", f"/api/chats?before=1-{number}")[0] == 400
