"""Can a server show this certificate?  Asked before it listens, so that a wrong file is a sentence with its name."""

from __future__ import annotations

import ssl

from rivermouth.cli.serving import Tls
from rivermouth.cli.term import Exit, fail


def usable(tls: Tls) -> None:
    """Exits with `Exit.CONFIG` when one of the two files cannot be used, or they do not belong together."""
    certificate, key = tls
    for option, file in (("--tls-cert", certificate), ("--tls-key", key)):
        try:
            with open(file, "rb"):
                pass
        except OSError as error:
            fail(f"{option} {file}: {error.strerror}", Exit.CONFIG)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=certificate)
    except ssl.SSLError:
        fail(f"--tls-cert {certificate}: holds no certificate in PEM", Exit.CONFIG)
    encrypted = False

    def passphrase() -> str:
        nonlocal encrypted
        encrypted = True
        return ""

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, passphrase)
    except ssl.SSLError as error:
        if encrypted:  # the server will ask for the passphrase, once
            return
        other = "is not the key of the certificate" if "MISMATCH" in (error.reason or "") else "holds no key in PEM"
        fail(f"--tls-key {key}: {other}", Exit.CONFIG)
