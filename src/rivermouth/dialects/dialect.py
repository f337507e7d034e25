"""The contract of a dialect: what one vendor file must bring to be served, and to be called, by the one core.

A dialect module ends with `DIALECT = Dialect(...)`; `dialects.discover()` finds it.  Everything in it is a plain
function or a small state machine: bytes in, values out; clocks, ids and model names arrive as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from rivermouth.ir.allowance import Allowance
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Event
from rivermouth.ir.reply import EmbedReply, ModelInfo, Reply
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.wire.frame import Frame, Reader


class Operation(StrEnum):
    """What a route does.  The HTTP side has one handler for each; a dialect only says where they live."""

    GENERATE = "generate"
    EMBED = "embed"
    COUNT_TOKENS = "count_tokens"
    MODELS = "models"
    MODEL = "model"
    RUNNING = "running"
    VERSION = "version"
    INFO = "info"
    HEALTH = "health"
    PULL = "pull"
    COPY = "copy"
    DELETE = "delete"
    KEPT = "kept_answer"
    KEPT_DELETE = "delete_kept_answer"
    KEPT_CANCEL = "cancel_kept_answer"
    KEPT_INPUT = "input_of_kept_answer"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One path of a dialect below its surface's prefix.

    path: as in "/chat/completions"; "{model}" takes all that stands between what is around it, slashes included, as in
    "/models/{model}" or "/models/{model}:generateContent"; so does "{id}", where it is no model that is named.
    kind: handed to the dialect's parsers and encoders, which use it to tell sibling routes apart ("chat", "generate").
    streams: whether `stream: true` is meaningful here (R14).  when_header: this route only exists for requests that
    carry this header (R2: `anthropic-version` decides who owns /v1/models).
    """

    method: str
    path: str
    operation: Operation
    kind: str = ""
    streams: bool = False
    when_header: str | None = None


# What a surface may have in its `options`.
ALWAYS: Final = "always"
"""The surface is the dialect's own: its routes are there whether or not `Route.when_header` came."""
ROLE_WITH_CONTENT: Final = "role-with-content"
"""The first delta has an empty content beside the role (R3)."""
ROLE_EVERY: Final = "role-every"
"""Every delta has the role (R3)."""
FINISH_EVERY: Final = "finish-every"
"""Every frame says that the stream ends, the last one truly (R9)."""


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """A place where a dialect is mounted.

    stream_type: the media type of its streams (R1).  stream_headers: further headers of theirs, in lower case.
    home: the path below which everything is the dialect's, also what it does not serve; without it the prefix.
    lacks: routes that are not there, by their path.
    """

    prefix: str
    stream_type: str
    options: frozenset[str] = frozenset()
    stream_headers: tuple[tuple[str, str], ...] = ()
    home: str | None = None
    lacks: frozenset[str] = frozenset()


class Answer(msgspec.Struct, kw_only=True):
    """What an encoder knows of the call it speaks for.

    id: the call's id.  model: the name the client asked for.  created_ns: Unix nanoseconds.
    routing: the routing block's key and content, set before the last event is fed (R5); None sends none.
    total_ns: from the call's start to its end, set before the last event is fed.
    input_estimate: prompt tokens as counted here, for dialects that say them first.
    """

    id: str
    model: str
    created_ns: int
    surface: Surface
    kind: str = ""
    request: Request | None = None
    routing: tuple[str, dict[str, Any]] | None = None
    total_ns: int = 0
    input_estimate: int = 0


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A request to an upstream: path below its base_url, body, extra headers; `losses`: what could not be carried."""

    path: str
    body: bytes
    headers: Mapping[str, str] = {}
    losses: tuple[str, ...] = ()


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What `Operation.INFO` tells.  model: the one that answers where none is named."""

    version: str
    model: ModelInfo


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error as an HTTP answer.  The media type is application/json; Retry-After is added by the edge."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class Decoder(Protocol):
    """An upstream's frames to events.  Pure: same frames in, same events out, whatever the reads were.

    It may have `plain() -> tuple[int, Stencil] | None`: which part's next `TextDelta` a frame that fits is, now; such a
    frame leaves its state as it is.
    """

    def feed(self, frame: Frame) -> list[Event]:
        """The events of one frame; after Finish or Error always [].  Raises `WireError` on a malformed frame."""
        ...

    def eof(self) -> list[Event]:
        """The stream ended: [] if it was complete, else what closes it: one Error (F10)."""
        ...


class Encoder(Protocol):
    """Events to the bytes of a client's stream.  Deterministic: the same events give the same bytes.

    It may have `plain(part) -> Stencil | None`: what stands around the text of that part's next `TextDelta`, if such a
    delta leaves its state as it is.
    """

    def feed(self, events: list[Event]) -> bytes:
        """The bytes of these events, to be sent at once.  Finish brings the terminator; Error the in-stream error."""
        ...


class Relay(Protocol):
    """The same dialect on both sides: frames pass as they came, only the touched fields edited.

    It may have `plain(part, upstream) -> Stencil | None`, as an encoder, for a frame that fits the upstream's stencil.
    """

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        """The bytes for one upstream frame, given the events it decoded to."""
        ...

    def fail(self, error: ApiError) -> bytes:
        """The in-stream error, after closing what the relayed frames left open."""
        ...


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A place where clients of a dialect put their key: a header (with a scheme before it) or a query parameter.

    between: the key is not the whole value but what stands between these two texts in it, as the access key id does in
    a SigV4 signature.
    """

    header: str | None = None
    scheme: str = ""
    query: str | None = None
    between: tuple[str, str] | None = None


class Begun(NamedTuple):
    """How an answer begins that nobody waits for.  answer: as a document.  stream: its first events."""

    answer: bytes
    stream: bytes


class Ended(NamedTuple):
    """How an answer ended.  answer: as a document.  number: of the last event of its stream.

    failed: it did not come to its own end.
    """

    answer: bytes
    number: int
    failed: bool = False


class Turn(NamedTuple):
    """What was new in a kept request, as `Keeps.own` gave it, and the answer; None in the turn that is asked about."""

    call_id: str
    input: bytes
    answer: bytes | None


class Keeps(Protocol):
    """The words of a dialect whose answers may be kept: had again by an id, gone on from, made in the background.

    Everything is JSON text.  Ids are made from the call's, so that whose an id is can be told from it.
    """

    def answer_id(self, call_id: str) -> str:
        """What clients call the answer of that call."""
        ...

    def call_id(self, name: str) -> str | None:
        """The call whose answer it is, or whose item; None for an id that was not made here."""
        ...

    def begun(self, answer: Answer) -> Begun:
        """The answer before anything is known of it; the encoder begins with the same events."""
        ...

    def headless(self, stream: bytes) -> bytes | None:
        """What follows the events of `begun` at the beginning of a stream; None while nothing does."""
        ...

    def ended(self, stream: bytes) -> Ended | None:
        """What the last bytes of a stream say; None where they have no end of it."""
        ...

    def cancelled(self, stream: bytes) -> bytes:
        """The last bytes of a stream that failed, as those of one that was cancelled."""
        ...

    def interrupted(self, answer: bytes) -> bytes:
        """The answer of `begun`, as one that the end of the server cut off."""
        ...

    def replay(self, ended: Ended, after: int | None) -> bytes:
        """A stream that says what the answer says, where the first one is gone.  Its last event has its old number.

        after: the number of an event of the old stream: what follows that.
        """
        ...

    def seek(self, read: Callable[[int], bytes], first: int, end: int, after: int) -> int:
        """The offset of the first event behind that number, in the bytes of a stream from `first` to `end`.

        read: a piece from an offset on, not empty before `end`.  Raises `ApiError` where the number is not there (yet),
        or what follows it is not.
        """
        ...

    def own(self, fields: Mapping[str, msgspec.Raw], found: Mapping[str, bytes]) -> bytes:
        """The items of a request's input, as an array.  found: by id, what stands for references to kept items."""
        ...

    def item(self, turn: Turn, name: str) -> bytes | None:
        """The item of that id, of the input or of the answer."""
        ...

    def joined(self, fields: Mapping[str, msgspec.Raw], own: bytes, turns: Sequence[Turn]) -> bytes:
        """The body with the whole talk in it, the oldest turn first, and with nothing that only its keeper can read."""
        ...

    def input_items(self, turns: Sequence[Turn], query: Mapping[str, Sequence[str]]) -> bytes:
        """A page of what was read for the answer of the last turn.  Raises `ApiError` for a query that is none."""
        ...

    def deleted(self, answer_id: str) -> bytes:
        """What is said of an answer that is gone."""
        ...


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """One vendor's protocol, both directions.

    As a server: `routes` under each of `surfaces`; `parse_request(body, route, path_model)` -> Request;
    `encoder(answer)`; `encode_reply(reply, answer)`; `encode_error(error, call_id)`; `keep_alive` is what may be sent
    while waiting (None: nothing may).
    As a client: `build_request(request, model)` -> Outgoing; `reader()` and `decoder(request)` for streams;
    `parse_reply(body)`; `parse_error(status, headers, body)`, but for the header Retry-After, which the transport reads
    and which wins over what a body says.
    `read_reply(body)` gives the events that fold to `parse_reply(body)`, where the stream's decoder reads whole replies
    too: so what is only counted and passed on need not be folded first.
    `relay(answer)` joins the two when both sides speak it; `relay_reply(body, answer)` is its non-streaming twin.
    `losses`: request fields this dialect cannot carry, as `build_request` names them.
    `auth(key)` gives the headers that carry a provider's key; `models_path` and `parse_models` list its models.
    `passed_headers`: request headers (lower case) that a same-dialect upstream needs to understand the original body;
    the HTTP side puts those that came into `Original.headers`, `build_request` into `Outgoing.headers`.
    `variant(surface, route, query, headers)` is the surface as this request means it, where the framing depends on more
    than the path (R8, R20); the encoder sees its options, the client its `stream_type`.
    `reroute(route, body, model)` is the route that this body means, where one path does two things.
    `limit_headers(allowance, now_ns)` says in headers what a caller has left of its limits (Unix nanoseconds).
    `documents` encodes this dialect's other answers, by operation, as `function(value, answer) -> bytes`; the value is
    a `ServerInfo` for INFO and None for HEALTH.
    `keeps`: its answers may be kept; whoever keeps them takes `Request.kept` at its word.
    `bodies` parses its other requests (pull, copy, delete, show), by operation, as `function(body) -> value`.
    """

    name: str
    surfaces: tuple[Surface, ...]
    routes: tuple[Route, ...]
    keys: tuple[Key, ...]
    keep_alive: bytes | None
    losses: frozenset[str]

    parse_request: Callable[[bytes, Route, str | None], Request]
    encoder: Callable[[Answer], Encoder]
    encode_reply: Callable[[Reply, Answer], bytes]
    encode_error: Callable[[ApiError, str], Failure]

    build_request: Callable[[Request, str], Outgoing]
    reader: Callable[[], Reader]
    decoder: Callable[[Request], Decoder]
    parse_reply: Callable[[bytes], Reply]
    read_reply: Callable[[bytes], list[Event]] | None = None
    parse_error: Callable[[int, Mapping[str, str], bytes], ApiError]
    auth: Callable[[str], Mapping[str, str]]

    variant: Callable[[Surface, Route, Mapping[str, str], Mapping[str, str]], Surface] | None = None
    reroute: Callable[[Route, bytes, str | None], Route] | None = None
    relay: Callable[[Answer], Relay] | None = None
    relay_reply: Callable[[bytes, Answer], bytes] | None = None

    parse_embed: Callable[[bytes, Route, str | None], EmbedRequest] | None = None
    encode_embed: Callable[[EmbedReply, EmbedRequest, Answer], bytes] | None = None
    build_embed: Callable[[EmbedRequest, str], Outgoing] | None = None
    parse_embed_reply: Callable[[bytes], EmbedReply] | None = None
    passed_headers: frozenset[str] = frozenset()
    models_path: str = "/models"
    parse_models: Callable[[bytes], list[ModelInfo]] | None = None
    encode_models: Callable[[list[ModelInfo], Route], bytes] | None = None
    encode_model: Callable[[ModelInfo, Route], bytes] | None = None
    encode_count: Callable[[int], bytes] | None = None
    limit_headers: Callable[[Allowance, int], Mapping[str, str]] | None = None
    documents: Mapping[Operation, Callable[[Any, Answer], bytes]] = {}
    bodies: Mapping[Operation, Callable[[bytes], Any]] = {}
    keeps: Keeps | None = None
