"""What a request says of where it comes from: its address, whether from this machine, from our own page, by TLS.

Pure.  Headers are believed as far as whoever can write them gains nothing by lying, or is a proxy that the operator
named (`http.trusted_proxies`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from rivermouth.http.headers import Header, get
from rivermouth.http.origins import authority, name_of_host
from rivermouth.loopback import is_loopback

AUTHORIZATION: Final = b"authorization"
FORWARDED: Final = (b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip")
"""Any of these was written by a proxy: the client is somewhere else."""
IPV6_PREFIX: Final = 64
"""Whoever has one IPv6 address has all of its network."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Proxies:
    """The proxies that are believed."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [ipaddress.ip_network(network) for network in networks]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def client(self, peer: str, headers: Sequence[Header]) -> str:
        """The client's address, to count by: the nearest one that is no such proxy's.  peer: the connection's."""
        values = [value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for"]
        hops = [*(hop.strip() for value in values for hop in value.split(",")), peer]
        nearest = hops.pop()
        while hops and self._trusts(nearest):
            nearest = hops.pop()
        found = _address(nearest)
        if isinstance(found, ipaddress.IPv6Address):
            return str(ipaddress.ip_network((found, IPV6_PREFIX), strict=False))
        return str(found) if found is not None else peer

    def _trusts(self, hop: str) -> bool:
        address = _address(hop)
        return address is not None and any(address in network for network in self._networks)


def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


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
    """It came by TLS, to here or to a proxy.  Who lies gets a cookie that its browser does not send back."""
    claimed = (get(headers, b"x-forwarded-proto"), (get(headers, b"origin") or "").partition(":")[0])
    return scheme == "https" or "https" in claimed


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
