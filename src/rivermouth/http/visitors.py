"""What a request says of where it comes from: whether from this machine, from our own page, by TLS; and whose tries it
counts as.

Pure.  What a proxy that the operator named has said of it is in the scope already (`proxies`).  Any other header is
believed as far as whoever can write it gains nothing by lying.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from rivermouth.http.headers import Header, get
from rivermouth.http.origins import authority, name_of_host
from rivermouth.http.proxies import address_of
from rivermouth.loopback import is_loopback

AUTHORIZATION: Final = b"authorization"
FORWARDED: Final = (b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip")
"""Any of these was written by a proxy: the client is somewhere else."""
IPV6_PREFIX: Final = 64
"""Whoever has one IPv6 address has all of its network."""


def counted(client: str) -> str:
    """What tries of this client are counted by: its address, or its network where it can have every address of one."""
    found = address_of(client)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, IPV6_PREFIX), strict=False))
    return str(found) if found is not None else client


def is_direct(headers: list[Header]) -> bool:
    """The client called a loopback name, and no proxy has passed it on.  For a server that is bound to loopback alone,
    then, it is on this machine."""
    host = get(headers, b"host")
    forwarded = any(name in FORWARDED for name, _ in headers)
    return host is not None and is_loopback(name_of_host(host)) and not forwarded


def is_own_page(headers: list[Header], listed: Iterable[str]) -> bool:
    """No other site's page sent this.  listed: the origins that the operator allowed, of which the exact ones count."""
    origin = get(headers, b"origin")
    if origin is None:
        return (get(headers, b"sec-fetch-site") or "none") in ("none", "same-origin")
    host = (get(headers, b"host") or "").lower()
    exact = {one.lower().rstrip("/") for one in listed if "*" not in one}
    return (host != "" and authority(origin) == host) or origin.lower() in exact


def is_secure(scheme: str, headers: list[Header]) -> bool:
    """It came by TLS, to here or to a proxy: scheme is the scope's.  A page that says of itself that it came so is
    believed, also behind a proxy that nobody named: who lies gets a cookie that its browser does not send back."""
    return scheme == "https" or (get(headers, b"origin") or "").partition(":")[0] == "https"


def bearer(headers: list[Header]) -> str | None:
    """The token of `Authorization: Bearer`; None for another scheme, or without the header."""
    scheme, _, token = (get(headers, AUTHORIZATION) or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def cookie(headers: list[Header], name: str) -> str | None:
    """The first cookie of that name."""
    for key, value in headers:
        if key == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                found, equals, held = pair.strip().partition("=")
                if equals and found == name:
                    return held
    return None
