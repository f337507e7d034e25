"""A secret that cannot be printed by accident, and the last filter before a text is stored or logged.

`Secret` is a `str` whose characters *are* "***": whatever formats, joins, logs or encodes it gets those three stars,
because no code path that treats it as a string can reach the value.  Only `reveal()` does, so `grep reveal` lists
every place where a secret leaves its wrapper.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from typing import Final

MASK: Final = "***"
SHORTEST_MASKED: Final = 6
"""A secret shorter than this is not searched for in texts: it would blank out ordinary words."""

LONGER_THAN_WORDS: Final = 16
"""A secret that is at least so long stands in no name by chance; "ollama" may."""
_PLATFORM_KEY: Final = re.compile(r"rmk_[A-Za-z0-9]{40}")

_LOOKS_SECRET: Final = (
    re.compile(r"(?i)\b(bearer|basic)\s+(?=[^\s,;]*[\d._=-])[A-Za-z0-9._~+/=-]{6,}"),
    re.compile(r"\b(sk|pk|gsk|rk|xai|hf|rmk)[-_][A-Za-z0-9_*-]{6,}"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{10,}"),
    re.compile(r"(?i)(?<=[?&]key=)[^&\s]+"),
)


class Secret(str):
    """Prints as "***" in repr, str, format, f-strings and JSON.  `label` says where it came from, and may be shown."""

    __slots__ = ("_value", "label")

    _value: str
    label: str

    def __new__(cls, value: str, label: str = "") -> Secret:
        self = super().__new__(cls, MASK)
        self._value = value
        self.label = label
        return self

    def reveal(self) -> str:
        """The value itself, as a plain `str`."""
        return self._value

    def matches(self, candidate: str) -> bool:
        """Equal to the value; takes the same time wherever the two differ."""
        return hmac.compare_digest(self._value.encode(), candidate.encode("utf-8", "surrogateescape"))

    def __repr__(self) -> str:
        return MASK

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.matches(other._value)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        raise TypeError("a secret is not pickled")


def holds_secret(text: str, secrets: Iterable[Secret]) -> bool:
    """One of these that is no ordinary word stands in the text, or a key of the platform's own."""
    values = (secret.reveal() for secret in secrets)
    return _PLATFORM_KEY.search(text) is not None or any(
        value in text for value in values if len(value) >= LONGER_THAN_WORDS
    )


def redact(text: str, secrets: Iterable[Secret] = ()) -> str:
    """The text without any of these secrets, and without what looks like a key or a bearer token."""
    for secret in secrets:
        value = secret.reveal()
        if len(value) >= SHORTEST_MASKED and value in text:
            text = text.replace(value, MASK)
    for pattern in _LOOKS_SECRET:
        text = pattern.sub(MASK, text)
    return text
