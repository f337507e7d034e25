"""Messages and what is done to them: hostile ones, edited ones, answered again, with files, drafts, code to copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.web.browsing import Chat, playwright
from tests.web.fake_chat import FakeChat
from tests.web.test_streaming import open_chat

pytestmark = pytest.mark.anyio
expect = playwright.expect

HOSTILE = """<script>window.owned = 1</script><img src=x onerror="window.owned = 2">

<iframe src="https://evil.example/"></iframe> and <b onmouseover="window.owned = 3">inline</b>

[click](javascript:window.owned=4) ![picture](https://evil.example/pixel.png)

<a href="data:text/html,<script>window.owned=5</script>">data</a> [data](data:text/html;base64,PHNjcmlwdD4=)
[vb](vbscript:owned) [spaced]( java\tscript:window.owned=7 ) <javascript:window.owned=8> [ok](https://good.example/a?b)

```html
<script>window.owned = 6</script>
```

line\u2028separator and \u202eoverride, `<script>`"""
BOMBS = {
    "quotes": ">" * 30_000,
    "brackets": "![[" * 10_000,
    "lists": "1. " * 10_000,
    "stars": "*a " * 10_000,
    "one long word": "a" * 32_000,
}


class TestHostileContent:
    async def test_markup_is_shown_as_text_and_nothing_runs(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab, (HOSTILE, HOSTILE))
        answer = chat.answers.last
        await expect(answer.get_by_text("<script>window.owned = 1</script>")).to_be_visible()
        await expect(answer.get_by_text("<iframe src=")).to_be_visible()
        await expect(chat.mine.last).to_contain_text("<script>window.owned = 1</script>")
        assert await tab.evaluate("window.owned") is None
        for kind in ("script", "img", "iframe", "b", "[onerror]", "[onmouseover]"):
            assert await answer.locator(f".prose {kind}").count() == 0
        hrefs = await answer.locator(".prose a").evaluate_all("links => links.map(l => l.getAttribute('href'))")
        assert {href for href in hrefs if href is not None} == {
            "https://evil.example/pixel.png",
            "https://good.example/a?b",
        }
        assert len(hrefs) > 4  # the others are there, and lead nowhere
        assert await answer.locator(".prose a").last.get_attribute("rel") == "noopener noreferrer nofollow"

    async def test_hostile_tokens_that_come_in_pieces(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        await chat.say("go")
        turn = await fake.turn()
        turn.say(*HOSTILE)
        await expect(chat.answers.last.get_by_text("separator and")).to_be_visible()
        turn.done()
        await chat.ended()
        assert await tab.evaluate("window.owned") is None

    async def test_bombs_do_not_stop_the_page(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        for name, bomb in BOMBS.items():
            await chat.say(name)
            turn = await fake.turn()
            turn.say(bomb, f"\n\nafter {name}")
            await expect(chat.answers.last).to_contain_text(f"after {name}")
            turn.done()
            await chat.ended()
        await tab.reload()
        await expect(chat.answers).to_have_count(len(BOMBS))
        await chat.say("and on")
        (await fake.turn()).say("fine")
        await chat.shows("fine")

    async def test_a_hostile_title_and_name(self, fake: FakeChat, page: Any) -> None:
        fake.talk("<img src=x onerror='window.owned=1'>", ("a", "b"))
        await page.reload()
        await expect(page.get_by_role("link", name="<img src=x")).to_be_visible()
        assert await page.evaluate("window.owned") is None


class TestDoingAgain:
    async def test_edit_and_send_again_keeps_both_versions(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab, ("first words", "first answer"), ("follow-up", "second answer"))
        await chat.mine.first.hover()
        await chat.mine.first.get_by_role("button", name="Edit").click()
        box = tab.get_by_role("textbox", name="Edit the message")
        await expect(box).to_have_value("first words")
        await box.fill("better words")
        await box.press("Enter")
        turn = await fake.turn()
        assert turn.body["content"] == "better words"
        turn.say("better answer")
        turn.done()
        await chat.shows("better answer")
        await expect(chat.mine).to_have_text(["better words"])
        await expect(tab.get_by_text("2 of 2")).to_be_visible()
        await tab.get_by_role("button", name="Previous version").click()
        await expect(chat.mine).to_have_text(["first words", "follow-up"])
        await tab.get_by_role("button", name="Next version").click()
        await expect(chat.mine).to_have_text(["better words"])

    async def test_escape_leaves_the_message_as_it_was(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab, ("words", "answer"))
        await chat.mine.first.hover()
        await chat.mine.first.get_by_role("button", name="Edit").click()
        await tab.get_by_role("textbox", name="Edit the message").fill("changed")
        await tab.keyboard.press("Escape")
        await expect(chat.mine).to_have_text(["words"])
        assert len(talk.turns) == 1

    async def test_answer_again(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab, ("words", "answer"))
        await chat.answers.last.get_by_role("button", name="Answer again").click()
        turn = await fake.turn()
        assert turn.body == {"redo": talk.turns[0].answer["id"], "detach": True}
        turn.say("another answer")
        turn.done()
        await chat.shows("another answer")
        await expect(chat.mine).to_have_text(["words"])
        await tab.get_by_role("button", name="Previous version").click()
        await chat.shows("answer")


class TestCode:
    async def test_it_is_coloured_and_copied_as_it_is(self, fake: FakeChat, new_page: Any) -> None:
        talk = fake.talk("Code", ("code?", "Here:\n\n```python\ndef f():\n    return '<&>'\n```\n\ndone"))
        page = await new_page(f"#/c/{talk.row['id']}", permissions=["clipboard-read", "clipboard-write"])
        figure = page.locator("figure")
        await expect(figure.locator(".hljs-keyword").first).to_have_text("def")
        await figure.get_by_role("button", name="Copy").click()
        await expect(figure.get_by_role("button")).to_have_attribute("data-copy", "done")
        assert await page.evaluate("navigator.clipboard.readText()") == "def f():\n    return '<&>'"

    async def test_an_open_fence_grows_line_by_line(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        await chat.say("go")
        turn = await fake.turn()
        turn.say("```js\nlet a = 1;\n")
        await expect(tab.locator("figure code")).to_contain_text("let a = 1;")
        await tab.evaluate("() => { document.querySelector('figure').mine = true; }")
        for n in range(50):
            turn.say(f"let b{n} = {n};\n")
        await expect(tab.locator("figure code")).to_contain_text("let b49 = 49;")
        assert await tab.evaluate("document.querySelector('figure').mine === true")
        turn.say("```\n")
        await expect(tab.locator("figure .hljs-keyword").first).to_have_text("let")


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@pytest.fixture
def pixel(tmp_path: Path) -> Path:
    picture = tmp_path / "pixel.png"
    picture.write_bytes(PIXEL)
    return picture


async def attach(page: Any, *files: Path) -> None:
    await page.locator("input[type=file]").set_input_files(files)
    await expect(page.get_by_role("button", name=f"Remove {files[-1].name}")).to_be_visible()


class TestFiles:
    async def test_a_picture_and_a_text_are_sent_and_shown(self, fake: FakeChat, tab: Any, tmp_path: Path) -> None:
        picture, notes = tmp_path / "pixel.png", tmp_path / "notes.md"
        picture.write_bytes(PIXEL)
        notes.write_text("# notes")
        chat, _ = await open_chat(fake, tab)
        await tab.locator("input[type=file]").set_input_files([picture, notes])
        await expect(tab.get_by_role("button", name="Remove pixel.png")).to_be_visible()
        await chat.say("look")
        turn = await fake.turn()
        sent = [(f["name"], f["mediaType"], f["bytes"]) for f in turn.body["attachments"]]
        assert sent == [("pixel.png", "image/png", len(PIXEL)), ("notes.md", "text/plain", 7)]
        turn.say("seen")
        await chat.shows("seen")
        await expect(chat.mine.last.get_by_role("img", name="pixel.png")).to_be_visible()
        await expect(chat.mine.last.get_by_text("notes.md")).to_be_visible()

    async def test_a_picture_needs_no_words(self, fake: FakeChat, tab: Any, pixel: Path) -> None:
        chat, talk = await open_chat(fake, tab)
        await attach(tab, pixel)
        held = fake.hold(f"POST /api/chats/{talk.row['id']}/stream")
        await chat.box.press("Enter")
        mine = chat.mine.last
        for _ in range(2):  # on its way, and there
            await expect(mine.get_by_role("img", name="pixel.png")).to_be_visible()
            await expect(mine.locator(".bubble")).to_have_count(0)
            held.set()
            await expect(tab.get_by_role("button", name="Edit")).to_have_count(1)
        turn = await fake.turn()
        assert (turn.body["content"], len(turn.body["attachments"])) == ("", 1)

    async def test_a_refused_message_comes_back_with_its_files(
        self, fake: FakeChat, tab: Any, watch: Any, pixel: Path
    ) -> None:
        watch.expected.append("400")
        chat, talk = await open_chat(fake, tab)
        await attach(tab, pixel)
        fake.refuse(f"POST /api/chats/{talk.row['id']}/stream", 400, "invalid_request")
        await chat.say("look")
        await tab.get_by_role("alert").get_by_role("button", name="Edit").click()
        await expect(chat.box).to_have_value("look")
        await expect(tab.get_by_role("button", name="Remove pixel.png")).to_be_visible()
        await chat.box.press("Enter")
        assert [f["name"] for f in (await fake.turn()).body["attachments"]] == ["pixel.png"]

    async def test_a_refused_message_that_gives_way_comes_back_with_its_files(
        self, fake: FakeChat, tab: Any, watch: Any, pixel: Path
    ) -> None:
        watch.expected.append("429")
        chat, talk = await open_chat(fake, tab)
        await attach(tab, pixel)
        fake.refuse(f"POST /api/chats/{talk.row['id']}/stream", 429, "rate_limited")
        await chat.say("look")
        await expect(tab.get_by_role("alert").filter(has_text="Not sent.")).to_be_visible()
        await chat.say("others")
        assert "attachments" not in (await fake.turn()).body
        await expect(chat.box).to_have_value("look")
        await expect(tab.get_by_role("button", name="Remove pixel.png")).to_be_visible()

    async def test_an_edited_message_keeps_the_files_that_are_not_taken_away(
        self, fake: FakeChat, tab: Any, pixel: Path
    ) -> None:
        notes = pixel.with_name("notes.md")
        notes.write_text("# notes")
        chat, _ = await open_chat(fake, tab)
        await attach(tab, pixel, notes)
        await chat.say("look")
        turn = await fake.turn()
        turn.say("seen")
        turn.done()
        await chat.ended()
        sent = turn.body["attachments"][0]
        await chat.mine.last.hover()
        await chat.mine.last.get_by_role("button", name="Edit").click()
        editor = tab.locator("form.editor")
        await expect(editor.get_by_role("button", name="Remove pixel.png")).to_be_visible()
        await editor.get_by_role("button", name="Remove notes.md").click()
        await editor.get_by_role("textbox").fill("look again")
        await editor.get_by_role("textbox").press("Enter")
        edited = (await fake.turn()).body
        kept = {name: edited["attachments"][0][name] for name in ("name", "mediaType", "data")}
        assert (edited["content"], len(edited["attachments"])) == ("look again", 1)
        assert kept == {name: sent[name] for name in kept}
        await expect(chat.mine.last.get_by_role("img", name="pixel.png")).to_be_visible()
        await expect(chat.mine.last.get_by_text("notes.md")).to_have_count(0)

    async def test_what_cannot_be_sent_is_said(self, fake: FakeChat, tab: Any, tmp_path: Path) -> None:
        await open_chat(fake, tab)
        program = tmp_path / "x.exe"
        program.write_bytes(b"MZ")
        await tab.locator("input[type=file]").set_input_files([program])
        await expect(tab.get_by_role("alert").filter(has_text="x.exe cannot be sent.")).to_be_visible()
        large = tmp_path / "large.txt"
        large.write_bytes(b"x" * 300_000)
        await tab.locator("input[type=file]").set_input_files([large])
        await expect(tab.get_by_role("alert").filter(has_text="large.txt is too large.")).to_be_visible()

    async def test_a_model_that_takes_none_offers_none(self, fake: FakeChat, tab: Any) -> None:
        await open_chat(fake, tab)
        attach = tab.get_by_role("button", name="Attach files")
        await expect(attach).to_be_visible()
        await tab.get_by_role("button", name="Model: Auto").click()
        await tab.get_by_role("menuitemradio", name="smollm2:135m").click()
        await expect(attach).to_be_hidden()


class TestWriting:
    async def test_drafts_are_kept_for_each_chat(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab, ("a", "b"))
        await chat.box.fill("half a thought")
        await tab.get_by_role("button", name="New chat").click()
        await expect(chat.box).to_have_value("")
        await chat.box.fill("another one")
        await tab.get_by_role("link", name="Words").click()
        await expect(chat.box).to_have_value("half a thought")
        await tab.reload()
        await expect(chat.box).to_have_value("half a thought")
        await chat.say("whole")
        await fake.turn()
        await tab.reload()
        await expect(chat.mine.last).to_have_text("whole")
        await expect(chat.box).to_have_value("")

    async def test_shift_enter_is_a_new_line_and_enter_sends(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        await chat.box.fill("one")
        await chat.box.press("Shift+Enter")
        await tab.keyboard.type("two")
        await tab.keyboard.press("Enter")
        assert (await fake.turn()).body["content"] == "one\ntwo"

    async def test_too_long_a_message_cannot_be_sent(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab)
        await chat.box.fill("x" * 32_001)
        await expect(tab.get_by_text("32,001 of 32,000 characters.")).to_be_visible()
        await expect(tab.get_by_role("button", name="Send", exact=True)).to_be_disabled()
        await chat.box.fill("\U0001f30a" * 32_000)
        await expect(tab.get_by_role("button", name="Send", exact=True)).to_be_enabled()
        assert talk.turns == []

    async def test_where_a_long_chat_was_cut_is_marked(self, fake: FakeChat, page: Any) -> None:
        talk = fake.talk("Long", ("one", "1"), ("two", "2"), ("three", "3"))
        talk.messages[-1]["context_from"] = talk.messages[2]["id"]
        await page.goto(f"{fake.url}/#/c/{talk.row['id']}")
        await expect(page.get_by_text("It was answered from here on.")).to_be_visible()
        chat = Chat(page)
        await expect(chat.mine).to_have_text(["one", "two", "three"])

    async def test_the_reader_is_not_dragged_along(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab, ("one", "line\n\n" * 100))
        await chat.say("two")
        turn = await fake.turn()
        turn.say("begin\n\n")
        await expect(chat.answers.last).to_contain_text("begin")
        box = tab.locator(".scroll")
        await box.hover()
        await tab.mouse.wheel(0, -2_000)
        await expect(tab.get_by_role("button", name="Jump to the newest message")).to_be_visible()
        before = await box.evaluate("box => box.scrollTop")
        turn.say("more\n\n" * 40, "end")
        await expect(chat.answers.last).to_contain_text("end")
        assert await box.evaluate("box => box.scrollTop") == before
        await tab.get_by_role("button", name="Jump to the newest message").click()
        await expect(chat.answers.last.get_by_text("end", exact=True)).to_be_in_viewport()
