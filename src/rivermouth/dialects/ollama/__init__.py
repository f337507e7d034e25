"""Ollama, both directions.   Spec: docs/api.md and api/types.go of ollama/ollama, the Python SDK 0.6; checked 2026-11.

Oddities
O1  `stream` absent means true for generate, chat and pull.
O2  No messages (chat) or an empty prompt (generate) only loads the model, with keep_alive 0 unloads it: one JSON object
    without counters, even when a stream was asked for (`encode.standby`, `encode.encode_standby`).
O3  Every chat frame, the last included, has `message` with `role`; the Python SDK refuses a frame without it.
O4  Tool arguments are an object, never text; what is no valid object is passed on as text (`calls`).
O5  Tool calls end with `stop`, and most clients and upstreams leave out their ids: we make them, from positions.
O6  Zero counters are left out on the wire, so absent means "not said" when we read and "0 or unknown" when we write.
O7  An error in a stream is `{"error":"..."}` and the last line; a stream that ends without `done: true` was cut.
O8  Images are bare base64 without a media type.  In answers there is no place that the SDK can read, so they are
    Markdown in the text.  Reasoning signatures have no place either, and are left out.
O9  Nothing can be sent while waiting: a blank line breaks the Python SDK.
O10 The media type is the surface's, the bytes are the same (R1); `Accept` says application/json even for streams.
O11 `suffix`, `template` and `context` of generate have no neutral form; only an Ollama upstream may get such a request.
"""

from __future__ import annotations

from rivermouth.dialects.dialect import Dialect, Key, Operation, Route, Surface
from rivermouth.dialects.ollama.decode import Decoder, parse_reply, read_reply
from rivermouth.dialects.ollama.documents import (
    encode_model,
    encode_models,
    encode_version,
    parse_copy,
    parse_models,
    parse_named,
)
from rivermouth.dialects.ollama.embed import build_embed, encode_embed, parse_embed, parse_embed_reply
from rivermouth.dialects.ollama.encode import Encoder, encode_reply, encode_standby
from rivermouth.dialects.ollama.failure import encode_error, parse_error
from rivermouth.dialects.ollama.pull import encode_progress, parse_pull
from rivermouth.dialects.ollama.relay import Relay, relay_reply
from rivermouth.dialects.ollama.request import parse_request
from rivermouth.dialects.ollama.tables import LOSSES, NAME
from rivermouth.dialects.ollama.upstream import build_request
from rivermouth.wire.ndjson import NdjsonReader


def auth(key: str) -> dict[str, str]:
    """The headers that carry a provider's key; an Ollama of one's own needs none."""
    return {"Authorization": f"Bearer {key}"} if key else {}


_POST = (
    ("/generate", Operation.GENERATE, "generate", True),
    ("/chat", Operation.GENERATE, "chat", True),
    ("/embed", Operation.EMBED, "embed", False),
    ("/embeddings", Operation.EMBED, "embeddings", False),
    ("/pull", Operation.PULL, "pull", True),
    ("/show", Operation.MODEL, "show", False),
    ("/copy", Operation.COPY, "copy", False),
)
_READ = (
    ("GET", "/tags", Operation.MODELS, "tags"),
    ("HEAD", "/tags", Operation.MODELS, "tags"),
    ("GET", "/ps", Operation.RUNNING, "ps"),
    ("GET", "/version", Operation.VERSION, "version"),
    ("HEAD", "/version", Operation.VERSION, "version"),
    ("DELETE", "/delete", Operation.DELETE, "delete"),
)

DIALECT = Dialect(
    name=NAME,
    surfaces=(
        Surface(prefix="/api", stream_type="application/x-ndjson"),
        Surface(prefix="/ollama/api", stream_type="application/json"),
    ),
    routes=(
        *(Route(method="POST", path=path, operation=op, kind=kind, streams=s) for path, op, kind, s in _POST),
        *(Route(method=method, path=path, operation=op, kind=kind) for method, path, op, kind in _READ),
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
    decoder=lambda request: Decoder(),
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
    models_path="/tags",
    parse_models=parse_models,
    encode_models=encode_models,
    encode_model=encode_model,
    documents={
        Operation.GENERATE: encode_standby,
        Operation.PULL: encode_progress,
        Operation.VERSION: encode_version,
    },
    bodies={
        Operation.PULL: parse_pull,
        Operation.MODEL: parse_named,
        Operation.COPY: parse_copy,
        Operation.DELETE: parse_named,
    },
)
