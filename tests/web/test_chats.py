"""The list of chats, their menu, and the choice of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.web.browsing import Chat, playwright
from tests.web.fake_chat import MOST_CHATS, FakeChat
from tests.web.test_streaming import open_chat, until

pytestmark = pytest.mark.anyio
expect = playwright.expect


class TestTheList:
    async def test_search_finds_words_in_messages(self, fake: FakeChat, page: Any) -> None:
        fake.talk("Dinner", ("lentils?", "Soup of red lentils."))
        fake.talk("Photos", ("rename", "exiftool"))
        await page.reload()
        await expect(page.get_by_role("link", name="Dinner")).to_be_visible()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("lentils")
        await expect(page.get_by_role("link", name="Dinner")).to_be_visible()
        await expect(page.get_by_role("link", name="Photos")).to_be_hidden()
        await page.get_by_role("searchbox").fill("zebra")
        await expect(page.get_by_text("No chat holds these words.")).to_be_visible()
        await page.get_by_role("searchbox").fill("")
        await expect(page.get_by_role("link", name="Photos")).to_be_visible()

    async def test_older_chats_come_when_asked_for(self, fake: FakeChat, page: Any) -> None:
        for n in range(60):
            fake.talk(f"Chat number {n}")
        await page.reload()
        await expect(page.get_by_role("link", name="Chat number 59")).to_be_visible()
        await expect(page.get_by_role("link", name="Chat number 5", exact=True)).to_have_count(0)
        await page.get_by_role("button", name="Show older chats").click()
        await expect(page.get_by_role("link", name="Chat number 5", exact=True)).to_have_count(1)

    @pytest.mark.promise(88)
    async def test_more_chats_than_the_server_gives_at_once(self, fake: FakeChat, page: Any) -> None:
        for n in range(MOST_CHATS + 30):
            fake.talk(f"Chat number {n}")
        await page.reload()
        links = page.get_by_role("link", name="Chat number")
        for wanted in (100, 150, 200, 230):
            await page.get_by_role("button", name="Show older chats").click()
            await expect(links).to_have_count(wanted)
        await expect(page.get_by_role("link", name="Chat number 0", exact=True)).to_have_count(1)
        await expect(page.get_by_role("button", name="Show older chats")).to_have_count(0)

    async def test_delete_can_be_undone(self, fake: FakeChat, new_page: Any) -> None:
        talk = fake.talk("Precious", ("a", "b"))
        page = await new_page()
        await page.clock.install()
        await page.reload()
        await page.get_by_role("link", name="Precious").hover()
        await page.get_by_role("button", name="Delete: Precious").click()
        await expect(page.get_by_role("link", name="Precious")).to_be_hidden()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("link", name="Precious")).to_be_visible()
        await page.clock.fast_forward(20_000)
        assert talk.row["id"] in fake.talks

    async def test_delete_is_done_when_the_time_to_undo_is_over(self, fake: FakeChat, new_page: Any) -> None:
        talk = fake.talk("Rubbish", ("a", "b"))
        page = await new_page()
        await page.clock.install()
        await page.goto(f"{fake.url}/#/c/{talk.row['id']}")
        await page.reload()
        await page.get_by_role("button", name="Chat menu").click()
        await page.get_by_role("menuitem", name="Delete").click()
        await expect(page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
        assert talk.row["id"] in fake.talks
        await page.clock.fast_forward(7_000)
        await until(lambda: talk.row["id"] not in fake.talks)
        await expect(page.get_by_role("button", name="Undo")).to_be_hidden()

    async def test_closing_the_page_deletes_what_was_to_be_deleted(self, fake: FakeChat, page: Any) -> None:
        talk = fake.talk("Rubbish", ("a", "b"))
        await page.reload()
        await page.get_by_role("link", name="Rubbish").hover()
        await page.get_by_role("button", name="Delete: Rubbish").click()
        await expect(page.get_by_role("button", name="Undo")).to_be_visible()
        await page.goto("about:blank")
        await until(lambda: talk.row["id"] not in fake.talks)

    async def test_a_chat_that_is_not_there(self, fake: FakeChat, page: Any, watch: Any) -> None:
        watch.expected.append("404")
        await page.goto(f"{fake.url}/#/c/999")
        await expect(page.get_by_text("This chat is not here any more.")).to_be_visible()


class TestTheMenu:
    async def test_rename(self, fake: FakeChat, tab: Any) -> None:
        _, talk = await open_chat(fake, tab, ("a", "b"))
        await tab.get_by_role("button", name="Chat menu").click()
        await tab.get_by_role("menuitem", name="Rename").click()
        box = tab.get_by_role("textbox", name="Name of the chat")
        await expect(box).to_have_value("Words")
        await box.fill("New name")
        await box.press("Enter")
        await expect(tab.get_by_role("heading", name="New name")).to_be_visible()
        await expect(tab.get_by_role("link", name="New name")).to_be_visible()
        await until(lambda: talk.row["title"] == "New name")

    async def test_instructions(self, fake: FakeChat, tab: Any) -> None:
        _, talk = await open_chat(fake, tab, ("a", "b"))
        await tab.get_by_role("button", name="Chat menu").click()
        await tab.get_by_role("menuitem", name="Instructions").click()
        await tab.get_by_role("textbox").last.fill("Answer in rhyme.")
        await tab.get_by_role("button", name="Save").click()
        await until(lambda: talk.row["instructions"] == "Answer in rhyme.")

    async def test_export(self, fake: FakeChat, tab: Any, tmp_path: Path) -> None:
        await open_chat(fake, tab, ("question", "An **answer** with\u2028odd text"))
        texts = {}
        for name in ("Markdown", "JSON"):
            await tab.get_by_role("button", name="Chat menu").click()
            async with tab.expect_download() as download:
                await tab.get_by_role("menuitem", name=f"Export as {name}").click()
            got = await download.value
            await got.save_as(tmp_path / got.suggested_filename)
            texts[got.suggested_filename] = (tmp_path / got.suggested_filename).read_text(encoding="utf-8")
        want = "# Words\n\n## You\n\nquestion\n\n## Assistant\n\nAn **answer** with\u2028odd text\n"
        assert texts["Words.md"] == want
        kept = json.loads(texts["Words.json"])
        assert [message["text"] for message in kept["messages"]] == ["question", "An **answer** with\u2028odd text"]


class TestModels:
    @pytest.mark.promise(95, 96)
    async def test_the_picker_says_why_something_cannot_be_chosen(self, fake: FakeChat, page: Any) -> None:
        await page.get_by_role("button", name="Model: Auto").click()
        gemini = page.get_by_role("menuitemradio", name="Gemini")
        await expect(gemini).to_have_attribute("aria-disabled", "true")
        await expect(gemini).to_contain_text("Add a key for Gemini to the server's configuration.")
        await expect(page.get_by_role("menuitemradio", name="Groq")).to_contain_text("closed for repairs")
        await gemini.click(force=True)
        assert fake.asked("PUT", "/api/ai/model") == []
        await page.get_by_role("menuitemradio", name="Kimi").click()
        await expect(page.get_by_role("button", name="Model: Kimi")).to_be_focused()
        await until(lambda: fake.asked("PUT", "/api/ai/model") == [{"model": "kimi"}])
        await page.reload()
        await expect(page.get_by_role("button", name="Model: Kimi")).to_be_visible()

    async def test_the_menu_is_led_by_keys(self, fake: FakeChat, page: Any) -> None:
        await page.get_by_role("button", name="Model: Auto").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("menuitemradio", name="Auto")).to_be_focused()
        await page.keyboard.press("ArrowDown")
        await expect(page.get_by_role("menuitemradio", name="Kimi")).to_be_focused()
        await page.keyboard.press("End")
        await expect(page.get_by_role("menuitemradio", name="Groq")).to_be_focused()
        await page.keyboard.press("ArrowDown")
        await expect(page.get_by_role("menuitemradio", name="Auto")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("menu")).to_be_hidden()
        await expect(page.get_by_role("button", name="Model: Auto")).to_be_focused()


class TestTheFirstRun:
    async def test_a_model_is_pulled_and_then_answers(self, fake: FakeChat, new_page: Any) -> None:
        full = fake.models
        fake.models = {**full, "models": [c for c in full["models"] if not c["configured"]]}
        page = await new_page()
        await page.get_by_role("button", name="Get smollm2:135m").click()
        for step in (
            {"status": "pulling manifest"},
            {"status": "pulling f", "digest": "d", "total": 1000, "completed": 400},
        ):
            fake.pulling.put_nowait(step)
        bar = page.get_by_role("progressbar")
        await expect(bar).to_have_attribute("value", "400")
        await expect(bar).to_have_attribute("max", "1000")
        fake.pulling.put_nowait({"status": "verifying sha256 digest"})
        await expect(page.get_by_text("Checking the download")).to_be_visible()
        fake.models = full
        fake.pulling.put_nowait({"status": "success"})
        await expect(page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
        assert fake.asked("POST", "/api/pull") == [{"model": "smollm2:135m"}]
        chat = Chat(page)
        await chat.say("hello")
        (await fake.turn()).say("hi")
        await chat.shows("hi")

    async def test_a_pull_that_fails_can_go_on(self, fake: FakeChat, new_page: Any) -> None:
        fake.models = {**fake.models, "models": []}
        page = await new_page()
        await page.get_by_role("button", name="Get smollm2:135m").click()
        fake.pulling.put_nowait({"error": "the disk is full"})
        await expect(page.get_by_role("alert").filter(has_text="the disk is full")).to_be_visible()
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("progressbar")).to_be_visible()
        assert len(fake.asked("POST", "/api/pull")) == 2
