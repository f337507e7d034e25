"""OpenAI's old Completions, both directions: a text goes on.

Spec: https://platform.openai.com/docs/api-reference/completions, checked 2026-11, and what servers of base models send.

To be read in this order: shapes, tables, request; decoder, encoder, relay; reply, failures.

    stream := chunk+ [usage chunk] "data: [DONE]"       the same object in each chunk; `text` in pieces
    failed := chunk* data: {"error":{...}}              and neither [DONE] nor anything else

Oddities
O1   The prompt is a text, several texts, tokens, or several lists of tokens.  Only one text has a neutral form.
O2   There are as many choices as prompts times `n`, and their indices run across.
O3   A prompt is no talk: targets that only have talks take it as what the user says, which is the loss `raw`.
O4   `[DONE]` alone is no proof: without a finish_reason for every choice the stream was cut.
O5   Thoughts and calls have no place here; an answer never shows them as text.
O6   A chat that is sent to a server of this protocol is written as one text, line by line with the speakers' names.
O7   `echo`, `suffix`, `best_of` and `logprobs` are for a server of this protocol alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rivermouth.dialects.dialect import Dialect, Key, Operation, Route, Surface
from rivermouth.dialects.openai_completions.decoder import Decoder
from rivermouth.dialects.openai_completions.encoder import Encoder
from rivermouth.dialects.openai_completions.failures import encode_error
from rivermouth.dialects.openai_completions.relay import Relay, relay_reply
from rivermouth.dialects.openai_completions.reply import encode_reply, parse_reply, read_reply
from rivermouth.dialects.openai_completions.request import build_request, parse_request
from rivermouth.dialects.openai_completions.tables import LOSSES, NAME, PATH
from rivermouth.vendors.openai.failures import parse_error
from rivermouth.vendors.openai.limits import limit_headers
from rivermouth.vendors.openai.models import parse_models
from rivermouth.wire import sse

STREAM_TYPE: Final = "text/event-stream; charset=utf-8"


def auth(key: str) -> Mapping[str, str]:
    """The headers that carry a provider's key."""
    return {"authorization": f"Bearer {key}"}


DIALECT: Final = Dialect(
    name=NAME,
    surfaces=(
        Surface(prefix="/v1", stream_type=STREAM_TYPE),
        Surface(prefix="/openai/v1", stream_type=STREAM_TYPE),
    ),
    routes=(Route(method="POST", path=PATH, operation=Operation.GENERATE, kind="completions", streams=True),),
    keys=(Key(header="authorization", scheme="Bearer"), Key(header="x-api-key")),
    keep_alive=sse.KEEP_ALIVE,
    losses=LOSSES,
    parse_request=parse_request,
    encoder=Encoder,
    encode_reply=encode_reply,
    encode_error=encode_error,
    build_request=build_request,
    reader=sse.SseReader,
    decoder=Decoder,
    parse_reply=parse_reply,
    read_reply=read_reply,
    parse_error=parse_error,
    auth=auth,
    relay=Relay,
    relay_reply=relay_reply,
    parse_models=parse_models,
    limit_headers=limit_headers,
)
