"""What a request says of where it comes from."""

from __future__ import annotations

import pytest

from rivermouth.config import ConfigError, parse
from rivermouth.dialects import discover
from rivermouth.http.visitors import bearer, cookie, counted, is_direct, is_own_page, is_secure

LISTED = ("http://localhost:*", "https://app.example", "app://*", "*")


def headers(**values: str) -> list[tuple[bytes, bytes]]:
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in values.items()]


@pytest.mark.parametrize(
    ("client", "counted_by"),
    [
        ("203.0.113.1", "203.0.113.1"),
        ("::ffff:203.0.113.1", "203.0.113.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("a socket", "a socket"),
        ("", ""),
    ],
)
def test_a_client_is_counted_by_what_it_cannot_change(client: str, counted_by: str) -> None:
    assert counted(client) == counted_by


@pytest.mark.parametrize("network", ["1.2.3", "10.0.0.0/33", "::/129", "proxy.example", ""])
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
        ("http", headers(x_forwarded_proto="https"), False),
        ("http", headers(origin="https://llm.example"), True),
        ("http", headers(origin="http://llm.example"), False),
        ("http", headers(origin="https:"), True),
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
