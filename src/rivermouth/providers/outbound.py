"""The way out to an upstream: through which proxy, trusting whom.

What the configuration says holds whole: with `outbound.proxy` the environment's proxies and its NO_PROXY are not looked
at.  An upstream on this machine is always called directly.
"""

from __future__ import annotations

import ipaddress
from base64 import b64encode
from collections.abc import Iterable
from typing import Final
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
from yarl import URL

from rivermouth.config import DIRECT, OutboundConfig
from rivermouth.loopback import is_loopback
from rivermouth.secrets import Secret

PORTS: Final = {"http": 80, "https": 443}


class Outbound(msgspec.Struct, frozen=True, kw_only=True):
    """proxy: its URL, "direct" for none; None leaves it to the environment.  no_proxy: who is called directly in spite
    of it.  ca_file: an authority to trust besides the system's.
    """

    proxy: Secret | None = None
    no_proxy: tuple[str, ...] = ()
    ca_file: str | None = None


FROM_ENVIRONMENT: Final = Outbound()


def configured(said: OutboundConfig) -> Outbound:
    """The way out as everybody has it who has none of their own."""
    return Outbound(proxy=said.proxy, no_proxy=said.no_proxy, ca_file=said.ca_file)


def proxy_for(base_url: str, outbound: Outbound = FROM_ENVIRONMENT) -> tuple[URL | None, dict[str, str]]:
    """The proxy on the way to this upstream, none for loopback; and a header with its credentials."""
    parts = urlsplit(base_url)
    found = None if is_loopback(parts.hostname or "") else _proxy(parts, outbound)
    if not found:
        return None, {}
    url = URL(found if "://" in found else f"http://{found}")
    if url.user is None:
        return url, {}
    credentials = b64encode(f"{url.user}:{url.password or ''}".encode()).decode()
    return url.with_user(None), {"proxy-authorization": f"Basic {credentials}"}


def _proxy(parts: SplitResult, outbound: Outbound) -> str | None:
    host = parts.hostname or ""
    if outbound.proxy is not None:
        said = outbound.proxy.reveal()
        port = parts.port or PORTS.get(parts.scheme, 0)
        return None if said == DIRECT or spared(host, port, outbound.no_proxy) else said
    if proxy_bypass(host):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def spared(host: str, port: int, no_proxy: Iterable[str]) -> bool:
    """The host is called directly: one of these means it, or a domain that it is in, or a network."""
    return any(_means(entry.strip().lower(), host.lower().rstrip("."), port) for entry in no_proxy)


def _means(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    network = _network(entry)
    if network is not None:
        return _is_in(host, network)
    name, colon, digits = entry.rpartition(":")
    if colon and digits.isdigit():
        if int(digits) != port:
            return False
        entry = name.strip("[]")
        network = _network(entry)
        if network is not None:
            return _is_in(host, network)
    domain = entry.removeprefix("*").strip(".")
    return bool(domain) and (host == domain or host.endswith("." + domain))


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _is_in(host: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        return ipaddress.ip_address(host) in network
    except ValueError:
        return False
