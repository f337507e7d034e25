"""Google Gemini (the Developer API), both directions.

Spec: https://ai.google.dev/api/generate-content and the vendor's own SDKs (google-genai 3.6), checked 2026-11.

Where a reader starts:

    parse    a client's body -> Request  (contents: its messages)   build    Request -> an upstream's body  (turns)
    decoder  an upstream's stream -> events                         encoder  events -> a client's stream    (relay)
    reply    whole answers, both ways                               errors, models, embed, usage: likewise
    tables   every word that is translated                          opaque   thought signatures, which only travel
    proto    how lenient the JSON is                                framing  events or one array            (schema)
    shapes   the response object             (template: its copies)  names    of models, in the path

Oddities
O1   The model and the wish for a stream are in the path: models/{model}:streamGenerateContent.
O2   A stream is server-sent events with `alt=sse`; without it the vendor sends one JSON array, and so do the bare
     paths here, while those under /gemini send events (R20).  `alt=json` is the array everywhere.
O3   The SDK reads nothing but `data: ` lines: a comment, an `event:` or `[DONE]` is taken for JSON and raises.  So
     nothing can be sent while waiting.
O4   There is no terminator: the frame with finishReason is the end.  SDKs stop at the first one (R9).
O5   Tool calls end with STOP, come whole, and their args are an object; text would raise.  Ids are given here, since
     the SDK echoes them; responses without one are paired by name.
O6   A part must not be empty, or the SDK's chat drops the turn; the last frame holds an empty text instead.
O7   An error's first member is `error`, its code an integer; else the SDK sees an empty chunk, or raises TypeError.
O8   Thoughts are parts marked `thought`.  A thought signature may stand on any part, mostly on the first call, and
     newer models refuse a call of theirs without it; see `opaque`, and `turns.vouch` for calls that others made.
O9   Thoughts are counted beside the answer's tokens, and counts of 0 are left out.
O10  JSON is proto3's: snake_case too, numbers as text, one value for a list; schema types in upper case.
O11  Some ends are failures (MALFORMED_FUNCTION_CALL ...): an Error here, passed as they came to a client of this
     dialect.  A blocked prompt is an answer without candidates: a Finish (content_filter).
O12  Thoughts are shown whether or not `includeThoughts` was asked for: `response.text` leaves them out anyway.
O13  The SDK's default version is v1, other clients' v1beta; an empty one leaves no version in the path.
"""

from __future__ import annotations

from collections.abc import Mapping

from rivermouth.dialects.dialect import Dialect, Key, Operation, Route, Surface
from rivermouth.dialects.gemini.build import build_request
from rivermouth.dialects.gemini.decoder import Decoder
from rivermouth.dialects.gemini.embed import BATCH, SINGLE, build_embed, encode_embed, parse_embed, parse_embed_reply
from rivermouth.dialects.gemini.encoder import Encoder
from rivermouth.dialects.gemini.errors import encode_error, parse_error
from rivermouth.dialects.gemini.framing import ARRAY, ARRAY_TYPE, SSE_TYPE, StreamReader, variant
from rivermouth.dialects.gemini.models import MODELS_PATH, encode_model, encode_models, parse_models
from rivermouth.dialects.gemini.parse import STREAM, parse_request
from rivermouth.dialects.gemini.relay import Relay, relay_reply
from rivermouth.dialects.gemini.reply import encode_reply, parse_reply, read_reply
from rivermouth.dialects.gemini.tables import LOSSES, NAME
from rivermouth.wire import json


def auth(key: str) -> Mapping[str, str]:
    """The header that carries a provider's key; in the query it would end up in logs."""
    return {"x-goog-api-key": key}


def encode_count(tokens: int) -> bytes:
    return json.encode({"totalTokens": tokens})


_POST = (
    ("streamGenerateContent", Operation.GENERATE, STREAM, True),
    ("generateContent", Operation.GENERATE, "generate", False),
    ("countTokens", Operation.COUNT_TOKENS, "count", False),
    ("embedContent", Operation.EMBED, SINGLE, False),
    ("batchEmbedContents", Operation.EMBED, BATCH, False),
)

DIALECT = Dialect(
    name=NAME,
    surfaces=(
        *(Surface(prefix=f"/gemini{version}", stream_type=SSE_TYPE) for version in ("/v1beta", "/v1", "/v1alpha", "")),
        *(
            Surface(prefix=version, stream_type=ARRAY_TYPE, options=frozenset({ARRAY}))
            for version in ("/v1beta", "/v1alpha")
        ),
    ),
    routes=(
        *(
            Route(method="POST", path=f"/models/{{model}}:{method}", operation=operation, kind=kind, streams=streams)
            for method, operation, kind, streams in _POST
        ),
        Route(method="GET", path="/models", operation=Operation.MODELS),
        Route(method="GET", path="/models/{model}", operation=Operation.MODEL),
    ),
    keys=(Key(header="x-goog-api-key"), Key(query="key"), Key(header="authorization", scheme="Bearer")),
    keep_alive=None,
    losses=LOSSES,
    parse_request=parse_request,
    encoder=Encoder,
    encode_reply=encode_reply,
    encode_error=encode_error,
    build_request=build_request,
    reader=StreamReader,
    decoder=Decoder,
    parse_reply=parse_reply,
    read_reply=read_reply,
    parse_error=parse_error,
    auth=auth,
    variant=variant,
    relay=Relay,
    relay_reply=relay_reply,
    parse_embed=parse_embed,
    encode_embed=encode_embed,
    build_embed=build_embed,
    parse_embed_reply=parse_embed_reply,
    models_path=MODELS_PATH,
    parse_models=parse_models,
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=encode_count,
)
