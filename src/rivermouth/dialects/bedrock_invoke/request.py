"""A client's body to a neutral request, and a neutral request to the call of a model.

The path names the model and says whether the answer is streamed; the body's own members tell whose it is.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Final
from urllib.parse import quote

import msgspec

from rivermouth.dialects.bedrock_invoke.body import Body
from rivermouth.dialects.bedrock_invoke.envelope import BODY_NAMED, body_of_fields
from rivermouth.dialects.bedrock_invoke.framing import BINARY_TYPE
from rivermouth.dialects.bedrock_invoke.nova_body import count
from rivermouth.dialects.bedrock_invoke.tables import COUNT, NAME, body_of_model
from rivermouth.dialects.dialect import Outgoing, Route
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import model_name
from rivermouth.ir.request import Request
from rivermouth.wire import json

_VERBS: Final = {False: "invoke", True: "invoke-with-response-stream"}
_ACCEPTS: Final = {False: "application/json", True: BINARY_TYPE}
_FORMS: Final = (
    "a body here has anthropic_version and messages (Anthropic), inputText (Titan), messages with inferenceConfig "
    "(Nova), prompt (Llama, Mistral) or message (Cohere)"
)


class _Invoked(msgspec.Struct):
    body: str


class _Counted(msgspec.Struct):
    """Exactly one of them; Raw is empty where it is not there."""

    invoke: _Invoked | None = msgspec.field(name="invokeModel", default=None)
    converse: json.Raw = json.Raw(b"")


class _Count(msgspec.Struct):
    input: _Counted


_count: Final = json.typed(_Count)


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """Raises `ApiError` (invalid_request) with the field at fault."""
    if route.kind == COUNT:
        asked = _counted(body)
        if bytes(asked.converse) not in (b"", b"null"):
            return count(bytes(asked.converse), route, path_model)
        body = _invoked(asked)
    try:
        fields = json.fields(body)
    except WireError as error:
        raise invalid(f"the body is not a JSON object: {error}") from None
    model = model_name(path_model, param="modelId")
    form = body_of_fields(fields, model)
    if form is None:
        raise invalid(_FORMS, "body")
    return form.parse(fields, route, model)


def build_request(request: Request, model: str) -> Outgoing:
    """The call of this model.  Raises `ApiError` where leaving something out would make the answer wrong."""
    name = body_of_model(model)
    if name is None:
        text = f"the body of the model {model} is not spoken here; the provider bedrock-converse asks it without one"
        raise invalid(text, "model")
    body = BODY_NAMED[name]
    built = _as_it_came(request, body) or body.build(request, model)
    return Outgoing(
        path=f"/model/{quote(model, safe='')}/{_VERBS[request.stream]}",
        body=built.body,
        headers={"accept": _ACCEPTS[request.stream]},
        losses=built.losses,
    )


def _as_it_came(request: Request, body: Body) -> Outgoing | None:
    """A client's own body, for a model that takes it; None where it has to be written anew."""
    original = request.original
    if original is None or original.dialect != NAME or body_of_fields(original.fields, request.model) is not body:
        return None
    return Outgoing(path="", body=json.encode({n: raw for n, raw in original.fields.items() if n != "model"}))


def _counted(body: bytes) -> _Counted:
    """What is to be counted."""
    try:
        return json.decode_as(_count, body).input
    except WireError as error:
        raise invalid(str(error), "input") from None


def _invoked(asked: _Counted) -> bytes:
    """The body whose tokens are to be counted, which is wrapped once more."""
    if asked.invoke is None:
        raise invalid("the body of an invoke call, or a call of Converse, can be counted", "input.invokeModel")
    try:
        return b64decode(asked.invoke.body, validate=True)
    except ValueError:
        raise invalid("not base64", "input.invokeModel.body") from None
