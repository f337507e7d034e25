"""A client's body to a neutral request, and a neutral request to the body of an upstream's best route.

A client that spoke this protocol is repeated on the route it used; any other wish goes to the chat, which has tools
and a template, unless it is a prompt that no template may touch.
"""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.dialect import Outgoing, Route
from rivermouth.dialects.tgi.chat import build_chat, parse_chat, repeat_chat
from rivermouth.dialects.tgi.parameters import field_error, parse_native, write_native
from rivermouth.dialects.tgi.tables import CHAT, NAME
from rivermouth.ir.errors import WireError
from rivermouth.ir.request import Request, Text, check_translatable
from rivermouth.wire import json

_PATHS: Final = {False: "/generate", True: "/generate_stream"}


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """Raises `ApiError` (invalid_request) with the field at fault."""
    try:
        fields = json.fields(body)
    except WireError as error:
        raise field_error(error) from None
    return parse_chat(fields, body, route) if route.kind == CHAT else parse_native(fields, body, route)


def build_request(request: Request, model: str) -> Outgoing:
    """The call to make.  Raises `ApiError` where leaving something out would make the answer wrong."""
    original = request.original
    if original is not None and original.dialect == NAME:
        if "inputs" in original.fields:
            return _repeat_native(original.fields, request)
        return repeat_chat(original.fields, request, model)
    check_translatable(request)
    return _native(request) if _is_prompt(request) else build_chat(request, model)


def _is_prompt(request: Request) -> bool:
    """True for a completion that the native routes can express: texts that no template may touch, and one answer."""
    texts = all(isinstance(part, Text) for message in request.messages for part in message.parts)
    return request.local.raw and texts and not request.tools and request.n == 1


def _repeat_native(fields: dict[str, json.Raw], request: Request) -> Outgoing:
    """The same body; details are asked for, since every call is counted, and kept from a client that did not ask."""
    again = {name: raw for name, raw in fields.items() if name != "stream"}
    try:
        sent = json.fields(again["parameters"]) if "parameters" in again else {}
    except WireError:  # null
        sent = {}
    again["parameters"] = json.Raw(json.encode({**sent, "details": json.raw(value=True)}))
    return Outgoing(path=_PATHS[request.stream], body=json.encode(again))


def _native(request: Request) -> Outgoing:
    losses = set(request.unmodelled)
    body = write_native(request, losses)
    losses |= {name for name in request.local.wishes() if name != "raw"}
    if request.thinking is not None:
        losses.add("thinking")
    if request.metadata:
        losses.add("metadata")
    if request.user is not None:
        losses.add("user")
    return Outgoing(path=_PATHS[request.stream], body=json.encode(body), losses=tuple(sorted(losses)))
