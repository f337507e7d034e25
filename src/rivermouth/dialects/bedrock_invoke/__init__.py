"""Bedrock Runtime's InvokeModel, both directions: one envelope around the bodies of several vendors.

Spec: the service model bedrock-runtime 2023-09-30 as botocore 1.44 has it, the Bedrock client of anthropic 2.14, the
vendors' own pages; checked 2026-11.

Where a reader starts:

    request    path, whose body          envelope   encoder, decoder, relay around the bodies
    framing    binary or plain (R8)      body       what a body brings: those of other dialects (borrowed;
    failures   errors                               messages_body, nova_body, cohere_body), and those of one text
    tables     embed  Titan's vectors               (text_request, text_stream, prompted; titan_body with
                                                    titan_request, llama_body, mistral_body; prompts)

Oddities
O1   The path names the model, percent-encoded as a whole or not at all, and says whether the answer streams.
O2   A stream is binary for AWS clients, who do not say so: no Accept, no word in the body.  Plain clients get
     server-sent events, `data:` without a space.
O3   A binary event holds base64 of the model's own JSON.  A plain one holds the JSON.
O4   The header x-amzn-ErrorType chooses the client's exception.  In a stream it is the member of a union, whose first
     letter is small; with the other spelling the client's error has no code.
O5   A body cut in the middle of a frame looks complete to the vendor's clients, so a failure is always said.
O6   Anthropic's body is its API's without `model` and `stream`, with `anthropic_version`, whose value is not checked;
     beta features are a list in the body.
O7   The last object of a stream has the metrics of the call; Titan's has the only counts.
O8   Titan's completionReason is FINISH in streams and FINISHED in the documentation; both are read.
O9   Keys: the access key id of a signature, which is not verified, or a bearer token.
O10  Nothing may be sent while a client waits.
O11  GET for a list of models is another service's; nothing is listed here.
O12  Llama's and Mistral's prompts are talks in the model's own layout; they are read as such, and written so.
O13  Whose body it is shows in its members; a bare `prompt` may be either's, and then the model's name decides.
O14  Embeddings have the path, and at their simplest the body, of texts.  They are wanted where the body has one of
     their own fields and no textGenerationConfig, or where the model's name has "embed" in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rivermouth.dialects.bedrock_invoke import embed
from rivermouth.dialects.bedrock_invoke.embed import build_embed, encode_embed, parse_embed, parse_embed_reply, reroute
from rivermouth.dialects.bedrock_invoke.envelope import (
    LOSSES,
    Decoder,
    Encoder,
    Relay,
    encode_reply,
    parse_reply,
    relay_reply,
)
from rivermouth.dialects.bedrock_invoke.failures import encode_error, parse_error
from rivermouth.dialects.bedrock_invoke.framing import BINARY, BINARY_TYPE, PLAIN_TYPE, FrameReader, variant
from rivermouth.dialects.bedrock_invoke.request import build_request, parse_request
from rivermouth.dialects.bedrock_invoke.tables import COUNT, INVOKE, INVOKE_STREAM, NAME
from rivermouth.dialects.dialect import Dialect, Key, Operation, Route, Surface
from rivermouth.wire import json

STREAM_HEADERS: Final = (("x-amzn-bedrock-content-type", "application/json"),)
"""What the model's own objects are, inside whichever framing."""


def auth(key: str) -> Mapping[str, str]:
    """The headers that carry a key of the service; requests under an access key are signed by the transport."""
    return {"authorization": f"Bearer {key}"}


def encode_count(tokens: int) -> bytes:
    return json.encode({"inputTokens": tokens})


DIALECT: Final = Dialect(
    name=NAME,
    surfaces=(
        Surface(prefix="/bedrock/model", home="/bedrock", stream_type=PLAIN_TYPE, stream_headers=STREAM_HEADERS),
        Surface(prefix="/model", stream_type=BINARY_TYPE, options=frozenset({BINARY}), stream_headers=STREAM_HEADERS),
    ),
    routes=(
        Route(
            method="POST",
            path="/{model}/invoke-with-response-stream",
            operation=Operation.GENERATE,
            kind=INVOKE_STREAM,
            streams=True,
        ),
        Route(method="POST", path="/{model}/invoke", operation=Operation.GENERATE, kind=INVOKE),
        Route(method="POST", path="/{model}/count-tokens", operation=Operation.COUNT_TOKENS, kind=COUNT),
        embed.ROUTE,
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
    reader=FrameReader,
    decoder=Decoder,
    parse_reply=parse_reply,
    parse_error=parse_error,
    auth=auth,
    variant=variant,
    reroute=reroute,
    relay=Relay,
    relay_reply=relay_reply,
    parse_embed=parse_embed,
    encode_embed=encode_embed,
    build_embed=build_embed,
    parse_embed_reply=parse_embed_reply,
    encode_count=encode_count,
)
