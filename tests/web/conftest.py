"""A browser, a page in it, and the fake service that it talks to: one event loop leads them all.

Every page is watched: a console error, an exception or a request to another host fails the test at its end.

One browser and one tab of it serve all tests, on one address, since a renderer costs more than most tests do:
between two of them the tab rests on an empty page and forgets what it has stored.  Behind the address each test has a
service of its own.  A test that wants another kind of reader (a phone, another language, a second tab) makes a context.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest

from rivermouth.http.page import SITE
from rivermouth.http.page import Page as Site
from tests.web.browsing import Chat, Watch, playwright
from tests.web.chromium import ADVICE, find
from tests.web.fake_chat import BLANK, FakeChat, FakeHost

ARTEFACTS = Path(__file__).parents[2] / "artefacts" / "web"
READER = {"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", "reduced_motion": "reduce"}
WAIT_MS = 8_000


@pytest.fixture(scope="session")
def site() -> Site:
    site = Site(site=SITE)
    assert site.built, "the page is not built: make web"
    return site


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Any]:
    program = find()
    if program is None:
        pytest.fail(ADVICE, pytrace=False)
    async with playwright.async_playwright() as p:
        # Chromium's sandbox needs privileges that containers do not give to root.
        arguments = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = await p.chromium.launch(executable_path=program, args=arguments)
        yield browser
        await browser.close()


@pytest.fixture(scope="session")
async def shared_tab(browser: Any) -> Any:
    context = await browser.new_context(**READER)
    context.set_default_timeout(WAIT_MS)
    return await context.new_page()


@pytest.fixture(scope="session")
async def host(site: Site) -> AsyncIterator[FakeHost]:
    async with FakeHost(site).serving() as host:
        yield host


@pytest.fixture
def fake(host: FakeHost) -> FakeChat:
    return host.renew()


@pytest.fixture
def watch(host: FakeHost) -> Watch:
    return Watch(host.url)


@pytest.fixture
async def tab(shared_tab: Any, host: FakeHost, fake: FakeChat, watch: Any) -> AsyncIterator[Any]:
    """The tab that all share, at an empty page of the server."""
    if shared_tab.url != host.url + BLANK:  # as the test before has left it
        await shared_tab.goto(host.url + BLANK)
    await shared_tab.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    await shared_tab.context.clear_cookies()
    with watch.watching(shared_tab):
        yield shared_tab
        await shared_tab.goto(host.url + BLANK)
    watch.judge()


@pytest.fixture
async def page(tab: Any, fake: FakeChat) -> Any:
    """The page in it, ready."""
    await tab.goto(fake.url)
    await playwright.expect(Chat(tab).box).to_be_visible()
    return tab


NewPage = Callable[..., Awaitable[Any]]


@pytest.fixture
async def more_tabs(tab: Any, host: FakeHost, watch: Watch) -> AsyncIterator[NewPage]:
    """Makes tabs beside `tab`, in the same browser."""
    tabs = []
    with ExitStack() as stack:

        async def make(path: str = "") -> Any:
            page = await tab.context.new_page()
            tabs.append(page)
            stack.enter_context(watch.watching(page))
            await page.goto(f"{host.url}/{path}")
            return page

        yield make
        for page in tabs:
            await page.close()


@pytest.fixture
async def new_page(browser: Any, fake: FakeChat, watch: Any) -> AsyncIterator[NewPage]:
    """Makes pages.  Those of one `context` are tabs of one browser; keywords are Playwright's for a context."""
    async with AsyncExitStack() as stack:

        async def make(path: str = "", context: Any = None, **options: Any) -> Any:
            if context is None:
                context = await browser.new_context(base_url=fake.url, **{**READER, **options})
                context.set_default_timeout(WAIT_MS)
                stack.push_async_callback(context.close)
            page = await context.new_page()
            stack.enter_context(watch.watching(page))
            await page.goto(f"{fake.url}/{path}")
            return page

        yield make
    watch.judge()


@pytest.fixture
def shoot(request: pytest.FixtureRequest) -> Callable[..., Awaitable[None]]:
    """Keeps a picture under artefacts/web."""

    async def take(page: Any, name: str) -> None:
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=ARTEFACTS / f"{name}.png", animations="disabled")

    return take
