"""The way out: through which proxy, and who is spared it."""

from __future__ import annotations

from pathlib import Path

import pytest
from yarl import URL

from rivermouth.providers.client import AiohttpClient
from rivermouth.providers.outbound import Outbound, proxy_for, spared
from rivermouth.secrets import Secret
from tests.engine.client import asking
from tests.engine.lab import Lab, lab
from tests.engine.words import OPENAI, PLAIN, document, talk
from tests.fakes import JSON, Asked, FakeUpstream
from tests.providers.test_client import body_of

pytestmark = pytest.mark.anyio

PROXY = Outbound(proxy=Secret("http://me:pass@proxy.example.org:3128"), no_proxy=("inside.example", "10.0.0.0/8"))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that would be seen wherever it is looked at."""
    monkeypatch.setenv("https_proxy", "http://environment.example:1")
    monkeypatch.setenv("no_proxy", "spared.example")


@pytest.mark.parametrize(
    ("url", "proxied"),
    [
        ("https://api.example.org/v1", True),
        ("http://api.example.org", True),
        ("https://spared.example", True),
        ("https://inside.example", False),
        ("https://deep.inside.example:8443/v1", False),
        ("https://notinside.example", True),
        ("http://10.1.2.3:8000", False),
        ("http://127.0.0.1:11434/api", False),
        ("http://localhost:11434", False),
    ],
)
def test_what_is_configured_holds_whole(url: str, proxied: bool) -> None:
    """The environment is not asked, neither for its proxy nor whom it spares."""
    found, secret = proxy_for(url, PROXY)
    assert found == (URL("http://proxy.example.org:3128") if proxied else None)
    assert bool(secret) is proxied


def test_direct_is_no_proxy_at_all() -> None:
    assert proxy_for("https://api.example.org", Outbound(proxy=Secret("direct"))) == (None, {})


def test_where_nothing_is_configured_the_environment_holds() -> None:
    assert proxy_for("https://api.example.org") == (URL("http://environment.example:1"), {})
    assert proxy_for("https://spared.example") == (None, {})


@pytest.mark.parametrize(
    ("entry", "host", "port", "means"),
    [
        ("*", "anything.example", 443, True),
        ("example.org", "example.org", 443, True),
        ("Example.ORG", "a.example.org", 443, True),
        (".example.org", "a.example.org", 443, True),
        (".example.org", "example.org", 443, True),
        ("*.example.org", "a.example.org", 443, True),
        ("example.org", "badexample.org", 443, False),
        ("example.org", "example.org.evil.example", 443, False),
        ("example.org", "example.org.", 443, True),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("10.0.0.0/8", "10.9.9.9", 443, True),
        ("10.0.0.0/8", "11.9.9.9", 443, False),
        ("10.0.0.0/8", "ten.example", 443, False),
        ("10.1.1.1", "10.1.1.1", 443, True),
        ("10.1.1.1:80", "10.1.1.1", 80, True),
        ("10.1.1.1:80", "10.1.1.1", 443, False),
        ("fd00::/8", "fd12::1", 443, True),
        ("::1", "::1", 443, True),
        ("[fd12::1]:80", "fd12::1", 80, True),
        ("", "example.org", 443, False),
        (".", "example.org", 443, False),
    ],
)
def test_who_is_spared(entry: str, host: str, port: int, means: bool) -> None:
    assert spared(host, port, ["nobody.example", entry]) is means


async def test_a_request_goes_by_the_configured_proxy() -> None:
    async def script(asked: Asked) -> None:
        await asked.answer(200, JSON, b"via proxy")

    async with FakeUpstream(script) as proxy:
        outbound = Outbound(proxy=Secret(proxy.url.replace("://", "://me:secret@")))
        client = AiohttpClient("lab", "http://api.example.org", connect_s=2.0, ca_file=None, outbound=outbound)
        try:
            assert await body_of(client, "http://api.example.org/x") == b"via proxy"
        finally:
            await client.close()
        assert proxy.requests[0].path == "http://api.example.org/x"
        assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"


async def test_a_server_goes_out_as_it_is_told_and_a_provider_may_say_otherwise(tmp_path: Path) -> None:
    """And another configuration leads the next call another way."""

    async def script(asked: Asked) -> None:
        await asked.answer(200, JSON, document(asked.path))

    def config(proxy: str, other: str) -> str:
        return PLAIN + (
            f'[outbound]\nproxy = "{proxy}"\nno_proxy = ["other.example"]\n'
            '[providers.lab]\ndialect = "openai_chat"\nbase_url = "http://lab.example/v1"\n'
            f'[providers.other]\ndialect = "openai_chat"\nbase_url = "http://other.example/v1"\nproxy = "{other}"\n'
        )

    async def asked_by(server: Lab, name: str) -> str:
        async with asking(server.port, OPENAI.path, talk(f"{name}/m", stream=False)) as answer:
            return OPENAI.whole(await answer.json())

    lab_url, other_url = (f"http://{name}.example/v1/chat/completions" for name in ("lab", "other"))
    async with FakeUpstream(script) as one, FakeUpstream(script) as two:
        with lab(tmp_path, config(one.url, two.url), reloads=True) as server:
            assert (await asked_by(server, "lab"), await asked_by(server, "other")) == (lab_url, other_url)
            assert ([a.path for a in one.requests], [a.path for a in two.requests]) == ([lab_url], [other_url])
            assert (await server.reload(config(two.url, two.url))).problems == ()
            assert await asked_by(server, "lab") == lab_url
            assert (len(one.requests), len(two.requests)) == (1, 2)
