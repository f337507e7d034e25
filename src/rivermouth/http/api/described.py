"""The OpenAPI document of the chat application: everything under /api/chats, /api/ai and /api/auth.  Pure.

`SHAPES` says of each route what goes in and what comes out, by the structs that are decoded and encoded there; what a
route is for stands in its handler.  A route without a row here is a `KeyError` when the server starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import cleandoc
from typing import Any, Final, Literal

import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from rivermouth.chat.documents import ChatView, Summary
from rivermouth.http.api.accounts import Credentials
from rivermouth.http.api.chats import JSON, Change, Choice, NewChat, answer
from rivermouth.http.chats import CancelBody, StreamBody
from rivermouth.wire import json

PATH: Final = "/api/chats/openapi.json"
EVENTS: Final = "text/event-stream"
REFS: Final = "#/components/schemas/{name}"
FRAMES: Final = "Frames, each an event with one JSON object in its data."


class ChatList(msgspec.Struct, frozen=True, omit_defaults=True):
    """next: the `before` of the next page; null when there is none.  What a search found is one page."""

    chats: list[Summary]
    next: str | msgspec.UnsetType | None = msgspec.UNSET


class CreatedChat(msgspec.Struct, frozen=True):
    """`chatId` and `id` are the same."""

    chatId: int  # noqa: N815 (as one of its clients wants it)
    id: int
    chat: Summary


class ChangedChat(msgspec.Struct, frozen=True):
    chat: Summary


class Cancelled(msgspec.Struct, frozen=True):
    """True if something was running."""

    cancelled: bool


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """reason: why it cannot answer now."""

    id: str
    kind: Literal["auto", "provider", "model"]
    label: str
    configured: bool
    provider: str | None
    model: str | None
    local: bool
    reason: str = ""
    images: bool = False
    files: bool = False
    context_tokens: int | None = None


class Offer(msgspec.Struct, frozen=True):
    """A model that could be pulled."""

    model: str
    bytes: int
    license: str


class Limits(msgspec.Struct, frozen=True):
    """What a message may hold."""

    content_chars: int
    attachments: int


class Models(msgspec.Struct, frozen=True):
    selected: str
    models: list[ModelChoice]
    offer: Offer | None
    limits: Limits


class Selected(msgspec.Struct, frozen=True):
    selected: str


class UserView(msgspec.Struct, frozen=True):
    id: str
    name: str | None
    guest: bool


class SignedInView(msgspec.Struct, frozen=True):
    """expires_in: seconds."""

    access_token: str
    token_type: Literal["Bearer"]
    expires_in: float
    user: UserView


class Me(msgspec.Struct, frozen=True):
    user: UserView


class Fault(msgspec.Struct, frozen=True):
    """param: the field or parameter at fault, where it is one."""

    type: str
    message: str
    param: str | None
    code: str | None


class Problem(msgspec.Struct, frozen=True):
    """Every answer that is not 2xx; with 409 the turn that is in the way."""

    error: Fault


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """answers: a struct, None for no body, or EVENTS.  takes: the struct of the body; needed: it may not be left out.

    token: whoever asks must say who they are.  query: parameters as OpenAPI has them, by name.  says: what it is for,
    where no handler does.
    """

    answers: Any
    says: str = ""
    status: int = 200
    takes: type | None = None
    needed: bool = True
    token: bool = True
    query: Mapping[str, Mapping[str, Any]] = {}


def _text(says: str, **schema: Any) -> Mapping[str, Any]:
    return {"description": says, "schema": {"type": "string", **schema}}


_PAGE: Final = {
    "q": _text("Only chats that hold every word of it."),
    "limit": {"description": "At most so many.", "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999}},
    "before": _text("The `next` of the page before.", pattern=r"^[0-8]?[0-9]{1,18}-[0-8]?[0-9]{1,18}$"),
}
_PLACE: Final = {
    "after": _text("The cursor from which to follow; without it, from now on."),
    "turn": _text("Ends with that turn."),
}

SHAPES: Final[dict[tuple[str, str], Shape]] = {
    ("GET", "/api/chats"): Shape(answers=ChatList, query=_PAGE),
    ("POST", "/api/chats"): Shape(answers=CreatedChat, status=201, takes=NewChat, needed=False),
    ("GET", "/api/chats/{chat_id}"): Shape(answers=ChatView),
    ("PUT", "/api/chats/{chat_id}"): Shape(answers=ChangedChat, takes=Change),
    ("DELETE", "/api/chats/{chat_id}"): Shape(answers=None, status=204),
    ("POST", "/api/chats/{chat_id}/stream"): Shape(
        answers=EVENTS, takes=StreamBody, says="Send a message and follow its answer to its end."
    ),
    ("GET", "/api/chats/{chat_id}/events"): Shape(
        answers=EVENTS, query=_PLACE, says="Follow the chat, across turns; 204 where there is nothing to follow."
    ),
    ("POST", "/api/chats/{chat_id}/cancel"): Shape(
        answers=Cancelled, takes=CancelBody, needed=False, says="Stop what runs, or only one answer."
    ),
    ("GET", "/api/ai/models"): Shape(answers=Models),
    ("PUT", "/api/ai/model"): Shape(answers=Selected, takes=Choice),
    ("POST", "/api/auth/guest"): Shape(answers=SignedInView, token=False),
    ("POST", "/api/auth/signup"): Shape(answers=SignedInView, status=201, takes=Credentials, token=False),
    ("POST", "/api/auth/login"): Shape(answers=SignedInView, takes=Credentials, token=False),
    ("POST", "/api/auth/refresh"): Shape(answers=SignedInView, token=False),
    ("POST", "/api/auth/logout"): Shape(answers=None, status=204, token=False),
    ("GET", "/api/auth/me"): Shape(answers=Me),
    ("DELETE", "/api/auth/me"): Shape(answers=None, status=204),
}
REFUSALS: Final[dict[str, str]] = {
    "400": "Something in the request cannot be.",
    "401": "Who asks is not known.",
    "403": "Whoever asks may not do that.",
    "404": "There is no such thing, or it is not yours.",
    "405": "The path does not take this method.",
    "408": "The body did not arrive in time.",
    "409": "Something is in the way: an answer that has not ended, a name that is taken.",
    "413": "The body is too large.",
    "429": "Too many of that; `Retry-After` says when to try again.",
    "503": "The server cannot do it now.",
}


def described(handlers: Iterable[HTTPRouteHandler], version: str, base_path: str = "") -> dict[str, Any]:
    """The document.  handlers: those of the single documents; the streams have none."""
    told = {route: shape.says for route, shape in SHAPES.items() if shape.says}
    told |= {route: cleandoc(handler.fn.__doc__ or "") for handler in handlers for route in _routes(handler)}
    taken = [shape.takes for shape in SHAPES.values() if shape.takes is not None]
    given = [shape.answers for shape in SHAPES.values() if isinstance(shape.answers, type)]
    bodies, answers = json.schemas(taken, REFS), json.schemas([*given, Problem], REFS)
    closed = {name: {**schema, "additionalProperties": name == "Problem"} for name, schema in answers.items()}
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), says in told.items():
        paths.setdefault(path, {})[method.lower()] = _operation(path, SHAPES[method, path], says)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rivermouth chat", "version": version},
        "servers": [{"url": base_path or "/"}],
        "paths": paths,
        "components": {
            "schemas": {**bodies, **closed},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def description(handlers: Iterable[HTTPRouteHandler], version: str, base_path: str = "") -> HTTPRouteHandler:
    """The route that gives the document to everybody."""
    document = described(handlers, version, base_path)

    @get(PATH, include_in_schema=False, sync_to_thread=False)
    def openapi() -> Response[bytes]:
        return answer(document)

    return openapi


def _routes(handler: HTTPRouteHandler) -> list[tuple[str, str]]:
    return [(str(m), path.replace(":int}", "}")) for path in handler.paths for m in handler.http_methods]


def _operation(path: str, shape: Shape, says: str) -> dict[str, Any]:
    chat = {"name": "chat_id", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 0}}
    parameters = [chat] if "{chat_id}" in path else []
    parameters += [{"name": name, "in": "query", "required": False, **told} for name, told in shape.query.items()]
    made: dict[str, Any] = {"description": says, "tags": [path.split("/")[2]], "parameters": parameters}
    if shape.takes is not None:
        made["requestBody"] = {"required": shape.needed, "content": {JSON: {"schema": _ref(shape.takes)}}}
    if not shape.token:
        made["security"] = []
    refused = {s: {"description": text, "content": {JSON: {"schema": _ref(Problem)}}} for s, text in REFUSALS.items()}
    empty = {"204": {"description": "There is nothing to follow."}} if shape.query is _PLACE else {}
    made["responses"] = {str(shape.status): _answer(shape), **empty, **refused}
    return made


def _answer(shape: Shape) -> dict[str, Any]:
    if shape.answers is None:
        return {"description": "Done."}
    if shape.answers == EVENTS:
        return {"description": FRAMES, "content": {EVENTS: {"schema": {"type": "string"}}}}
    return {"description": "The answer.", "content": {JSON: {"schema": _ref(shape.answers)}}}


def _ref(shape: type) -> dict[str, str]:
    return {"$ref": REFS.format(name=shape.__name__)}
