"""OpenAI Chat Completions, Embeddings and Models, both directions.

Spec: https://platform.openai.com/docs/api-reference/chat, checked 2026-11, and what its many servers really send.
To be read in this order: shapes, tables; parse with messages, build with outgoing or carried; decoder with calls and
template, encoder, relay with splice, opaque; reply, usage, failures; embeddings, models.

    stream := chunk+ [usage chunk] "data: [DONE]"       no event names; id, created and model the same in every chunk
    choice := first {role}, then {content} | {refusal} | {reasoning_content} | {tool_calls}, last {} + finish_reason
    failed := chunk* data: {"error":{...}}              and neither [DONE] nor anything else

Oddities
O1   SDKs join strings of one key over all chunks: role, tool ids and names go out once, arguments in pieces.
O2   SDKs keep choices, calls and details by position: indices are dense, and choice 0 opens before choice 1.
O3   `[DONE]` alone is no proof: without a finish_reason for every choice the stream was cut.  SDKs do not notice.
O4   usage comes after the finish chunk with `choices: []`, or on it, or in a choice; the last one counts, and in what
     goes out nothing may follow it.
O5   Servers omit or repeat the id and the index of calls, send null arguments, objects instead of text, several calls
     in one delta, several whole calls under index 0.  Missing ids are derived from the stream's own id.
O6   Deltas of parallel calls may interleave: calls stay open until the choice ends.
O7   finish_reason may say stop although tools were called: the truth is derived from what was emitted.
O8   Reasoning is no part of the spec: `reasoning_content` (sent here), `reasoning` and `reasoning_details[]` are read,
     and counted once.  Signatures and hidden reasoning travel in `reasoning_details`, both ways.
O9   How hard to think is `reasoning_effort`; `reasoning` and `thinking` of other vendors are read too.
O10  `content` of a delta may be a list of parts, with thinking among them; `message` may stand for `delta`.
O11  Images that a model makes come in `images[]`, which is no part of the spec either.
O12  Free-form (custom) tools are wrapped as functions of one text and unwrapped on the way back; their calls are sent
     whole.  `functions` and `function_call` of before 2023 are read as tools and answered in their own form.
O13  Some servers leave the reasoning out of completion_tokens and count it in total_tokens only.
O14  Errors are `{"error": {...}}` before the stream and in it; also a text, a bare object, `detail` of a web
     framework, `event: error`, an error within a choice, or a finish_reason that says so.
O15  A stream may begin with a chunk that has neither choices nor an id (verdicts of a filter on the prompt).
O16  Azure's clients have the model in the path, as a deployment, and a version in the query, which says nothing here;
     what the body names beside that is not looked at.  Their key is in a header of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rivermouth.dialects.dialect import ROLE_WITH_CONTENT, Dialect, Key, Operation, Route, Surface
from rivermouth.dialects.openai_chat.build import LOSSES, NAME, PATH, build_request
from rivermouth.dialects.openai_chat.decoder import Decoder
from rivermouth.dialects.openai_chat.embeddings import PATH as EMBEDDINGS
from rivermouth.dialects.openai_chat.embeddings import build_embed, encode_embed, parse_embed, parse_embed_reply
from rivermouth.dialects.openai_chat.encoder import Encoder
from rivermouth.dialects.openai_chat.failures import encode_error
from rivermouth.dialects.openai_chat.models import encode_model, encode_models
from rivermouth.dialects.openai_chat.parse import parse_request
from rivermouth.dialects.openai_chat.relay import Relay, relay_reply
from rivermouth.dialects.openai_chat.reply import encode_reply, parse_reply, read_reply
from rivermouth.vendors.openai.failures import parse_error
from rivermouth.vendors.openai.limits import limit_headers
from rivermouth.vendors.openai.models import parse_models
from rivermouth.wire import sse

DEPLOYMENT: Final = "/deployments/{model}"
_OPENAIS: Final = frozenset({PATH, EMBEDDINGS})
_AZURES: Final = frozenset(DEPLOYMENT + path for path in _OPENAIS)
STREAM_TYPE: Final = "text/event-stream; charset=utf-8"


def auth(key: str) -> Mapping[str, str]:
    """The headers that carry a provider's key."""
    return {"authorization": f"Bearer {key}"}


DIALECT: Final = Dialect(
    name=NAME,
    surfaces=(
        Surface(prefix="/v1", stream_type=STREAM_TYPE, lacks=_AZURES),
        Surface(prefix="/openai/v1", stream_type=STREAM_TYPE, options=frozenset({ROLE_WITH_CONTENT}), lacks=_AZURES),
        Surface(prefix="/openai", stream_type=STREAM_TYPE, options=frozenset({ROLE_WITH_CONTENT}), lacks=_OPENAIS),
    ),
    routes=(
        Route(method="POST", path=PATH, operation=Operation.GENERATE, kind="chat", streams=True),
        Route(method="POST", path=EMBEDDINGS, operation=Operation.EMBED),
        Route(method="POST", path=DEPLOYMENT + PATH, operation=Operation.GENERATE, kind="chat", streams=True),
        Route(method="POST", path=DEPLOYMENT + EMBEDDINGS, operation=Operation.EMBED),
        Route(method="GET", path="/models", operation=Operation.MODELS),
        Route(method="GET", path="/models/{model}", operation=Operation.MODEL),
    ),
    keys=(Key(header="authorization", scheme="Bearer"), Key(header="x-api-key"), Key(header="api-key")),
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
    parse_embed=parse_embed,
    encode_embed=encode_embed,
    build_embed=build_embed,
    parse_embed_reply=parse_embed_reply,
    parse_models=parse_models,
    encode_models=encode_models,
    encode_model=encode_model,
    limit_headers=limit_headers,
)
