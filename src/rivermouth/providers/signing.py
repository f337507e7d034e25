"""Requests signed for AWS (SigV4), by botocore: an optional extra that is imported when the first request is signed.

Where the credentials are is botocore's own affair (environment, profile, SSO, the machine's role), and looking for them
may read files, ask a network and take seconds; so may renewing them.  All of that, and hashing a large body, happens in
a thread; a small body under credentials that are at hand is signed at once.

Only what the signature needs is signed (host, content type, date, token): a proxy may add its own headers.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Mapping
from typing import Any, Final, Protocol

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.secrets import Secret

INLINE_BODY_BYTES: Final = 256 * 1024

_SIGNED: Final = ("content-type",)
_MADE: Final = ("Authorization", "X-Amz-Date", "X-Amz-Security-Token")
_ADVICE: Final = "see `aws sts get-caller-identity`, or set api_key"


class Signer(Protocol):
    """What a request needs beside its own headers to be let in."""

    async def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Further headers, names in lower case.  Raises `ApiError` when there is nothing to sign with."""
        ...

    def secrets(self) -> tuple[Secret, ...]:
        """What must not show, should the upstream repeat it."""
        ...


class SigV4:
    """`Signer` for one service in one region.

    profile: of AWS's own configuration; None takes the credentials that AWS's tools would take.
    """

    def __init__(self, provider: str, *, region: str, profile: str | None = None, service: str = "bedrock") -> None:
        self._provider = provider
        self._region = region
        self._service = service
        self._profile = profile
        self._loading = threading.Lock()
        self._credentials: Any = None
        self._secrets: tuple[Secret, ...] = ()

    async def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        if self._at_hand() and len(body) <= INLINE_BODY_BYTES:
            return self._signed(method, url, headers, body)
        return await asyncio.to_thread(self._signed, method, url, headers, body)

    def secrets(self) -> tuple[Secret, ...]:
        return self._secrets

    def _at_hand(self) -> bool:
        """Nothing has to be looked for or renewed."""
        credentials = self._credentials
        if credentials is None:
            return False
        renewed = getattr(credentials, "refresh_needed", None)
        return renewed is None or not renewed()

    def _signed(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        from botocore.auth import SigV4Auth  # type: ignore[import-untyped, unused-ignore]
        from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped, unused-ignore]

        signed = {name: value for name in _SIGNED if (value := headers.get(name)) is not None}
        request = AWSRequest(method=method, url=url, headers=signed, data=body)
        SigV4Auth(self._frozen(), self._service, self._region).add_auth(request)
        return {name.lower(): str(request.headers[name]) for name in _MADE if name in request.headers}

    def _frozen(self) -> Any:
        """The credentials of this moment."""
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped, unused-ignore]

        try:
            frozen = self._found().get_frozen_credentials()
        except BotoCoreError as error:  # its own words may hold what a credential process said
            raise self._none(f": {_spaced(type(error).__name__)}") from None
        self._secrets = tuple(Secret(v) for v in (frozen.access_key, frozen.secret_key, frozen.token) if v)
        return frozen

    def _found(self) -> Any:
        from botocore.session import Session  # type: ignore[import-untyped, unused-ignore]

        with self._loading:
            if self._credentials is None:
                self._credentials = Session(profile=self._profile).get_credentials()
            if self._credentials is None:
                raise self._none(" were found")
            return self._credentials

    def _none(self, why: str) -> ApiError:
        """Nothing was sent, so nobody has refused anything: the fault is in how this server is set up."""
        whose = f" for the profile {self._profile}" if self._profile is not None else ""
        text = f"no AWS credentials{whose}{why}; {_ADVICE}"
        return ApiError(Kind.INTERNAL, text, code="no_credentials", provider=self._provider)


def profile_fault(profile: str | None) -> str | None:
    """What is wrong with a profile, as AWS's own configuration has it; None if nothing.  Reads files alone.

    Without one, that is the one that the environment names.
    """
    from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped, unused-ignore]
    from botocore.session import Session  # type: ignore[import-untyped, unused-ignore]

    session = Session(profile=profile)
    try:
        session.get_scoped_config()
    except BotoCoreError as error:
        return f"AWS's configuration, profile {session.profile or 'default'}: {_spaced(type(error).__name__)}"
    return None


def _spaced(name: str) -> str:
    """ "ProfileNotFound" -> "profile not found"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
