"""Browser safety (R26): which Host and which Origin may talk to us, and what CORS says to those that may.

A web page can reach a server on loopback; these two rules keep a stranger's page (or a rebound DNS name) from using it.
Pure: headers in, a verdict out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from rivermouth.http.headers import EXPOSED, Header, get
from rivermouth.loopback import is_loopback

MISDIRECTED: Final = 421
FORBIDDEN: Final = 403
MAX_AGE_S: Final = 600


class Verdict(msgspec.Struct, frozen=True):
    """`status` 0 lets the request pass; `cors` goes on its answer.  `preflight`: answer 204 with `cors` alone."""

    status: int = 0
    message: str = ""
    cors: tuple[Header, ...] = ()
    preflight: bool = False


class Origins:
    """The rules of one server.

    bound: the addresses listened on.  hosts: names beside those and loopback.
    origins: exact ones, "http://host:*" for every port of a host,
    "scheme://*" for everything of a scheme, or "*".  keyed: a key is demanded, so a stranger's page can do no harm;
    asked for each request, since the first key may be made while the server runs.
    """

    def __init__(
        self, *, bound: Iterable[str], hosts: Iterable[str], origins: Iterable[str], keyed: Callable[[], bool]
    ) -> None:
        self._hosts = frozenset(h.lower() for h in (*bound, *hosts))
        self._any_bound = not self._hosts.isdisjoint({"0.0.0.0", "::", ""})  # noqa: S104 - compared, not bound
        self._origins = tuple(o.lower().rstrip("/") for o in origins)
        self._keyed = keyed

    def judge(self, method: str, headers: list[Header]) -> Verdict:
        """What to do with a request that carries these headers."""
        host = get(headers, b"host")
        if host is not None and not self._knows_host(name_of_host(host)):
            why = f"this server does not answer for the host {host[:100]!r}; http.allowed_hosts names those it does"
            return Verdict(MISDIRECTED, why)
        origin = get(headers, b"origin")
        if origin is None:
            return Verdict()
        own = host is not None and authority(origin) == host.lower()
        listed = own or self._lists_origin(origin)
        if not listed and not self._keyed():
            return Verdict(FORBIDDEN, "this origin is not allowed to call this server (http.allowed_origins)")
        cors = _cors(origin, headers) if listed else ()
        preflight = method == "OPTIONS" and get(headers, b"access-control-request-method") is not None
        if preflight and not listed:
            return Verdict(FORBIDDEN, "this origin is not allowed to call this server (http.allowed_origins)")
        return Verdict(cors=cors, preflight=preflight)

    def _knows_host(self, name: str) -> bool:
        return is_loopback(name) or name in self._hosts or (self._any_bound and _is_address(name))

    def _lists_origin(self, origin: str) -> bool:
        return any(_fits(allowed, origin.lower()) for allowed in self._origins)


def _fits(allowed: str, origin: str) -> bool:
    if allowed in ("*", origin):
        return True
    if allowed.endswith("://*"):
        return origin.startswith(allowed[:-1])
    if allowed.endswith(":*"):
        base = allowed[:-2]
        return origin == base or (origin.startswith(base + ":") and origin[len(base) + 1 :].isdigit())
    return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def name_of_host(host: str) -> str:
    """The host without its port, lower-case."""
    host = host.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def authority(origin: str) -> str:
    """The host and port of an origin; "" for what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _cors(origin: str, headers: list[Header]) -> tuple[Header, ...]:
    wanted = get(headers, b"access-control-request-headers") or "*"
    return (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"vary", b"origin"),
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, DELETE, OPTIONS"),
        (b"access-control-allow-headers", wanted.encode("latin-1")),
        (b"access-control-expose-headers", EXPOSED),
        (b"access-control-max-age", str(MAX_AGE_S).encode()),
    )
