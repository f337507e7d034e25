"""What is counted of a request is counted once, and of a long one in a thread."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rivermouth.engine.asked import Asked, prompt_tokens
from rivermouth.http.dataplane import INLINE_BODY_BYTES
from rivermouth.ir.request import EmbedRequest, Message, Request, Role, Text
from tests.engine.client import asking
from tests.engine.lab import Lab, lab
from tests.engine.words import OPENAI, PLAIN, talk

pytestmark = pytest.mark.anyio


def test_each_count_is_made_once() -> None:
    counts: list[str] = []

    def long(request: Request | EmbedRequest) -> int:
        counts.append("long")
        return 7

    asked = Asked(Request(model="m", messages=(Message(Role.USER, (Text("x" * 40),)),)))
    asked.all([long])
    assert (asked.of(long), asked.of(long), asked.tokens()) == (7, 7, prompt_tokens(asked.request))
    assert counts == ["long"]


@pytest.mark.fault("F34")
@pytest.mark.parametrize("long", [False, True], ids=["a short one", "a long one"])
async def test_nobody_waits_while_a_long_request_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    """The loop has other streams to serve."""
    where: list[int] = []

    def weighing(request: Request | EmbedRequest) -> int:
        where.append(threading.get_ident())
        return 1

    limited = PLAIN + "[limits]\ntokens_per_minute = 1_000_000_000\n"
    with lab(tmp_path, limited) as server:
        monkeypatch.setattr("rivermouth.platform.gate.weigh", weighing)
        body = {**talk("scripted", stream=False), "metadata": {"long": "x" * (INLINE_BODY_BYTES if long else 1)}}
        async with asking(server.port, OPENAI.path, body) as answer:
            assert answer.status == 200
        assert [one != loop_of(server) for one in where] == [long]


def loop_of(server: Lab) -> int:
    return server.on_loop(threading.get_ident)
