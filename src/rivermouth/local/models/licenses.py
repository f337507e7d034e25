"""Which licences a model may be pulled under without a word, and which somebody has to accept by name first.

A licence of the table lets anybody use and pass on the model for any purpose.  Every other one (restricted uses, no
commercial use, none stated) is shown, and the pull is refused until it is accepted: with `--accept-license NAME`, at
the prompt of `rivermouth pull`, or with "accept_license": "NAME" in the body of POST /api/pull.  What was accepted is
remembered in the registry, with the time, for every later pull of the same licence.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.wire import json

OPEN: Final = frozenset(
    {
        "agpl-3.0", "apache-2.0", "artistic-2.0", "bsd-2-clause", "bsd-3-clause", "bsl-1.0", "cc-by-3.0", "cc-by-4.0",
        "cc-by-sa-3.0", "cc-by-sa-4.0", "cc0-1.0", "gpl-2.0", "gpl-3.0", "isc", "lgpl-2.1", "lgpl-3.0", "mit",
        "mpl-2.0", "odc-by", "unlicense", "wtfpl", "zlib",
    }
)  # fmt: skip
UNSTATED: Final = "unstated"
VAGUE: Final = frozenset({"other", "unknown", UNSTATED})
"""Words that name no licence; accepting one says something about one model only."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is under.  `model`: whose terms these are.  `gated`: its hub asks for more than a licence."""

    license: str | None
    model: str
    url: str | None = None
    gated: bool = False

    @property
    def name(self) -> str:
        """What has to be said to accept them."""
        return (self.license or UNSTATED).lower()

    @property
    def restricted(self) -> bool:
        """True when they have to be accepted by name."""
        return self.gated or self.name not in OPEN

    @property
    def key(self) -> str:
        """What is remembered."""
        return f"{self.name} {self.model}" if self.name in VAGUE else self.name


class LicenseRefused(ApiError):
    """The licence was not accepted.  `terms` are what a person would have to accept."""

    def __init__(self, terms: Terms) -> None:
        where = f" ({terms.url})" if terms.url else ""
        states = "states no licence" if terms.license is None else f"is under the licence {terms.name!r}"
        gate = ", and its hub asks for an account that accepted it" if terms.gated else ""
        super().__init__(
            Kind.PERMISSION,
            f"{terms.model} {states}{where}{gate}; it is pulled once that is accepted by name: "
            f'--accept-license {terms.name}, or "accept_license": "{terms.name}" in the body of a pull',
            param="accept_license",
            code="license_not_accepted",
        )
        self.terms = terms


class Accepted(msgspec.Struct, frozen=True):
    """When, in Unix seconds, and for which model it was first accepted."""

    at: int
    model: str


_ACCEPTED: Final = json.typed(dict[str, Accepted])


class Licenses:
    """What was accepted on this machine."""

    def __init__(self, root: Path) -> None:
        self._path = root / "licenses.json"

    def check(self, terms: Terms, accept: str | None, now_s: float) -> None:
        """Passes open licences, and those that are accepted now or were before.  Raises `LicenseRefused`."""
        if not terms.restricted:
            return
        known = self.accepted()
        if terms.key in known:
            return
        if accept is None or accept.lower() != terms.name:
            raise LicenseRefused(terms)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        fresh.write_bytes(json.encode({**known, terms.key: Accepted(int(now_s), terms.model)}))
        fresh.replace(self._path)

    def accepted(self) -> dict[str, Accepted]:
        """By key; empty where nothing was, or where the file cannot be read."""
        try:
            return json.decode_as(_ACCEPTED, self._path.read_bytes())
        except (OSError, WireError):
            return {}
