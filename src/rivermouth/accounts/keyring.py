"""The secrets that sign access tokens: a file of the data directory that its owner alone may read.

The first one signs.  The others were first before, and are good for what they have signed: until the last token of
theirs has run out.  The file is replaced whole, so it may be rotated beside a running server, which looks at it again
every few seconds.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import structlog

from rivermouth.ir.errors import WireError
from rivermouth.secrets import Secret
from rivermouth.store.port import StoreError
from rivermouth.wire import json

log = structlog.get_logger()

FILE: Final = "token-keys.json"
SECRET_BYTES: Final = 32
MOST_BYTES: Final = 64 * 1024
LEEWAY_S: Final = 60.0


class Kept(msgspec.Struct, frozen=True):
    """One secret as the file has it.  until_s: Unix seconds; None for the one that signs."""

    kid: str
    secret: str
    until_s: float | None = None


class _File(msgspec.Struct, frozen=True):
    keys: list[Kept]


_file: Final = json.typed(_File)


class SigningKey(msgspec.Struct, frozen=True):
    kid: str
    secret: Secret

    def bytes(self) -> bytes:
        return base64.urlsafe_b64decode(self.secret.reveal())


class Keyring:
    """The secrets of one data directory.  now_s: Unix seconds.  Methods block; all of them raise `StoreError`."""

    def __init__(self, folder: Path, now_s: Callable[[], float]) -> None:
        self._path = folder / FILE
        self._now_s = now_s
        self._seen: tuple[int, int] | None = None
        self._keys: dict[str, tuple[SigningKey, float | None]] = {}  # the one that signs first; replaced as a whole

    def open(self) -> None:
        """Reads the file; makes it, with one secret, where there is none."""
        if not self._path.exists():
            self._write([_new()])
        self.reload()

    def reload(self) -> bool:
        """Reads the file again if it is another one.  True when it was."""
        try:
            found = self._path.stat()
            if (found.st_ino, found.st_mtime_ns) == self._seen:
                return False
            if found.st_mode & 0o077:
                self._path.chmod(0o600)
                log.warning("keys.were_readable", path=str(self._path))
            kept = self._read()
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}") from None
        self._seen = (found.st_ino, found.st_mtime_ns)
        self._keys = {one.kid: (SigningKey(one.kid, Secret(one.secret, FILE)), one.until_s) for one in kept}
        return True

    def rotate(self, *, keep_s: float | None) -> str:
        """A new secret signs from now on; the one before is good for as long yet, or no more.  Its kid."""
        now_s = self._now_s()
        new = _new()
        kept = self._read() if keep_s is not None and self._path.exists() else []
        old = [
            msgspec.structs.replace(one, until_s=now_s + (keep_s or 0) + LEEWAY_S) if one.until_s is None else one
            for one in kept
        ]
        self._write([new, *(one for one in old if one.until_s is not None and one.until_s > now_s)])
        return new.kid

    @property
    def signing(self) -> SigningKey:
        return next(iter(self._keys.values()))[0]

    def verifying(self, kid: str) -> SigningKey | None:
        """The secret of that name, if it is good now."""
        found = self._keys.get(kid)
        if found is None or (found[1] is not None and found[1] <= self._now_s()):
            return None
        return found[0]

    def derive(self, *parts: str) -> bytes:
        """32 bytes that only who has the signing secret can make of these."""
        told = b"\x00".join(part.encode() for part in ("rivermouth", *parts))
        return hmac.digest(self.signing.bytes(), told, hashlib.sha256)

    def _read(self) -> list[Kept]:
        with self._path.open("rb") as file:
            data = file.read(MOST_BYTES)
        try:
            keys = json.decode_as(_file, data).keys
            whole = bool(keys) and all(len(base64.urlsafe_b64decode(one.secret)) >= SECRET_BYTES for one in keys)
        except (WireError, ValueError):
            whole = False
        if not whole:
            raise StoreError(f"{self._path}: it does not hold the secrets of access tokens; remove it to have new ones")
        return keys

    def _write(self, keys: list[Kept]) -> None:
        """Whole or not at all, also when the machine stops meanwhile."""
        staged = self._path.with_name(f"{FILE}.{os.getpid()}")
        try:
            staged.unlink(missing_ok=True)
            fd = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(json.encode(_File(keys)) + b"\n")
                file.flush()
                os.fsync(fd)
            staged.replace(self._path)
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}") from None


def _new() -> Kept:
    return Kept(os.urandom(6).hex(), base64.urlsafe_b64encode(os.urandom(SECRET_BYTES)).decode())
