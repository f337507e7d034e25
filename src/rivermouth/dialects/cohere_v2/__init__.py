"""Cohere's v2 protocol, both directions.

Spec: https://docs.cohere.com/reference/chat, checked 2026-11, and the vendor's own SDKs.

Where a reader starts:

    parse    a client's body -> Request           build    Request -> an upstream's body
    turns    its messages, read                   outgoing its messages, written
    decoder  an upstream's stream -> events       encoder  events -> a client's stream    (relay: both at once)
    reply    whole answers, both ways             embed    vectors, both ways
    frames   the stream's shapes                  tables   every word that is translated

Oddities
O1   The SDK drops a frame that does not fit its model, without an exception, and stops at lines above a MiB.
O2   `delta.message.tool_calls` is one object in the stream, a list in a reply.
O3   An error has no event of its own: it is a `message-end` with finish_reason ERROR and the words in `delta.error`.
O4   A filtered answer has no word either; it is an ERROR with fixed words, which are read back as what they mean.
O5   `tool_plan` is what the model says before its calls.  It is text, and goes back as `tool_plan`: text content beside
     calls is refused by the vendor.
O6   Content blocks and calls are counted apart; clients follow one call at a time, so parts do not interleave.
O7   Citations, documents' ids and debug frames have no neutral form: only a client of this dialect sees them.
O8   Thinking is refused in the history where thinking is not switched on, so it is only sent with it.
O9   A stop sequence is told, but not which.
O10  Neither streams nor replies say the model.  Models are listed by the older protocol, one directory up.
O11  `documents` are put before the user's last words for other upstreams; the citations are then missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from rivermouth.dialects.cohere_v2.build import build_request
from rivermouth.dialects.cohere_v2.decoder import Decoder
from rivermouth.dialects.cohere_v2.embed import build_embed, encode_embed, parse_embed, parse_embed_reply
from rivermouth.dialects.cohere_v2.encoder import Encoder
from rivermouth.dialects.cohere_v2.parse import parse_request
from rivermouth.dialects.cohere_v2.relay import Relay, relay_reply
from rivermouth.dialects.cohere_v2.reply import encode_reply, parse_reply
from rivermouth.dialects.cohere_v2.tables import LOSSES, NAME
from rivermouth.dialects.dialect import Dialect, Failure, Key, Operation, Route, Surface
from rivermouth.ir.errors import ApiError
from rivermouth.vendors.cohere.failures import error_document, read_error
from rivermouth.vendors.cohere.models import parse_models
from rivermouth.wire.sse import KEEP_ALIVE, SseReader

STREAM_TYPE = "text/event-stream; charset=utf-8"


def auth(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def encode_error(error: ApiError, call_id: str) -> Failure:
    return Failure(status=error.status, body=error_document(error, call_id))


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    return read_error(NAME, status, body)


DIALECT = Dialect(
    name=NAME,
    surfaces=(Surface(prefix="/cohere/v2", home="/cohere", stream_type=STREAM_TYPE),),
    routes=(
        Route(method="POST", path="/chat", operation=Operation.GENERATE, kind="chat", streams=True),
        Route(method="POST", path="/embed", operation=Operation.EMBED, kind="embed"),
    ),
    keys=(Key(header="authorization", scheme="Bearer"),),
    keep_alive=KEEP_ALIVE,
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
    parse_embed=parse_embed,
    encode_embed=encode_embed,
    build_embed=build_embed,
    parse_embed_reply=parse_embed_reply,
    models_path="/../v1/models?page_size=1000",
    parse_models=parse_models,
)
