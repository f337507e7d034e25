"""Anthropic Messages, both directions.

Spec: https://platform.claude.com/docs/en/api/messages, checked 2026-11, and the vendor's own SDKs.

Where a reader starts:

    parse    a client's body -> Request           build    Request -> an upstream's body  (turns: its messages)
    decoder  an upstream's stream -> events       encoder  events -> a client's stream    (relay: both at once)
    reply    whole answers, both ways             errors, models, usage: likewise
    tables   every word that is translated        opaque   signatures and ids that only travel
    content  a request's blocks                   fields   where in it a fault is          limits  headers

Oddities
O1   input_tokens comes with message_start and leaves cached tokens out; output_tokens is cumulative in message_delta.
O2   Events without an `event:` line are dropped by the SDKs, so every frame has one.
O3   `index` is a position in a list: dense, one open block at a time, so interleaved parts are put in order.
O4   Tool input streams as pieces of JSON text; none at all means {}.
O5   A thinking block's signature comes once, right before its stop, and goes back only to the model that made it.
O6   `ping` may come anywhere; `error` may come instead of the end, and then nothing follows it.
O7   max_tokens is required; a forced tool choice and thinking exclude each other.
O8   All results of a turn's calls are in the one user turn after it, first, whatever order they came in.
O9   GET /v1/models is OpenAI's too: without the prefix it is ours only with the header `anthropic-version`.
O10  A key comes as x-api-key or as a bearer token, by SDK version; x-api-key wins.
O11  Clients append /v1 themselves; those told a base with /v1 ask /v1/v1.
"""

from __future__ import annotations

from collections.abc import Mapping

from rivermouth.dialects.anthropic.build import build_request
from rivermouth.dialects.anthropic.decoder import Decoder
from rivermouth.dialects.anthropic.encoder import Encoder
from rivermouth.dialects.anthropic.errors import encode_error, parse_error
from rivermouth.dialects.anthropic.limits import limit_headers
from rivermouth.dialects.anthropic.models import MODELS_PATH, encode_model, encode_models, parse_models
from rivermouth.dialects.anthropic.parse import NAME, parse_request
from rivermouth.dialects.anthropic.relay import Relay, relay_reply
from rivermouth.dialects.anthropic.reply import encode_reply, parse_reply
from rivermouth.dialects.anthropic.tables import LOSSES, VERSION
from rivermouth.dialects.dialect import ALWAYS, Dialect, Key, Operation, Route, Surface
from rivermouth.wire import json
from rivermouth.wire.sse import SseReader

STREAM_TYPE = "text/event-stream; charset=utf-8"
VERSION_HEADER = "anthropic-version"


def auth(key: str) -> Mapping[str, str]:
    """The headers of every call to an upstream."""
    return {"x-api-key": key, VERSION_HEADER: VERSION}


def encode_count(tokens: int) -> bytes:
    return json.encode({"input_tokens": tokens})


DIALECT = Dialect(
    name=NAME,
    surfaces=(
        Surface(prefix="/v1", stream_type=STREAM_TYPE),
        Surface(prefix="/anthropic/v1", stream_type=STREAM_TYPE, options=frozenset({ALWAYS})),
        Surface(prefix="/v1/v1", stream_type=STREAM_TYPE, options=frozenset({ALWAYS})),
        Surface(prefix="/anthropic/v1/v1", stream_type=STREAM_TYPE, options=frozenset({ALWAYS})),
    ),
    routes=(
        Route(method="POST", path="/messages", operation=Operation.GENERATE, kind="messages", streams=True),
        Route(method="POST", path="/messages/count_tokens", operation=Operation.COUNT_TOKENS, kind="count"),
        Route(method="GET", path="/models", operation=Operation.MODELS, when_header=VERSION_HEADER),
        Route(method="GET", path="/models/{model}", operation=Operation.MODEL, when_header=VERSION_HEADER),
    ),
    keys=(Key(header="x-api-key"), Key(header="authorization", scheme="Bearer")),
    keep_alive=b'event: ping\ndata: {"type":"ping"}\n\n',
    losses=LOSSES,
    parse_request=parse_request,
    encoder=Encoder,
    encode_reply=encode_reply,
    encode_error=encode_error,
    build_request=build_request,
    reader=SseReader,
    decoder=Decoder,
    parse_reply=parse_reply,
    parse_error=parse_error,
    auth=auth,
    relay=Relay,
    relay_reply=relay_reply,
    passed_headers=frozenset({"anthropic-beta", VERSION_HEADER}),
    models_path=MODELS_PATH,
    parse_models=parse_models,
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=encode_count,
    limit_headers=limit_headers,
)
