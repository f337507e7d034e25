"""Mistral's body: one prompt in the model's own layout, one text.

request   {"prompt", "max_tokens", "stop", "temperature", "top_p", "top_k"}
reply     {"outputs": [{"text", "stop_reason"}]}
object    the same for each piece, `stop_reason` being null up to the last

Nothing in it counts, so the last object of a stream always has the metrics.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from rivermouth.dialects.bedrock_invoke.body import METRICS
from rivermouth.dialects.bedrock_invoke.prompted import Prompted, parse_prompted
from rivermouth.dialects.bedrock_invoke.prompts import read_mistral, write_mistral
from rivermouth.dialects.bedrock_invoke.tables import MISTRAL, MISTRAL_IN, MISTRAL_OUT
from rivermouth.dialects.bedrock_invoke.text_request import note_losses, refuse, said, temperature_of
from rivermouth.dialects.bedrock_invoke.text_stream import Counted, Form, Piece, text_body, whole_reply
from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.ir.errors import WireError
from rivermouth.ir.events import Finish, Usage
from rivermouth.ir.media import plain_text
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Request, Sampling
from rivermouth.wire import json

HEAD: Final = b'{"outputs":[{"text":'
_TAIL: Final = b',"stop_reason":null}]}'
_OTHER_LIMIT: Final = "max_gen_len"
_SAMPLED: Final = frozenset({"temperature", "top_p", "top_k"})
_encode: Final = json.encode


class _Asked(Prompted):
    stop: list[str] | None = None
    top_k: int | None = None


class _Output(msgspec.Struct):
    text: str = ""
    reason: str | None = msgspec.field(name="stop_reason", default=None)


class _Object(msgspec.Struct):
    outputs: list[_Output]
    counted: Counted | None = msgspec.field(name=METRICS, default=None)


_asked: Final = partial(json.decode_as, json.typed(_Asked))
_object: Final = json.typed(_Object)


def tells(fields: dict[str, json.Raw]) -> bool:
    return "prompt" in fields and _OTHER_LIMIT not in fields


def knows(members: dict[str, json.Raw]) -> bool:
    return "outputs" in members


def parse(fields: dict[str, json.Raw], route: Route, model: str) -> Request:
    """Raises `ApiError` with the field at fault."""
    asked, request = parse_prompted(_asked, fields, route, model, read_mistral)
    sampling = Sampling(temperature=asked.temperature, top_p=asked.top_p, top_k=asked.top_k)
    return msgspec.structs.replace(request, sampling=sampling, stop=tuple(s for s in asked.stop or () if s))


def build(request: Request, model: str) -> Outgoing:
    """The talk as one prompt.  Raises `ApiError` where leaving something out would make the answer wrong."""
    refuse(request)
    losses = set(request.unmodelled)
    note_losses(request, _SAMPLED, losses)
    fields = said(
        {
            "prompt": write_mistral(request, losses),
            "max_tokens": request.max_tokens,
            "stop": list(request.stop) or None,
            "temperature": temperature_of(request, losses),
            "top_p": request.sampling.top_p,
            "top_k": request.sampling.top_k,
        }
    )
    return Outgoing(path="", body=_encode(fields), losses=tuple(sorted(losses)))


def _closing(event: Finish, usage: Usage, pieces: int) -> dict[str, Any]:
    return {"outputs": [{"text": "", "stop_reason": MISTRAL_OUT[event.reason]}]}


def _read(data: bytes) -> Piece:
    wire = json.decode_as(_object, data)
    if not wire.outputs:
        raise WireError("an object without an output")
    return Piece(wire.outputs[0].text, wire.outputs[0].reason, counted=wire.counted)


_FORM: Final = Form(
    head=HEAD,
    tail=lambda number, prompt: _TAIL,
    closing=_closing,
    read=_read,
    words=MISTRAL_IN,
    field="stop_reason",
    counts=False,
)


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    choice = reply.choices[0]
    return _encode({"outputs": [{"text": plain_text(choice.parts), "stop_reason": MISTRAL_OUT[choice.reason]}]})


def parse_reply(body: bytes) -> Reply:
    """Raises `WireError` for anything else."""
    piece = _read(body)
    return whole_reply(_FORM, piece.text, piece.word, Usage())


BODY: Final = text_body(
    name=MISTRAL,
    form=_FORM,
    tells=tells,
    knows=knows,
    parse=parse,
    build=build,
    encode_reply=encode_reply,
    parse_reply=parse_reply,
)
