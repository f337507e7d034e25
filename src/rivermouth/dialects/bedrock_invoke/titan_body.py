"""Amazon's Titan text body: one prompt, one text.

request   {"inputText", "textGenerationConfig": {maxTokenCount, temperature, topP, stopSequences}}  titan_request
reply     {"inputTextTokenCount", "results": [{tokenCount, outputText, completionReason}]}
stream    titan_stream
"""

from __future__ import annotations

from typing import Final

import msgspec

from rivermouth.dialects.bedrock_invoke.body import Body
from rivermouth.dialects.bedrock_invoke.tables import TITAN, TITAN_IN
from rivermouth.dialects.bedrock_invoke.titan_request import build, parse, tells
from rivermouth.dialects.bedrock_invoke.titan_stream import (
    HEAD,
    ObjectRelay,
    Objects,
    decoder,
    reason_word,
    unknown_word,
)
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.errors import WireError
from rivermouth.ir.events import Reason, Usage
from rivermouth.ir.media import plain_text
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import Text
from rivermouth.wire import json

_encode: Final = json.encode


class _Result(msgspec.Struct):
    text: str = msgspec.field(name="outputText")
    tokens: int | None = msgspec.field(name="tokenCount", default=None)
    reason: str | None = msgspec.field(name="completionReason", default=None)


class _Whole(msgspec.Struct):
    results: list[_Result]
    input_tokens: int | None = msgspec.field(name="inputTextTokenCount", default=None)


_whole: Final = json.typed(_Whole)


def knows(data: bytes) -> bool:
    return b'"outputText"' in data or b'"completionReason"' in data


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    """The whole answer; counts that nobody knows are the pieces' for the text and null for the prompt."""
    choice = reply.choices[0]
    usage = reply.usage or Usage()
    text = plain_text(choice.parts)
    result = {
        "tokenCount": usage.output_tokens if usage.output_tokens is not None else int(bool(text)),
        "outputText": text,
        "completionReason": reason_word(choice.reason, choice.stop_sequence),
    }
    return _encode({"inputTextTokenCount": usage.input_tokens, "results": [result]})


def parse_reply(body: bytes) -> Reply:
    """Raises `WireError` for anything else."""
    whole = json.decode_as(_whole, body)
    if not whole.results:
        raise WireError("a reply without a result")
    result = whole.results[0]
    usage = Usage(input_tokens=whole.input_tokens, output_tokens=result.tokens)
    word = result.reason or ""
    return Reply(
        choices=(Choice((Text(result.text),) if result.text else (), TITAN_IN.get(word, Reason.STOP)),),
        usage=None if usage == Usage() else usage,
        warnings=tuple(unknown_word(word)) if word else (),
    )


def relay_reply(body: bytes, answer: Answer) -> bytes:
    return _encode(json.fields(body))


BODY: Final = Body(
    name=TITAN,
    delta_head=HEAD,
    delta_name="",
    tells=tells,
    knows=knows,
    parse=parse,
    build=build,
    encoder=Objects,
    decoder=decoder,
    relay=ObjectRelay,
    encode_reply=encode_reply,
    parse_reply=parse_reply,
    relay_reply=relay_reply,
)
