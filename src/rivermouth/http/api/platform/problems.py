"""Errors of the platform's API, all in one shape: what `http.envelope` has for everything outside the dialects."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi import ResponseSpec

from rivermouth.config.plain import plainly, sayings_of
from rivermouth.http.api.bodies import route_of
from rivermouth.http.api.platform.keys import KeyChangeBody, NewKeyBody
from rivermouth.http.api.platform.routing import Question
from rivermouth.ir.errors import ApiError, Kind, invalid, kind_of_status
from rivermouth.store.archive import Group
from rivermouth.store.port import Status, StoreError
from rivermouth.wire import json

log = structlog.get_logger()

JSON: Final = "application/json"
BODY: Final = "data"
UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `([^`]*)`")
LONGEST_PATH: Final = 200
SAYINGS: Final = sayings_of(NewKeyBody, KeyChangeBody, Question, group_by=Group, status=Status, kind=Kind)
CODES: Final[dict[int, str]] = {404: "unknown_url", 405: "method_not_allowed"}


class Fault(msgspec.Struct, frozen=True):
    """What was wrong.  param: the parameter or field at fault, where it is one."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class Problem(msgspec.Struct, frozen=True):
    """Every answer that is not 2xx."""

    error: Fault


TOLD: Final[dict[int, str]] = {
    400: "Something in the request cannot be.",
    401: "No valid key was given.",
    403: "The key may not do that.",
    404: "There is no such thing, or it is not yours.",
    405: "The path does not take this method.",
    409: "It is not as the request has it any more, or cannot be changed.",
    413: "The body is too large.",
    503: "The database cannot do it now.",
}
RESPONSES: Final = {
    status: ResponseSpec(data_container=Problem, description=text, generate_examples=False)
    for status, text in TOLD.items()
}
"""What any of the routes may answer beside its own document."""


def answer(error: ApiError) -> Response[bytes]:
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    body = json.encode(Problem(Fault(error.message, kind, error.param, error.code)))
    response = Response(body, media_type=JSON, status_code=error.status)
    if error.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if error.retry_after_s is not None:
        response.headers["retry-after"] = str(max(int(-(-error.retry_after_s // 1)), 0))
    return response


def api_error(request: Request[Any, Any, Any], error: ApiError) -> Response[bytes]:
    return answer(error)


def store_error(request: Request[Any, Any, Any], error: StoreError) -> Response[bytes]:
    log.error("platform.store_failed", path=route_of(request.scope), reason=str(error))
    if error.passing:
        return answer(ApiError(Kind.OVERLOADED, "the database cannot do it now", status=503, retry_after_s=1.0))
    return answer(ApiError(Kind.INTERNAL, "the database refused; the log has why"))


def framework_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """What Litestar found wrong: a path, a method, a parameter, a body."""
    if isinstance(error, ValidationException):
        return answer(invalid(*_first(error)))
    unknown = error.status_code == 404
    path = str(request.scope["path"])[:LONGEST_PATH]
    detail = f"unknown url: {request.method} {path}; /platform/docs has all that there are" if unknown else error.detail
    known = ApiError(
        kind_of_status(error.status_code), detail, status=error.status_code, code=CODES.get(error.status_code)
    )
    response = answer(known)
    response.headers.update({k: v for k, v in (error.headers or {}).items() if k.lower() == "allow"})
    return response


def _first(error: ValidationException) -> tuple[str, str | None]:
    """The first fault, and where: the name of a parameter, or the path of a field in the body."""
    found = error.extra[0] if isinstance(error.extra, list) and error.extra else None
    if not isinstance(found, dict):
        return error.detail, None
    words, key = str(found.get("message", error.detail)), found.get("key")
    unknown = UNKNOWN_FIELD.match(words)
    param = key if isinstance(key, str) else None
    words = plainly(words, param, SAYINGS)
    parts = [key if key != BODY else None, unknown[1] if unknown is not None else None]
    return words, ".".join(filter(None, parts)) or None


def nested(request: Request[Any, Any, Any], error: RecursionError) -> Response[bytes]:
    """Of a body: nothing else here goes deep."""
    return answer(invalid("JSON is nested too deeply"))


def crashed(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """A fault of ours."""
    log.error("request.crashed", path=route_of(request.scope), exc_info=error)
    return answer(ApiError(Kind.INTERNAL, f"internal error ({type(error).__name__}); see the log"))
