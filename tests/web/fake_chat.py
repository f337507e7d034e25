"""A fake of the chat service: its routes and frames as they are documented, over real sockets, led by a test.

Nothing happens by itself.  A submission becomes a `Turn`, which the test takes with `await fake.turn()` and makes say
things; rows can be saved late (`lazy`), logs lost (`trim`), connections cut (`cut`), requests refused (`refuse`).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import uvicorn

from rivermouth.http.page import SECURITY, Page

Json = dict[str, Any]
NOW = "2026-11-30T12:00:00Z"
MOST_CHATS = 200
_IDS = itertools.count(1)
MODELS: Json = {
    "selected": "auto",
    "models": [
        {"id": "auto", "label": "Auto", "configured": True},
        {"id": "kimi", "label": "Kimi", "provider": "kimi", "configured": True, "images": True, "files": True},
        {
            "id": "gemini",
            "label": "Gemini",
            "provider": "gemini",
            "configured": False,
            "reason": "gemini has no key",
        },
        {"id": "groq", "label": "Groq", "provider": "groq", "configured": False, "reason": "closed for repairs"},
        {"id": "smollm2:135m", "label": "smollm2:135m", "provider": "local", "configured": True, "local": True},
    ],
    "offer": {"model": "smollm2:135m", "bytes": 98_362_432, "license": "Apache-2.0"},
}
NOTHING: Json = {
    **MODELS,
    "models": [{**c, "configured": False} for c in MODELS["models"] if c["id"] in ("auto", "kimi", "gemini", "groq")],
}


@dataclass
class Turn:
    """One user message and its answer, led by the test."""

    chat: FakeTalk
    user: Json
    answer: Json
    generation: int
    body: Json
    n: int = -1
    over: bool = False

    def frame(self, event: str, **members: Any) -> None:
        self.n += 1
        self.chat.log.append((self.generation, self.n, {"event": event, **members}))
        if event == "reasoning":
            self.answer["parts"].append({"type": "reasoning", "text": members["reasoning"]})
        elif event == "tool_call" and "name" in members:
            self.answer["parts"].append(
                {"type": "tool_call", "id": members["call"], "name": members["name"], "arguments": ""}
            )
        elif event == "tool_call":
            call = next(p for p in self.answer["parts"] if p.get("id") == members["call"])
            call["arguments"] += members["arguments"]
        self.chat.ring()

    def tool(self, call: str, name: str, *pieces: str) -> None:
        """A call of a tool, its arguments in pieces."""
        part = 1 + sum(p["type"] == "tool_call" for p in self.answer["parts"])
        self.frame("tool_call", call=call, part=part, name=name)
        for piece in pieces:
            self.frame("tool_call", call=call, part=part, arguments=piece)

    def start(self) -> None:
        self.answer["state"] = "streaming"
        self.frame("start", message_id=self.answer["id"], generation=self.generation)

    def provider(self, name: str) -> None:
        self.answer["provider"] = name
        self.frame("provider", provider=name)

    def say(self, *pieces: str) -> None:
        for piece in pieces:
            self.answer["content"] += piece
            self.frame("token", token=piece)
        if not self.chat.fake.lazy:
            self.save()

    def warn(self, text: str) -> None:
        """Words of the server's own, at the end of the text."""
        self.answer["parts"].append({"type": "warning", "text": f"\n\n{text}"})
        self.say("\n\n", text)

    def save(self) -> None:
        """The row is written: it includes all frames so far."""
        row = {"content": self.answer["content"], "parts": self.answer["parts"]}
        self.answer["saved"] = json.loads(json.dumps(row))
        self.chat.cursor = f"{self.generation}-{max(self.n, 0)}"

    def done(self, **row: Any) -> None:
        members = {"interrupted": row["interrupted"]} if "interrupted" in row else {}
        self._end("completed", row)
        self.frame("done", message_id=self.answer["id"], provider=self.answer.get("provider"), **members)
        self.chat.cursor = f"{self.generation}-{self.n}"

    def cancelled(self, reason: str = "stopped", state: str = "stopped") -> None:
        self._end(state, {"reason": reason})
        self.frame("cancelled", message_id=self.answer["id"], reason=reason)
        self.chat.cursor = f"{self.generation}-{self.n}"

    def error(self, kind: str, message: str) -> None:
        failure = {"type": kind, "message": message}
        self._end("failed", {"error": failure})
        self.frame("error", error=failure)
        self.chat.cursor = f"{self.generation}-{self.n}"

    def _end(self, state: str, row: Json) -> None:
        self.over = True
        self.answer.update(row, state=state)
        self.save()


@dataclass
class FakeTalk:
    """A chat: its rows and its log."""

    fake: FakeChat
    row: Json
    messages: list[Json] = field(default_factory=list)
    log: list[tuple[int, int, Json]] = field(default_factory=list)
    cursor: str = "0-0"
    turns: list[Turn] = field(default_factory=list)
    by_key: dict[str, Turn] = field(default_factory=dict)
    trimmed: bool = False
    epoch: int = 0
    followers: int = 0
    _rung: asyncio.Event = field(default_factory=asyncio.Event)

    def ring(self) -> None:
        self._rung.set()
        self._rung = asyncio.Event()

    @property
    def rung(self) -> asyncio.Event:
        return self._rung

    @property
    def live(self) -> Turn | None:
        return next((turn for turn in self.turns if not turn.over), None)

    def trim(self) -> None:
        """The log is lost: who follows from within it gets a snapshot."""
        self.log.clear()
        self.trimmed = True


class FakeChat:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.talks: dict[int, FakeTalk] = {}
        self.models: Json = json.loads(json.dumps(MODELS))
        self.requests: list[tuple[str, str, Json]] = []
        self.refusals: dict[str, list[tuple[int, Json]]] = defaultdict(list)
        self.held: dict[str, asyncio.Event] = {}
        self.seen: list[str] = []
        self.accounts: dict[str, str] = {}
        self.user: Json = {"id": "1", "name": "guest", "guest": True}
        self.guests_welcome = True
        self.limits = {"content_chars": 32_000, "attachments": 8}
        self.tokens: set[str] = set()
        self.cookies: set[str] = set()
        self.lazy = False
        self.chop_bytes = 0
        self.pulling: asyncio.Queue[Json | None] = asyncio.Queue()
        self.url = ""
        self._turns: asyncio.Queue[Turn] = asyncio.Queue()
        self._generations = 0

    # -- what a test does

    async def turn(self) -> Turn:
        """The next submission, its answer begun."""
        return await asyncio.wait_for(self._turns.get(), 10)

    def talk(self, title: str = "", *exchanges: tuple[str, str], **row: Any) -> FakeTalk:
        """A chat with these finished exchanges."""
        talk = FakeTalk(self, {"id": self._id(), "title": title, "updated_at": NOW, "instructions": "", **row})
        self.talks[talk.row["id"]] = talk
        for said, answered in exchanges:
            turn = self._submit(talk, {"content": said})
            turn.start()
            turn.provider("kimi")
            turn.say(answered)
            turn.done(usage={"input_tokens": 12, "output_tokens": 34}, cost={"amount": 0.0021, "currency": "USD"})
        for _ in exchanges:
            self._turns.get_nowait()
        return talk

    def refuse(self, what: str, status: int, kind: str = "unavailable", message: str = "no", code: str = "") -> None:
        """The next request "METHOD /path" gets this answer; status 0 loses a submission's answer."""
        self.refusals[what].append((status, {"error": {"type": kind, "message": message, "code": code or None}}))

    def hold(self, what: str) -> asyncio.Event:
        """Requests "METHOD /path" get no answer until the event is set."""
        self.held[what] = asyncio.Event()
        return self.held[what]

    def cut(self) -> None:
        """Every follower's connection ends."""
        for talk in self.talks.values():
            talk.epoch += 1
            talk.ring()

    def asked(self, method: str, path: str) -> list[Json]:
        return [body for m, p, body in self.requests if (m, p) == (method, path)]

    # -- the service

    @staticmethod
    def _id() -> int:
        """No two services give the same: a late request of an earlier test's page finds nothing here."""
        return next(_IDS)

    def _submit(self, talk: FakeTalk, body: Json) -> Turn:
        live = talk.live
        if live is not None:
            live.cancelled("superseded by a newer request", "superseded")
        redone = next((m for m in talk.messages if m["id"] == body.get("redo")), None)
        before = next(
            (m for m in talk.messages if redone and m["turn"] == redone["turn"] and m["role"] == "user"), None
        )
        said, attached = body.get("content"), [*map(_part, body.get("attachments") or [])]
        if before is not None and body.get("attachments") is None:
            attached = [part for part in before["parts"] if part["type"] != "text"]
        if said is None:
            said = before["content"]  # type: ignore[index]
        self._generations += 1
        turn_id = self._id()
        tree = {"turn": turn_id, **({"redoes": redone["turn"]} if redone else {})}
        parts = [*([{"type": "text", "text": said}] if said else []), *attached]
        user = {"id": self._id(), "role": "user", "content": said, "state": "completed", "parts": parts, **tree}
        answer: Json = {"id": self._id(), "role": "assistant", "content": "", "parts": [], "state": "starting", **tree}
        answer |= {"generation": self._generations, "saved": {"content": "", "parts": []}}
        talk.messages += [user, answer]
        talk.row["title"] = talk.row["title"] or said[:40]
        turn = Turn(talk, user, answer, self._generations, body)
        talk.turns.append(turn)
        self._turns.put_nowait(turn)
        return turn

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        method, path = scope["method"], scope["path"]
        if self.page.owns(method, path, list(scope["headers"])):
            await self.page(scope, receive, send)
            return
        await Request(self, scope, receive, send).answer()

    def end(self) -> None:
        """Whoever still waits for something is let go."""
        self.pulling.put_nowait(None)
        self.cut()


BLANK = "/blank"


class FakeHost:
    """One address for all tests, behind which each has a service of its own; and an empty page to rest on."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.fake = FakeChat(page)
        self.url = ""

    def renew(self) -> FakeChat:
        self.fake.end()
        self.fake = FakeChat(self.page)
        self.fake.url = self.url
        return self.fake

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == BLANK:
            headers = [(b"content-type", b"text/html"), *SECURITY]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b'<title>blank</title><link rel="icon" href="data:,">'})
        else:
            await self.fake(scope, receive, send)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[FakeHost]:
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(self, lifespan="off", log_level="critical", timeout_graceful_shutdown=1)
        server = _Quiet(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield self
        finally:
            server.should_exit = True
            self.fake.end()
            await task


def _part(upload: Json) -> Json:
    kind = "image" if upload["mediaType"].startswith("image/") else "file"
    return {"type": kind, "name": upload["name"], "media_type": upload["mediaType"], "data": upload["data"]}


class _Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


class Request:
    def __init__(self, fake: FakeChat, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        self.fake = fake
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query = {k: v[0] for k, v in parse_qs(scope["query_string"].decode()).items()}
        self.headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        self.receive = receive
        self.send = send
        self.body: Json = {}

    async def answer(self) -> None:
        raw = b""
        while True:
            message = await self.receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.body = json.loads(raw) if raw else {}
        self.fake.requests.append((self.method, self.path, self.body))
        self.fake.seen.append(f"{self.method} {self.path}")
        gate = self.fake.held.get(f"{self.method} {self.path}")
        if gate is not None and not await self.waited(gate):
            return
        refusals = self.fake.refusals.get(f"{self.method} {self.path}")
        if refusals and refusals[0][0]:
            await self.json(*refusals.pop(0))
            return
        parts = self.path.strip("/").split("/")[1:]
        if parts and parts[0] == "auth":
            await self.auth(parts[1])
        elif parts == ["pull"]:
            await self.pull()
        elif self.headers.get("authorization", "").removeprefix("Bearer ") not in self.fake.tokens:
            await self.json(401, {"error": {"type": "authentication", "message": "sign in first"}})
        elif parts[:1] == ["ai"]:
            await self.ai(parts[1])
        elif parts[:1] == ["chats"]:
            await self.chats(parts[1:])
        else:
            await self.json(404, {"error": {"type": "not_found", "message": self.path}})

    async def waited(self, gate: asyncio.Event) -> bool:
        """False when the client left before the gate opened."""
        gone, opened = asyncio.create_task(self.receive()), asyncio.create_task(gate.wait())
        await asyncio.wait({gone, opened}, return_when=asyncio.FIRST_COMPLETED)
        left = gone.done()
        gone.cancel()
        opened.cancel()
        if left:
            self.fake.seen.append(f"left {self.method} {self.path}")
        return not left

    async def json(self, status: int, body: Json, *headers: tuple[bytes, bytes]) -> None:
        data = json.dumps(body).encode()
        start = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode()), *headers]
        await self.send({"type": "http.response.start", "status": status, "headers": start})
        await self.send({"type": "http.response.body", "body": data})

    async def no(self, status: int, kind: str, code: str) -> None:
        await self.json(status, {"error": {"type": kind, "message": f"the server's own words on {code}", "code": code}})

    async def empty(self) -> None:
        await self.send({"type": "http.response.start", "status": 204, "headers": []})
        await self.send({"type": "http.response.body", "body": b""})

    # -- accounts

    async def auth(self, what: str) -> None:
        fake = self.fake
        if what == "me" and self.method == "DELETE":
            fake.tokens.clear()
            fake.cookies.clear()
            fake.talks.clear()
            await self.empty()
        elif what == "me":
            await self.json(200, {"user": fake.user})
        elif what == "logout":
            fake.tokens.clear()
            fake.cookies.clear()
            await self.json(200, {})
        elif what == "refresh":
            cookie = self.headers.get("cookie", "").partition("rivermouth=")[2]
            if cookie in fake.cookies:
                await self.signed_in()
            else:
                await self.json(401, {"error": {"type": "authentication", "message": "no session"}})
        elif what == "guest":
            if fake.guests_welcome:
                await self.signed_in()
            else:
                await self.no(403, "permission", "guests_refused")
        else:
            await self.account(what, str(self.body["name"]), str(self.body["password"]))

    async def account(self, what: str, name: str, password: str) -> None:
        fake = self.fake
        if what == "signup" and name in fake.accounts:
            await self.no(409, "invalid_request", "name_taken")
        elif what == "login" and fake.accounts.get(name) != password:
            await self.no(401, "authentication", "wrong_password")
        elif (token := self.headers.get("authorization")) and token.removeprefix("Bearer ") not in fake.tokens:
            await self.no(401, "authentication", "invalid_token")
        else:
            fake.accounts[name] = password
            fake.user = {"id": "1", "name": name, "guest": False}
            await self.signed_in()

    async def signed_in(self) -> None:
        token = f"token-{self.fake._id()}"
        self.fake.tokens.add(token)
        self.fake.cookies.add(token)
        cookie = f"rivermouth={token}; HttpOnly; SameSite=Strict; Path=/api"
        body = {"access_token": token, "expires_in": 900, "user": self.fake.user}
        await self.json(200, body, (b"set-cookie", cookie.encode()))

    # -- models

    async def ai(self, what: str) -> None:
        if what == "model":
            self.fake.models["selected"] = self.body["model"]
            await self.json(200, {"selected": self.body["model"]})
            return
        await self.json(200, {**self.fake.models, "limits": self.fake.limits})

    async def pull(self) -> None:
        await self.send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/x-ndjson")]}
        )
        while (step := await self.fake.pulling.get()) is not None:
            await self.piece(json.dumps(step).encode() + b"\n")
            if step.get("status") == "success" or "error" in step:
                break
        await self.send({"type": "http.response.body", "body": b""})

    # -- chats

    async def chats(self, rest: list[str]) -> None:
        fake = self.fake
        if not rest:
            await (self.create() if self.method == "POST" else self.listed())
            return
        talk = fake.talks.get(int(rest[0]))
        if talk is None:
            await self.json(404, {"error": {"type": "not_found", "message": "there is no such chat"}})
        elif rest[1:] == ["stream"]:
            await self.stream(talk)
        elif rest[1:] == ["events"]:
            await self.events(talk)
        elif rest[1:] == ["cancel"]:
            await self.cancel(talk)
        elif self.method == "PUT":
            talk.row.update(self.body)
            await self.json(200, {"chat": talk.row})
        elif self.method == "DELETE":
            del fake.talks[talk.row["id"]]
            await self.empty()
        else:
            messages = [{**m, **m.get("saved", {})} for m in talk.messages]
            await self.json(200, {"chat": talk.row, "messages": messages, "cursor": talk.cursor})

    async def create(self) -> None:
        talk = self.fake.talk()
        await self.json(201, {"chatId": talk.row["id"], "id": talk.row["id"], "chat": talk.row})

    async def listed(self) -> None:
        words = self.query.get("q", "").lower()
        rows = []
        for talk in reversed(self.fake.talks.values()):
            texts = [talk.row["title"], *(m["content"] for m in talk.messages)]
            hit = next((text for text in texts if words in text.lower()), None)
            if hit is not None:
                rows.append({**talk.row, "page": f"0-{talk.row['id']}", **({"snippet": hit} if words else {})})
        limit = min(int(self.query.get("limit", "50")), MOST_CHATS)
        if "before" in self.query:
            before = int(self.query["before"].removeprefix("0-"))
            rows = [row for row in rows if row["id"] < before]
        await self.json(200, {"chats": rows[:limit], "next": rows[limit - 1]["page"] if len(rows) >= limit else None})

    async def cancel(self, talk: FakeTalk) -> None:
        live = talk.live
        wanted = self.body.get("generation", live.generation if live else None)
        if live is None or wanted != live.generation:
            await self.json(200, {"cancelled": False})
            return
        live.cancelled()
        await self.json(200, {"cancelled": True})

    async def stream(self, talk: FakeTalk) -> None:
        if not (self.body.get("content") or self.body.get("attachments") or "redo" in self.body):
            await self.no(400, "invalid_request", "content_empty")
            return
        key = self.headers.get("idempotency-key", "")
        turn = talk.by_key.get(key)
        if turn is None:
            turn = talk.by_key[key] = self.fake._submit(talk, self.body)
            turn.start()
        refusals = self.fake.refusals[f"POST {self.path}"]
        if refusals:  # it was accepted, and the answer is lost on its way
            refusals.pop(0)
            await self.send({"type": "http.response.start", "status": 200, "headers": []})
            await self.send({"type": "http.response.body", "body": b""})
            return
        await self.follow(talk, (turn.generation, -1), until=turn)

    async def events(self, talk: FakeTalk) -> None:
        after = self.headers.get("last-event-id") or self.query.get("after") or "0-0"
        g, _, n = after.partition("-")
        await self.follow(talk, (int(g), int(n)), until=None)

    async def follow(self, talk: FakeTalk, cursor: tuple[int, int], until: Turn | None) -> None:
        """Frames after the cursor; those of one turn, or all until the client leaves."""
        start = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await self.send({"type": "http.response.start", "status": 200, "headers": start})
        gone = asyncio.create_task(self.receive())
        epoch = talk.epoch
        if until is None:
            talk.followers += 1
            live = talk.live.answer["id"] if talk.live else None
            await self.frame(
                {"event": "hello", "from": f"{cursor[0]}-{cursor[1]}", "live": live, "snapshot": talk.trimmed}
            )
            if talk.trimmed and (turn := talk.live):
                await self.frame(
                    {"event": "snapshot", "message_id": turn.answer["id"], "text": turn.answer["content"]},
                    f"{turn.generation}-{turn.n}",
                )
                cursor = (turn.generation, turn.n)
            await self.frame({"event": "caught_up"})
        try:
            while not gone.done() and talk.epoch == epoch:
                rung = talk.rung
                for g, n, frame in [entry for entry in talk.log if entry[:2] > cursor]:
                    if until is not None and g != until.generation:
                        continue
                    cursor = (g, n)
                    await self.frame(frame, f"{g}-{n}")
                if until is not None and until.over:
                    break
                waiting = asyncio.create_task(rung.wait())
                await asyncio.wait({gone, waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
        finally:
            if gone.done():
                self.fake.seen.append(f"left {self.method} {self.path}")
            gone.cancel()
            talk.followers -= until is None
        with suppress(Exception):
            await self.send({"type": "http.response.body", "body": b""})

    async def frame(self, frame: Json, id: str = "") -> None:  # noqa: A002 - the field's name
        head = f"id: {id}\n" if id else ""
        await self.piece(f"{head}data: {json.dumps(frame, ensure_ascii=False)}\n\n".encode())

    async def piece(self, data: bytes) -> None:
        step = self.fake.chop_bytes or len(data)
        for at in range(0, len(data), step):
            await self.send({"type": "http.response.body", "body": data[at : at + step], "more_body": True})
