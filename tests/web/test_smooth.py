"""A long answer is as cheap to go on with as a short one: what a frame costs does not grow with what stands already.

Measured is the processor time of the page's own thread (script, styles, layout), so what else the machine does is not
in it.  Each kind of text is measured twice with the same pieces: near its beginning, and behind a hundred kilobytes.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.browsing import Chat, playwright
from tests.web.fake_chat import FakeChat, Turn
from tests.web.test_streaming import open_chat

pytestmark = pytest.mark.anyio
expect = playwright.expect

FRAMES = 12
PER_FRAME = 4
"""Tokens: at 200 in a second and 60 pictures a second, a frame has three or four."""

GROWS_AT_MOST = 3.0
LEAST_MS = 1.0
"""A frame that costs less than this is cheap, whatever it cost before."""

BUDGET_MS = 1000 / 60

KINDS = {
    "prose": ("", "Rivers carry salt to the sea, *slowly*, and `never` back. " * 5 + "\n\n", "word **bold** and "),
    "code": ("```python\n", "def f(x):\n    return x + 1  # and so on\n", "value = "),
    "a list": ("", "- an item of a list that has no end, with *some* words in it\n", "- x "),
}


class Meter:
    """Milliseconds of the page's main thread so far."""

    def __init__(self, session: Any) -> None:
        self.session = session

    async def read(self) -> float:
        metrics = {m["name"]: m["value"] for m in (await self.session.send("Performance.getMetrics"))["metrics"]}
        return 1000 * float(sum(metrics[f"{part}Duration"] for part in ("Script", "Layout", "RecalcStyle")))


async def painted(page: Any) -> None:
    await page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def per_frame(page: Any, meter: Meter, turn: Turn, token: str, name: str) -> float:
    """What one frame costs, in ms, of those that show these tokens."""
    chat = Chat(page)
    before = await meter.read()
    for frame in range(FRAMES):
        turn.say(*[f"{token}{frame}.{n} " for n in range(PER_FRAME)])
        await painted(page)
    turn.say(name)
    await expect(chat.answers.last).to_contain_text(name)
    return (await meter.read() - before) / FRAMES


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_frame_costs_does_not_grow(fake: FakeChat, tab: Any, kind: str) -> None:
    opening, unit, token = KINDS[kind]
    chat, _ = await open_chat(fake, tab)
    session = await tab.context.new_cdp_session(tab)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    meter = Meter(session)
    await chat.say("go on and on")
    turn = await fake.turn()
    turn.say(opening, unit)
    await per_frame(tab, meter, turn, token, "warm\n")  # what runs for the first time is compiled
    early = await per_frame(tab, meter, turn, token, "early\n")
    turn.say("\n", unit * (100_000 // len(unit)), "behind\n")
    await expect(chat.answers.last).to_contain_text("behind")
    late = await per_frame(tab, meter, turn, token, "late\n")
    await session.detach()
    assert late < max(GROWS_AT_MOST * early, LEAST_MS), (early, late)
    assert late < BUDGET_MS
