"""Who is at the page: a guest by itself, nobody any more, nobody yet.  `test_real_accounts` has the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.browsing import Chat, playwright
from tests.web.fake_chat import FakeChat
from tests.web.test_streaming import open_chat

pytestmark = pytest.mark.anyio
expect = playwright.expect


async def test_the_first_visit_is_a_guests_and_the_next_is_the_same_guests(fake: FakeChat, page: Any) -> None:
    await expect(page.get_by_role("button", name="Guest")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("button", name="Guest")).to_be_visible()
    asked = [path for method, path, _ in fake.requests if path.startswith("/api/auth")]
    assert asked == ["/api/auth/guest", "/api/auth/refresh", "/api/auth/me"]


@pytest.mark.promise(97)
async def test_the_token_is_nowhere_but_in_memory(fake: FakeChat, page: Any) -> None:
    await expect(page.get_by_role("button", name="Guest")).to_be_visible()
    kept = await page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
    )
    assert not any(token in kept for token in fake.tokens | fake.cookies)


@pytest.mark.promise(97)
async def test_an_old_token_is_renewed_without_a_word(fake: FakeChat, tab: Any, watch: Any) -> None:
    watch.expected.append("401")
    chat, _ = await open_chat(fake, tab)
    fake.tokens.clear()
    await chat.say("hello")
    (await fake.turn()).say("hi")
    await chat.shows("hi")


@pytest.mark.promise(97)
async def test_a_guest_whose_token_is_old_still_takes_the_chats_along(fake: FakeChat, page: Any, watch: Any) -> None:
    watch.expected.append("401")
    await page.get_by_role("button", name="Guest").click()
    await page.get_by_role("button", name="Create an account").click()
    fake.tokens.clear()
    await page.get_by_label("Name").fill("Anna")
    await page.get_by_label("Password").fill("correct horse")
    await page.get_by_role("button", name="Create an account").click()
    await expect(page.get_by_role("button", name="Anna")).to_be_visible()
    assert [path.rpartition("/")[2] for _, path, _ in fake.requests if path.startswith("/api/auth")][-3:] == [
        "signup",
        "refresh",
        "signup",
    ]


REFUSALS = {
    "unfit_name": (400, "invalid_request", "Um nome tem de 1 a 64 caracteres"),
    "unfit_password": (400, "invalid_request", "Esta palavra-passe é curta ou longa demais."),
    "name_taken": (409, "invalid_request", "Este nome já existe."),
    "too_many_tries": (429, "rate_limited", "Demasiadas tentativas."),
    "something_new": (400, "invalid_request", "Algo correu mal."),
    "signup_closed": (403, "permission", "Este servidor deixa entrar quem tem conta"),
}


async def test_what_is_refused_is_said_in_the_readers_language(fake: FakeChat, new_page: Any, watch: Any) -> None:
    watch.expected += ["400", "403", "409", "429"]
    page = await new_page(locale="pt-PT")
    await page.get_by_role("button", name="Convidado").click()
    await page.get_by_role("button", name="Criar uma conta").click()
    for code, (status, kind, words) in REFUSALS.items():
        fake.refuse("POST /api/auth/signup", status, kind, f"the server's own words on {code}", code)
        await page.get_by_label("Nome").fill("Anna")
        await page.get_by_label("Palavra-passe").fill("correct horse")
        await page.get_by_role("button", name="Criar uma conta").click()
        await expect(page.get_by_role("alert").filter(has_text=words)).to_be_visible()


async def test_a_session_that_has_ended_asks_to_sign_in(fake: FakeChat, tab: Any, watch: Any) -> None:
    watch.expected.append("401")
    chat, _ = await open_chat(fake, tab)
    await chat.box.fill("hello")
    fake.tokens.clear()
    fake.cookies.clear()
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("heading", name="Welcome")).to_be_visible()


async def test_a_server_that_is_down_is_said(fake: FakeChat, new_page: Any, watch: Any) -> None:
    watch.expected += ["ERR_FAILED", "500"]
    fake.refuse("POST /api/auth/guest", 500)
    page = await new_page()
    await expect(page.get_by_role("heading", name="The server does not answer")).to_be_visible()
    await page.get_by_role("button", name="Try again").click()
    await expect(Chat(page).box).to_be_visible()
