"""Behind reverse proxies: who the client is, how it came, and whom it meant to ask.

Anyone can write these headers, so they are believed only from a peer in `http.trusted_proxies`, and only as far as
trusted peers wrote them: the list of addresses is read from its right end, where each trusted proxy has added whom it
got the request from, up to the first address that is not trusted.  That one is the client; what stands left of it is
its own invention.

Of the two families of headers one is read (`http.proxy_headers`).  A proxy passes on what it does not know, so the
other family would be the client's word in a trusted peer's mouth.

Pure: a scope in, a scope out.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Final, Literal

import msgspec

from rivermouth.http.headers import Header

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Family = Literal["x-forwarded", "forwarded"]
Scope = MutableMapping[str, Any]

HOST: Final = b"host"
SCHEMES: Final = frozenset({"http", "https"})
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?")
_PAIR: Final = re.compile(r'\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)=("(?:[^"\\]|\\.)*"|[^\s",;=]*)\s*')


class Hop(msgspec.Struct, frozen=True):
    """What one proxy says of the request as it got it; None where it says nothing that could be meant."""

    client: Address | None = None
    scheme: str | None = None
    host: str | None = None


class Proxies:
    """The peers whose word is taken.  False, and nothing to ask, when there are none.

    networks: addresses and CIDRs.  Raises `ValueError` for what is none.
    """

    def __init__(self, networks: Iterable[str] = (), family: Family = "x-forwarded") -> None:
        self._networks = tuple(ipaddress.ip_network(network, strict=False) for network in networks)
        self._read = _FAMILIES[family]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    def seen(self, scope: Scope) -> Scope:
        """The scope as the outermost trusted proxy saw the request; the same one for a peer that is not trusted."""
        peer = address_of((scope.get("client") or ("",))[0])
        if peer is None or not self.trusts(peer):
            return scope
        headers: list[Header] = list(scope["headers"])
        told = self.told(peer, self._read(headers))
        changed: dict[str, Any] = {"client": (str(told.client), 0)} if told.client != peer else {}
        if told.scheme is not None:
            changed["scheme"] = told.scheme
        if told.host is not None:
            kept = [header for header in headers if header[0] != HOST]
            changed["headers"] = [(HOST, told.host.encode("latin-1")), *kept]
        return {**scope, **changed} if changed else scope

    def told(self, peer: Address, hops: Sequence[Hop]) -> Hop:
        """Of these, the client's own end first, the word of the outermost trusted proxy.  Its client is never None.

        A hop that names no address ends the walk: who wrote it is the nearest that is known.
        """
        found = Hop(client=peer)
        for hop in reversed(hops):
            if not self.trusts(found.client or peer):
                break
            found = Hop(hop.client or found.client, hop.scheme or found.scheme, hop.host or found.host)
            if hop.client is None:
                break
        return found


def address_of(text: str) -> Address | None:
    """An address with or without brackets and port; one of IPv4 that came as IPv6 is one of IPv4."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text, bracket, _ = text[1:].partition("]")
        if not bracket:
            return None
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _x_forwarded(headers: list[Header]) -> list[Hop]:
    """X-Forwarded-For, with one word for scheme and one for host: the last, which the nearest proxy wrote.

    Proxies do not agree on whether they add to the other two or replace them, so no place in them belongs to a hop.
    """
    hops = [Hop(client=address_of(text)) for text in _listed(headers, b"x-forwarded-for")]
    schemes, hosts = _listed(headers, b"x-forwarded-proto"), _listed(headers, b"x-forwarded-host")
    scheme, host = _scheme(schemes[-1] if schemes else ""), _host(hosts[-1] if hosts else "")
    nearest = hops.pop() if hops else Hop()
    return [*hops, msgspec.structs.replace(nearest, scheme=scheme, host=host)]


def _forwarded(headers: list[Header]) -> list[Hop]:
    """Forwarded (RFC 7239).  One that cannot be read says nothing at all."""
    whole = ",".join(value.decode("latin-1") for name, value in headers if name == b"forwarded")
    if not whole.strip():
        return []
    elements = list(_elements(whole))
    if None in elements:
        return []
    return [
        Hop(address_of(one.get("for", "")), _scheme(one.get("proto", "")), _host(one.get("host", "")))
        for one in elements
        if one
    ]


_FAMILIES: Final = {"x-forwarded": _x_forwarded, "forwarded": _forwarded}


def _elements(whole: str) -> Iterator[dict[str, str] | None]:
    """Each element of the list as its pairs; None, and no more, where it is none."""
    at, pairs = 0, dict[str, str]()
    while True:
        found = _PAIR.match(whole, at)
        if found is not None:
            value = found[2]
            pairs[found[1].lower()] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
            at = found.end()
        else:
            at = len(whole) - len(whole[at:].lstrip())
        if at == len(whole) or whole[at] == ",":
            yield pairs
            pairs = {}
            if at == len(whole):
                return
        elif whole[at] != ";":
            yield None
            return
        at += 1


def _listed(headers: list[Header], name: bytes) -> list[str]:
    """The members of a list that may stand in several headers."""
    return [part.strip() for key, value in headers if key == name for part in value.decode("latin-1").split(",")]


def _scheme(text: str) -> str | None:
    return text.lower() if text.lower() in SCHEMES else None


def _host(text: str) -> str | None:
    return text if _HOST.fullmatch(text) else None
