"""Bedrock Runtime's Converse and ConverseStream, both directions.

Spec: the service model bedrock-runtime 2023-09-30 as botocore 1.44 has it; checked 2026-11.

Where a reader starts:

    parse    a client's body -> Request (content: its blocks)   build    Request -> an upstream's body (turns)
    decoder  an upstream's stream -> events                     encoder  events -> a client's stream (relay: both)
    messages a stream's events as bytes                         reply    whole answers, both ways
    tables   every word that is translated                      usage, opaque: counts, and what only travels

    stream := messageStart (contentBlockStart? contentBlockDelta* contentBlockStop)* messageStop metadata
    failed := as far as it came, then one exception of the stream's union

Oddities
O1   The path names the model, percent-encoded as a whole or not at all, and says whether the answer streams.  A stream
     is an AWS event stream, whatever the client accepts; the event's name is a header of its message.
O2   A union is an object with one member: blocks, sources, tools, choices.
O3   Only calls and images announce their block.  Clients go by the order of the messages, not by the index, so blocks
     never overlap here.
O4   A call's input is an object in a whole answer and pieces of text in a stream.
O5   The counts come after the end, in `metadata`; inputTokens leaves cached tokens out.
O6   A body cut in the middle of a message looks complete to the vendor's clients, so a failure is always said.
O7   The header x-amzn-ErrorType chooses the client's exception; in a stream it is the member's name.  The union has
     fewer members than that of InvokeModel.
O8   Which stop sequence it was is said only to who asks for that member of the model's own answer.
O9   Nothing forbids tools, and a talk with calls is refused without them: tools that were called and are not offered
     are declared, and say themselves that they are gone.
O10  What is a model's own (top_k, thinking) is said beside the protocol, in words that differ by vendor.
O11  Some ends are failures (malformed_model_output ...): an Error here.
O12  A guardrail is part of the request.  Nobody else has it, so a request with one goes nowhere else.
O13  Nothing may be sent while a client waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rivermouth.dialects.bedrock_converse.build import build_request
from rivermouth.dialects.bedrock_converse.decoder import Decoder
from rivermouth.dialects.bedrock_converse.encoder import Encoder
from rivermouth.dialects.bedrock_converse.parse import parse_request
from rivermouth.dialects.bedrock_converse.relay import Relay
from rivermouth.dialects.bedrock_converse.reply import encode_reply, parse_reply, relay_reply
from rivermouth.dialects.bedrock_converse.tables import CONVERSE, CONVERSE_STREAM, LOSSES, NAME
from rivermouth.dialects.dialect import Dialect, Failure, Key, Operation, Route, Surface
from rivermouth.ir.errors import ApiError
from rivermouth.vendors.bedrock.failures import error_body, read_error, status_of, type_of
from rivermouth.wire.aws_eventstream import MEDIA_TYPE, EventStreamReader


def auth(key: str) -> Mapping[str, str]:
    """The headers that carry a key of the service; requests under an access key are signed by the transport."""
    return {"authorization": f"Bearer {key}"}


def encode_error(error: ApiError, call_id: str) -> Failure:
    """An error before the stream."""
    return Failure(status=status_of(error), body=error_body(error), headers={"x-amzn-errortype": type_of(error)})


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """An upstream's HTTP error.  Never raises, whatever the body is."""
    return read_error(NAME, status, headers, body)


DIALECT: Final = Dialect(
    name=NAME,
    surfaces=(
        Surface(prefix="/bedrock/model", home="/bedrock", stream_type=MEDIA_TYPE),
        Surface(prefix="/model", stream_type=MEDIA_TYPE),
    ),
    routes=(
        Route(
            method="POST",
            path="/{model}/converse-stream",
            operation=Operation.GENERATE,
            kind=CONVERSE_STREAM,
            streams=True,
        ),
        Route(method="POST", path="/{model}/converse", operation=Operation.GENERATE, kind=CONVERSE),
    ),
    keys=(
        Key(header="authorization", between=("Credential=", "/")),
        Key(header="authorization", scheme="Bearer"),
    ),
    keep_alive=None,
    losses=LOSSES,
    parse_request=parse_request,
    encoder=Encoder,
    encode_reply=encode_reply,
    encode_error=encode_error,
    build_request=build_request,
    reader=EventStreamReader,
    decoder=Decoder,
    parse_reply=parse_reply,
    parse_error=parse_error,
    auth=auth,
    relay=Relay,
    relay_reply=relay_reply,
)
