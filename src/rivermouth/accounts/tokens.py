"""What a signed-in client shows.

An *access token* is a JWT (HS256; the `kid` says which secret) that names a user and a session for some minutes.  Which
algorithm it has is ours to say and not the token's.

A *session token* is two random halves, `<handle>.<secret>`.  The store knows the digest of the handle as the session's
id, and the digest of the secret.  Each use gives another secret, which is derived from the one before it: so who
repeats a renewal whose answer was lost can be given the same answer, though nothing of it was kept.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import jwt
from jwt.exceptions import PyJWTError

from rivermouth.accounts.keyring import Keyring
from rivermouth.ir.errors import ApiError, Kind

ALGORITHM: Final = "HS256"
ISSUER: Final = "rivermouth"
LONGEST: Final = 2_048
REQUIRED: Final = ("exp", "iat", "iss", "sid", "sub")
HALF_BYTES: Final = 24
HALF_CHARS: Final = 32


class Claim(NamedTuple):
    user_id: str
    session_id: str


class AccessTokens:
    """now_s: Unix seconds."""

    def __init__(self, keyring: Keyring, now_s: Callable[[], float]) -> None:
        self._keyring = keyring
        self._now_s = now_s

    def issue(self, claim: Claim, good_s: float) -> str:
        now_s = int(self._now_s())
        key = self._keyring.signing
        said = {
            "iss": ISSUER,
            "sub": claim.user_id,
            "sid": claim.session_id,
            "iat": now_s,
            "exp": now_s + int(good_s),
        }
        return jwt.encode(said, key.bytes(), ALGORITHM, {"kid": key.kid})

    def verify(self, token: str) -> Claim:
        """Who it names.  Raises `ApiError` authentication for any token that is not ours, or has run out."""
        if len(token) > LONGEST:
            raise _no_good()
        try:
            head = jwt.get_unverified_header(token)
            key = self._keyring.verifying(str(head.get("kid", "")))
            if key is None:
                raise _no_good()
            said: dict[str, Any] = jwt.decode(
                token,
                key.bytes(),
                [ALGORITHM],
                issuer=ISSUER,
                options={
                    "require": list(REQUIRED),
                    "verify_exp": False,  # by our own clock, below
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_aud": False,
                },
            )
        except (PyJWTError, ValueError):
            raise _no_good() from None
        user_id, session_id, ends_s = said["sub"], said["sid"], said["exp"]
        if not isinstance(session_id, str) or not isinstance(ends_s, int) or ends_s <= self._now_s():
            raise _no_good()
        return Claim(user_id, session_id)


def _no_good() -> ApiError:
    return ApiError(Kind.AUTHENTICATION, "this token is not good, or no more: sign in", code="invalid_token")


class SessionToken(NamedTuple):
    """A client's half of a session; what the store has of it is `session_id` and `digest`."""

    handle: str
    secret: str

    @classmethod
    def new(cls) -> SessionToken:
        return cls(_written(os.urandom(HALF_BYTES)), _written(os.urandom(HALF_BYTES)))

    @classmethod
    def parse(cls, text: str) -> SessionToken | None:
        handle, dot, secret = text.partition(".")
        if not dot or len(handle) != HALF_CHARS or len(secret) != HALF_CHARS or not text.isascii():
            return None
        return cls(handle, secret)

    @property
    def session_id(self) -> str:
        return _digest(self.handle)

    @property
    def digest(self) -> str:
        return _digest(self.secret)

    def next(self, keyring: Keyring) -> SessionToken:
        """The one that takes its place."""
        return SessionToken(self.handle, _written(keyring.derive("session", self.handle, self.secret)[:HALF_BYTES]))

    def __str__(self) -> str:
        return f"{self.handle}.{self.secret}"

    def __repr__(self) -> str:
        return "SessionToken(***)"


def _written(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
