"""Meta's Llama body: one prompt in the model's own layout, one text.

request   {"prompt", "max_gen_len", "temperature", "top_p"}
reply     {"generation", "prompt_token_count", "generation_token_count", "stop_reason"}
object    the same for each piece: the prompt is counted in the first, `stop_reason` is null up to the last
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from rivermouth.dialects.bedrock_invoke.body import METRICS
from rivermouth.dialects.bedrock_invoke.prompted import Prompted, parse_prompted
from rivermouth.dialects.bedrock_invoke.prompts import LLAMA_LAYOUTS, layout_of, read_llama, write_llama
from rivermouth.dialects.bedrock_invoke.tables import LLAMA, LLAMA_IN, LLAMA_OUT
from rivermouth.dialects.bedrock_invoke.text_request import note_losses, refuse, said, temperature_of
from rivermouth.dialects.bedrock_invoke.text_stream import Counted, Form, Piece, text_body, whole_reply
from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.ir.events import Finish, Usage
from rivermouth.ir.media import plain_text
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Request, Sampling
from rivermouth.wire import json

HEAD: Final = b'{"generation":'
LIMIT: Final = "max_gen_len"
_OTHERS: Final = frozenset({"max_tokens", "stop", "top_k"})
_SAMPLED: Final = frozenset({"temperature", "top_p"})
_encode: Final = json.encode


class _Asked(Prompted):
    max_tokens: int | None = msgspec.field(name=LIMIT, default=None)


class _Object(msgspec.Struct):
    text: str | None = msgspec.field(name="generation", default=None)
    input_tokens: int | None = msgspec.field(name="prompt_token_count", default=None)
    output_tokens: int | None = msgspec.field(name="generation_token_count", default=None)
    reason: str | None = msgspec.field(name="stop_reason", default=None)
    counted: Counted | None = msgspec.field(name=METRICS, default=None)


class _Whole(msgspec.Struct):
    text: str = msgspec.field(name="generation")
    input_tokens: int | None = msgspec.field(name="prompt_token_count", default=None)
    output_tokens: int | None = msgspec.field(name="generation_token_count", default=None)
    reason: str | None = msgspec.field(name="stop_reason", default=None)


_asked: Final = partial(json.decode_as, json.typed(_Asked))
_object: Final = json.typed(_Object)
_whole: Final = json.typed(_Whole)


def tells(fields: dict[str, json.Raw]) -> bool:
    return "prompt" in fields and (LIMIT in fields or _OTHERS.isdisjoint(fields))


def knows(members: dict[str, json.Raw]) -> bool:
    return "generation" in members


def parse(fields: dict[str, json.Raw], route: Route, model: str) -> Request:
    """Raises `ApiError` with the field at fault."""
    asked, request = parse_prompted(_asked, fields, route, model, partial(read_llama, LLAMA_LAYOUTS))
    return msgspec.structs.replace(request, sampling=Sampling(temperature=asked.temperature, top_p=asked.top_p))


def build(request: Request, model: str) -> Outgoing:
    """The talk as one prompt.  Raises `ApiError` where leaving something out would make the answer wrong."""
    refuse(request)
    losses = set(request.unmodelled)
    note_losses(request, _SAMPLED, losses)
    if request.stop:
        losses.add("stop")
    fields = said(
        {
            "prompt": write_llama(layout_of(model), request, losses),
            LIMIT: request.max_tokens,
            "temperature": temperature_of(request, losses),
            "top_p": request.sampling.top_p,
        }
    )
    return Outgoing(path="", body=_encode(fields), losses=tuple(sorted(losses)))


def _tail(number: int, prompt: int | None) -> bytes:
    first = b"null" if prompt is None or number > 1 else b"%d" % prompt
    return b',"prompt_token_count":%b,"generation_token_count":%d,"stop_reason":null}' % (first, number)


def _closing(event: Finish, usage: Usage, pieces: int) -> dict[str, Any]:
    return {
        "generation": "",
        "prompt_token_count": usage.input_tokens,
        "generation_token_count": pieces if usage.output_tokens is None else usage.output_tokens,
        "stop_reason": LLAMA_OUT[event.reason],
    }


def _read(data: bytes) -> Piece:
    wire = json.decode_as(_object, data)
    return Piece(wire.text, wire.reason, wire.input_tokens, wire.output_tokens, wire.counted)


_FORM: Final = Form(head=HEAD, tail=_tail, closing=_closing, read=_read, words=LLAMA_IN, field="stop_reason")


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    choice, usage = reply.choices[0], reply.usage or Usage()
    text = plain_text(choice.parts)
    return _encode(
        {
            "generation": text,
            "prompt_token_count": usage.input_tokens,
            "generation_token_count": int(bool(text)) if usage.output_tokens is None else usage.output_tokens,
            "stop_reason": LLAMA_OUT[choice.reason],
        }
    )


def parse_reply(body: bytes) -> Reply:
    """Raises `WireError` for anything else."""
    whole = json.decode_as(_whole, body)
    return whole_reply(_FORM, whole.text, whole.reason, Usage(whole.input_tokens, whole.output_tokens))


BODY: Final = text_body(
    name=LLAMA,
    form=_FORM,
    tells=tells,
    knows=knows,
    parse=parse,
    build=build,
    encode_reply=encode_reply,
    parse_reply=parse_reply,
)
