"""Amazon's Titan text body: one prompt, one text.

request   {"inputText", "textGenerationConfig": {maxTokenCount, temperature, topP, stopSequences}}  titan_request
reply     {"inputTextTokenCount", "results": [{tokenCount, outputText, completionReason}]}
object    {"outputText": piece, "index": 0, "totalOutputTextTokenCount": null}
last      {"outputText": "", "index": 0, "totalOutputTextTokenCount": n, "completionReason": "FINISH"}

`index` is the result's, and there is one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.bedrock_invoke.body import METRICS
from rivermouth.dialects.bedrock_invoke.tables import TITAN, TITAN_IN, TITAN_OUT, TITAN_STOP_SEQUENCE
from rivermouth.dialects.bedrock_invoke.text_stream import Counted, Form, Piece, text_body, whole_reply
from rivermouth.dialects.bedrock_invoke.titan_request import build, parse, tells
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.errors import WireError
from rivermouth.ir.events import Finish, Reason, Usage
from rivermouth.ir.media import plain_text
from rivermouth.ir.reply import Reply
from rivermouth.wire import json

HEAD: Final = b'{"outputText":'
_TAIL: Final = b',"index":0,"totalOutputTextTokenCount":null}'
_encode: Final = json.encode


class _Object(msgspec.Struct):
    text: str | None = msgspec.field(name="outputText", default=None)
    output_tokens: int | None = msgspec.field(name="totalOutputTextTokenCount", default=None)
    input_tokens: int | None = msgspec.field(name="inputTextTokenCount", default=None)
    reason: str | None = msgspec.field(name="completionReason", default=None)
    counted: Counted | None = msgspec.field(name=METRICS, default=None)


class _Result(msgspec.Struct):
    text: str = msgspec.field(name="outputText")
    tokens: int | None = msgspec.field(name="tokenCount", default=None)
    reason: str | None = msgspec.field(name="completionReason", default=None)


class _Whole(msgspec.Struct):
    results: list[_Result]
    input_tokens: int | None = msgspec.field(name="inputTextTokenCount", default=None)


_object: Final = json.typed(_Object)
_whole: Final = json.typed(_Whole)


def knows(members: dict[str, json.Raw]) -> bool:
    return not members.keys().isdisjoint(("outputText", "completionReason", "results"))


def reason_word(reason: Reason, stop_sequence: str | None) -> str:
    """`completionReason`; a stop that the client's own sequence brought is said so."""
    return TITAN_STOP_SEQUENCE if reason is Reason.STOP and stop_sequence is not None else TITAN_OUT[reason]


def _read(data: bytes) -> Piece:
    wire = json.decode_as(_object, data)
    return Piece(wire.text, wire.reason, wire.input_tokens, wire.output_tokens, wire.counted)


def _closing(event: Finish, usage: Usage, pieces: int) -> dict[str, Any]:
    last: dict[str, Any] = {
        "outputText": "",
        "index": 0,
        "totalOutputTextTokenCount": pieces if usage.output_tokens is None else usage.output_tokens,
        "completionReason": reason_word(event.reason, event.stop_sequence),
    }
    if usage.input_tokens is not None:
        last["inputTextTokenCount"] = usage.input_tokens
    return last


_FORM: Final = Form(
    head=HEAD,
    tail=lambda number, prompt: _TAIL,
    closing=_closing,
    read=_read,
    words=TITAN_IN,
    field="completionReason",
)


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
    return whole_reply(_FORM, result.text, result.reason, Usage(whole.input_tokens, result.tokens))


BODY: Final = text_body(
    name=TITAN,
    form=_FORM,
    tells=tells,
    knows=knows,
    parse=parse,
    build=build,
    encode_reply=encode_reply,
    parse_reply=parse_reply,
)
