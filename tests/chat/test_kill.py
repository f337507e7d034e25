"""kill -9 at every named point: the next start ends what was begun, loses nothing, and takes the next message."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rivermouth.chat.machine import LIVE, TERMINAL
from rivermouth.log.port import ZERO, FrameId
from tests.chat.dying import POINTS
from tests.chat.front import ENDS, Screen
from tests.chat.lab import chat_lab
from tests.engine.jumping import jump
from tests.promises import ROOT

QUICK = {
    "in submit",
    "after submit",
    "in claim",
    "after claim",
    "after turn.open",
    "in call",
    "after call",
    "after said",
    "after checkpoint",
    "in finish",
    "before turn.end",
    "after take_over",
    "after turn.fence",
}


Dying = Callable[[Path, str], tuple[int, str]]


@pytest.fixture(scope="module")
def dying() -> Iterator[Dying]:
    """Asks a chat in a folder something, in a process that is killed at a point: how that ended, and what it said."""
    mother = subprocess.Popen(
        [sys.executable, "-m", "tests.chat.dying"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with mother:
        assert mother.stdin is not None
        assert mother.stdout is not None

        def ask(folder: Path, point: str) -> tuple[int, str]:
            print(json.dumps([str(folder), point]), file=mother.stdin, flush=True)
            code, words = json.loads(mother.stdout.readline())
            return code, words

        yield ask


@pytest.mark.promise(104, 124)
@pytest.mark.parametrize("point", [p if p in QUICK else pytest.param(p, marks=pytest.mark.thorough) for p in POINTS])
def test_whatever_was_going_on_when_the_process_was_killed(dying: Dying, tmp_path: Path, point: str):
    code, words = dying(tmp_path, point)
    assert code == -signal.SIGKILL, words
    said = "one two three "

    async def story() -> None:
        async with chat_lab(tmp_path, boot_id="boot-2") as lab:
            lab.chat_id = 1
            lab.model.script = lambda call: (call.say("answered"), call.finish())  # type: ignore[assignment,return-value]
            turn = await lab.ask("next", request_id="another", on_busy="enqueue")
            assert await lab.text_of(turn) == "answered"
            rows = await lab.ports.store.read(lambda tx: (list(tx.turns(1)), {m.id: m for m in tx.messages(1)}))
            turns, messages = rows
            assert len(turns) == (1 if point == "in submit" else 2)
            for each in turns:
                assert each.state in TERMINAL
                assert each.state not in LIVE
                assert messages[each.user_message_id].text
                answer = messages.get(each.assistant_message_id or 0)
                assert answer is not None
                assert answer.text or each.error
                assert said.startswith(answer.text) or answer.text == "answered"
            if point in ("after checkpoint", "in finish", "after take_over", "after turn.fence"):
                assert messages[turns[0].assistant_message_id or 0].text
            if point == "before turn.end":
                assert messages[turns[0].assistant_message_id or 0].text == said
            frames = await lab.follow(turns[0])
            assert frames[-1]["event"] in ENDS
            end = FrameId.parse(messages[turns[0].assistant_message_id or 0].folded_to) or ZERO
            for after in (FrameId(1, 0), FrameId(1, 2), FrameId(1, 4)):  # who was following comes back
                if after >= end:
                    continue
                screen = Screen(after)
                screen.feed(await lab.stream(turns[0], after=after))
                assert len(screen.ends) == 1
                assert screen.text in ("", messages[turns[0].assistant_message_id or 0].text)
                chat = await lab.service.follow_chat("anna", 1, after)
                assert chat is not None
                told = b""
                while b"caught_up" not in told or not told.count(b'"digest"'):
                    told += await chat.next(5.0)
                lab.service.leave(chat)

    jump(story())
