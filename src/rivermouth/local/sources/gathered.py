"""What a source is told, what it tells on its way, and what it hands over."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.catalog import Entry
from rivermouth.local.models.registry import FILES_CAP, ModelFile
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound

PULL_CAP_BYTES: Final = 64 << 30


class Telling(Protocol):
    """Where a pull says how far it is: `begin` a file, `advance` in it, and at the end `verifying`."""

    def begin(self, file: str, digest: str, total: int) -> None: ...
    def advance(self, completed: int) -> None: ...
    def verifying(self) -> None: ...


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """How patient a download is: with a connection, with silence, and with connections that are lost in the middle."""

    connect_s: float = 15.0
    silence_s: float = 60.0
    tries: int = 4
    pause_s: float = 1.0


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """How a pull is to be done.  `accept`: the licence that whoever asks has accepted.  `cap_bytes`: for all files.

    outbound: the way out to the source.
    """

    accept: str | None = None
    cap_bytes: int = PULL_CAP_BYTES
    clocks: Clocks = Clocks()
    outbound: Outbound = FROM_ENVIRONMENT


class Gathered(msgspec.Struct, frozen=True):
    """Files that lie in the staging folder by their names, the main one first, with what was measured of them.

    entry: as it was asked for, completed by what the source knows.  source: for people, without a secret.
    """

    entry: Entry
    files: tuple[ModelFile, ...]
    source: str


def check_cap(total_bytes: int, files: int, orders: Orders) -> None:
    """Raises `ApiError` for a model that is larger than one may be, or in more pieces."""
    if total_bytes > orders.cap_bytes:
        raise ApiError(
            Kind.TOO_LARGE,
            f"the model has {total_bytes} bytes, {orders.cap_bytes} may be pulled (local.pull_limit_bytes)",
            code="model_too_large",
        )
    if files > FILES_CAP:
        raise ApiError(Kind.TOO_LARGE, f"the model has {files} files, {FILES_CAP} may be", code="model_too_large")
