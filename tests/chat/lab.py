"""A chat in this process: the real service, engine, store and log, a clock that jumps, and models led by the test.

    async def story(lab: ChatLab) -> None:
        turn = await lab.ask("hello")
        call = await lab.model.asked()            the next call of the provider "led"
        call.say("Hel"); call.say("lo"); call.finish()
        assert await lab.text_of(turn) == "Hello"

    run(story, tmp_path)

Nothing waits in real time: `tests.engine.jumping` moves the clock when nothing else can happen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from rivermouth.chat.choice import Chooser
from rivermouth.chat.machine import TERMINAL, OnBusy
from rivermouth.chat.moves import Submission, Submitted
from rivermouth.chat.ports import Ports
from rivermouth.chat.service import ChatService
from rivermouth.chat.settings import ChatSettings
from rivermouth.chat.wire import STREAM, View
from rivermouth.doorbell.local import LocalDoorbell
from rivermouth.engine.engine import Engine, Settings
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Error, Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta, Usage
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.log.memory import MemoryLog
from rivermouth.log.port import FrameId, StreamLog
from rivermouth.observe import ChatMetrics
from rivermouth.providers.provider import NOTHING, Batch, Lease, Onward, Upstream
from rivermouth.routing.catalog import Catalog
from rivermouth.routing.health import Health
from rivermouth.store.chats.port import ChatStore, Message, Turn
from rivermouth.store.chats.sqlite import SqliteChatStore
from rivermouth.store.database import open_database
from rivermouth.store.port import CallRecord, CallText, Status
from rivermouth.wire import json
from tests.databases import laid
from tests.engine.jumping import JumpingLoop

PERSON = "anna"
EPOCH_NS = 1_700_000_000_000_000_000


class LoopTime:
    """The port `Clock` by the loop's own time; chance is the middle."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ns(self) -> int:
        return EPOCH_NS + int(self.now_s() * 1e9)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def between(self, least: float, most: float) -> float:
        return (least + most) / 2


class FakeOpening:
    """A row that is there."""

    async def committed(self) -> None:
        """There is nothing to wait for."""


class FakeRecorder:
    """Keeps final records; a row is open at once."""

    def __init__(self) -> None:
        self.closed: list[CallRecord] = []

    def begin(self, record: CallRecord) -> FakeOpening:
        return FakeOpening()

    def checkpoint(self, *_: Any, **__: Any) -> None:
        """Nobody asks for it here."""

    def close(self, record: CallRecord, text: CallText | None = None) -> None:
        self.closed.append(record)


class LedCall:
    """One attempt at a led model; an `Upstream`."""

    headers: Mapping[str, str] = {}

    def __init__(self, request: Request, model: str) -> None:
        self.request = request
        self.model = model
        self.closed = asyncio.Event()
        self.deaf = False
        self._batches: deque[list[Event]] = deque()
        self._ready = asyncio.Event()
        self._part: int | None = None
        self._parts = 0

    def events(self, *events: Event) -> None:
        self._batches.append(list(events))
        self._ready.set()

    def say(self, text: str) -> None:
        """A piece of text."""
        head: list[Event] = [Start(model=self.model)] if not self._parts else []
        if self._part is None:
            self._part, self._parts = self._parts, self._parts + 1
            head.append(PartStart(self._part, PartKind.TEXT))
        self.events(*head, TextDelta(self._part, text))

    def finish(self, reason: Reason = Reason.STOP) -> None:
        tail: list[Event] = [PartEnd(self._part)] if self._part is not None else []
        self.events(*tail, Usage(3, 5), Finish(reason))

    def fail(self, error: ApiError) -> None:
        self.events(Error(error))

    def asked_text(self) -> list[tuple[str, str]]:
        """The talk it was sent."""
        return [(message.role.value, message.text) for message in self.request.messages]

    async def read(self, onward: Onward | None = None) -> Batch:
        while not self._batches:
            self._ready.clear()
            await self._ready.wait()
        return Batch(self._batches.popleft())

    async def close(self) -> None:
        while self.deaf and not self.closed.is_set():
            await self.closed.wait()
        self.closed.set()


class LedProvider:
    """A provider that does what the test says.  refuse: what opening a call raises."""

    dialect: str | None = None

    def __init__(self, name: str, models: tuple[str, ...] = ("m",), context_tokens: int | None = None) -> None:
        self.name = name
        self.names = models
        self.context_tokens = context_tokens
        self.refuse: ApiError | None = None
        self.refuse_once: ApiError | None = None
        self.script: Callable[[LedCall], None] | None = None
        self.calls: list[LedCall] = []
        self._new = asyncio.Event()
        self._seen = 0

    async def asked(self) -> LedCall:
        """The next call."""
        while len(self.calls) <= self._seen:
            self._new.clear()
            await self._new.wait()
        self._seen += 1
        return self.calls[self._seen - 1]

    async def prepare(self, request: Request | EmbedRequest, model: str) -> Lease:
        return NOTHING

    async def open(
        self, request: Request, model: str, lease: Lease, *, same_dialect: bool, warn: Callable[[str], None]
    ) -> Upstream:
        error, self.refuse_once = self.refuse_once or self.refuse, None
        if error is not None:
            raise ApiError(error.kind, error.message, code=error.code, status=error.status)
        call = LedCall(request, model)
        self.calls.append(call)
        self._new.set()
        if self.script is not None:
            self.script(call)
        return call

    async def embed(self, request: EmbedRequest, model: str, warn: Callable[[str], None]) -> EmbedReply:
        raise NotImplementedError

    async def models(self) -> list[ModelInfo]:
        return [ModelInfo(id=name, owner=self.name, context_tokens=self.context_tokens) for name in self.names]

    async def close(self) -> None:
        """Nothing to release."""


class ChatLab:
    """See the module.  `model` is the first provider's."""

    def __init__(self, service: ChatService, ports: Ports, providers: dict[str, LedProvider], folder: Path) -> None:
        self.service = service
        self.ports = ports
        self.providers = providers
        self.folder = folder
        self.model = next(iter(providers.values()), LedProvider("none"))
        self._requests = count(1)
        self.chat_id = 0

    @property
    def records(self) -> list[CallRecord]:
        return self.ports.engine._recorder.closed  # type: ignore[attr-defined,no-any-return]

    async def new_chat(self, owner: str = PERSON) -> int:
        self.chat_id = (await self.service.create(owner, "", "")).id
        return self.chat_id

    async def submit(self, content: str | None = "hello", **more: Any) -> Submitted:
        chat_id = more.pop("chat_id", None) or self.chat_id or await self.new_chat()
        request_id = more.pop("request_id", None) or f"request-{next(self._requests)}"
        owner = more.pop("owner", PERSON)
        on_busy = OnBusy(more.pop("on_busy", "interrupt"))
        wanted = Submission(
            owner=owner, chat_id=chat_id, request_id=request_id, content=content, on_busy=on_busy, **more
        )
        return await self.service.submit(wanted)

    async def ask(self, content: str | None = "hello", **more: Any) -> Turn:
        return (await self.submit(content, **more)).turn

    async def follow(self, turn: Turn, view: View = STREAM, after: FrameId | None = None) -> list[dict[str, Any]]:
        """Every frame of a turn, to its end."""
        return read_frames(await self.stream(turn, view, after))

    async def stream(self, turn: Turn, view: View = STREAM, after: FrameId | None = None) -> bytes:
        follower = await self.service.follow_turn(PERSON, turn, view, after)
        out = []
        try:
            while not follower.ended:
                out.append(await follower.next(15.0))
        finally:
            self.service.leave(follower)
        return b"".join(out)

    async def turn(self, turn: Turn | int) -> Turn:
        turn_id = turn if isinstance(turn, int) else turn.id
        found = await self.ports.store.read(lambda tx: tx.turn(turn_id))
        assert found is not None
        return found

    async def message(self, message_id: int | None) -> Message:
        found = await self.ports.store.read(lambda tx: tx.message(message_id or 0))
        assert found is not None
        return found

    async def over(self, turn: Turn) -> Turn:
        """The turn, once it has ended."""
        while (now := await self.turn(turn)).state not in TERMINAL:
            await asyncio.sleep(0.01)
        return now

    async def text_of(self, turn: Turn) -> str:
        now = await self.over(turn)
        return (await self.message(now.assistant_message_id)).text

    async def until(self, holds: Callable[[], Awaitable[bool]] | Callable[[], bool]) -> None:
        while True:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.005)


def read_frames(data: bytes) -> list[dict[str, Any]]:
    """The JSON of each frame, with its id as "#"."""
    found = []
    for block in data.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in lines:
            body = json.decode(lines["data"].encode())
            found.append({**body, **({"#": lines["id"]} if "id" in lines else {})})
    return found


def tokens(frames: list[dict[str, Any]]) -> str:
    return "".join(frame["token"] for frame in frames if frame["event"] == "token")


def events(frames: list[dict[str, Any]]) -> list[str]:
    """The frames' events, neighbouring tokens as one."""
    names = [frame["event"] for frame in frames]
    return [name for i, name in enumerate(names) if i == 0 or name != names[i - 1] or name != "token"]


def make_ports(
    folder: Path,
    providers: dict[str, LedProvider],
    settings: ChatSettings,
    *,
    log: StreamLog | None = None,
    clock: Any = None,
    inline: bool = True,
    own: tuple[str, ...] = (),
    doorbell: Any = None,
    store: Callable[[ChatStore], Any] = lambda store: store,
) -> Ports:
    clock = clock or LoopTime()
    catalog = Catalog(models={}, providers=providers, own=own, now_s=clock.now_s)
    engine = Engine(
        catalog=catalog,
        providers=providers,
        recorder=FakeRecorder(),  # type: ignore[arg-type]
        settings=Settings(retries=0),
        health=Health(enabled=False),
        ended=lambda record: None,
    )
    numbers = count(1)
    configured = [name for name in providers if name not in own]
    return Ports(
        store=store(SqliteChatStore(open_database(laid(folder / "chat.db")), clock_ns=clock.wall_ns, inline=inline)),
        log=log if log is not None else MemoryLog(now_s=clock.now_s),
        doorbell=doorbell or LocalDoorbell(),
        clock=clock,
        engine=engine,
        chooser=Chooser(
            catalog,
            providers=configured,
            own=own,
            models=settings.models,
            prefer_local=settings.prefer_local,
        ),
        settings=settings,
        metrics=ChatMetrics(),
        new_id=lambda: f"call-{next(numbers)}",
    )


@asynccontextmanager
async def chat_lab(
    folder: Path,
    *,
    providers: tuple[LedProvider, ...] | None = None,
    settings: ChatSettings | None = None,
    boot_id: str = "boot-1",
    **more: Any,
) -> AsyncIterator[ChatLab]:
    by_name = {p.name: p for p in (providers if providers is not None else (LedProvider("led"),))}
    async with AsyncExitStack() as stack:
        ports = make_ports(folder, by_name, settings or ChatSettings(), **more)
        stack.push_async_callback(ports.store.close)
        service = await stack.enter_async_context(ChatService(ports, boot_id=boot_id, alone=True))
        yield ChatLab(service, ports, by_name, folder)


def run(
    story: Callable[[ChatLab], Awaitable[None]],
    folder: Path,
    *,
    settings: ChatSettings | None = None,
    make: Callable[[], tuple[LedProvider, ...]] | None = None,
    **more: Any,
) -> None:
    """Tells the story in no time."""

    async def told() -> None:
        providers = make() if make is not None else None
        async with chat_lab(folder, settings=settings, providers=providers, **more) as lab:
            await story(lab)

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(told())


def with_settings(**changes: Any) -> ChatSettings:
    return msgspec.structs.replace(ChatSettings(), **changes)


def final(records: list[CallRecord]) -> list[tuple[Status, str | None]]:
    return [(record.status, record.cancelled_by) for record in records]
