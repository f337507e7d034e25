"""An answer while it is being written: shown as it comes, stopped, failed, cut, resumed."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest

from tests.web.browsing import Chat, playwright
from tests.web.fake_chat import FakeChat

pytestmark = pytest.mark.anyio
expect = playwright.expect

WORDS = [f"word{n} " for n in range(40)]
TEXT = "".join(WORDS).strip()


async def open_chat(fake: FakeChat, page: Any, *exchanges: tuple[str, str]) -> tuple[Chat, Any]:
    talk = fake.talk("Words", *exchanges)
    await page.goto(f"{fake.url}/#/c/{talk.row['id']}")
    await expect(page.get_by_role("link", name="Words")).to_be_visible()
    await expect(page.get_by_role("heading", name="Words")).to_be_visible()
    return Chat(page), talk


class TestAnAnswer:
    async def test_a_new_chat_is_made_titled_and_answered(self, fake: FakeChat, page: Any) -> None:
        chat = Chat(page)
        await chat.say("Why is the sea salty?")
        turn = await fake.turn()
        turn.provider("kimi")
        turn.say("Because ", "rivers ")
        await chat.shows("Because rivers")
        await expect(chat.answers.last).to_have_attribute("aria-busy", "true")
        turn.say("carry salt.")
        turn.done(
            model="kimi/k2",
            usage={"input_tokens": 9, "output_tokens": 1234},
            cost={"amount": 0.00021, "currency": "USD"},
        )
        await chat.shows("Because rivers carry salt.")
        await chat.ended()
        foot = chat.answers.last.locator(".facts")
        await expect(foot).to_contain_text("kimi")
        await expect(foot).to_contain_text("9 in, 1,234 out")
        await expect(foot).to_contain_text("0.00021")
        await expect(page.get_by_role("link", name="Why is the sea salty?")).to_be_visible()
        assert fake.asked("POST", "/api/chats") == [{}]

    @pytest.mark.promise(133)
    async def test_only_the_newest_bubble_changes(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab, ("one", "first **answer**"), ("two", "second answer"))
        await chat.shows("second answer")
        await tab.evaluate(
            """() => {
              window.touched = 0;
              const watcher = new MutationObserver((seen) => { window.touched += seen.length; });
              const options = { childList: true, subtree: true, characterData: true, attributes: true };
              const old = document.querySelectorAll("article .prose, article .bubble");
              for (const element of old) watcher.observe(element, options);
            }"""
        )
        await chat.say("three")
        turn = await fake.turn()
        turn.say(*WORDS)
        await chat.shows(TEXT)
        turn.done()
        await chat.ended()
        assert await tab.evaluate("window.touched") == 0

    async def test_a_settled_block_is_never_made_again(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        await chat.say("a long one")
        turn = await fake.turn()
        turn.say("# Title\n\nfirst paragraph\n\nsecond ")
        await expect(chat.answers.last.get_by_text("second")).to_be_visible()
        await tab.evaluate("() => { document.querySelector('.prose .block').firstElementChild.mine = true; }")
        for n in range(200):
            turn.say(f"more{n} words.\n\n")
        await expect(chat.answers.last.get_by_text("more199")).to_be_visible()
        turn.done()
        await chat.ended()
        assert await tab.evaluate("document.querySelector('.prose .block').firstElementChild.mine === true")

    async def test_reasoning_is_folded_and_tools_are_shown(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        await chat.say("what time is it?")
        turn = await fake.turn()
        turn.frame("reasoning", reasoning="The clock ")
        turn.frame("reasoning", reasoning="tells.")
        summary = chat.answers.last.get_by_text("Reasoning…")
        await expect(summary).to_be_visible()
        await expect(chat.answers.last.get_by_text("The clock tells.")).to_be_hidden()
        turn.tool("call_1", "clock", '{"zone":', '"UTC"}')
        turn.say("Noon.")
        await chat.shows("Noon.")
        await chat.answers.last.get_by_text("Reasoning", exact=True).click()
        await expect(chat.answers.last.get_by_text("The clock tells.")).to_be_visible()
        await chat.answers.last.get_by_text("Tool: clock").click()
        await expect(chat.answers.last.get_by_text('"zone": "UTC"')).to_be_visible()

    async def test_a_screen_reader_hears_blocks_once_and_the_end(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        await chat.say("tell me")
        turn = await fake.turn()
        turn.say("One ", "two.\n\n", "Three")
        log = tab.get_by_role("log")
        await expect(log.locator("p")).to_have_text(["One two."])
        turn.say(" four.\n\nFive.")
        await expect(log.locator("p")).to_have_text(["One two.", "Three four."])
        turn.done()
        await expect(log.locator("p")).to_have_text(["One two.", "Three four.", "Five."])
        await expect(tab.get_by_role("status").filter(has_text="The answer is complete.")).to_have_count(1)
        assert await tab.locator("[aria-live]").count() == 0

    async def test_a_screen_reader_hears_how_an_answer_ended(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab, ("old", "words"))
        said = tab.get_by_role("status").filter(has_text=re.compile("answer", re.IGNORECASE))
        await chat.say("go")
        (await fake.turn()).error("timeout", "slow")
        await expect(said).to_have_text("There is no answer. The model took too long to answer.")
        await expect(tab.get_by_role("button", name="Try again")).to_be_visible()
        await chat.say("again")
        turn = await fake.turn()
        turn.say("half")
        await expect(said).to_have_text("The answer begins.")
        turn.done(interrupted={"type": "network"})
        await expect(said).to_have_text("The connection to the model broke. The answer ends here.")
        await expect(tab.get_by_role("button", name="Try again")).to_be_visible()
        await chat.say("and again")
        (await fake.turn()).cancelled()
        await expect(said).to_have_text("The answer was stopped.")

    async def test_the_composer_is_not_made_again_with_each_word(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        await chat.say("go")
        turn = await fake.turn()
        turn.say("begin ")
        await chat.shows("begin")
        await chat.box.fill("a draft")
        await tab.evaluate(
            """() => {
              window.made = { composer: 0, picker: 0 };
              const { match } = String.prototype;
              String.prototype.match = function (pattern) {
                if (this.startsWith("a draft")) window.made.composer++;
                return match.call(this, pattern);
              };
              const { sort } = Array.prototype;
              Array.prototype.sort = function (order) {
                if (this[0]?.configured !== undefined) window.made.picker++;
                return sort.call(this, order);
              };
            }"""
        )
        for n in range(20):
            turn.say(WORDS[n])
            await expect(chat.answers.last).to_contain_text(WORDS[n].strip())
        made = await tab.evaluate("window.made")
        assert max(made.values()) <= 4, made  # the list of chats is read again meanwhile
        await chat.box.fill("a draft that goes on")
        assert (await tab.evaluate("window.made"))["composer"] > 0
        await tab.get_by_role("button", name="Model: Auto").click()
        await tab.get_by_role("menuitemradio", name="Kimi").click()
        assert (await tab.evaluate("window.made"))["picker"] > 0


class TestStopping:
    @pytest.mark.promise(132, 135)
    async def test_stop_keeps_what_was_written(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab)
        await chat.say("go")
        turn = await fake.turn()
        turn.say("half an ")
        await chat.shows("half an")
        await chat.stop.click()
        await expect(tab.get_by_text("Stopped. What was written is kept.")).to_be_visible()
        await chat.shows("half an")
        assert fake.asked("POST", f"/api/chats/{talk.row['id']}/cancel") == [{"generation": turn.generation}]

    async def test_a_stop_that_is_refused_is_said(self, fake: FakeChat, tab: Any, watch: Any) -> None:
        watch.expected.append("503")
        chat, talk = await open_chat(fake, tab)
        await chat.say("go")
        turn = await fake.turn()
        turn.say("half")
        await chat.shows("half")
        for stop in (chat.stop.click, lambda: tab.keyboard.press("Escape")):
            fake.refuse(f"POST /api/chats/{talk.row['id']}/cancel", 503, "overloaded")
            await stop()
            await expect(tab.locator(".toast")).to_contain_text("That did not work. The server has too much to do")
            await tab.locator(".toast").get_by_role("button", name="Close").click()
        await chat.stop.click()
        await expect(tab.get_by_text("Stopped. What")).to_be_visible()

    async def test_a_stop_that_is_refused_once_the_answer_has_a_number_is_said(
        self, fake: FakeChat, tab: Any, watch: Any
    ) -> None:
        watch.expected.append("503")
        chat, talk = await open_chat(fake, tab)
        held = fake.hold(f"POST /api/chats/{talk.row['id']}/stream")
        fake.refuse(f"POST /api/chats/{talk.row['id']}/cancel", 503, "overloaded")
        await chat.say("go")
        await chat.stop.click()
        held.set()
        await expect(tab.locator(".toast")).to_contain_text("That did not work.")

    async def test_stop_also_stops_what_waits_for_the_first_ones_end(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab)
        cancel = f"/api/chats/{talk.row['id']}/cancel"
        await chat.say("first")
        first = await fake.turn()
        first.say("an answer that ")
        await chat.shows("an answer that")
        held = fake.hold(f"POST {cancel}")
        await chat.say("second")
        await until(lambda: f"POST {cancel}" in fake.seen)
        await chat.stop.click()
        held.set()
        second = await fake.turn()
        await expect(chat.answers.last).to_have_attribute("data-state", "cancelled")
        await expect(chat.answers.first).to_have_attribute("data-state", "cancelled")
        assert (second.over, second.answer["state"]) == (True, "stopped")

    async def test_escape_stops_too(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        await chat.say("go")
        (await fake.turn()).say("half")
        await chat.shows("half")
        await tab.keyboard.press("Escape")
        await expect(tab.get_by_text("Stopped. What")).to_be_visible()

    @pytest.mark.promise(99, 129)
    async def test_a_new_message_cancels_the_old_answer_first(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab)
        base = f"/api/chats/{talk.row['id']}"
        await chat.say("first")
        first = await fake.turn()
        first.say("an answer that ")
        await chat.shows("an answer that")
        await until(lambda: f"left POST {base}/stream" in fake.seen)
        await chat.say("second")
        second = await fake.turn()
        second.say("the newer one")
        await chat.shows("the newer one")
        steps = [step for step in fake.seen if f"POST {base}" in step]
        assert steps[:4] == [
            f"POST {base}/stream",
            f"left POST {base}/stream",
            f"POST {base}/cancel",
            f"POST {base}/stream",
        ]
        assert fake.asked("POST", f"{base}/cancel") == [{"generation": first.generation}]
        await expect(chat.answers.first).to_contain_text("an answer that")

    @pytest.mark.promise(135, 136)
    async def test_leaving_a_chat_aborts_what_it_reads_and_is_no_failure(self, fake: FakeChat, tab: Any) -> None:
        fake.talk("Elsewhere", ("a", "b"))
        chat, talk = await open_chat(fake, tab)
        await chat.say("count")
        turn = await fake.turn()
        turn.say(*WORDS[:10])
        await chat.shows("".join(WORDS[:10]).strip())
        await tab.get_by_role("link", name="Elsewhere").click()
        await until(lambda: talk.followers == 0)
        await chat.shows("b")
        await expect(tab.get_by_role("alert").filter(has_text=re.compile(r"\S"))).to_have_count(0)
        await expect(tab.locator(".toast")).to_have_count(0)
        turn.say(*WORDS[10:])
        await tab.get_by_role("link", name="Words").click()
        await chat.shows(TEXT)
        assert fake.asked("POST", f"/api/chats/{talk.row['id']}/cancel") == []

    @pytest.mark.promise(136)
    async def test_a_search_that_goes_on_aborts_the_one_before(self, fake: FakeChat, page: Any) -> None:
        fake.talk("Dinner", ("lentils?", "Soup."))
        held = fake.hold("GET /api/chats")
        box = page.get_by_role("searchbox")
        await box.fill("zebra")
        await until(lambda: fake.seen.count("GET /api/chats") >= 2)
        await box.fill("lentils")
        await until(lambda: "left GET /api/chats" in fake.seen)
        held.set()
        await expect(page.get_by_role("link", name="Dinner")).to_be_visible()
        await expect(page.locator(".toast")).to_have_count(0)

    @pytest.mark.promise(172)
    async def test_the_page_knows_itself_that_an_answer_is_being_written(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab)
        send = tab.get_by_role("button", name="Send", exact=True)
        held = fake.hold(f"POST /api/chats/{talk.row['id']}/stream")
        await chat.say("first")
        await expect(chat.stop).to_be_visible()  # before the server has said a word
        await chat.say("second")
        await expect(chat.box).to_have_value("second")
        assert len(fake.asked("POST", f"/api/chats/{talk.row['id']}/stream")) == 1
        await chat.box.fill("")
        held.set()
        turn = await fake.turn()
        turn.say("half")
        await chat.shows("half")
        await expect(chat.stop).to_be_visible()
        await expect(send).to_have_count(0)
        turn.done()
        await expect(send).to_be_visible()
        await expect(chat.stop).to_have_count(0)

    @pytest.mark.promise(172)
    async def test_a_message_on_its_way_is_not_lost_by_the_next(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab)
        held = fake.hold(f"POST /api/chats/{talk.row['id']}/stream")
        await chat.say("first")
        await expect(chat.mine.last).to_have_text("first")
        await chat.say("second")
        await expect(chat.box).to_have_value("second")
        held.set()
        (await fake.turn()).say("one")
        await chat.shows("one")
        await chat.box.press("Enter")
        (await fake.turn()).say("two")
        await chat.shows("two")
        await expect(chat.mine).to_have_text(["first", "second"])

    @pytest.mark.promise(135)
    async def test_a_message_that_nobody_takes_can_be_given_up(self, fake: FakeChat, new_page: Any) -> None:
        talk = fake.talk("Words")
        page = await new_page(f"#/c/{talk.row['id']}")
        chat = Chat(page)
        await expect(page.get_by_role("heading", name="Words")).to_be_visible()
        held = fake.hold(f"POST /api/chats/{talk.row['id']}/stream")
        await page.clock.install()
        await chat.say("into the void")
        await chat.stop.click()
        await page.clock.fast_forward(3_500)
        await expect(page.get_by_role("alert").filter(has_text="The server did not answer in time.")).to_be_visible()
        await until(lambda: f"left POST /api/chats/{talk.row['id']}/stream" in fake.seen)
        held.set()
        await page.get_by_role("button", name="Send again").click()
        (await fake.turn()).say("here")
        await chat.shows("here")
        await expect(chat.mine).to_have_text(["into the void"])


SENTENCES = {
    "timeout": "The model took too long to answer.",
    "network": "The connection to the model was lost.",
    "http": "The model's provider refused the request.",
    "unavailable": "No model could answer just now.",
    "not_configured": "No model is set up for this.",
    "something_new": "the server's own words on something_new",
}


class TestFailures:
    @pytest.mark.promise(134)
    async def test_each_type_has_a_friendly_sentence_and_a_way_on(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab)
        await chat.say("go")
        turn = await fake.turn()
        for kind, words in SENTENCES.items():
            turn.error(kind, f"the server's own words on {kind}")
            await expect(chat.answers.last.get_by_text(words)).to_be_visible()
            await expect(chat.answers.last).to_contain_text(f"the server's own words on {kind}")
            await tab.get_by_role("button", name="Try again").click()
            again = await fake.turn()
            assert again.body == {"redo": turn.answer["id"], "detach": True}
            turn = again
        turn.say("better")
        turn.done()
        await chat.shows("better")
        await expect(chat.mine).to_have_count(1)
        assert len(talk.turns) == len(SENTENCES) + 1

    async def test_an_interrupted_answer_says_so_and_keeps_its_text(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        await chat.say("go")
        turn = await fake.turn()
        turn.say("half an answer")
        turn.done(interrupted={"type": "network"})
        await expect(chat.answers.last.get_by_text("The connection to the model broke.")).to_be_visible()
        await chat.shows("half an answer")

    async def test_a_warning_sign_of_the_models_is_not_the_servers_warning(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab)
        notice = chat.answers.last.get_by_text("The connection to the model broke.")
        await chat.say("go")
        turn = await fake.turn()
        turn.say("⚠️ Mind the tide.\n\nIt comes ")
        turn.done(interrupted={"type": "network"})
        for _ in range(2):  # as it came, and as it is kept
            await expect(notice).to_be_visible()
            await tab.reload()
        await chat.say("go on")
        turn = await fake.turn()
        turn.say("Half")
        turn.warn("⚠️ Connection interrupted: the answer is not complete.")
        turn.done(interrupted={"type": "network"})
        for _ in range(2):
            await expect(chat.answers.last).to_contain_text("⚠️ Connection interrupted")
            await expect(chat.answers.last.get_by_role("button", name="Try again")).to_be_visible()
            await expect(notice).to_have_count(0)
            await tab.reload()

    async def test_a_message_that_was_refused_is_kept_and_sent_again(
        self, fake: FakeChat, tab: Any, watch: Any
    ) -> None:
        watch.expected.append("429")
        chat, talk = await open_chat(fake, tab)
        fake.refuse(f"POST /api/chats/{talk.row['id']}/stream", 429, "rate_limited", "slow down")
        await chat.say("precious words")
        await expect(tab.get_by_role("alert").filter(has_text="Too many requests at once.")).to_be_visible()
        await expect(chat.mine.last).to_have_text("precious words")
        await tab.get_by_role("button", name="Send again").click()
        turn = await fake.turn()
        assert turn.body["content"] == "precious words"
        turn.say("here")
        await chat.shows("here")
        await expect(chat.mine).to_have_count(1)

    async def test_a_refused_message_gives_way_to_the_next_and_comes_back(
        self, fake: FakeChat, tab: Any, watch: Any
    ) -> None:
        watch.expected.append("429")
        chat, talk = await open_chat(fake, tab)
        fake.refuse(f"POST /api/chats/{talk.row['id']}/stream", 429, "rate_limited", "slow down")
        await chat.say("precious words")
        await expect(tab.get_by_role("alert").filter(has_text="Not sent.")).to_be_visible()
        await chat.say("others")
        assert (await fake.turn()).body["content"] == "others"
        await expect(chat.box).to_have_value("precious words")

    async def test_a_refused_message_can_be_changed(self, fake: FakeChat, tab: Any, watch: Any) -> None:
        watch.expected.append("400")
        chat, talk = await open_chat(fake, tab)
        fake.refuse(f"POST /api/chats/{talk.row['id']}/stream", 400, "invalid_request", "no")
        await chat.say("wrong words")
        await tab.get_by_role("alert").get_by_role("button", name="Edit").click()
        await expect(chat.box).to_have_value("wrong words")
        await expect(chat.mine).to_have_count(0)

    async def test_a_submission_whose_answer_is_lost_is_made_once(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab)
        fake.refuse(f"POST /api/chats/{talk.row['id']}/stream", 0)
        await chat.say("once")
        (await fake.turn()).say("one answer")
        await chat.shows("one answer")
        await expect(chat.mine).to_have_count(1)
        await until(lambda: len(fake.asked("POST", f"/api/chats/{talk.row['id']}/stream")) == 2)
        assert len(talk.turns) == 1


class TestResuming:
    @pytest.mark.promise(90)
    @pytest.mark.parametrize(("at", "lazy"), [(0, False), (17, True), (39, True)])
    async def test_reload_in_mid_answer_loses_and_doubles_no_word(
        self, fake: FakeChat, tab: Any, at: int, lazy: bool
    ) -> None:
        fake.lazy = lazy
        chat, _ = await open_chat(fake, tab)
        await chat.say("count")
        turn = await fake.turn()
        turn.say(*WORDS[:at])
        if at:
            await chat.shows("".join(WORDS[:at]).strip())
        await tab.reload()
        await expect(chat.answers.last).to_have_attribute("aria-busy", "true")
        turn.say(*WORDS[at:])
        await chat.shows(TEXT)
        turn.done()
        await chat.ended()
        await chat.shows(TEXT)

    async def test_a_connection_cut_again_and_again(self, fake: FakeChat, tab: Any) -> None:
        fake.lazy = True
        fake.chop_bytes = 7
        chat, _ = await open_chat(fake, tab)
        await chat.say("count")
        turn = await fake.turn()
        for n in range(0, 40, 8):
            turn.say(*WORDS[n : n + 4])
            fake.cut()
            turn.say(*WORDS[n + 4 : n + 8])
        await chat.shows(TEXT)
        turn.done()
        await chat.ended()
        await chat.shows(TEXT)

    async def test_a_log_that_is_gone_gives_a_snapshot(self, fake: FakeChat, tab: Any) -> None:
        fake.lazy = True
        chat, talk = await open_chat(fake, tab)
        await chat.say("count")
        turn = await fake.turn()
        turn.say(*WORDS[:10])
        await chat.shows("".join(WORDS[:10]).strip())
        turn.say(*WORDS[10:20])
        talk.trim()
        fake.cut()
        await chat.shows("".join(WORDS[:20]).strip())
        turn.say(*WORDS[20:])
        await chat.shows(TEXT)

    async def test_a_hidden_tab_hangs_up_and_catches_up(self, fake: FakeChat, tab: Any) -> None:
        chat, talk = await open_chat(fake, tab)
        await chat.say("count")
        turn = await fake.turn()
        turn.say(*WORDS[:5])
        await chat.shows("".join(WORDS[:5]).strip())
        await set_hidden(tab, True)
        await until(lambda: talk.followers == 0)
        turn.say(*WORDS[5:])
        turn.done()
        await set_hidden(tab, False)
        await chat.shows(TEXT)
        await chat.ended()


async def set_hidden(page: Any, hidden: bool) -> None:
    await page.evaluate(
        """(hidden) => {
          Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


async def until(holds: Any) -> None:
    """Waits for something of the fake's own, which changes when its sockets do."""
    with anyio.fail_after(8):
        while not holds():
            await anyio.sleep(0.005)
