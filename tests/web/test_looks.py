"""Each state of the page, on a desktop and a phone, light and dark: a picture of it is kept, and axe judges it.

What axe finds is told by its rule and the elements.  Rules of every weight but `minor` count.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.web.browsing import DESKTOP, PHONE, ROOT
from tests.web.fake_chat import MODELS, NOTHING, FakeChat

pytestmark = pytest.mark.anyio

ANSWER = """Tides come from **gravity**: mostly the Moon's, a little the Sun's.

1. The Moon pulls the near side of the Earth more than the far side.
2. The sea follows that difference and bulges on both sides.
3. The Earth turns under the bulges, so most coasts see two high tides a day.

> A shore is a clock that the Moon winds.

| Body | Pull on the tide |
|---|---:|
| Moon | 1.00 |
| Sun | 0.46 |

```python
def high_tides(day: int) -> list[float]:
    \"\"\"Hours of the two high tides, roughly 50 minutes later each day.\"\"\"
    first = (day * 0.84) % 12.42
    return [first, first + 12.42]  # not for sailors
```

See `high_tides(3)` for an example."""

LOOKS = {
    "desktop-light": {"viewport": DESKTOP, "color_scheme": "light"},
    "desktop-dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone-light": {"viewport": PHONE, "color_scheme": "light", "has_touch": True, "is_mobile": True},
    "phone-dark": {"viewport": PHONE, "color_scheme": "dark", "has_touch": True, "is_mobile": True},
}
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
COUNTS = ("moderate", "serious", "critical")


def looks(*quick: str) -> list[Any]:
    """All of them; the suite takes these."""
    return [look if look in quick else pytest.param(look, marks=pytest.mark.thorough) for look in LOOKS]


async def violations(page: Any) -> list[str]:
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text(encoding="utf-8"))
    found = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{v['id']} ({v['impact']}): {json.dumps([n['html'][:160] for n in v['nodes']][:3])}"
        for v in found["violations"]
        if v["impact"] in COUNTS
    ]


class Judge:
    """Takes the picture and asks axe."""

    def __init__(self, look: str, shoot: Any) -> None:
        self.look = look
        self.shoot = shoot

    async def __call__(self, page: Any, name: str) -> None:
        await self.shoot(page, f"{self.look}-{name}")
        assert await violations(page) == [], name


@pytest.mark.promise(134)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("look", looks("desktop-light", "phone-dark"))
async def test_a_chat(fake: FakeChat, new_page: Any, shoot: Any, watch: Any, look: str) -> None:
    watch.expected.append("403")
    judge = Judge(look, shoot)
    fake.talk("Three dinners with lentils", ("Dinners?", "Soup, salad, curry."), updated_at="2026-11-29T12:00:00Z")
    fake.talk("Rename photos by date", ("Script?", "Use `exiftool`."))
    talk = fake.talk("How tides work", ("Explain how tides work, simply, with a bit of code", ANSWER))
    page = await new_page("", **LOOKS[look])
    await page.get_by_role("heading", name="What is on your mind?").wait_for()
    await judge(page, "01-welcome")
    await page.goto(f"{fake.url}/#/c/{talk.row['id']}")
    await page.get_by_text("not for sailors").wait_for()
    await page.locator(".hljs-keyword").first.wait_for()
    await judge(page, "02-chat")
    await page.get_by_role("textbox", name="Message", exact=True).fill("And why are there two of them?")
    await page.keyboard.press("Enter")
    turn = await fake.turn()
    turn.provider("kimi")
    turn.frame("reasoning", reasoning="The pull falls with distance.")
    turn.tool("call_1", "almanac", "{}")
    turn.say("Because the pull is a **difference**. ", "On the far side the Earth itself is pulled away from the water")
    await page.get_by_text("pulled away from the water").wait_for()
    await page.get_by_text("Tool: almanac").click()
    await judge(page, "03-streaming")
    turn.error("timeout", "kimi gave no token for 30 s")
    await page.locator(".notice").get_by_text("took too long").wait_for()
    await judge(page, "04-failure")
    await page.get_by_role("button", name="Model: Auto").click()
    await page.get_by_role("menu").wait_for()
    await judge(page, "05-models")
    await page.keyboard.press("Escape")
    if "phone" in look:
        await page.get_by_role("button", name="Show chats").click()
        await page.get_by_role("link", name="How tides work").wait_for()
        await judge(page, "06-drawer")
    await page.get_by_role("button", name="Settings").click()
    await judge(page, "07-settings")
    fake.guests_welcome = False
    await page.context.clear_cookies()
    await page.evaluate("localStorage.clear()")
    await page.reload()
    await page.get_by_role("heading", name="Welcome").wait_for()
    await judge(page, "10-sign-in")


@pytest.mark.promise(28)
@pytest.mark.parametrize("look", looks("phone-dark"))
async def test_the_first_run(fake: FakeChat, new_page: Any, shoot: Any, look: str) -> None:
    judge = Judge(look, shoot)
    fake.models = NOTHING
    page = await new_page("", **LOOKS[look])
    await page.get_by_role("button", name="Get smollm2:135m").wait_for()
    await judge(page, "08-first-run")
    await page.get_by_role("button", name="Get smollm2:135m").click()
    fake.pulling.put_nowait({"status": "pulling manifest"})
    fake.pulling.put_nowait({"status": "pulling x", "digest": "sha256:1", "total": 98_362_432, "completed": 41_000_000})
    await page.get_by_text("41 MB of 98.4 MB").wait_for()
    await judge(page, "09-pulling")
    fake.models = MODELS
    fake.pulling.put_nowait({"status": "success"})
    await page.get_by_role("heading", name="What is on your mind?").wait_for()
