"""An HTTP upstream of any dialect, as a `Provider`.

    open   build_request -> send -> head arrives -> refused (status), a stream, or one whole document
    read   one read of the socket -> reader -> decoder -> one Batch
    close  the socket is closed unless the answer was complete, so that the upstream stops working (F31)

What comes back follows its content type, not what was asked (F7): a document for a stream is unfolded into events, a
stream for a document is decoded, and whoever reads folds it.  No clock but connect's runs here: the engine has them
and cancels.  Headers to the upstream are made here; nothing of the client's travels on (F36), but for the name of its
trace while traces are on (`CALL_HEADERS`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Final
from urllib.parse import quote, urljoin

import msgspec

import rivermouth
from rivermouth.dialects.dialect import Dialect, Outgoing
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.providers.answers import Document, Stream, beginning, whole
from rivermouth.providers.client import AiohttpClient, Client, Response
from rivermouth.providers.failures import Failures, retry_after_s
from rivermouth.providers.lean import LeanClient
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound, proxy_for
from rivermouth.providers.provider import CALL_HEADERS, NOTHING, Lease, Upstream
from rivermouth.providers.quirks import bend, lists
from rivermouth.providers.signing import Signer
from rivermouth.secrets import Secret

ERROR_CAP_BYTES: Final = 64 * 1024
MODELS_S: Final = 10.0

JSON: Final = "application/json"
STREAM_TYPES: Final = frozenset(
    {"text/event-stream", "application/x-ndjson", "application/jsonl", "application/vnd.amazon.eventstream"}
)
PAGE_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})


class HttpTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where an upstream lives and how it wants to be called.

    base_url: what the dialect's paths are appended to.  headers: sent with each request.  ca_file: an authority to
    trust besides the system's.  outbound: the way out.  connect_s: until the connection stands, TLS included.
    quirks: words of `quirks`.  signer: signs each request, where the vendor wants more than a key.  key_header: where
    the key goes, if not where the dialect has it.  api_version: of Azure's API whose paths name the model as a
    deployment.
    """

    name: str
    dialect: Dialect
    base_url: str
    api_key: str | None = None
    headers: Mapping[str, str] = {}
    ca_file: str | None = None
    outbound: Outbound = FROM_ENVIRONMENT
    connect_s: float = 10.0
    quirks: tuple[str, ...] = ()
    signer: Signer | None = None
    key_header: str | None = None
    api_version: str | None = None

    def __repr__(self) -> str:
        return f"HttpTarget({self.name!r}, {self.dialect.name!r})"


class Shape(Enum):
    """What an answer's body is."""

    STREAM = "stream"
    DOCUMENT = "document"
    PAGE = "page"


def shape_of(content_type: str, stream: bool, stream_types: frozenset[str]) -> Shape:
    """What the body is: by its media type where that says it, else what was asked for.

    JSON is a stream only for a dialect that streams under that name (R1).  A web page is never an answer.
    """
    media = _media(content_type)
    if media in STREAM_TYPES:
        return Shape.STREAM
    if media == JSON:
        return Shape.STREAM if stream and JSON in stream_types else Shape.DOCUMENT
    if media in PAGE_TYPES:
        return Shape.PAGE
    return Shape.STREAM if stream else Shape.DOCUMENT


class HttpProvider:
    """`Provider` for one target.  `client` replaces the HTTP client."""

    def __init__(self, target: HttpTarget, client: Client | None = None) -> None:
        self.name = target.name
        self.dialect: str | None = target.dialect.name
        self._target = target
        self._speaks = target.dialect
        self._base = target.base_url.rstrip("/")
        proxied = proxy_for(target.base_url, target.outbound)[0] is not None
        connect = AiohttpClient if proxied else LeanClient
        self._client: Client = client or connect(
            target.name,
            target.base_url,
            connect_s=target.connect_s,
            ca_file=target.ca_file,
            outbound=target.outbound,
        )
        self._stream_types = frozenset(_media(s.stream_type) for s in target.dialect.surfaces)
        streams = sorted(self._stream_types & STREAM_TYPES) or [JSON]
        self._headers = {True: headers_for(target, streams[0]), False: headers_for(target, JSON)}
        self._closed = False
        self._signer = target.signer
        own = [_plain(target.api_key or ""), *map(_plain, target.headers.values())]
        self._failures = Failures(target.name, own, target.signer.secrets if target.signer is not None else tuple)

    async def prepare(self, request: Request | EmbedRequest, model: str) -> Lease:
        """Nothing: an HTTP upstream is ready or says so."""
        return NOTHING

    async def open(
        self, request: Request, model: str, lease: Lease = NOTHING, *, same_dialect: bool, warn: Callable[[str], None]
    ) -> Upstream:
        stream, dialect = request.stream, self._speaks
        outgoing = self._placed(bend(dialect.build_request(request, model), self._target.quirks), model)
        for loss in outgoing.losses:
            warn(loss)
        response = await self._ask("POST", outgoing, stream=stream)
        shape = shape_of(response.headers.get("content-type", ""), stream, self._stream_types)
        if shape is Shape.STREAM:
            return Stream(response, dialect, request, self._failures, relay=same_dialect and stream)
        if shape is Shape.DOCUMENT:
            return Document(response, dialect, request, self._failures, same_dialect=same_dialect)
        await response.close(complete=False)
        raise self._failures.failure(Kind.UPSTREAM, "the upstream answered with a web page; is its base_url right?")

    async def embed(
        self, request: EmbedRequest, model: str, lease: Lease = NOTHING, *, warn: Callable[[str], None]
    ) -> EmbedReply:
        build, parse = self._speaks.build_embed, self._speaks.parse_embed_reply
        if build is None or parse is None:
            raise self._failures.failure(Kind.NOT_FOUND, f"{self.name} has no embeddings")
        outgoing = self._placed(build(request, model), model)
        for loss in outgoing.losses:
            warn(loss)
        return self._failures.parsed(parse, await self._document("POST", outgoing))

    async def models(self) -> list[ModelInfo]:
        path, parse = self._speaks.models_path, self._speaks.parse_models
        if parse is None or self._target.api_version is not None or not lists(self._target.quirks):
            raise self._failures.failure(Kind.NOT_FOUND, f"{self.name} cannot list its models")
        try:
            async with asyncio.timeout(MODELS_S):
                body = await self._document("GET", Outgoing(path=path, body=b""))
        except TimeoutError:
            text = f"no list of models within {MODELS_S:g} s"
            raise ApiError(Kind.TIMEOUT, text, clock="total", provider=self.name) from None
        return self._failures.parsed(parse, body)

    async def close(self) -> None:
        """Also against whoever asks late, as for a list of models: no connection is made any more."""
        self._closed = True
        await self._client.close()

    async def _ask(self, method: str, outgoing: Outgoing, *, stream: bool) -> Response:
        """The answer, if its status says success.  Raises `ApiError`."""
        if self._closed:
            raise self._failures.failure(Kind.NETWORK, f"{self.name} is not in the configuration any more")
        headers = self._headers[stream]
        if outgoing.headers:
            headers = {**headers, **{name.lower(): value for name, value in outgoing.headers.items()}}
        url = self._url(outgoing.path)
        if self._signer is not None:
            headers = {**headers, **await self._signer.sign(method, url, headers, outgoing.body)}
        if method == "POST" and (told := CALL_HEADERS.get()()):  # not signed: proxies may change them
            headers = {**told, **headers}
        response = await self._client.open(method, url, headers, outgoing.body or None)
        if not 200 <= response.status < 300:
            raise await self._refused(response)
        return response

    def _placed(self, outgoing: Outgoing, model: str) -> Outgoing:
        """The request at the path that it has there."""
        version = self._target.api_version
        if version is None:
            return outgoing
        path = f"/deployments/{quote(model, safe='')}{outgoing.path}?api-version={version}"
        return msgspec.structs.replace(outgoing, path=path)

    def _url(self, path: str) -> str:
        """A path below base_url; one that begins with `/../` is beside it, where a vendor's other protocol lives."""
        return urljoin(f"{self._base}/", path[1:]) if path.startswith("/../") else self._base + path

    async def _refused(self, response: Response) -> ApiError:
        """What an answer that is no success says."""
        status, headers = response.status, response.headers
        body, complete = b"", False
        try:
            if status >= 400:
                body, complete = await beginning(response, ERROR_CAP_BYTES)
        except ApiError:
            body = b""  # cut; the status already says that it failed
        finally:
            await response.close(complete=complete)
        if status < 400:
            return self._failures.failure(Kind.UPSTREAM, f"the upstream answered with status {status}, not followed")
        error = self._failures.cleaned(self._speaks.parse_error(status, headers, body))
        told = retry_after_s(headers, datetime.now(UTC))
        if told is not None:  # else what the body said, where a protocol says it there
            error.retry_after_s = told
        return error

    async def _document(self, method: str, outgoing: Outgoing) -> bytes:
        """The body of an answer that is one document."""
        response = await self._ask(method, bend(outgoing, self._target.quirks), stream=False)
        complete = False
        try:
            body = await whole(response, self._failures)
            complete = True
        finally:
            await response.close(complete=complete)
        return body


def headers_for(target: HttpTarget, accept: str) -> dict[str, str]:
    """All headers of a request but Host and Content-Length; names in lower case, the configured ones win."""
    key: Mapping[str, str] = {}
    if target.api_key is not None:
        plain = _plain(target.api_key)
        key = {target.key_header: plain} if target.key_header is not None else target.dialect.auth(plain)
    made = {
        "content-type": JSON,
        "accept": accept,
        "accept-encoding": "identity",
        "user-agent": f"rivermouth/{rivermouth.__version__}",
    }
    for extra in (key, target.headers):
        made.update((name.lower(), _plain(value)) for name, value in extra.items())
    return made


def _media(content_type: str) -> str:
    """The media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def _plain(value: str) -> str:
    """A secret's value; any other text as it is."""
    return value.reveal() if isinstance(value, Secret) else value
