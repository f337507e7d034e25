"""Whose word is taken about a client: that of trusted proxies, as far as they wrote it themselves."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.http.proxies import Proxies, address_of
from tests.engine.client import asking
from tests.engine.lab import Lab, lab
from tests.engine.words import PLAIN

pytestmark = pytest.mark.anyio

TRUSTED = ("10.0.0.0/8", "fd00::/8", "192.0.2.7")
PROXY, OTHER_PROXY, CLIENT, STRANGER = "10.0.0.1", "192.0.2.7", "203.0.113.5", "198.51.100.9"


def scope(peer: str, *headers: tuple[str, str], scheme: str = "http") -> dict[str, Any]:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (("host", "internal:8080"), *headers)]
    return {"type": "http", "client": (peer, 4711), "scheme": scheme, "headers": raw}


def seen(found: Any) -> tuple[str, str, str]:
    hosts = [value.decode() for name, value in found["headers"] if name == b"host"]
    assert len(hosts) == 1
    return found["client"][0], found["scheme"], hosts[0]


@pytest.mark.parametrize(
    ("peer", "headers", "told"),
    [
        (PROXY, [("X-Forwarded-For", CLIENT)], (CLIENT, "http", "internal:8080")),
        (PROXY, [("X-Forwarded-For", f"{CLIENT}:5123")], (CLIENT, "http", "internal:8080")),
        (PROXY, [("X-Forwarded-For", "[2001:db8::1]:99")], ("2001:db8::1", "http", "internal:8080")),
        (PROXY, [("X-Forwarded-For", f"{STRANGER}, {CLIENT}")], (CLIENT, "http", "internal:8080")),
        (PROXY, [("X-Forwarded-For", f"{STRANGER}, {CLIENT}, {OTHER_PROXY}")], (CLIENT, "http", "internal:8080")),
        (PROXY, [("X-Forwarded-For", STRANGER), ("X-Forwarded-For", CLIENT)], (CLIENT, "http", "internal:8080")),
        (PROXY, [("X-Forwarded-For", f"10.1.1.1, {OTHER_PROXY}")], ("10.1.1.1", "http", "internal:8080")),
        (PROXY, [("X-Forwarded-For", f"{CLIENT}, unknown")], (PROXY, "http", "internal:8080")),
        (PROXY, [("X-Forwarded-For", f"{CLIENT}, nonsense, {OTHER_PROXY}")], (OTHER_PROXY, "http", "internal:8080")),
        (PROXY, [("X-Forwarded-For", "")], (PROXY, "http", "internal:8080")),
        (PROXY, [("X-Forwarded-Proto", "https")], (PROXY, "https", "internal:8080")),
        (PROXY, [("X-Forwarded-Proto", "http, HTTPS")], (PROXY, "https", "internal:8080")),
        (PROXY, [("X-Forwarded-Proto", "javascript")], (PROXY, "http", "internal:8080")),
        (PROXY, [("X-Forwarded-Host", "models.example.org")], (PROXY, "http", "models.example.org")),
        (
            PROXY,
            [("X-Forwarded-Host", "evil.example, models.example.org:444")],
            (PROXY, "http", "models.example.org:444"),
        ),
        (PROXY, [("X-Forwarded-Host", "a b")], (PROXY, "http", "internal:8080")),
        (PROXY, [("Forwarded", f"for={CLIENT};proto=https;host=evil.example")], (PROXY, "http", "internal:8080")),
        (
            OTHER_PROXY,
            [("X-Forwarded-For", CLIENT), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "[2001:db8::2]:1")],
            (CLIENT, "https", "[2001:db8::2]:1"),
        ),
        ("::ffff:10.0.0.1", [("X-Forwarded-For", CLIENT)], (CLIENT, "http", "internal:8080")),
        ("fd00::1", [("X-Forwarded-For", f"{CLIENT},10.9.9.9")], (CLIENT, "http", "internal:8080")),
    ],
)
def test_what_a_trusted_peer_says(peer: str, headers: list[tuple[str, str]], told: tuple[str, str, str]) -> None:
    assert seen(Proxies(TRUSTED).seen(scope(peer, *headers))) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (f"for={CLIENT};proto=https;host=models.example.org", (CLIENT, "https", "models.example.org")),
        (f'For="{CLIENT}:99" ; Proto=HTTPS', (CLIENT, "https", "internal:8080")),
        ('for="[2001:db8:cafe::17]:4711"', ("2001:db8:cafe::17", "http", "internal:8080")),
        (f"for={STRANGER};proto=https;host=evil.example, for={CLIENT};proto=http", (CLIENT, "http", "internal:8080")),
        (
            f"for={CLIENT};proto=https;host=a.example, for={OTHER_PROXY};proto=http;host=b",
            (CLIENT, "https", "a.example"),
        ),
        (f"for={CLIENT}, for=_hidden;proto=https", (PROXY, "https", "internal:8080")),
        (f"for={CLIENT}, for=unknown", (PROXY, "http", "internal:8080")),
        (f'for="{CLIENT}", by="say \\"hi\\", you";for={OTHER_PROXY}', (CLIENT, "http", "internal:8080")),
        (f'for={CLIENT};"', (PROXY, "http", "internal:8080")),
        (f'", for={CLIENT}', (PROXY, "http", "internal:8080")),
        (f",,for={CLIENT},", (CLIENT, "http", "internal:8080")),
        (f"for={CLIENT} x=1", (PROXY, "http", "internal:8080")),
        ("", (PROXY, "http", "internal:8080")),
    ],
)
def test_what_it_says_in_the_words_of_the_standard(value: str, told: tuple[str, str, str]) -> None:
    spoofed = ("X-Forwarded-For", STRANGER), ("X-Forwarded-Host", "evil.example"), ("X-Forwarded-Proto", "https")
    found = Proxies(TRUSTED, "forwarded").seen(scope(PROXY, ("Forwarded", value), *spoofed))
    assert seen(found) == told


def test_a_stranger_is_not_believed_a_word() -> None:
    asked = scope(
        STRANGER, ("X-Forwarded-For", CLIENT), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "x.example")
    )
    assert Proxies(TRUSTED).seen(asked) is asked
    for peer in ("", "a socket's path"):
        asked = scope(peer, ("X-Forwarded-For", CLIENT))
        assert Proxies(TRUSTED).seen(asked) is asked
    asked = {**asked, "client": None}
    assert Proxies(TRUSTED).seen(asked) is asked


def test_without_trusted_proxies_there_is_nothing_to_ask() -> None:
    assert not Proxies()
    assert Proxies(["10.0.0.0/8"])
    with pytest.raises(ValueError):
        Proxies(["ten"])


ADDRESSES = st.ip_addresses(v=4) | st.ip_addresses(v=6)
STRANGERS = ADDRESSES.filter(lambda a: not Proxies(TRUSTED).trusts(getattr(a, "ipv4_mapped", None) or a))
INSIDE = st.sampled_from([ipaddress.ip_address(a) for a in ("10.0.0.1", "10.255.1.2", "192.0.2.7", "fd00::7")])
GARBAGE = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=20)


@given(
    client=STRANGERS,
    chain=st.lists(INSIDE, max_size=4),
    peer=INSIDE,
    invented=st.lists(GARBAGE | ADDRESSES.map(str), max_size=6),
)
def test_no_invented_chain_hides_the_client(
    client: ipaddress.IPv4Address, chain: list[Any], peer: Any, invented: list[str]
) -> None:
    """Whatever a client writes, each trusted proxy adds whom it got the request from: the first is the client."""
    written = [("X-Forwarded-For", text) for text in invented]
    added = [("X-Forwarded-For", str(address)) for address in (client, *chain)]
    told = Proxies(TRUSTED).seen(scope(str(peer), *written, *added))
    assert address_of(told["client"][0]) == (getattr(client, "ipv4_mapped", None) or client)
    joined = ", ".join(value for _, value in (*written, *added))
    assert Proxies(TRUSTED).seen(scope(str(peer), ("X-Forwarded-For", joined)))["client"] == told["client"]


@given(client=STRANGERS, peer=INSIDE, invented=GARBAGE)
def test_nor_does_one_in_the_words_of_the_standard(client: Any, peer: Any, invented: str) -> None:
    """What cannot be read says nothing, and then it is the proxy that asks: never whom the client invents."""
    shown = f'"[{client}]"' if client.version == 6 else str(client)
    headers = [("Forwarded", invented), ("Forwarded", f"for={shown};proto=https")]
    told = Proxies(TRUSTED, "forwarded").seen(scope(str(peer), *headers))
    assert address_of(told["client"][0]) in (getattr(client, "ipv4_mapped", None) or client, peer)


@given(
    peer=STRANGERS,
    headers=st.lists(st.tuples(st.sampled_from(["X-Forwarded-For", "X-Forwarded-Host", "Forwarded"]), GARBAGE)),
)
def test_who_is_not_trusted_changes_nothing(peer: Any, headers: list[tuple[str, str]]) -> None:
    asked = scope(str(peer), *headers)
    for family in ("x-forwarded", "forwarded"):
        assert Proxies(TRUSTED, family).seen(asked) is asked  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (" 10.0.0.1 ", "10.0.0.1"),
        ("10.0.0.1:80", "10.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("[::1]:80", "::1"),
        ('"[::1]:80"', "::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("[::1", None),
        ("unknown", None),
        ("_x", None),
        ("", None),
        ("1.2.3", None),
        ("1.2.3.4.5", None),
    ],
)
def test_an_address_in_every_spelling(text: str, address: str | None) -> None:
    assert address_of(text) == (ipaddress.ip_address(address) if address else None)


# -- on a real server

BEHIND = PLAIN + '[http]\nallowed_hosts = ["models.example.org"]\n'


async def asked(server: Lab, path: str, headers: dict[str, str]) -> int:
    async with asking(server.port, path, None, headers, method="GET") as answer:
        await answer.rest()
        return answer.status


async def test_the_host_that_a_trusted_proxy_names_is_the_one_that_is_judged(tmp_path: Path) -> None:
    """R26, for routes of either kind; and the next configuration may trust nobody."""
    with lab(tmp_path, BEHIND + 'trusted_proxies = ["127.0.0.1"]\n', reloads=True) as server:
        for path in ("/v1/models", "/health"):
            assert await asked(server, path, {"x-forwarded-host": "models.example.org"}) == 200
            assert await asked(server, path, {"x-forwarded-host": "evil.example"}) == 421
            assert await asked(server, path, {"host": "evil.example", "x-forwarded-host": "models.example.org"}) == 200
            assert await asked(server, path, {"forwarded": "host=evil.example"}) == 200
        await server.reload(BEHIND)
        for path in ("/v1/models", "/health"):
            assert await asked(server, path, {"x-forwarded-host": "evil.example"}) == 200
            assert await asked(server, path, {"host": "evil.example", "x-forwarded-host": "models.example.org"}) == 421


async def test_a_page_of_the_servers_own_origin_stays_its_own_behind_a_proxy(tmp_path: Path) -> None:
    with lab(tmp_path, BEHIND + 'trusted_proxies = ["127.0.0.1/32"]\n') as server:
        page = {"origin": "https://models.example.org"}
        assert await asked(server, "/v1/models", {**page, "x-forwarded-host": "models.example.org"}) == 200
        assert await asked(server, "/v1/models", page) == 403


async def test_behind_the_switch_a_request_is_the_clients_own(tmp_path: Path) -> None:
    """Its address and its scheme are what everything that follows reads."""
    scopes: list[Any] = []

    class FakeDataPlane:
        def __init__(self, routes: Any) -> None:
            self.routes = routes

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            scopes.append(scope)
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    with lab(tmp_path, BEHIND + 'trusted_proxies = ["127.0.0.1"]\n') as server:
        app: Any = server.inside.server.config.app
        app.front = msgspec.structs.replace(app.front, data=FakeDataPlane(app.front.data.routes))
        headers = {"x-forwarded-for": f"{STRANGER}, {CLIENT}", "x-forwarded-proto": "https"}
        assert await asked(server, "/v1/models", headers) == 204
        assert await asked(server, "/v1/models", {}) == 204
    assert [(scope["client"][0], scope["scheme"]) for scope in scopes] == [(CLIENT, "https"), ("127.0.0.1", "http")]
