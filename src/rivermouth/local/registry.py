"""The models that are here: a folder of manifests and the files that they name.

    <root>/manifests/<name>/<tag>.json      what the model is, and the digest of its file
    <root>/blobs/sha256-<hex>.gguf          the file, shared by all manifests that name its digest
    <root>/staging/<pid>-<random>/          what is being fetched; removed when its process is gone
    <root>/lock                             held while manifests and blobs change together

A manifest appears whole or not at all (written beside, fsynced, renamed), and after its blob.  Junk in the folder is
passed over and reported by `scan`.  All methods block on the disk; call them from a thread where that matters.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.local.names import ModelName, is_name, parse_name
from rivermouth.wire import json

READ_BYTES: Final = 1 << 20
MANIFEST_CAP_BYTES: Final = 4 << 20


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One model.  `digest` is "sha256:<hex>"; `created` in Unix seconds; the rest is what its file said of itself."""

    digest: str
    size_bytes: int
    file: str
    created: int
    architecture: str
    context_tokens: int
    parameters: int
    quantization: str
    longest_token_bytes: int
    end_tokens: tuple[int, ...]
    unpacked: bool = False
    template: str | None = None
    license: str | None = None
    attribution: str | None = None
    source: str | None = None


class Model(NamedTuple):
    name: ModelName
    manifest: Manifest
    path: Path


class Scan(NamedTuple):
    """`problems` has one sentence for each thing in the folder that should not be there."""

    models: list[Model]
    problems: list[str]


_MANIFEST: Final = json.typed(Manifest)


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
        self._sweep()
        return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=self._staging))

    def close_stage(self, place: Path) -> None:
        """Removes a staging folder and what is in it."""
        shutil.rmtree(place, ignore_errors=True)

    def publish(self, name: ModelName, manifest: Manifest, staged: Path) -> Model:
        """Moves the staged file to its place and names it.  Its digest must have been checked."""
        blob = self.blob_path(manifest.digest)
        _sync(staged)
        with self._locked():
            self._blobs.mkdir(parents=True, exist_ok=True)
            staged.replace(blob)
            _sync(self._blobs)
            self._write(name, manifest)
        return Model(name, manifest, blob)

    def copy(self, source: str, target: str) -> Model:
        """A second name for the same file.  Raises `ApiError`."""
        name = parse_name(target)
        with self._locked():
            model = self.get(source)
            self._write(name, model.manifest)
        return Model(name, model.manifest, model.path)

    def delete(self, name: str) -> Model:
        """Removes the name, and the file when no other name needs it.  Raises `ApiError` (not_found)."""
        with self._locked():
            model = self.get(name)
            self._manifest_path(model.name).unlink()
            if all(other.manifest.digest != model.manifest.digest for other in self.models()):
                model.path.unlink(missing_ok=True)
        return model

    def blob_path(self, digest: str) -> Path:
        """Where the file with this digest lies.  The engine's reader insists on the suffix."""
        kind, _, value = digest.partition(":")
        if kind != "sha256" or len(value) != 64 or not value.isalnum():
            raise ValueError(f"{digest[:80]!r} is not a sha256 digest")
        return self._blobs / f"sha256-{value}.gguf"

    def _load(self, name: ModelName, path: Path) -> Model:
        if path.stat().st_size > MANIFEST_CAP_BYTES:
            raise ValueError("the manifest is too large")
        manifest = json.decode_as(_MANIFEST, path.read_bytes())
        blob = self.blob_path(manifest.digest)
        size = blob.stat().st_size
        if size != manifest.size_bytes:
            raise ValueError(f"its file has {size} bytes, {manifest.size_bytes} were published")
        return Model(name, manifest, blob)

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
        _sync(fresh)
        fresh.replace(path)
        _sync(path.parent)

    def _sweep(self) -> None:
        """Removes staging folders whose process is gone (it was killed)."""
        for place in self._staging.iterdir():
            pid, _, _ = place.name.partition("-")
            if not pid.isdigit() or not _alive(int(pid)):
                shutil.rmtree(place, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


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


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sync(path: Path) -> None:
    """Makes a file, or the entries of a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
