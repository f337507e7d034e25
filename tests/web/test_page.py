"""The page as a whole: how it is served, how large and how fast it is, and that everybody can use it."""

from __future__ import annotations

import gzip
import http.client
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import pytest

from rivermouth.http.page import POLICY, SITE, Page
from tests.web.browsing import PHONE, Chat, playwright
from tests.web.fake_chat import FakeChat
from tests.web.test_looks import ANSWER
from tests.web.test_streaming import open_chat

pytestmark = pytest.mark.anyio
expect = playwright.expect

BUNDLE_BYTES = 250_000


async def ask(url: str, method: str = "GET", path: str = "/", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    def run() -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)
        connection.request(method, path, headers={"accept": "text/html", **headers})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    return await anyio.to_thread.run_sync(run)


class TestServing:
    async def test_the_index_is_asked_for_again_each_time(self, fake: FakeChat) -> None:
        answer, body = await ask(fake.url)
        assert (answer.status, answer.headers["cache-control"]) == (200, "no-cache")
        assert body.startswith(b"<!doctype html>")
        again, nothing = await ask(fake.url, **{"if-none-match": answer.headers["etag"]})
        assert (again.status, nothing) == (304, b"")

    async def test_what_has_a_hash_in_its_name_is_kept_for_ever(self, fake: FakeChat) -> None:
        for file in (SITE / "assets").iterdir():
            answer, body = await ask(fake.url, path=f"/assets/{file.name}", accept="*/*")
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert body == file.read_bytes()
            zipped, packed = await ask(fake.url, path=f"/assets/{file.name}", **{"accept-encoding": "br, gzip"})
            assert zipped.headers["content-encoding"] == "gzip"
            assert gzip.decompress(packed) == body

    async def test_head_has_the_headers_alone(self, fake: FakeChat) -> None:
        answer, body = await ask(fake.url, "HEAD")
        assert (answer.status, body) == (200, b"")
        assert int(answer.headers["content-length"]) > 0

    async def test_nothing_outside_of_the_site_is_served(self, fake: FakeChat) -> None:
        for path in (
            "/assets/nothing.js",
            "/assets/../page.py",
            "/assets/%2e%2e/page.py",
            "/assets/",
            "/assets/.built",
        ):
            assert (await ask(fake.url, path=path))[0].status == 404

    async def test_every_answer_bears_the_policy(self, fake: FakeChat) -> None:
        for path in ("/", "/assets/nothing.js"):
            headers = (await ask(fake.url, path=path))[0].headers
            assert headers["content-security-policy"] == POLICY
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
        assert "unsafe" not in POLICY
        assert "'self'" in POLICY

    def test_the_page_is_only_for_who_asks_for_html(self) -> None:
        page = Page()
        html = [(b"accept", b"text/html,application/xhtml+xml")]
        assert page.owns("GET", "/", html)
        assert page.owns("HEAD", "/", html)
        assert not page.owns("GET", "/", [(b"accept", b"*/*")])
        assert not page.owns("GET", "/", [])
        assert not page.owns("POST", "/", html)
        assert not page.owns("GET", "/health", html)

    async def test_a_server_under_a_path_says_so_in_its_base(self, tmp_path: Any) -> None:
        (tmp_path / "index.html").write_text('<base href="/" /><script src="./assets/x.js">')
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await Page("/chat/", tmp_path)({"path": "/", "method": "GET", "headers": []}, None, send)
        assert b'<base href="/chat/" />' in sent[1]["body"]

    async def test_without_a_build_the_page_says_how_to_make_one(self, tmp_path: Any) -> None:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        page = Page("", tmp_path)
        assert not page.built
        await page({"path": "/", "method": "GET", "headers": []}, None, send)
        assert sent[0]["status"] == 200
        assert b"make web" in sent[1]["body"]

    async def test_the_policy_is_in_force(self, fake: FakeChat, page: Any, watch: Any) -> None:
        """No script that somebody smuggles in runs: not inline, not from elsewhere.  (What the page does itself offends
        the policy nowhere, or any test here would see the console's error.)"""
        watch.expected += ["Content Security Policy", "Trusted"]
        refused = await page.evaluate(
            """async () => {
              const seen = [];
              addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
              const tries = [
                (script) => { script.textContent = "window.ran = 1"; },
                (script) => { script.append("window.ran = 2"); },
                (script) => { script.src = "https://evil.example/x.js"; },
                (script) => { script.src = "data:text/javascript,window.ran=3"; },
              ];
              for (const change of tries) {
                const script = document.createElement("script");
                try { change(script); document.body.append(script); } catch { /* refused at once */ }
              }
              try { document.body.innerHTML = "<img src=x onerror='window.ran = 4'>"; } catch { /* refused at once */ }
              await fetch("https://evil.example/").catch(() => null);
              await new Promise((done) => setTimeout(done));
              return [window.ran ?? null, [...new Set(seen)].sort()];
            }"""
        )
        assert refused[0] is None
        assert {"connect-src", "require-trusted-types-for"} <= set(refused[1])
        assert watch.foreign == []

    def test_the_index_has_nothing_inline(self) -> None:
        text = (SITE / "index.html").read_text(encoding="utf-8")
        assert "<style" not in text
        assert "onload=" not in text
        assert text.count("<script") == text.count('<script type="module" crossorigin src="./assets/')
        assert "://" not in text


class TestWeight:
    def test_the_whole_bundle(self) -> None:
        sizes = {file.name: len(gzip.compress(file.read_bytes())) for file in SITE.rglob("*") if file.is_file()}
        assert sum(sizes.values()) < BUNDLE_BYTES, sizes

    async def test_the_first_paint_comes_within_a_second(self, fake: FakeChat, new_page: Any) -> None:
        """Of two loads the better: what else the machine does is not the page's."""
        paints: list[float] = []
        page = None
        for _ in range(2):
            page = await new_page("", context=page and page.context)
            await expect(Chat(page).box).to_be_visible()
            paints.append(
                await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity")
            )
        assert min(paints) < 1_000, paints


class TestForEverybody:
    async def test_everything_is_reached_by_keys(self, fake: FakeChat, tab: Any) -> None:
        chat, _ = await open_chat(fake, tab, ("one", "answer"))
        await expect(chat.box).to_be_focused()
        skip = tab.get_by_role("link", name="Skip to the message field")
        await skip.focus()
        await tab.keyboard.press("Enter")
        await expect(chat.box).to_be_focused()
        await skip.focus()
        seen = set()
        for _ in range(25):
            await tab.keyboard.press("Tab")
            seen.add(await tab.evaluate("document.activeElement.ariaLabel ?? document.activeElement.textContent"))
        for name in (
            "New chat",
            "Search chats",
            "Words",
            "Delete: Words",
            "Settings",
            "Chat menu",
            "Copy",
            "Answer again",
        ):
            assert name in seen, name
        assert any(name and name.startswith("Model") for name in seen)
        await tab.keyboard.press("Control+Shift+O")
        await expect(tab.get_by_role("heading", name="What is on your mind?")).to_be_visible()

    async def test_a_dialog_keeps_the_focus_and_gives_it_back(self, fake: FakeChat, page: Any) -> None:
        await page.get_by_role("button", name="Settings").click()
        dialog = page.get_by_role("dialog", name="Settings")
        await expect(dialog).to_be_visible()
        for _ in range(6):
            await page.keyboard.press("Tab")
            assert await page.evaluate(
                "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
            )
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        await expect(page.get_by_role("button", name="Settings")).to_be_focused()

    async def test_language_and_theme_are_kept(self, fake: FakeChat, page: Any) -> None:
        await page.get_by_role("button", name="Settings").click()
        await page.get_by_text("Dark", exact=True).click()
        await page.get_by_text("Português").click()
        await page.reload()
        await expect(page.get_by_role("heading", name="Em que está a pensar?")).to_be_visible()
        assert await page.evaluate("[document.documentElement.lang, document.documentElement.dataset.theme]") == [
            "pt",
            "dark",
        ]
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 26)"

    async def test_the_browsers_language_is_the_pages(self, fake: FakeChat, new_page: Any) -> None:
        page = await new_page("", locale="pt-BR")
        await expect(page.get_by_role("button", name="Nova conversa")).to_be_visible()

    async def test_nothing_is_wider_than_a_phone(self, fake: FakeChat, new_page: Any) -> None:
        talk = fake.talk(
            "A title that is longer than any phone is wide, by far", ("w" * 300, ANSWER + "\n\n" + "x" * 400)
        )
        page = await new_page(f"#/c/{talk.row['id']}", viewport={"width": 320, "height": 700})
        await expect(page.locator(".hljs-keyword").first).to_be_visible()
        for width in (320, 390, 768):
            await page.set_viewport_size({"width": width, "height": 700})
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            boxes = await page.locator("header button, .composer button").evaluate_all(
                "all => all.map(b => b.getBoundingClientRect()).map(r => r.x + r.width)"
            )
            assert boxes
            assert max(boxes) <= width

    async def test_the_drawer_of_a_phone(self, fake: FakeChat, new_page: Any) -> None:
        fake.talk("Somewhere", ("a", "b"))
        page = await new_page("", viewport=PHONE, has_touch=True)
        await expect(page.get_by_role("link", name="Somewhere")).to_be_hidden()
        await page.get_by_role("button", name="Show chats").tap()
        await page.get_by_role("link", name="Somewhere").tap()
        await expect(page.get_by_role("heading", name="Somewhere")).to_be_visible()
        await expect(page.get_by_role("link", name="Somewhere")).to_be_hidden()
        await page.get_by_role("button", name="Show chats").tap()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("link", name="Somewhere")).to_be_hidden()
