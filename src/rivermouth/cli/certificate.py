"""Can a server show this certificate?  Asked before it listens, so that a wrong file is a sentence with its name."""

from __future__ import annotations

import ssl
from typing import Final

from rivermouth.cli.serving import Tls
from rivermouth.cli.term import Exit, fail

OPTIONS: Final = ("--tls-cert", "--tls-key")


def usable(tls: Tls, names: tuple[str, str] = OPTIONS) -> None:
    """Exits with `Exit.CONFIG` when one of the two files cannot be used, or they do not belong together."""
    fault = fault_of(tls, names)
    if fault is not None:
        fail(fault, Exit.CONFIG)


def fault_of(tls: Tls, names: tuple[str, str] = OPTIONS) -> str | None:
    """What is wrong with the two files; `names` is how whoever wrote it calls them."""
    certificate, key = tls
    for name, file in zip(names, tls, strict=True):
        try:
            with open(file, "rb"):
                pass
        except OSError as error:
            return f"{name} {file}: {error.strerror}"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=certificate)
    except ssl.SSLError:
        return f"{names[0]} {certificate}: holds no certificate in PEM"
    encrypted = False

    def passphrase() -> str:
        nonlocal encrypted
        encrypted = True
        return ""

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, passphrase)
    except ssl.SSLError as error:
        if encrypted:  # the server will ask for the passphrase, once
            return None
        other = "is not the key of the certificate" if "MISMATCH" in (error.reason or "") else "holds no key in PEM"
        return f"{names[1]} {key}: {other}"
    return None
