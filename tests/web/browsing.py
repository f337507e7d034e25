"""What the tests of the page share: a reader's moves, and what a page must not do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright import async_api as playwright

playwright.expect.set_options(timeout=8_000)

ROOT = Path(__file__).parents[2]
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@dataclass
class Watch:
    """What a page must not do.  `expected`: parts of console errors that the test provokes."""

    host: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def on(self, page: Any) -> None:
        for event, heard in self._heard():
            page.on(event, heard)

    @contextmanager
    def watching(self, page: Any) -> Iterator[None]:
        heard = self._heard()
        for event, run in heard:
            page.on(event, run)
        yield
        for event, run in heard:
            page.remove_listener(event, run)

    def _heard(self) -> list[tuple[str, Any]]:
        return [
            ("console", self._console),
            ("pageerror", lambda error: self.errors.append(str(error))),
            ("request", lambda request: self._request(request.url)),
        ]

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} {message.location['url']}")

    def _request(self, url: str) -> None:
        if not url.startswith((self.host, "data:", "blob:", "about:")):
            self.foreign.append(url)

    def judge(self) -> None:
        """Fails for whatever a page did that it must not."""
        errors = [error for error in self.errors if not any(known in error for known in self.expected)]
        assert not errors, errors
        assert not self.foreign, self.foreign


class Chat:
    """What a reader does on the page, by the names that assistive technology sees."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.box = page.get_by_role("textbox", name="Message", exact=True)
        self.answers = page.get_by_role("article", name="Assistant")
        self.mine = page.get_by_role("article", name="You")
        self.stop = page.get_by_role("button", name="Stop", exact=True)

    async def say(self, text: str) -> None:
        await self.box.fill(text)
        await self.box.press("Enter")

    async def shows(self, text: str) -> None:
        """The newest answer is exactly this text."""
        await playwright.expect(self.answers.last.locator(".prose")).to_have_text(text)

    async def ended(self) -> None:
        await playwright.expect(self.answers.last).to_have_attribute("aria-busy", "false")
