"""A stream that is cut anywhere, and gone on with after the last whole frame, is the stream that was not cut.

Every kind of frame, at every byte: of an answer that is over, by the log that has it, by one that was lost, replaced by
a snapshot, or could not be reached for a while; and of one that is still being written.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.chat.feed import Board
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Start,
    TextDelta,
)
from rivermouth.log.port import ZERO, FrameId
from rivermouth.store.chats.port import Turn
from tests.chat.faulty import FaultyLog
from tests.chat.front import Front, Screen
from tests.chat.lab import ChatLab, LedCall, events, read_frames, run, tokens, with_settings

KEY: Final = "one"
LOG: Final = "uanna:c1"
WORDS: Final = ('A river 🌊 "runs",\u2028 ', "\n\nto the ", "sea\r\n: ", "data: x\n\n") * 4


# -- what a model can do


async def says(lab: ChatLab, call: LedCall, turn: Turn) -> None:
    for word in WORDS:
        call.say(word)
        await asyncio.sleep(0.03)
    call.finish()


async def thinks_and_calls(lab: ChatLab, call: LedCall, turn: Turn) -> None:
    call.events(Start(), PartStart(0, PartKind.REASONING))
    for word in WORDS[:6]:
        call.events(ReasoningDelta(0, word))
        await asyncio.sleep(0.02)
    call.events(PartEnd(0), PartStart(1, PartKind.TOOL, 0, "call_1", "look"), ArgsDelta(1, '{"a":'))
    call.events(PartStart(2, PartKind.TOOL, 0, "call_2", "find"), ArgsDelta(1, "1"), ArgsDelta(2, "{"))
    await asyncio.sleep(0.03)
    call.events(ArgsDelta(1, "}"), PartEnd(1), ArgsDelta(2, "}"), PartEnd(2), PartStart(3, PartKind.TEXT))
    for word in WORDS[:6]:
        call.events(TextDelta(3, word))
        await asyncio.sleep(0.02)
    call.events(PartEnd(3), Finish(Reason.STOP))


async def breaks(lab: ChatLab, call: LedCall, turn: Turn) -> None:
    for word in WORDS[:5]:
        call.say(word)
        await asyncio.sleep(0.03)
    call.fail(ApiError(Kind.NETWORK, "reset"))


async def fails(lab: ChatLab, call: LedCall, turn: Turn) -> None:
    call.fail(ApiError(Kind.UPSTREAM, "no"))


async def is_stopped(lab: ChatLab, call: LedCall, turn: Turn) -> None:
    for word in WORDS[:5]:
        call.say(word)
        await asyncio.sleep(0.03)
    await lab.service.stop("anna", turn.chat_id)


async def dies(lab: ChatLab, call: LedCall, turn: Turn) -> None:
    """The writer sleeps, and another ends its turn."""
    for word in WORDS[:5]:
        call.say(word)
        await asyncio.sleep(0.03)
    lab.service.worker.owners.clear()
    assert await lab.service.worker.recover(turn.id)


Model = Callable[[ChatLab, LedCall, Turn], Awaitable[None]]
MODELS: Final[dict[str, Model]] = {m.__name__: m for m in (says, thinks_and_calls, breaks, fails, is_stopped, dies)}
ENDS: Final = {"breaks": "done", "fails": "error", "is_stopped": "cancelled"}


# -- what becomes of the log


async def kept(lab: ChatLab) -> None:
    """Nothing happens to it."""


async def lost(lab: ChatLab) -> None:
    await lab.ports.log.drop(LOG)


async def trimmed(lab: ChatLab) -> None:
    await lab.ports.log.trim(LOG, FrameId(1, 4))


FATES: Final = {fate.__name__: fate for fate in (kept, lost, trimmed)}


def whole(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what a reader is told of itself."""
    return [frame for frame in frames if frame["event"] not in ("hello", "caught_up", "bye")]


async def at_every_byte(uncut: bytes, again: Callable[[str | None], Awaitable[bytes]], *, exact: bool) -> None:
    """exact: the frames are the same ones too; else only what they show."""
    want = Screen()
    want.feed(uncut)
    assert len(want.ends) == 1
    resumed: dict[str | None, bytes] = {}
    client = Screen()
    checked: set[tuple[Any, ...]] = set()
    for offset in range(len(uncut) + 1):
        client.feed(uncut[offset - 1 : offset] if offset else b"")
        left = client.copy()
        if left.shown in checked:
            continue
        checked.add(left.shown)
        last = str(left.cursor) if left.cursor.generation else None
        if last not in resumed:
            resumed[last] = await again(last)
        left.feed(resumed[last])
        # What only the log knew, reasoning and calls, a row has in its parts.
        shows = (lambda s: s.shown) if exact else (lambda s: (s.text, s.ends[-1:], s.cursor))
        assert shows(left) == shows(want), (offset, uncut[:offset], resumed[last])
        if exact and last is not None and not client.ends:
            seen = read_frames(uncut[:offset].rpartition(b"\n\n")[0])
            assert whole([*seen, *read_frames(resumed[last])]) == whole(read_frames(uncut))


@pytest.mark.promise(106, 124)
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("model", MODELS)
def test_a_stream_cut_at_each_byte_and_gone_on_with_is_the_uncut_one(tmp_path: Path, model: str, fate: str):
    async def story(lab: ChatLab) -> None:
        chat, front = await lab.new_chat(), Front(lab)
        body = {"content": "x", "pieces": True}
        first = asyncio.create_task(front.stream(chat, body, key=KEY))
        watching = asyncio.create_task(front.events(chat, until=b'"event":"%b"' % ENDS.get(model, "done").encode()))
        call = await lab.model.asked()
        turn = await lab.turn(1)
        await MODELS[model](lab, call, turn)
        uncut, watched = await first, await watching
        await lab.over(turn)
        assert len(uncut) < 4_096
        frames = read_frames(uncut)
        assert frames[-1]["event"] == ENDS.get(model, "done")
        assert tokens(frames) == (await lab.message(turn.assistant_message_id)).text
        await FATES[fate](lab)

        async def stream_again(last: str | None) -> bytes:
            return await front.stream(chat, body, key=KEY, last_id=last)

        async def events_again(last: str | None) -> bytes:
            return await front.events(chat, turn=turn.id, last_id=last)

        exact = fate == "kept"
        await at_every_byte(uncut, stream_again, exact=exact)
        await at_every_byte(watched, events_again, exact=exact)

    run(story, tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_whose_log_was_out_of_reach_is_gone_on_with_from_the_rows(tmp_path: Path, seed: int):
    """Streams that began while it was, or before, and are cut at each byte."""
    chance = random.Random(seed)
    log = FaultyLog()

    async def story(lab: ChatLab) -> None:
        chat, front = await lab.new_chat(), Front(lab)
        log.out = seed == 0
        readers = [asyncio.create_task(front.stream(chat, {"content": "x"}, key=KEY))]
        call = await lab.model.asked()
        for number, word in enumerate(WORDS):
            call.say(word)
            await asyncio.sleep(chance.choice([0.03, 0.5, 1.2]))
            if chance.random() < 0.4:
                log.out = not log.out
            if number % 5 == 4:
                readers.append(asyncio.create_task(front.stream(chat, {"content": "x"}, key=KEY)))
        call.finish()
        await lab.over(await lab.turn(1))
        said = [await reader for reader in readers]
        log.out = False

        async def again(last: str | None) -> bytes:
            return await front.stream(chat, {"content": "x"}, key=KEY, last_id=last)

        for uncut in said:
            assert tokens(read_frames(uncut)) == "".join(WORDS)
            await at_every_byte(uncut, again, exact=False)

    run(story, tmp_path, log=log)


def test_an_answer_of_which_the_log_lacks_the_end_and_whose_writer_died_is_gone_on_with(tmp_path: Path):
    """The id under which the rest is told from the row is that of the fence, which the log has."""
    log = FaultyLog()

    async def story(lab: ChatLab) -> None:
        chat, front = await lab.new_chat(), Front(lab)
        turn = await lab.ask("x", chat_id=chat, request_id=KEY)
        call = await lab.model.asked()
        for word in WORDS[:4]:
            call.say(word)
            await asyncio.sleep(1.2)
            log.out = True
        log.out = False
        lab.service.worker.owners.clear()
        assert await lab.service.worker.recover(turn.id)
        uncut = await front.stream(chat, {"content": "x"}, key=KEY)
        assert tokens(read_frames(uncut)) == "".join(WORDS[:4])

        async def again(last: str | None) -> bytes:
            return await front.stream(chat, {"content": "x"}, key=KEY, last_id=last)

        await at_every_byte(uncut, again, exact=False)

    run(story, tmp_path, log=log)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("route", ["stream", "events"])
def test_a_client_that_is_cut_off_again_and_again_while_it_is_written_shows_every_word_once(
    tmp_path: Path, route: str, seed: int
):
    """Logs grow, are compacted, trimmed and lost meanwhile."""
    chance = random.Random(seed)

    async def story(lab: ChatLab) -> None:
        chat, front = await lab.new_chat(), Front(lab)
        turn = await lab.ask("x", chat_id=chat, request_id=KEY)
        call = await lab.model.asked()
        screen, cuts = Screen(), [0]

        async def once() -> bytes:
            last = str(screen.cursor) if screen.cursor.generation else None
            until = b'"' + chance.choice(WORDS[:4])[:1].encode()
            if route == "stream":
                return await front.stream(chat, {"content": "x"}, key=KEY, last_id=last, until=until)
            return await front.events(chat, turn=turn.id, last_id=last or "0-0", until=until)

        async def watching() -> None:
            nonlocal screen
            while not screen.ends:
                data = await once()
                if chance.random() < 0.7:
                    data = data[: chance.randrange(len(data) + 1)]
                    cuts[0] += 1
                screen.feed(data)
                screen = screen.copy()
                await asyncio.sleep(0.01)

        watcher = asyncio.create_task(watching())
        for word in WORDS * 3:
            call.say(word)
            await asyncio.sleep(chance.random() / 10)
            if chance.random() < 0.05:
                await lab.ports.log.drop(LOG)
            if chance.random() < 0.1:
                await lab.ports.log.trim(LOG, FrameId(1, chance.randrange(40)))
        call.finish()
        await watcher
        assert cuts[0] > 3
        assert (screen.text, len(screen.ends)) == ("".join(WORDS * 3), 1)

    run(story, tmp_path, settings=with_settings(snapshot_bytes=1_500 if seed % 2 else 4 << 20))


def test_a_place_that_no_log_and_no_row_knows_is_none_to_go_on_from_and_loses_nothing(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        chat, front = await lab.new_chat(), Front(lab)
        call_of = asyncio.create_task(lab.model.asked())
        first = asyncio.create_task(front.stream(chat, {"content": "x"}, key=KEY))
        await says(lab, await call_of, await lab.turn(1))
        uncut = await first
        end = read_frames(uncut)[-1]
        assert read_frames(await front.stream(chat, {"content": "x"}, key=KEY, last_id=end["#"])) == [end]
        for nonsense in ("1-999", "77-0", "0-5"):
            frames = read_frames(await front.stream(chat, {"content": "x"}, key=KEY, last_id=nonsense))
            if nonsense == "0-5":  # before the turn: it has nothing of it
                assert frames == read_frames(uncut)
            else:
                assert events(frames) == ["snapshot", "done"]
                assert frames[0]["text"] == "".join(WORDS)
                assert "#" not in frames[0]
        assert await front.stream(chat, {"content": "x"}, key=KEY, last_id="rubbish") == uncut

    run(story, tmp_path)


@pytest.mark.parametrize("came_back", [False, True])
@pytest.mark.parametrize("route", ["stream", "events"])
def test_a_turn_that_ends_while_its_row_is_looked_up_has_one_end_with_an_id_of_its_own(
    tmp_path: Path, route: str, came_back: bool
):
    """Between the question how the turn stands and the one for its text."""

    async def story(lab: ChatLab) -> None:
        chat, front = await lab.new_chat(), Front(lab)
        turn = await lab.ask("x", chat_id=chat, request_id=KEY)
        call = await lab.model.asked()
        for word in WORDS[:3]:
            call.say(word)
            await asyncio.sleep(1.1)
        read = lab.ports.store.read
        asked = [0]

        async def reading(work: Any) -> Any:
            found = await read(work)
            if isinstance(found, Board) and any(t.state == "streaming" for t in found.turns) and not asked[0]:
                asked[0] += 1
                call.say(WORDS[3])
                call.finish()
                await lab.over(turn)
                await lab.ports.log.drop(LOG)
            return found

        await lab.ports.log.drop(LOG)
        lab.ports.store.read = reading  # type: ignore[method-assign]
        last = "1-1" if came_back else None
        if route == "stream":
            said = await front.stream(chat, {"content": "x"}, key=KEY, last_id=last)
        else:
            said = await front.events(chat, turn=turn.id, last_id=last)
        assert asked == [1]
        screen = Screen(FrameId.parse(last or "") or ZERO)
        screen.feed(said)
        assert (screen.text, screen.ends) == ("".join(WORDS[:4]), ["done"])
        ids = [frame["#"] for frame in read_frames(said) if "#" in frame]
        assert len(ids) == len(set(ids))

    run(story, tmp_path)
