"""Two tabs of one browser on one chat: one connection, one stream, the same words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.browsing import Chat, playwright
from tests.web.fake_chat import BLANK, FakeChat
from tests.web.test_streaming import TEXT, WORDS, until

pytestmark = pytest.mark.anyio
expect = playwright.expect


async def two(fake: FakeChat, tab: Any, more_tabs: Any) -> tuple[Chat, Chat, Any]:
    talk = fake.talk("Shared")
    await tab.goto(f"{fake.url}/#/c/{talk.row['id']}")
    await expect(tab.get_by_role("heading", name="Shared")).to_be_visible()
    await until(lambda: talk.followers == 1)
    second = await more_tabs(f"#/c/{talk.row['id']}")
    await expect(second.get_by_role("heading", name="Shared")).to_be_visible()
    return Chat(tab), Chat(second), talk


async def test_both_show_the_stream_over_one_connection(fake: FakeChat, tab: Any, more_tabs: Any) -> None:
    one, two_, talk = await two(fake, tab, more_tabs)
    await one.say("count")
    turn = await fake.turn()
    turn.say(*WORDS[:20])
    for chat in (one, two_):
        await chat.shows("".join(WORDS[:20]).strip())
        await expect(chat.mine).to_have_text(["count"])
    assert talk.followers == 1
    turn.say(*WORDS[20:])
    turn.done()
    for chat in (one, two_):
        await chat.shows(TEXT)
        await chat.ended()


async def test_the_tab_that_follows_can_send_and_stop(fake: FakeChat, tab: Any, more_tabs: Any) -> None:
    one, two_, _ = await two(fake, tab, more_tabs)
    await two_.say("from the second")
    turn = await fake.turn()
    turn.say("half ")
    await one.shows("half")
    await two_.stop.click()
    for chat in (one, two_):
        await expect(chat.page.get_by_text("Stopped. What")).to_be_visible()
        await chat.shows("half")


async def test_when_the_leading_tab_leaves_the_other_goes_on(fake: FakeChat, tab: Any, more_tabs: Any) -> None:
    one, two_, talk = await two(fake, tab, more_tabs)
    await one.say("count")
    turn = await fake.turn()
    turn.say(*WORDS[:10])
    await two_.shows("".join(WORDS[:10]).strip())
    await one.page.goto(fake.url + BLANK)
    turn.say(*WORDS[10:20])
    await two_.shows("".join(WORDS[:20]).strip())
    turn.say(*WORDS[20:])
    turn.done()
    await two_.shows(TEXT)
    await two_.ended()
    assert talk.followers == 1


async def test_a_tab_that_comes_in_mid_answer_has_all_of_it(fake: FakeChat, tab: Any, more_tabs: Any) -> None:
    fake.lazy = True
    one, _, talk = await two(fake, tab, more_tabs)
    await one.say("count")
    turn = await fake.turn()
    turn.say(*WORDS[:15])
    await one.shows("".join(WORDS[:15]).strip())
    third = Chat(await more_tabs(f"#/c/{talk.row['id']}"))
    await third.shows("".join(WORDS[:15]).strip())
    turn.say(*WORDS[15:])
    await third.shows(TEXT)
    assert talk.followers == 1


@pytest.mark.promise(94, 132)
@pytest.mark.thorough
async def test_a_seventh_tab_can_still_stop(fake: FakeChat, tab: Any, more_tabs: Any) -> None:
    talk = fake.talk("Many")
    await tab.goto(f"{fake.url}/#/c/{talk.row['id']}")
    tabs = [tab] + [await more_tabs(f"#/c/{talk.row['id']}") for _ in range(6)]
    last = Chat(tabs[-1])
    await last.say("go")
    (await fake.turn()).say("half")
    await Chat(tabs[0]).shows("half")
    await last.stop.click()
    await expect(tabs[0].get_by_text("Stopped. What")).to_be_visible()
    await Chat(tabs[0]).shows("half")


async def test_another_tab_learns_of_a_new_name(fake: FakeChat, tab: Any, more_tabs: Any) -> None:
    one, two_, _ = await two(fake, tab, more_tabs)
    await one.page.get_by_role("button", name="Chat menu").click()
    await one.page.get_by_role("menuitem", name="Rename").click()
    await one.page.get_by_role("textbox", name="Name of the chat").fill("Renamed")
    await one.page.get_by_role("button", name="Save").click()
    await expect(two_.page.get_by_role("heading", name="Renamed")).to_be_visible()
