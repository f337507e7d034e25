"""Accounts, keys and the first model, in a browser against the server itself."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import tiny_gguf
from tests.engine.lab import Lab, lab
from tests.web.browsing import Chat, Watch, playwright
from tests.web.conftest import READER, WAIT_MS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
expect = playwright.expect

CATALOG = """
[[models]]
names = ["tiny:1"]
license = "Apache-2.0"
source = {{ kind = "file", path = "{path}" }}
files = [{{ name = "{name}", sha256 = "{digest}", size_bytes = {size} }}]
"""


@asynccontextmanager
async def reading(browser: Any, server: Lab) -> AsyncIterator[Any]:
    """The page, in the browser of a reader who was never there."""
    context = await browser.new_context(**READER)
    context.set_default_timeout(WAIT_MS)
    watch = Watch(server.url, expected=["401", "403", "404", "409"])
    context.on("page", watch.on)
    page = await context.new_page()
    await page.goto(server.url)
    yield page
    await context.close()
    watch.judge()


async def fill(page: Any, name: str, password: str, button: str) -> None:
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name=button).click()


@pytest.mark.promise(97)
async def test_a_guest_becomes_somebody_leaves_and_comes_back(browser: Any, tmp_path: Path) -> None:
    with lab(tmp_path) as server:
        async with reading(browser, server) as page, reading(browser, server) as stranger:
            chat = Chat(page)
            await expect(page.get_by_role("button", name="Guest")).to_be_visible()
            await chat.say("remember the sea")
            await chat.ended()
            # The guest takes an account, and the chats with it.
            await page.get_by_role("button", name="Guest").click()
            await page.get_by_role("button", name="Create an account").click()
            await fill(page, "Anna", "correct horse", "Create an account")
            await expect(page.get_by_role("dialog")).to_have_count(0)  # while it is there, nothing else takes a key
            await expect(page.get_by_role("button", name="Anna")).to_be_visible()
            await expect(page.get_by_role("link", name="remember the sea")).to_be_visible()
            await chat.say("and the river")
            await expect(chat.answers).to_have_count(2)
            await chat.ended()
            await page.reload()
            await expect(page.get_by_role("button", name="Anna")).to_be_visible()
            await expect(chat.answers).to_have_count(2)
            # Somebody else, in another browser, is a guest and sees nothing of it.
            await stranger.reload()
            await expect(stranger.get_by_role("button", name="Guest")).to_be_visible()
            await stranger.goto(page.url)
            await expect(stranger.get_by_text("This chat is not here any more.")).to_be_visible()
            # Leaves, mistypes, comes back.
            await page.get_by_role("button", name="Anna").click()
            await page.get_by_role("button", name="Sign out").click()
            await expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
            await fill(page, "anna", "wrong horse", "Sign in")
            await expect(page.get_by_role("alert").filter(has_text="Name or password is not right.")).to_be_visible()
            await fill(page, "anna", "correct horse", "Sign in")
            await expect(page.get_by_role("link", name="remember the sea")).to_be_visible()
            # The name is taken for everybody else.
            await stranger.get_by_role("button", name="Guest").click()
            await stranger.get_by_role("button", name="Create an account").click()
            await fill(stranger, "ANNA", "another horse", "Create an account")
            await expect(stranger.get_by_role("alert").filter(has_text="This name is taken.")).to_be_visible()
            # Goes for good.
            await page.get_by_role("button", name="Anna").click()
            await page.get_by_role("button", name="Delete my account").click()
            await page.get_by_role("button", name="Delete everything").click()
            await expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
            await fill(page, "anna", "correct horse", "Sign in")
            await expect(page.get_by_role("alert").filter(has_text="Name or password is not right.")).to_be_visible()


@pytest.fixture(scope="module")
def own_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue of the operator's with one tiny model that is really one."""
    folder = tmp_path_factory.mktemp("catalog")
    model = tiny_gguf.build(folder / "tiny.gguf")
    body = model.read_bytes()
    text = CATALOG.format(path=model, name=model.name, digest=hashlib.sha256(body).hexdigest(), size=len(body))
    (folder / "models.toml").write_text(text, encoding="utf-8")
    return folder / "models.toml"


@pytest.mark.promise(28)
@pytest.mark.thorough
async def test_the_first_run_pulls_a_model_which_then_answers(browser: Any, tmp_path: Path, own_model: Path) -> None:
    with lab(tmp_path, f'[local]\ncatalog = "{own_model}"\n', scripted=False) as server:
        async with reading(browser, server) as page:
            await page.get_by_role("button", name="Get tiny:1").click()
            await expect(page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
            chat = Chat(page)
            await chat.say("who are you?")
            await expect(chat.answers.last.locator(".prose")).to_have_text(tiny_gguf.TEXT, timeout=30_000)
            await chat.ended()
            await expect(chat.answers.last.locator(".facts")).to_contain_text("local")


async def test_a_server_with_keys_says_what_it_wants(browser: Any, tmp_path: Path, own_model: Path) -> None:
    config = f'[server]\nkeys = ["the-servers-key"]\n[local]\ncatalog = "{own_model}"\n'
    with lab(tmp_path, config, scripted=False) as server:
        async with reading(browser, server) as page:
            await expect(page.get_by_text("lets in who has an account, or one of its keys.")).to_be_visible()
            key, enter = page.get_by_label("Key of the server"), page.get_by_role("button", name="Go on with the key")
            await key.fill("some-other-key")
            await enter.click()
            await expect(page.get_by_role("alert").filter(has_text="does not know this key.")).to_be_visible()
            await key.fill("the-servers-key")
            await enter.click()
            await expect(page.get_by_role("button", name="Guest")).to_be_visible()
            kept = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, location.href])")
            assert "the-servers-key" not in kept
            # After a reload the cookie says who it is; the key was in memory alone, and the download wants it again.
            await page.reload()
            await page.get_by_role("button", name="Get tiny:1").click()
            await expect(page.get_by_role("alert").filter(has_text="only for who has one of its keys")).to_be_visible()
            await expect(page.get_by_role("button", name="Guest")).to_be_visible()
            await page.get_by_label("Key of the server").fill("the-servers-key")
            await page.get_by_role("button", name="Continue").click()
            await expect(page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
            await page.get_by_role("button", name="Model: Auto").click()
            await expect(page.get_by_role("menuitemradio", name="tiny:1")).to_be_visible()


async def test_on_a_server_with_keys_a_guest_takes_an_account(browser: Any, tmp_path: Path) -> None:
    bound = '[keys.ci]\nkey = "a-programs-key"\nmodels = ["scripted"]\n'
    with lab(tmp_path, f'[server]\nkeys = ["the-servers-key"]\n{bound}') as server:
        async with reading(browser, server) as page:
            await page.get_by_label("Key of the server").fill("a-programs-key")
            await page.get_by_role("button", name="Go on with the key").click()
            await expect(page.get_by_role("alert").filter(has_text="This key is for programs")).to_be_visible()
            await page.get_by_label("Key of the server").fill("the-servers-key")
            await page.get_by_role("button", name="Go on with the key").click()
            chat = Chat(page)
            await chat.say("mine to keep")
            await chat.ended()
            await page.reload()
            await page.get_by_role("button", name="Guest").click()
            await page.get_by_role("button", name="Create an account").click()
            await fill(page, "Anna", "correct horse", "Create an account")
            await expect(page.get_by_role("alert").filter(has_text="one of its keys")).to_be_visible()
            await page.get_by_label("Key of the server").fill("the-servers-key")
            await page.get_by_role("button", name="Create an account").click()
            await expect(page.get_by_role("button", name="Anna")).to_be_visible()
            await page.reload()
            await expect(page.get_by_role("button", name="Anna")).to_be_visible()
            await expect(page.get_by_role("link", name="mine to keep")).to_be_visible()
