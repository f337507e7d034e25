"""The valid keys of the database, in memory, by the digest of their secret.

A request costs one hash and one look into a dictionary.  What is looked up is a digest of 256 bits, so how long the
look takes says nothing about any secret.  An expired key, and the old secret of a rotated one, stop at their moment,
without anybody having to do something then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from rivermouth.config.names import FINGERPRINT_CHARS
from rivermouth.store.platform.port import KeyRow


class Known(msgspec.Struct, frozen=True):
    """A secret that opens the server until that moment (Unix nanoseconds; None: no end is set)."""

    row: KeyRow
    until_ns: int | None


class KeyRing:
    """`asks`: some key was once made here, so nobody comes in without one any more, though all may be revoked."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._used: dict[str, int] = {}
        self._last_used: dict[str, int] = {}
        self.asks = False

    def replace(self, rows: Iterable[KeyRow]) -> None:
        """These are all keys now, the revoked ones too."""
        every = list(rows)
        self._known = {
            digest: Known(row, until_ns)
            for row in every
            if row.revoked_ns is None
            for digest, until_ns in _secrets_of(row)
        }
        self.asks = self.asks or bool(every)

    def find(self, digest: str, now_ns: int) -> Known | None:
        """Whose secret has that digest and is good now; its use is noted."""
        known = self._known.get(digest)
        if known is None or (known.until_ns is not None and known.until_ns <= now_ns):
            return None
        self._used[known.row.id] = now_ns
        return known

    def take_used(self) -> dict[str, int]:
        """When each key was last used since this was asked before."""
        used, self._used = self._used, {}
        self._last_used.update(used)
        return used

    def used_ns(self, key_id: str) -> int | None:
        """When it was last used, as far as this process knows."""
        return self._used.get(key_id) or self._last_used.get(key_id)


def digest_of(secret: str) -> str:
    """What is kept of a secret.  Secrets of ours are random enough for a plain hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def fingerprint(secret: str) -> str:
    """The name of a key that has none."""
    return digest_of(secret)[:FINGERPRINT_CHARS]


def _secrets_of(row: KeyRow) -> Iterable[tuple[str, int | None]]:
    yield row.digest, row.expires_ns
    if row.old_digest is not None and row.old_until_ns is not None:
        yield row.old_digest, row.old_until_ns if row.expires_ns is None else min(row.old_until_ns, row.expires_ns)
