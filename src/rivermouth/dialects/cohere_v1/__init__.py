"""Cohere's v1 protocol, both directions.

Spec: https://docs.cohere.com/v1/reference/chat, checked 2026-11, and the vendor's own SDKs.

Where a reader starts:

    parse    a client's body -> Request           build    Request -> an upstream's body
    turns    its talk, read                       outgoing its talk, written
    decoder  an upstream's stream -> events       encoder  events -> a client's stream    (relay: both at once)
    reply    whole answers, both ways             embed    vectors, both ways
    calls    calls, results and tool definitions  transcript  the answer that ends a stream
    tables   every word that is translated

Oddities
O1   A stream is one JSON object on each line, under the media type application/json (R21); `Accept` says nothing.
O2   The SDK swallows every line that it cannot parse, so a raw line separator in a text would lose it (F5).
O3   The last line repeats the whole answer; `response.text` is what the pieces say together.  An answer that is too
     long to be repeated cannot end well.
O4   The talk is divided into `chat_history` and what is new, `message` or `tool_results`; clients send back the
     `chat_history` of the last answer.
O5   Calls have neither ids nor a finish reason of their own; we add an `id`, see `calls`.
O6   Arguments are objects; what is no object is wrapped.  Results are lists of objects.
O7   Tools have Python types in place of a JSON schema; what these cannot say goes beside them.
O8   An error in a stream is a `stream-end` with finish_reason ERROR and the words beside it.
O9   There is no place for images, reasoning and a forced call; ERROR_LIMIT is the end of the context, not a failure.
O10  Nothing can be sent while waiting.
O11  The model may be left out, and is then the server's default.  Neither streams nor replies say it.
O12  Stream and reply have one media type, so a reader of either takes the other too.
O13  An embedding that was asked for without its types is a bare list, with them an object by type.
"""

from __future__ import annotations

from collections.abc import Mapping

from rivermouth.dialects.cohere_v1.build import build_request
from rivermouth.dialects.cohere_v1.decoder import Decoder
from rivermouth.dialects.cohere_v1.embed import build_embed, encode_embed, parse_embed, parse_embed_reply
from rivermouth.dialects.cohere_v1.encoder import Encoder
from rivermouth.dialects.cohere_v1.parse import parse_request
from rivermouth.dialects.cohere_v1.relay import Relay, relay_reply
from rivermouth.dialects.cohere_v1.reply import encode_reply, parse_reply, read_reply
from rivermouth.dialects.cohere_v1.tables import LOSSES, NAME
from rivermouth.dialects.dialect import Dialect, Failure, Key, Operation, Route, Surface
from rivermouth.ir.errors import ApiError
from rivermouth.ir.reply import ModelInfo
from rivermouth.vendors.cohere.failures import error_document, read_error
from rivermouth.vendors.cohere.models import parse_models, write_model
from rivermouth.wire import json
from rivermouth.wire.ndjson import NdjsonReader


def auth(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def encode_error(error: ApiError, call_id: str) -> Failure:
    return Failure(status=error.status, body=error_document(error, call_id))


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    return read_error(NAME, status, body)


def encode_models(models: list[ModelInfo], route: Route) -> bytes:
    """One page with all of them."""
    return json.encode({"models": [write_model(m) for m in models], "next_page_token": None})


def encode_model(model: ModelInfo, route: Route) -> bytes:
    return json.encode(write_model(model))


DIALECT = Dialect(
    name=NAME,
    surfaces=(Surface(prefix="/cohere/v1", stream_type="application/json"),),
    routes=(
        Route(method="POST", path="/chat", operation=Operation.GENERATE, kind="chat", streams=True),
        Route(method="POST", path="/embed", operation=Operation.EMBED, kind="embed"),
        Route(method="GET", path="/models", operation=Operation.MODELS, kind="models"),
        Route(method="GET", path="/models/{model}", operation=Operation.MODEL, kind="model"),
    ),
    keys=(Key(header="authorization", scheme="Bearer"),),
    keep_alive=None,
    losses=LOSSES,
    parse_request=parse_request,
    encoder=Encoder,
    encode_reply=encode_reply,
    encode_error=encode_error,
    build_request=build_request,
    reader=NdjsonReader,
    decoder=Decoder,
    parse_reply=parse_reply,
    read_reply=read_reply,
    parse_error=parse_error,
    auth=auth,
    relay=Relay,
    relay_reply=relay_reply,
    parse_embed=parse_embed,
    encode_embed=encode_embed,
    build_embed=build_embed,
    parse_embed_reply=parse_embed_reply,
    models_path="/models?page_size=1000",
    parse_models=parse_models,
    encode_models=encode_models,
    encode_model=encode_model,
)
