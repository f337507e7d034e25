"""The certificate that new connections are shown, and how another takes its place.

The context that the listeners have never changes.  It asks, at each handshake, which context is to be shown, so a
renewed certificate is one assignment: a pair of files that cannot be used is found out before it, and a connection that
stands keeps the one it began with.
"""

from __future__ import annotations

import ssl
from typing import Final

ALPN: Final = ("http/1.1",)


class Certificate:
    """A chain and its key, in PEM.  Raises `OSError` (`ssl.SSLError` is one) for files that cannot be used.

    At the start an encrypted key makes OpenSSL ask for its passphrase, on the terminal.
    """

    def __init__(self, chain: str, key: str) -> None:
        self.files = (chain, key)
        self._shown = self.context = _context(chain, key, ask=True)
        self.context.sni_callback = self._show

    def renew(self) -> None:
        """New connections are shown what the files hold now.  Raises `OSError`, and then nothing has changed.

        Nobody is there any more to be asked for a passphrase: a key that needs one cannot be renewed.
        """
        self._shown = _context(*self.files, ask=False)

    def _show(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        if self._shown is not context:
            connection.context = self._shown


def _context(chain: str, key: str, *, ask: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, key, None if ask else _nothing)
    context.set_alpn_protocols(list(ALPN))
    return context


def _nothing() -> str:
    return ""
