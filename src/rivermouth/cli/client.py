"""A client of a Rivermouth, small enough for a terminal: the standard library's HTTP and our own decoder.

One connection for each request, no redirects, no proxy.  Every failure is an `ApiError`; one of the connection is
`network`.  Leaving a stream early closes its socket, which is how the server learns that nobody listens any more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Error, Event, Finish
from rivermouth.ir.reply import ModelInfo
from rivermouth.ir.request import Request
from rivermouth.secrets import Secret
from rivermouth.wire import json

T = TypeVar("T")

PROBE_S: Final = 5.0
"""A server on a loaded machine answers late; one that is not there refuses at once."""
CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
STREAM_S: Final = 120.0
"""Without a byte for so long, keep-alives included, the server is not there any more."""
READ_BYTES: Final = 1 << 16
BODY_CAP_BYTES: Final = 16 << 20
SURFACE: Final = "/v1"


class Client:
    """`url` is the server's address without a dialect's prefix, as in http://127.0.0.1:8080.

    own: it is a server of this machine, asked by its address: its certificate, which names it otherwise, is not judged.
    Then nothing secret may be sent.
    """

    def __init__(self, url: str, key: Secret | None = None, *, own: bool = False) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ApiError(Kind.INVALID_REQUEST, f"{url!r} is no address of a server, as in http://127.0.0.1:8080")
        self.url = url.rstrip("/")
        self._connect: Callable[..., HTTPConnection] = HTTPConnection
        if parts.scheme == "https":
            self._connect = partial(HTTPSConnection, context=_unjudged()) if own else HTTPSConnection
        try:
            self._address = (parts.hostname, parts.port)
        except ValueError as error:
            raise ApiError(Kind.INVALID_REQUEST, f"{url!r}: {error}") from None
        self._base = parts.path.rstrip("/")
        self._key = key

    def health(self) -> dict[str, Any] | None:
        """What the server says of itself; None when nobody answers there, or somebody who is no Rivermouth."""
        try:
            with self._asked("GET", "/health", timeout_s=PROBE_S) as response:
                said = json.decode(_body(response))
        except (ApiError, WireError):
            return None
        return said if isinstance(said, dict) and {"status", "inflight", "version"} <= said.keys() else None

    def get(self, path: str) -> Any:
        """The JSON document at `path`.  Raises `ApiError`."""
        return self._document(path, json.decode)

    def models(self) -> list[ModelInfo]:
        """What can be asked for.  Raises `ApiError`."""
        assert DIALECT.parse_models is not None
        return self._document(SURFACE + DIALECT.models_path, DIALECT.parse_models)

    def owner(self, model: str) -> str | None:
        """Who has that model; None where the server knows none of that name, or does not say.  Raises `ApiError`."""
        try:
            said = self.get(f"{SURFACE}{DIALECT.models_path}/{quote(model, safe='')}")
        except ApiError as error:
            if error.kind is not Kind.NOT_FOUND:
                raise
            return None
        owner = said.get("owned_by") if isinstance(said, dict) else None
        return owner if isinstance(owner, str) else None

    def stream(self, request: Request) -> Generator[Event, None, None]:
        """The events of one answer; the last is `Finish`.  Raises `ApiError` for a bad end, before it or in it."""
        outgoing = DIALECT.build_request(request, request.model)
        reader, decoder = DIALECT.reader(), DIALECT.decoder(request)
        with self._asked("POST", SURFACE + outgoing.path, outgoing.body, STREAM_S) as response:
            _refuse_bad(response)
            ended = False
            while not ended:
                data = response.read1(READ_BYTES)
                events = [event for frame in reader.feed(data) for event in decoder.feed(frame)]
                events += [] if data else decoder.eof()
                ended = not data
                for event in events:
                    if isinstance(event, Error):
                        raise event.error
                    yield event
                    ended = ended or isinstance(event, Finish)

    def _document(self, path: str, parse: Callable[[bytes], T]) -> T:
        with self._asked("GET", path) as response:
            _refuse_bad(response)
            return parse(_body(response))

    @contextmanager
    def _asked(
        self, method: str, path: str, body: bytes | None = None, timeout_s: float = ANSWER_S
    ) -> Iterator[HTTPResponse]:
        connection = self._connect(*self._address, timeout=min(timeout_s, CONNECT_S))
        try:
            connection.connect()
            connection.sock.settimeout(timeout_s)
            connection.request(method, self._base + path, body, self._headers())
            yield connection.getresponse()
        except (OSError, HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ApiError(Kind.NETWORK, f"{self.url} does not answer: {why}") from error
        except WireError as error:
            raise ApiError(Kind.UPSTREAM, f"{self.url} answers in another protocol: {error}") from error
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "user-agent": "rivermouth"}
        return headers | dict(DIALECT.auth(self._key.reveal())) if self._key is not None else headers


def _unjudged() -> Any:
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _refuse_bad(response: HTTPResponse) -> None:
    if response.status != 200:
        headers: Mapping[str, str] = {name.lower(): value for name, value in response.getheaders()}
        raise DIALECT.parse_error(response.status, headers, _body(response))


def _body(response: HTTPResponse) -> bytes:
    """The whole body, as long as it is no longer than a document of ours can be."""
    data = response.read(BODY_CAP_BYTES + 1)
    if len(data) > BODY_CAP_BYTES:
        raise WireError(f"a document is larger than {BODY_CAP_BYTES} bytes")
    return data
