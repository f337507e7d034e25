"""A client's body to a neutral request, and a neutral request to the call of a model.

The path names the model and says whether the answer is streamed; the body's own members tell whose it is.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Final
from urllib.parse import quote

import msgspec

from rivermouth.dialects.bedrock_invoke.envelope import BODIES, BODY_NAMED
from rivermouth.dialects.bedrock_invoke.framing import BINARY_TYPE
from rivermouth.dialects.bedrock_invoke.tables import COUNT, body_of_model
from rivermouth.dialects.dialect import Outgoing, Route
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import model_name
from rivermouth.ir.request import Request
from rivermouth.wire import json

_VERBS: Final = {False: "invoke", True: "invoke-with-response-stream"}
_ACCEPTS: Final = {False: "application/json", True: BINARY_TYPE}
_FORMS: Final = "a body here has anthropic_version and messages, or inputText"


class _Invoked(msgspec.Struct):
    body: str


class _Counted(msgspec.Struct):
    invoke: _Invoked | None = msgspec.field(name="invokeModel", default=None)


class _Count(msgspec.Struct):
    input: _Counted


_count: Final = json.typed(_Count)


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """Raises `ApiError` (invalid_request) with the field at fault."""
    if route.kind == COUNT:
        body = _counted(body)
    try:
        fields = json.fields(body)
    except WireError as error:
        raise invalid(f"the body is not a JSON object: {error}") from None
    model = model_name(path_model, param="modelId")
    form = next((b for b in BODIES if b.tells(fields)), None)
    if form is None:
        raise invalid(_FORMS, "body")
    return form.parse(fields, route, model)


def build_request(request: Request, model: str) -> Outgoing:
    """The call of this model.  Raises `ApiError` where leaving something out would make the answer wrong."""
    name = body_of_model(model)
    if name is None:
        raise invalid(f"the body of the model {model} is not spoken here; those of Anthropic and Titan are", "model")
    built = BODY_NAMED[name].build(request, model)
    return Outgoing(
        path=f"/model/{quote(model, safe='')}/{_VERBS[request.stream]}",
        body=built.body,
        headers={"accept": _ACCEPTS[request.stream]},
        losses=built.losses,
    )


def _counted(body: bytes) -> bytes:
    """The body whose tokens are to be counted, which is wrapped once more."""
    try:
        asked = json.decode_as(_count, body).input
    except WireError as error:
        raise invalid(str(error), "input") from None
    if asked.invoke is None:
        raise invalid("only the body of an invoke call can be counted", "input.invokeModel")
    try:
        return b64decode(asked.invoke.body, validate=True)
    except ValueError:
        raise invalid("not base64", "input.invokeModel.body") from None
