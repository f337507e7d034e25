"""What a request says of where it comes from."""

from __future__ import annotations

import pytest

from rivermouth.config import ConfigError, parse
from rivermouth.dialects import discover
from rivermouth.http.visitors import Proxies, bearer, cookie, is_direct, is_own_page, is_secure

LISTED = ("http://localhost:*", "https://app.example", "app://*", "*")


def headers(**values: str) -> list[tuple[bytes, bytes]]:
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in values.items()]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.1", [], "203.0.113.1"),
        ("203.0.113.1", ["192.0.2.1"], "203.0.113.1"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", ["192.0.2.1"], "192.0.2.1"),
        ("10.1.2.3", ["198.51.100.1, 192.0.2.1"], "192.0.2.1"),
        ("10.1.2.3", ["198.51.100.1", "192.0.2.1, 10.9.9.9"], "192.0.2.1"),
        ("10.1.2.3", ["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
        ("10.1.2.3", ["rubbish"], "10.1.2.3"),
        ("10.1.2.3", [""], "10.1.2.3"),
        ("::ffff:10.1.2.3", ["192.0.2.1"], "192.0.2.1"),
        ("fd00::1", ["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"),
        ("fd00::1", ["[2001:db8:1:2:ffff::1]"], "2001:db8:1:2::/64"),
        ("", [], ""),
    ],
)
def test_a_client_is_the_nearest_that_is_no_trusted_proxy(peer: str, forwarded: list[str], client: str) -> None:
    given = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    assert Proxies(["10.0.0.0/8", "fd00::/8"]).client(peer, given) == client


def test_nobody_is_trusted_unasked() -> None:
    assert not Proxies([])
    assert Proxies([]).client("127.0.0.1", headers(x_forwarded_for="192.0.2.1")) == "127.0.0.1"


@pytest.mark.parametrize("network", ["10.0.0.1/8", "1.2.3", "10.0.0.0/33", "::/129", "proxy.example", ""])
def test_a_proxy_that_is_no_network_is_refused_with_its_line(network: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f'[http]\ntrusted_proxies = ["{network}"]\n', "x.toml", {}, frozenset(discover()))
    assert "x.toml:2: http.trusted_proxies" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "direct"),
    [
        (headers(host="127.0.0.1:8080"), True),
        (headers(host="localhost"), True),
        (headers(host="[::1]:8080"), True),
        (headers(host="llm.example"), False),
        (headers(host="127.0.0.1.evil.example"), False),
        (headers(host="10.0.0.7"), False),
        ([], False),
        *(
            (headers(host="127.0.0.1", **{name: "x"}), False)
            for name in ("x_forwarded_for", "x_forwarded_host", "x_forwarded_proto", "x_real_ip", "forwarded", "via")
        ),
    ],
)
def test_who_is_here(given: list[tuple[bytes, bytes]], direct: bool) -> None:
    assert is_direct(given) is direct


@pytest.mark.parametrize(
    ("given", "own"),
    [
        (headers(host="llm.example"), True),
        (headers(host="llm.example", sec_fetch_site="same-origin"), True),
        (headers(host="llm.example", sec_fetch_site="same-site"), False),
        (headers(host="llm.example", sec_fetch_site="cross-site"), False),
        (headers(host="LLM.example:8080", origin="https://llm.example:8080"), True),
        (headers(host="127.0.0.1:8080", origin="http://127.0.0.1:3000"), False),
        (headers(host="127.0.0.1:8080", origin="https://app.example"), True),
        (headers(host="127.0.0.1:8080", origin="http://localhost:3000"), False),
        (headers(host="127.0.0.1:8080", origin="app://x"), False),
        (headers(host="127.0.0.1:8080", origin="null"), False),
        (headers(host="127.0.0.1:8080", origin=""), False),
        (headers(origin="http://["), False),
        (headers(host="", origin="null"), False),
    ],
)
def test_whose_page_it_is(given: list[tuple[bytes, bytes]], own: bool) -> None:
    assert is_own_page(given, LISTED) is own


@pytest.mark.parametrize(
    ("scheme", "given", "secure"),
    [
        ("https", [], True),
        ("http", [], False),
        ("http", headers(x_forwarded_proto="https"), True),
        ("http", headers(origin="https://llm.example"), True),
        ("http", headers(origin="http://llm.example", x_forwarded_proto="http"), False),
    ],
)
def test_what_came_by_tls(scheme: str, given: list[tuple[bytes, bytes]], secure: bool) -> None:
    assert is_secure(scheme, given) is secure


def test_tokens_and_cookies_are_read_where_they_stand() -> None:
    assert bearer(headers(authorization="bearer  abc ")) == "abc"
    assert bearer(headers(authorization="Bearer")) == ""
    assert bearer(headers(authorization="Basic abc")) is None
    assert bearer([]) is None
    given = [*headers(cookie="theme=dark; x; rivermouth_session=a.b=; rivermouth_session=c"), (b"cookie", b"later=1")]
    assert cookie(given, "rivermouth_session") == "a.b="
    assert cookie(given, "later") == "1"
    assert cookie(given, "x") is cookie([], "x") is None
