"""The chat's single documents: chats, their history, the choice of a model.  Litestar serves them."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import structlog
from litestar import Litestar, Request, Response, delete, get, post, put
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler

from rivermouth.chat.identity import Identity
from rivermouth.chat.service import MOST, PAGE, ChatService
from rivermouth.http.api.bodies import route_of
from rivermouth.http.chats import error_body
from rivermouth.ir.errors import ApiError, Kind, WireError, invalid, kind_of_status
from rivermouth.wire import json

log = structlog.get_logger()

Asked = Request[Any, Any, Any]

JSON: Final = "application/json"
LARGEST: Final = 2**63 - 1
_PLACE: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


class NewChat(msgspec.Struct, frozen=True):
    title: str = ""
    instructions: str = ""


class Change(msgspec.Struct, frozen=True):
    """What is not there stays as it is."""

    title: str | None = None
    instructions: str | None = None


class Choice(msgspec.Struct, frozen=True):
    model: str


_new: Final = json.typed(NewChat)
_change: Final = json.typed(Change)
_choice: Final = json.typed(Choice)


def chat_routes(service: ChatService, identity: Identity) -> list[HTTPRouteHandler]:
    """The handlers.  Each asks first whose request it is."""

    async def person(request: Asked) -> str:
        return await identity.identify(list(request.scope["headers"]))

    @get("/api/chats")
    async def listed(request: Asked) -> Response[bytes]:
        """The chats of whoever asks, the one touched last first; with `?q=`, those that hold every word of it."""
        owner = await person(request)
        query = request.query_params.get("q", "").strip()
        limit = min(max(_number(request.query_params.get("limit", str(PAGE)), "limit"), 1), MOST)
        before = _before(request.query_params.get("before"))
        if query:
            return answer({"chats": (await service.search(owner, query))[:limit]})
        chats = await service.chats(owner, limit, before)
        return answer({"chats": chats, "next": chats[-1].page if len(chats) == limit else None})

    @post("/api/chats")
    async def create(request: Asked) -> Response[bytes]:
        """A new chat."""
        owner, body = await person(request), await request.body()
        new = json.decode_as(_new, body) if body.strip() else NewChat()
        made = await service.create(owner, new.title.strip(), new.instructions)
        return answer({"chatId": made.id, "id": made.id, "chat": made}, 201)

    @get("/api/chats/{chat_id:int}")
    async def whole(request: Asked) -> Response[bytes]:
        """A chat with its history, and the cursor to follow it from."""
        return answer(await service.chat(await person(request), _chat_id(request)))

    @put("/api/chats/{chat_id:int}")
    async def update(request: Asked) -> Response[bytes]:
        """Another title, other instructions."""
        owner, change = await person(request), json.decode_as(_change, await request.body())
        title = change.title.strip() if change.title is not None else None
        return answer({"chat": await service.update(owner, _chat_id(request), title, change.instructions)})

    @delete("/api/chats/{chat_id:int}", status_code=204)
    async def remove(request: Asked) -> None:
        """With all that was said in it."""
        await service.delete(await person(request), _chat_id(request))

    @get("/api/ai/models")
    async def models(request: Asked) -> Response[bytes]:
        """Every choice, whether it can answer now, and the saved one."""
        return answer(await service.models(await person(request)))

    @put("/api/ai/model")
    async def choose(request: Asked) -> Response[bytes]:
        """Save a choice: it answers where a message names none."""
        owner, choice = await person(request), json.decode_as(_choice, await request.body())
        await service.prefer(owner, choice.model)
        return answer({"selected": choice.model})

    return [listed, create, whole, update, remove, models, choose]


def chat_app(handlers: list[HTTPRouteHandler]) -> Litestar:
    """The application for these routes, with errors in their shape."""
    return Litestar(
        route_handlers=handlers,
        exception_handlers={ApiError: _api_error, WireError: _wire_error, HTTPException: _http_error, 500: _crashed},
        openapi_config=None,  # `described` knows the streams too
        logging_config=None,
    )


def answer(value: Any, status: int = 200) -> Response[bytes]:
    return Response(json.encode(value), media_type=JSON, status_code=status)


def _api_error(request: Asked, error: ApiError) -> Response[bytes]:
    answered = answer(error_body(error), error.status)
    if error.retry_after_s is not None:
        answered.headers["retry-after"] = str(max(int(-(-error.retry_after_s // 1)), 0))
    return answered


def _wire_error(request: Asked, error: WireError) -> Response[bytes]:
    fault = json.misfit(error)
    return _api_error(request, invalid(fault.words, fault.param))


def _http_error(request: Asked, error: HTTPException) -> Response[bytes]:
    kind = kind_of_status(error.status_code)
    return answer(error_body(ApiError(kind, error.detail, status=error.status_code)), error.status_code)


def _crashed(request: Asked, error: Exception) -> Response[bytes]:
    """A fault of ours."""
    log.error("request.crashed", path=route_of(request.scope), exc_info=error)
    failure = ApiError(Kind.INTERNAL, f"internal error ({type(error).__name__}); see the log")
    return answer(error_body(failure), failure.status)


def _chat_id(request: Asked) -> int:
    """Of the path; one that no store could hold is that of no chat."""
    given: int = request.path_params["chat_id"]
    return given if 0 <= given < 2**63 else 0


def _number(text: str, param: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise invalid(f"{param} is a number", param)
    return int(text)


def _before(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _PLACE.fullmatch(text)
    if found is None or max(place := (int(found[1]), int(found[2]))) > LARGEST:
        raise invalid("before is the `page` of a chat in the list", "before")
    return place
