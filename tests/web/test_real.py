"""The page against the server itself, over real sockets, with scripted models and a provider that obeys the test."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.lab import Lab, lab
from tests.fakes import FakeUpstream
from tests.web.browsing import Chat, Watch, playwright
from tests.web.fake_kimi import kimi
from tests.web.test_messages import PIXEL

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
expect = playwright.expect

CONFIG = """
[resilience]
retries = 0
cooldown = false
[chat]
idle_s = 1.5
[providers.kimi]
base_url = "{url}/v1"
api_key = "k"
[endpoints.kimi]
provider = "kimi"
model = "kimi-k2.6"
price = {{ input = 1.0, output = 2.0, currency = "EUR" }}
[models."kimi-k2.6"]
endpoints = ["kimi"]
"""


@pytest.fixture(scope="module")
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream(kimi) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, upstream: FakeUpstream) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("real"), CONFIG.format(url=upstream.url)) as server:
        yield server


@pytest.fixture(scope="module")
async def reader(shared_tab: Any, server: Lab) -> AsyncIterator[Any]:
    """The tab that all share; at this server it is the local guest."""
    await shared_tab.context.clear_cookies()
    yield shared_tab
    await shared_tab.goto("about:blank")


@pytest.fixture
async def page(reader: Any, server: Lab) -> AsyncIterator[Any]:
    """At the beginning."""
    watch = Watch(server.url)
    with watch.watching(reader):
        await reader.goto(server.url)
        yield reader
    watch.judge()


async def choose(page: Any, model: str) -> Chat:
    await page.get_by_role("button", name="Model:").click()
    await page.get_by_role("menuitemradio", name=model, exact=True).click()
    await expect(page.get_by_role("button", name=f"Model: {model}")).to_be_visible()
    return Chat(page)


async def whole(chat: Chat) -> str:
    await chat.ended()
    return str(await chat.answers.last.locator(".prose").inner_text())


async def test_a_chat_from_its_first_word_to_its_deletion(page: Any) -> None:
    chat = await choose(page, "Scripted")
    await chat.say("hello river")
    await expect(chat.answers.last).to_contain_text('You said: "hello river".')
    await chat.ended()
    await expect(chat.answers.last.locator(".facts")).to_contain_text("scripted")
    await expect(page.get_by_role("link", name="hello river")).to_be_visible()
    await page.reload()
    await expect(chat.answers.last).to_contain_text('You said: "hello river".')
    await chat.answers.last.get_by_role("button", name="Answer again").click()
    await expect(page.get_by_text("2 of 2")).to_be_visible()
    await expect(chat.mine).to_have_count(1)
    await chat.mine.first.hover()
    await chat.mine.first.get_by_role("button", name="Edit").click()
    await page.get_by_role("textbox", name="Edit the message").fill("other words")
    await page.keyboard.press("Enter")
    await expect(chat.answers.last).to_contain_text('You said: "other words".')
    await expect(page.get_by_text("3 of 3")).to_be_visible()
    await page.get_by_role("searchbox").fill("river")
    await expect(page.get_by_role("link", name="hello river")).to_be_visible()
    await page.get_by_role("link", name="hello river").hover()
    await page.get_by_role("button", name="Delete: hello river").click()
    await expect(page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    await expect(page.get_by_role("link", name="hello river")).to_have_count(0)


TALE = "the river finds its mouths 🌊 and every mouth says the same words ✓ déjà vu "
"""What scripted-slow says, over and over."""


@pytest.mark.promise(90)
async def test_reload_in_mid_answer(page: Any) -> None:
    chat = await choose(page, "scripted-slow")
    await chat.say("count the waves")
    for _ in range(3):
        before = len(await chat.answers.last.locator(".prose").inner_text())
        await page.reload()
        await expect(chat.answers.last).to_have_attribute("aria-busy", "true")
        await expect(chat.answers.last.locator(".prose")).to_have_text(re.compile(f"^.{{{before + 20},}}"))
    await chat.stop.click()
    text = await whole(chat)
    assert (TALE * 100).startswith(text)
    await page.reload()
    assert await whole(chat) == text


@pytest.mark.promise(80, 132)
async def test_two_tabs_and_a_stop_from_the_other(page: Any) -> None:
    one = await choose(page, "scripted-slow")
    await one.say("a long tale")
    await expect(one.answers.last.locator(".prose")).not_to_be_empty()
    two = Chat(await page.context.new_page())
    await two.page.goto(page.url)
    await expect(two.answers.last.locator(".prose")).not_to_be_empty()
    await two.stop.click()
    for chat in (one, two):
        await expect(chat.page.get_by_text("Stopped. What")).to_be_visible()
    assert await whole(one) == await whole(two)
    await two.page.close()


@pytest.mark.promise(129, 130)
async def test_a_newer_message_takes_the_place_of_an_answer(page: Any) -> None:
    chat = await choose(page, "scripted-slow")
    await chat.say("one")
    await expect(chat.answers.last.locator(".prose")).not_to_be_empty()
    await chat.say("two")
    await expect(chat.answers).to_have_count(2)
    await expect(chat.answers.last.locator(".prose")).not_to_be_empty()
    await expect(chat.answers.first).to_have_attribute("data-state", "cancelled")
    await expect(chat.answers.first.locator(".prose")).not_to_be_empty()
    await chat.stop.click()
    await chat.ended()


async def test_tools_tokens_cost_and_who_answered(page: Any) -> None:
    chat = await choose(page, "Kimi")
    await chat.say("tools")
    for _ in range(2):  # as it came, and as it is kept
        await chat.shows("Two tides.")
        await chat.ended()
        facts = chat.answers.last.locator(".facts")
        await expect(facts).to_contain_text("kimi")
        await expect(facts).to_contain_text("12 in, 3,400 out")
        await expect(facts).to_contain_text("€0.0068")
        await expect(chat.answers.last.get_by_text("The almanac knows.")).to_be_hidden()
        await chat.answers.last.get_by_text("Tool: almanac").click()
        await expect(chat.answers.last.get_by_text('"place": "Faro"')).to_be_visible()
        await page.reload()


@pytest.mark.promise(134)
async def test_each_failure_of_a_provider_is_said(page: Any, server: Lab) -> None:
    chat = await choose(page, "Kimi")
    for said, sentence in {
        "refuse": "The model's provider refused the request.",
        "reset": "The connection to the model was lost.",
        "silence": "The model took too long to answer.",
    }.items():
        await chat.say(said)
        await expect(chat.answers.last).to_contain_text(sentence)
        await expect(page.get_by_role("button", name="Try again")).to_be_visible()
    await chat.say("break")
    await expect(chat.answers.last).to_contain_text("half an answer")
    await expect(chat.answers.last).to_contain_text("⚠️ Connection interrupted")
    await page.get_by_role("button", name="Model:").click()
    gemini = page.get_by_role("menuitemradio", name="Gemini")
    await expect(gemini).to_have_attribute("aria-disabled", "true")
    await expect(gemini).to_contain_text("Add a key for Gemini")
    await page.keyboard.press("Escape")
    await page.request.put(f"{server.url}/api/ai/model", data={"model": "gemini"})
    await chat.say("nobody is there")
    await expect(chat.answers.last).to_contain_text("No model is set up for this.")
    await page.reload()
    for sentence in ("refused the request", "was lost", "took too long", "half an answer", "No model is set up"):
        await expect(chat.answers.filter(has_text=sentence)).to_have_count(1)


async def test_a_picture_is_sent_kept_and_shown(page: Any, tmp_path: Path) -> None:
    picture = tmp_path / "pixel.png"
    picture.write_bytes(PIXEL)
    chat = await choose(page, "Scripted")
    await page.locator("input[type=file]").set_input_files([picture])
    await chat.say("look")
    await chat.ended()
    for _ in range(2):
        image = chat.mine.last.get_by_role("img")
        await expect(image).to_be_visible()
        assert await image.evaluate("image => image.naturalWidth") == 1
        await page.reload()
    # A picture alone is a message, and an edited message keeps its own.
    await expect(page.get_by_role("button", name="Attach files")).to_be_visible()  # what models take is known
    await page.locator("input[type=file]").set_input_files([picture])
    await expect(page.get_by_role("button", name="Remove pixel.png")).to_be_visible()
    await chat.box.press("Enter")
    await expect(chat.answers).to_have_count(2)
    await chat.ended()
    await chat.mine.first.hover()
    await chat.mine.first.get_by_role("button", name="Edit").click()
    await page.get_by_role("textbox", name="Edit the message").fill("look again")
    await page.keyboard.press("Enter")
    await expect(chat.answers.last).to_contain_text('You said: "look again')
    await page.reload()
    await expect(chat.mine.last).to_contain_text("look again")
    await expect(chat.mine.last.get_by_role("img")).to_be_visible()
