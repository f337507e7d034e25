"""OpenAI Responses, both directions.

Spec: https://platform.openai.com/docs/api-reference/responses, checked 2026-11, and the vendor's own SDKs.

To be read in this order: shapes, tables, tools; parse with talk, build with outgoing; decoder with reading; encoder
with items, frames and response; relay, reply, usage, failures; opaque, pictures; keeping, with kept_items, lifecycle
and replay.

    stream := created, in_progress, item*, completed | incomplete | failed     (all with `response.` before them)
    item   := output_item.added, what is in it, output_item.done               (see `items`)

Oddities
O1   The output is a list of items.  An item has an id of its own; a call and its result share another, `call_id`.
O2   Every event has an `event:` line that says its type again, and a dense `sequence_number`; servers leave both out.
O3   An item's id is the same in each event about it and in the last one, or SDKs raise.
O4   Everything is said twice: in deltas, then whole when it is done, and all of it once more in the last event.
     Servers leave the deltas out, or the events that end them.
O5   usage comes with the last event, asked for or not.
O6   `[DONE]` may follow the end or stand alone; it is never sent and proves nothing.
O7   An answer that was cut by its limit ends well, as `incomplete`; agents run the calls of items that are done, so
     what is not whole says so.
O8   Thoughts are items: a summary to read, and `encrypted_content`, which the client sends back unread.
O9   Tools are flat; besides functions there are tools of free form, namespaces of tools, and the vendor's own.
O10  The talk may be known by an id alone (`previous_response_id`, `conversation`, `item_reference`): that needs a
     server that keeps answers.
O11  Clients know errors in the stream as `response.failed`, as a flat `error` event, and as an object under `error`.
O12  There is no place for stop sequences, seeds, penalties or several choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rivermouth.dialects.dialect import Dialect, Key, Operation, Route, Surface
from rivermouth.dialects.openai_responses.build import build_request
from rivermouth.dialects.openai_responses.decoder import Decoder
from rivermouth.dialects.openai_responses.encoder import Encoder
from rivermouth.dialects.openai_responses.failures import encode_error
from rivermouth.dialects.openai_responses.keeping import KEEPS
from rivermouth.dialects.openai_responses.parse import parse_request
from rivermouth.dialects.openai_responses.relay import Relay, relay_reply
from rivermouth.dialects.openai_responses.reply import encode_reply, parse_reply, read_reply
from rivermouth.dialects.openai_responses.tables import COUNT_PATH, LOSSES, NAME, PATH
from rivermouth.vendors.openai.failures import parse_error
from rivermouth.vendors.openai.limits import limit_headers
from rivermouth.vendors.openai.models import parse_models
from rivermouth.wire import json, sse

STREAM_TYPE: Final = "text/event-stream; charset=utf-8"


def auth(key: str) -> Mapping[str, str]:
    """The headers that carry a provider's key."""
    return {"authorization": f"Bearer {key}"}


def encode_count(tokens: int) -> bytes:
    return json.encode({"object": "response.input_tokens", "input_tokens": tokens})


DIALECT: Final = Dialect(
    name=NAME,
    surfaces=(
        Surface(prefix="/v1", stream_type=STREAM_TYPE),
        Surface(prefix="/openai/v1", stream_type=STREAM_TYPE),
    ),
    routes=(
        Route(method="POST", path=PATH, operation=Operation.GENERATE, kind="responses", streams=True),
        Route(method="POST", path=COUNT_PATH, operation=Operation.COUNT_TOKENS, kind="count"),
        Route(method="GET", path=f"{PATH}/{{id}}", operation=Operation.KEPT, streams=True),
        Route(method="DELETE", path=f"{PATH}/{{id}}", operation=Operation.KEPT_DELETE),
        Route(method="POST", path=f"{PATH}/{{id}}/cancel", operation=Operation.KEPT_CANCEL),
        Route(method="GET", path=f"{PATH}/{{id}}/input_items", operation=Operation.KEPT_INPUT),
    ),
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
    encode_count=encode_count,
    limit_headers=limit_headers,
    keeps=KEEPS,
)
