"""The values that `rivermouth.toml` may hold: types with their constraints, and what is said of what breaks them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

MIB: Final = 1024 * 1024
DIRECT: Final = "direct"
"""What stands for a proxy where there is to be none."""
FOREVER: Final = "forever"
"""What stands for a time without an end."""


def shaped(pattern: str, says: str) -> Meta:
    """A constraint with the sentence that is said of a text that does not keep it."""
    return Meta(pattern=pattern, description=says)


Port = Annotated[int, Meta(ge=0, le=65535)]
PositiveS = Annotated[float, Meta(gt=0, le=86_400)]
NonNegativeS = Annotated[float, Meta(ge=0, le=86_400)]
Text = Annotated[str, Meta(min_length=1)]
Device = Annotated[str, shaped("^(NPU|GPU|CPU)([.][0-9]+)?$", "must be NPU, GPU or CPU, or one of several as in GPU.1")]
BaseUrl = Annotated[str, shaped(r"^https?://[^/\s]+", "must begin with http:// or https://, and a host")]
Target = Annotated[str, shaped(r"^[\w.]+:[\w.]+$", 'must be a module and a function, as in "package.module:stream"')]
HostName = Annotated[
    str,
    shaped(r"^([^\s:/*]+|\[[0-9A-Fa-f:.]+\])$", 'must be a name alone, without scheme, port and path: "example.org"'),
]
NetworkName = Annotated[
    str, shaped(r"^[0-9A-Fa-f:.]+(/\d{1,3})?$", 'must be an address or a network, as in "10.0.0.0/8" or "fd00::/8"')
]
Origin = Annotated[
    str,
    shaped(
        r"^([*]|null|[A-Za-z][A-Za-z0-9+.-]*://([*]|[^\s/*]+(:[*])?)/?)$",
        'must be an origin as in "https://example.org", without a path; or "http://host:*", "scheme://*", "*"',
    ),
]


class Duration(float):
    """Seconds, written as a number or as Ollama writes them: "5m", "1h30m", "-1" (negative: for ever)."""

    _UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    _PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
    _WHOLE: Final = re.compile(rf"-?(?:{_PART.pattern})+")

    @classmethod
    def parse(cls, value: Any) -> Duration:
        """Raises `ValueError` for what is no duration."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"expected a duration as in 300 or '5m', got {type(value).__name__}")
        if isinstance(value, int | float):
            return cls(value)
        if re.fullmatch(r"-?\d+", value):
            return cls(int(value))
        if not cls._WHOLE.fullmatch(value):
            raise ValueError(f"expected a duration as in 300 or '5m', got {value!r}")
        seconds = sum(float(n) * cls._UNITS[u] for n, u in cls._PART.findall(value))
        return cls(-seconds if value.startswith("-") else seconds)


class Retention(str):
    """How long a provider keeps what it is sent: "none", or a time as in "12h", "30d", "2w", "1y"."""

    _UNITS: Final = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0, "y": 31_557_600.0}
    _TIME: Final = re.compile(r"(\d{1,6})\s*(m|h|d|w|y)")

    @property
    def seconds(self) -> float | None:
        """None for words that are no time: they pass no policy that has a longest one."""
        if self.strip().lower() in ("none", "0"):
            return 0.0
        found = self._TIME.fullmatch(self.strip().lower())
        return float(found[1]) * self._UNITS[found[2]] if found else None


Capability = Literal["audio", "files", "images", "json_schema", "reasoning", "tools"]
"""What an endpoint can take or do."""

Order = Literal["listed", "price", "weighted", "least_busy"]
"""How candidates follow each other: as they stand in the file, the cheapest first, drawn by weight, the one with the
fewest running calls for its weight first."""

Weight = Annotated[float, Meta(ge=0, le=1_000_000)]
KeptTime = Annotated[str, shaped(r"^[1-9]\d{0,5}[mhdwy]$", 'must be a time as in "12h", "30d" or "1y"')]
LongestRetention = Annotated[str, shaped(r"^(none|\d{1,6}[mhdwy])$", 'must be "none" or a time as in "30d"')]
