"""What the configuration says of the network around the server, judged: the proxies before it and those behind it.

A faulty proxy would else be found out by the first call that needs it, and a faulty network by nobody at all: the word
of a proxy that is not in it is simply not taken.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from rivermouth.config.schema import ConfigFile
from rivermouth.config.shape import Fault
from rivermouth.config.values import DIRECT
from rivermouth.secrets import Secret

PROXY_SCHEMES: Final = frozenset({"http", "https"})
_A_PROXY: Final = f'must be the address of an HTTP proxy, as in "http://proxy.example.org:3128", or "{DIRECT}"'


def faults(file: ConfigFile) -> Iterator[Fault]:
    """Everything that could not be used.  What is said of a proxy does not show it: it may hold a password."""
    for number, network in enumerate(file.http.trusted_proxies):
        try:
            ipaddress.ip_network(network, strict=False)
        except ValueError:
            yield Fault(("http", "trusted_proxies", number), f"{network} is neither an address nor a network")
    if not _is_proxy(file.outbound.proxy):
        yield Fault(("outbound", "proxy"), _A_PROXY)
    if file.outbound.no_proxy and file.outbound.proxy is None:
        yield Fault(("outbound", "no_proxy"), "goes with outbound.proxy; the environment's proxies have NO_PROXY")
    for name, table in file.providers.items():
        if not _is_proxy(table.proxy):
            yield Fault(("providers", name, "proxy"), _A_PROXY)
        elif table.proxy is not None and table.python is not None:
            yield Fault(("providers", name, "proxy"), "a python provider has none")
    if (file.server.tls_cert is None) != (file.server.tls_key is None):
        missing = "tls_key" if file.server.tls_key is None else "tls_cert"
        there = "tls_cert" if missing == "tls_key" else "tls_key"
        yield Fault(("server", there), f"goes with server.{missing}, which is not set")


def _is_proxy(proxy: Secret | None) -> bool:
    if proxy is None or proxy.reveal() == DIRECT:
        return True
    try:
        parts = urlsplit(proxy.reveal())
        return parts.scheme in PROXY_SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
