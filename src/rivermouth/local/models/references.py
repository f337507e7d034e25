"""What may be pulled, by whom: the words of a person or a client become an `Entry`, or are refused.

    smollm2:135m                            a name of the catalogue                              everybody
    hf:org/repo   hf:org/repo@revision      an OpenVINO model, or the one GGUF file there        the operator, and
    hf:org/repo/path/file.gguf              that GGUF file                                       clients where admitted
    https://host/file.gguf                  with its sha256, and a name                          the operator
    file:/path/model.gguf   file:/folder    a file, or an OpenVINO folder, with a name           the operator

A client of the API names no address and no path: the server would fetch or read it with its own rights (R28).
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.ir.names import quoted
from rivermouth.local.models.catalog import Catalog, Entry, FileSource, HubSource, WantedFile, WebSource, url_problem
from rivermouth.local.models.names import ModelName, is_file_name, is_name, is_repository, is_revision, parse_name
from rivermouth.local.models.registry import is_sha256

HUB: Final = "hf:"
FILE: Final = "file:"
WEB: Final = ("http:", "https:")


class Pulls(StrEnum):
    """What clients of the API may pull."""

    NONE = "none"
    CATALOG = "catalog"
    HUB = "hub"


def client_entry(text: str, catalog: Catalog, allowed: Pulls) -> Entry:
    """What a client of the API asks for.  Raises `ApiError` for what it may not, and for what there is not."""
    scheme = scheme_of(text)
    if allowed is Pulls.NONE:
        raise _not_allowed("this server pulls nothing for its clients; its operator does, with `rivermouth pull`")
    if scheme == HUB and allowed is not Pulls.HUB:
        raise _not_allowed('this server pulls what is in its catalogue; local.pulls = "hub" would admit hf: names')
    if scheme is not None and scheme != HUB:
        raise _not_allowed("only the operator of this server pulls from an address or a path, with `rivermouth pull`")
    return hub_entry(text) if scheme == HUB else catalog_entry(text, catalog)


def operator_entry(text: str, catalog: Catalog, *, name: str | None = None, sha256: str | None = None) -> Entry:
    """What the operator asks for.  `name`: what the model is to be called here.  Raises `ApiError`."""
    scheme = scheme_of(text)
    if scheme is None:
        entry = catalog_entry(text, catalog)
        if sha256 is not None:
            raise invalid("a sha256 goes with a file or an address; what is in the catalogue has its own", "sha256")
        return entry if name is None else msgspec.structs.replace(entry, name=parse_name(name))
    if scheme == HUB:
        if sha256 is not None:
            raise invalid("the hub itself says the sha256 of each file", param="sha256")
        return hub_entry(text, name)
    if name is None:
        raise invalid("the model needs a name here", param="name", code="missing_required_parameter")
    if scheme == FILE:
        return file_entry(name, Path(unquote(text.removeprefix(FILE).removeprefix("//"))).expanduser(), sha256)
    return web_entry(name, text, sha256)


def scheme_of(text: str) -> str | None:
    """ "hf:", "file:", "http:", "https:"; None for what can only be a name of the catalogue."""
    lowered = text.lower()
    return next((scheme for scheme in (HUB, FILE) if lowered.startswith(scheme)), None) or next(
        (scheme for scheme in WEB if lowered.startswith(f"{scheme}//")), None
    )


def catalog_entry(text: str, catalog: Catalog) -> Entry:
    """The entry of that name.  Raises `ApiError` (not_found) with the names that there are."""
    entry = catalog.get(parse_name(text))
    if entry is None:
        known = ", ".join(sorted(map(str, catalog)))
        raise ApiError(
            Kind.NOT_FOUND,
            f"there is no model {quoted(text)} to pull (there is: {known})",
            param="model",
            code="model_not_found",
        )
    return entry


def hub_entry(text: str, name: str | None = None) -> Entry:
    """A repository of the hub, or one GGUF file in it.  Raises `ApiError` for what is neither."""
    path, at, revision = text[len(HUB) :].partition("@")
    owner, _, rest = path.partition("/")
    repository, _, file = rest.partition("/")
    repository = f"{owner}/{repository}"
    parts = file.split("/") if file else []
    if not is_repository(repository) or (at and not is_revision(revision)) or not all(map(is_file_name, parts)):
        raise invalid(f"{quoted(text)} is not hf:ORG/REPOSITORY[/FILE.gguf][@REVISION]", param="model")
    source = HubSource(repository=repository, revision=revision if at else "main", file=file or None)
    return Entry(name=parse_name(name) if name else _default_name(source), source=source)


def web_entry(name: str, url: str, sha256: str | None) -> Entry:
    """One GGUF file at an address.  Raises `ApiError` when the address or the digest is none."""
    problem = url_problem(url)
    if problem is not None:
        raise invalid(problem, param="model")
    if sha256 is None:
        raise invalid("a file from an address needs its sha256", param="sha256", code="missing_required_parameter")
    last = unquote(urlsplit(url).path.rpartition("/")[2])
    file = WantedFile(name=last if is_file_name(last) else "model.gguf", sha256=digest_in(sha256))
    return Entry(name=parse_name(name), source=WebSource(url=url), files=(file,))


def file_entry(name: str, path: Path, sha256: str | None = None) -> Entry:
    """A GGUF file, or an OpenVINO folder, of the operator's own.  Raises `ApiError`."""
    if sha256 is not None and path.is_dir():
        raise invalid("a sha256 goes with one file, not with a folder", param="sha256")
    file = WantedFile(name=path.name, sha256=digest_in(sha256) if sha256 is not None else None)
    return Entry(name=parse_name(name), source=FileSource(path=path), files=() if path.is_dir() else (file,))


def digest_in(text: str) -> str:
    """64 hexadecimal digits, with or without "sha256:" before them.  Raises `ApiError` (param "sha256")."""
    digest = text.lower().removeprefix("sha256:")
    if not is_sha256(digest):
        raise invalid("the sha256 is not 64 hexadecimal digits", param="sha256")
    return digest


def _default_name(source: HubSource) -> ModelName:
    """The repository's name; of one file in it, the file's as the tag."""
    stem = source.file.rpartition("/")[2].removesuffix(".gguf") if source.file else ""
    candidate = ModelName(source.repository, stem)
    return candidate if stem and is_name(candidate) else ModelName(source.repository)


def _not_allowed(words: str) -> ApiError:
    return ApiError(Kind.PERMISSION, words, param="model", code="pull_not_allowed")
