"""The models that are here: a folder of manifests and the files that they name.

    <root>/manifests/<name>/<tag>.json      what the model is, its files with their sha256, and the digest of it all
    <root>/blobs/sha256-<hex>.gguf          a model that is one GGUF file
    <root>/blobs/sha256-<hex>/              any other model: a folder with its files by their own names
    <root>/staging/<pid>-<random>/          what is being fetched or removed; swept when its process is gone
    <root>/partial/                         downloads that can go on another time: see `sources.partials`
    <root>/licenses.json                    which licences somebody accepted here: see `licenses`
    <root>/lock                             held while manifests and blobs change together

A blob is shared by all manifests that name its digest.  A manifest appears whole or not at all (written beside,
fsynced, renamed), and after its blob.  Junk in the folder is passed over and reported by `scan`.  All methods block on
the disk; call them from a thread where that matters.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.local.models import stages
from rivermouth.local.models.names import ModelName, is_file_name, is_name, parse_name
from rivermouth.wire import json

READ_BYTES: Final = 1 << 20
MANIFEST_CAP_BYTES: Final = 4 << 20


FILES_CAP: Final = 64

ModelKind = Literal["chat", "embedding"]
ModelFormat = Literal["gguf", "openvino", "safetensors"]


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a model.  `name` is flat: it becomes a path in the model's folder.  `sha256` is hex."""

    name: str
    sha256: str
    size_bytes: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One model.  `digest` is "sha256:<hex>"; `created` in Unix seconds; the rest is what its files said of themselves.

    digest: of the file of a one-file model, else `digest_of` all of them.  size_bytes: all files together.
    file: the main one.  files: empty in a one-file manifest of the first version; read them from `Model.files`.
    context_tokens: of an embedding model, its longest input.  device: the one that the catalogue recommends.
    """

    digest: str
    size_bytes: int
    file: str
    created: int
    architecture: str
    context_tokens: int
    parameters: int
    quantization: str
    longest_token_bytes: int = 0
    end_tokens: tuple[int, ...] = ()
    unpacked: bool = False
    template: str | None = None
    license: str | None = None
    attribution: str | None = None
    source: str | None = None
    kind: ModelKind = "chat"
    format: ModelFormat = "gguf"
    files: tuple[ModelFile, ...] = ()
    dimensions: int | None = None
    device: str | None = None


class Model(NamedTuple):
    """`path` is the file of a one-file model, else the folder that holds them all."""

    name: ModelName
    manifest: Manifest
    path: Path

    @property
    def folder(self) -> Path:
        """Where its files lie.  Nothing else may be written there."""
        return self.path.parent if self.manifest.format == "gguf" else self.path

    @property
    def files(self) -> tuple[ModelFile, ...]:
        """All its files, at least one."""
        of = self.manifest
        alone = ModelFile(name=of.file, sha256=of.digest.removeprefix("sha256:"), size_bytes=of.size_bytes)
        return of.files or (alone,)

    def file(self, name: str) -> Path:
        """Where the file of that name lies.  Raises `ApiError` when the model has none of that name."""
        if all(file.name != name for file in self.files):
            raise ApiError(Kind.INTERNAL, f"the local model {self.name} has no file {name!r}", code="unsupported_model")
        return self.path if self.manifest.format == "gguf" else self.path / name


class Scan(NamedTuple):
    """`problems` has one sentence for each thing in the folder that should not be there."""

    models: list[Model]
    problems: list[str]


_MANIFEST: Final = json.typed(Manifest)
_HEX: Final = frozenset("0123456789abcdef")


class Registry:
    """A folder of models.  Several processes may use one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._manifests = root / "manifests"
        self._blobs = root / "blobs"
        self._staging = root / "staging"

    def models(self) -> list[Model]:
        """All models, by name."""
        return self.scan().models

    def scan(self) -> Scan:
        """All models, and what else lies in the folder."""
        models: list[Model] = []
        problems: list[str] = []
        for path in sorted(self._manifests.rglob("*")) if self._manifests.is_dir() else []:
            if path.is_dir() or path.name.startswith("."):
                continue
            try:
                models.append(self._load(self._name_at(path), path))
            except (OSError, WireError, ValueError) as error:
                problems.append(f"{path.relative_to(self.root)}: {_why(error)}")
        return Scan(sorted(models), problems)

    def find(self, name: str) -> Model | None:
        """The model, or None.  Raises `ApiError` when the name is none or its manifest cannot be read."""
        parsed = parse_name(name)
        path = self._manifest_path(parsed)
        if not path.is_file():
            return None
        try:
            return self._load(parsed, path)
        except (OSError, WireError, ValueError) as error:
            raise ApiError(Kind.INTERNAL, f"the local model {parsed} is damaged: {_why(error)}") from error

    def get(self, name: str) -> Model:
        """The model.  Raises `ApiError` (not_found) with the names that are here."""
        model = self.find(name)
        if model is None:
            here = ", ".join(str(m.name) for m in self.models()[:8]) or "none"
            raise ApiError(
                Kind.NOT_FOUND,
                f"model {name!r} is not on this machine (here: {here})",
                param="model",
                code="model_not_found",
            )
        return model

    def open_stage(self) -> Path:
        """A private folder on the same disk, for `close_stage` to remove."""
        self._staging.mkdir(parents=True, exist_ok=True)
        stages.sweep(self._staging)
        return stages.opened(self._staging)

    def close_stage(self, place: Path) -> None:
        """Removes a staging folder and what is in it."""
        shutil.rmtree(place, ignore_errors=True)

    def publish(self, name: ModelName, manifest: Manifest, staged: Path) -> Model:
        """Moves the staged file, or folder of files, to its place and names it.  Its digests must have been checked."""
        blob = self.blob_path(manifest)
        for path in (*staged.iterdir(), staged) if staged.is_dir() else (staged,):
            stages.sync(path)
        with self._locked():
            self._blobs.mkdir(parents=True, exist_ok=True)
            before = self._set_aside(blob) if blob.is_dir() else None
            staged.replace(blob)
            stages.sync(self._blobs)
            self._write(name, manifest)
        if before is not None:
            self.close_stage(before)
        return Model(name, manifest, blob)

    def copy(self, source: str, target: str) -> Model:
        """A second name for the same file.  Raises `ApiError`."""
        name = parse_name(target)
        with self._locked():
            model = self.get(source)
            self._write(name, model.manifest)
        return Model(name, model.manifest, model.path)

    def delete(self, name: str) -> Model:
        """Removes the name, and the files when no other name needs them.  Raises `ApiError` (not_found)."""
        aside: Path | None = None
        with self._locked():
            model = self.get(name)
            self._manifest_path(model.name).unlink()
            if all(other.manifest.digest != model.manifest.digest for other in self.models()):
                aside = self._set_aside(model.path)
        if aside is not None:
            self.close_stage(aside)
        return model

    def blob_path(self, manifest: Manifest) -> Path:
        """Where the file or folder with its digest lies.  The engine's reader insists on the suffix."""
        kind, _, value = manifest.digest.partition(":")
        if kind != "sha256" or not is_sha256(value):
            raise ValueError(f"{manifest.digest[:80]!r} is not a sha256 digest")
        return self._blobs / f"sha256-{value}{'.gguf' if manifest.format == 'gguf' else ''}"

    def _set_aside(self, blob: Path) -> Path:
        """Takes a blob out of its place at once; removing what it holds may take longer."""
        self._staging.mkdir(parents=True, exist_ok=True)
        aside = stages.opened(self._staging)
        with contextlib.suppress(FileNotFoundError):
            blob.replace(aside / "blob")
        return aside

    def _load(self, name: ModelName, path: Path) -> Model:
        if path.stat().st_size > MANIFEST_CAP_BYTES:
            raise ValueError("the manifest is too large")
        manifest = json.decode_as(_MANIFEST, path.read_bytes())
        model = Model(name, manifest, self.blob_path(manifest))
        for file in model.files:
            if model.manifest.format != "gguf" and not is_file_name(file.name):
                raise ValueError(f"{file.name[:80]!r} is not the name of a file")
            size = model.file(file.name).stat().st_size
            if size != file.size_bytes:
                raise ValueError(f"its file has {size} bytes, {file.size_bytes} were published")
        return model

    def _name_at(self, path: Path) -> ModelName:
        name = ModelName(path.parent.relative_to(self._manifests).as_posix(), path.name.removesuffix(".json"))
        if path.suffix != ".json" or not is_name(name):
            raise ValueError("not a manifest")
        return name

    def _manifest_path(self, name: ModelName) -> Path:
        return self._manifests / name.name / f"{name.tag}.json"

    def _write(self, name: ModelName, manifest: Manifest) -> None:
        path = self._manifest_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_bytes(json.encode(manifest))
        stages.sync(fresh)
        fresh.replace(path)
        stages.sync(path.parent)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def digest_of(files: Iterable[ModelFile]) -> str:
    """ "sha256:<hex>" of a model of several files: of a line for each, name and sha256, sorted."""
    lines = sorted(f"{file.name}\0{file.sha256}\n" for file in files)
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def is_sha256(text: str) -> bool:
    """True for 64 lower-case hexadecimal digits."""
    return len(text) == 64 and set(text) <= _HEX


def sha256_of(path: Path, go_on: Callable[[], bool] = lambda: True) -> str | None:
    """The file's sha256 in hex, or None when `go_on` said False on the way."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            if not go_on():
                return None
            sha.update(block)
    return sha.hexdigest()


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "its file is missing"
    return error.strerror or "cannot be read" if isinstance(error, OSError) else str(error)
