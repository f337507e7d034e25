"""Static keys: whoever has one of them may call.  Each SDK's own place for a key is accepted on every route."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

from rivermouth.dialects.dialect import Key
from rivermouth.http.headers import Header, get

FINGERPRINT_CHARS: Final = 8


class Keys:
    """The configured keys, as hashes.  `open` means none is configured and everybody may call (R16)."""

    def __init__(self, keys: Iterable[str], places: Iterable[Key]) -> None:
        self._hashes = [_digest(k) for k in keys]
        self._places = tuple(dict.fromkeys(places))
        self.open = not self._hashes

    def name_of(self, headers: list[Header], query: bytes) -> str | None:
        """The fingerprint of the key that the request carries; None when it carries no good one.

        Every candidate is compared with every key in constant time.
        """
        found: str | None = None
        for place in self._places:
            offered = _offered(place, headers, query)
            if offered is None:
                continue
            digest = _digest(offered)
            for known in self._hashes:
                if hmac.compare_digest(digest, known):
                    found = digest.hex()[:FINGERPRINT_CHARS]
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _offered(place: Key, headers: list[Header], query: bytes) -> str | None:
    if place.query is not None:
        return next((v for k, v in parse_qsl(query.decode("latin-1")) if k == place.query), None)
    value = get(headers, (place.header or "").lower().encode())
    if value is None:
        return None
    if place.between is not None:
        before, after = place.between
        return value.partition(before)[2].partition(after)[0] or None
    scheme = place.scheme.strip()
    if not scheme:
        return value
    head, _, rest = value.partition(" ")
    return rest.strip() if head.lower() == scheme.lower() else None
