"""What the front does with a client that does not take what there is for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rivermouth.http.protocol import HANG_UP, WRITE
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.log.port import FrameId, Page
from rivermouth.wire import json
from tests.chat.front import Front
from tests.chat.lab import PERSON, ChatLab, read_frames, run, tokens, with_settings


class Connection:
    """A client over ASGI that takes nothing while it is `full`."""

    def __init__(self) -> None:
        self.full = False
        self.hung_up = False
        self.said = b""
        self.room = asyncio.Event()
        self._asked = [{"type": "http.request", "body": json.encode({"content": "x"}), "more_body": False}]

    async def receive(self) -> Any:
        if not self._asked:
            await asyncio.Event().wait()
        return self._asked.pop()

    async def send(self, message: Any) -> None:
        while self.full:
            self.room.clear()
            await self.room.wait()
        self.said += message.get("body", b"")

    def write(self, data: bytes) -> bool:
        if not self.full:
            self.said += data
        return not self.full

    def hang_up(self) -> None:
        self.hung_up = True

    def stream(self, lab: ChatLab, chat_id: int) -> asyncio.Task[None]:
        extensions = {WRITE: self.write, HANG_UP: self.hang_up}
        scope = {"method": "POST", "path": f"/api/chats/{chat_id}/stream", "headers": [], "query_string": b""}
        return asyncio.create_task(Front(lab).streams({**scope, "extensions": extensions}, self.receive, self.send))


@pytest.mark.fault("F35")
def test_nothing_is_made_for_a_client_before_it_has_room_and_then_it_gets_all(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        client = Connection()
        streaming = client.stream(lab, await lab.new_chat())
        call = await lab.model.asked()
        call.say("0 ")
        await asyncio.sleep(0.1)
        client.full = True
        reads, read = [0], lab.ports.log.read

        async def reading(chat: str, after: FrameId, limit: int) -> Page:
            reads[0] += 1
            return await read(chat, after, limit)

        call.say("1 ")
        await asyncio.sleep(0.1)
        lab.ports.log.read = reading  # type: ignore[method-assign]
        for number in range(2, 200):
            call.say(f"{number} ")
            await asyncio.sleep(0.1)
        assert reads[0] == 0
        client.full = False
        client.room.set()
        call.finish()
        await streaming
        frames = read_frames(client.said)
        assert tokens(frames) == "".join(f"{number} " for number in range(200))
        assert frames[-1]["event"] == "done"
        assert not client.hung_up

    run(story, tmp_path)


@pytest.mark.fault("F35")
@pytest.mark.parametrize("stops", [False, True])
def test_a_client_that_takes_nothing_for_long_is_cut_off_and_its_answer_goes_on(tmp_path: Path, stops: bool):
    """Or is stopped, where leaving is a stop."""

    async def story(lab: ChatLab) -> None:
        client = Connection()
        streaming = client.stream(lab, await lab.new_chat())
        call = await lab.model.asked()
        call.say("one ")
        await asyncio.sleep(0.1)
        client.full = True
        began_s = asyncio.get_running_loop().time()
        call.say("two")
        for _ in range(6):
            await asyncio.sleep(5)
            call.say(".")
        await streaming
        assert client.hung_up
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(30, abs=0.5)
        assert lab.service.statistics()["followers"] == 0
        if stops:
            assert (await lab.over(await lab.turn(1))).state == "stopped"
        else:
            call.finish()
            assert (await lab.over(await lab.turn(1))).state == "completed"
        assert (await lab.text_of(await lab.turn(1))).startswith("one two.....")
        assert tokens(read_frames(client.said)) == "one "

    run(story, tmp_path, settings=with_settings(stop_on_disconnect=stops))


class Until:
    """The port `Identity`: the lab's person, until something says otherwise."""

    def __init__(self) -> None:
        self.otherwise: ApiError | str | None = None

    async def identify(self, headers: Sequence[tuple[bytes, bytes]]) -> str:
        if isinstance(self.otherwise, ApiError):
            raise self.otherwise
        return self.otherwise or PERSON


@pytest.mark.parametrize(
    ("otherwise", "goes_on"),
    [
        (ApiError(Kind.AUTHENTICATION, "the session has ended"), False),
        (ApiError(Kind.PERMISSION, "the key has no chats any more"), False),
        ("somebody else", False),
        (ApiError(Kind.OVERLOADED, "not now"), True),
        (None, True),
    ],
    ids=["signed out", "bound", "another", "unknown", "the same"],
)
def test_who_follows_is_asked_again_who_they_are(tmp_path: Path, otherwise: ApiError | str | None, goes_on: bool):
    async def story(lab: ChatLab) -> None:
        chat_id, identity = await lab.new_chat(), Until()
        following = asyncio.create_task(Front(lab, identity).events(chat_id, until=b"secret"))
        await asyncio.sleep(1.0)
        identity.otherwise = otherwise
        await asyncio.sleep(2 * lab.ports.settings.keep_alive_s)
        assert following.done() is not goes_on
        await lab.submit(chat_id=chat_id)
        (await lab.model.asked()).say("secret")
        await asyncio.sleep(1.0)
        assert (b"secret" in await following) is goes_on

    run(story, tmp_path)
