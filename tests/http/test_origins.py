"""Which Host and Origin may talk to the server, and what CORS says (R26)."""

from __future__ import annotations

import pytest

from rivermouth.config import HttpConfig
from rivermouth.http.origins import Origins

DEFAULTS = HttpConfig().allowed_origins


def rules(bound: str = "127.0.0.1", *, keyed: bool = False, hosts: tuple[str, ...] = ()) -> Origins:
    return Origins(bound=(bound,), hosts=hosts, origins=DEFAULTS, keyed=lambda: keyed)


def headers(host: str | None = "127.0.0.1:8080", origin: str | None = None, **more: str) -> list[tuple[bytes, bytes]]:
    named = {"host": host, "origin": origin, **{k.replace("_", "-"): v for k, v in more.items()}}
    return [(k.encode(), v.encode()) for k, v in named.items() if v is not None]


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "127.9.9.9", "a.localhost"]
)
def test_loopback_hosts_pass(host: str) -> None:
    assert rules().judge("GET", headers(host)).status == 0


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080", "10.0.0.7"])
def test_a_rebound_name_is_misdirected(host: str) -> None:
    assert rules().judge("GET", headers(host)).status == 421


def test_the_bound_address_and_listed_hosts_pass() -> None:
    assert rules("10.0.0.7").judge("GET", headers("10.0.0.7:8080")).status == 0
    assert rules(hosts=("llm.example",)).judge("GET", headers("LLM.example:443")).status == 0
    assert rules("0.0.0.0").judge("GET", headers("192.168.1.2:8080")).status == 0
    assert rules("0.0.0.0").judge("GET", headers("evil.example")).status == 421


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173", "app://obsidian", "tauri://localhost"],
)
def test_listed_origins_get_cors(origin: str) -> None:
    verdict = rules().judge("POST", headers(origin=origin))
    assert verdict.status == 0
    assert (b"access-control-allow-origin", origin.encode()) in verdict.cors
    assert any(k == b"access-control-expose-headers" and b"x-request-id" in v for k, v in verdict.cors)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://[", "http://localhost.evil.example", "http://localhost:1@evil"]
)
def test_a_strangers_page_is_refused_while_no_key_is_demanded(origin: str) -> None:
    assert rules().judge("POST", headers(origin=origin)).status == 403


def test_with_keys_a_strangers_page_passes_without_cors() -> None:
    verdict = rules(keyed=True).judge("POST", headers(origin="https://evil.example"))
    assert verdict.status == 0
    assert verdict.cors == ()


def test_our_own_origin_passes() -> None:
    own = rules(hosts=("llm.example",)).judge("POST", headers("llm.example", "https://llm.example"))
    assert own.status == 0
    assert own.cors


def test_a_preflight_of_a_listed_origin_is_answered_and_of_another_refused() -> None:
    asked = {"access_control_request_method": "POST", "access_control_request_headers": "authorization, x-stainless-os"}
    good = rules(keyed=True).judge("OPTIONS", headers(origin="http://localhost:3000", **asked))
    assert good.preflight
    assert (b"access-control-allow-headers", b"authorization, x-stainless-os") in good.cors
    assert rules(keyed=True).judge("OPTIONS", headers(origin="https://evil.example", **asked)).status == 403


def test_a_request_without_host_or_origin_passes() -> None:
    assert rules().judge("GET", headers(None)).status == 0
