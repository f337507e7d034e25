"""All of the platform's API as one application, with its OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from litestar import Litestar, Response
from litestar.datastructures import MutableScopeHeaders
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme, Server
from litestar.types import Message, Scope

from rivermouth.http.api.platform import (
    allowances,
    calls,
    changes,
    erasure,
    exports,
    keys,
    problems,
    routing,
    usage,
)
from rivermouth.http.api.platform.asking import known_parameters
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.pages import POLICY, DocumentRenderPlugin, PageRenderPlugin
from rivermouth.ir.errors import ApiError
from rivermouth.store.port import StoreError
from rivermouth.wire import json

OPEN: Final = frozenset({"/platform/openapi.json", "/platform/docs"})
"""The same for everybody, so nobody needs a key for it."""
BODY_LIMIT_BYTES: Final = 1024 * 1024
HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
SUBJECTS: Final = (calls, usage, exports, routing, keys, changes, allowances, erasure)


class Document(Response[Any]):
    """JSON as everything here is written, so that a routing block is the same bytes in every place."""

    def render(self, content: Any, media_type: str, enc_hook: Any = None) -> bytes:
        return content if isinstance(content, bytes) else json.encode(content)


def platform_app(desk: Desk, version: str, base_path: str = "") -> Litestar:
    """The application for every path under /platform.  Its scope has a `Visitor`."""
    return Litestar(
        route_handlers=[_told(handler) for subject in SUBJECTS for handler in subject.routes(desk)],
        guards=[known_parameters],
        response_class=Document,
        before_send=[_dress],
        exception_handlers={
            ApiError: problems.api_error,
            StoreError: problems.store_error,
            HTTPException: problems.framework_error,
            RecursionError: problems.nested,
            500: problems.crashed,
        },
        openapi_config=OpenAPIConfig(
            title="Rivermouth platform",
            version=version,
            description="What happened, what it cost, who may call, and by which rules.",
            use_handler_docstrings=True,
            path="/platform",
            servers=[Server(url=base_path or "/")],
            components=Components(security_schemes={"key": SecurityScheme(type="http", scheme="bearer")}),
            security=[{"key": []}],
            render_plugins=[DocumentRenderPlugin(), PageRenderPlugin(path="/docs")],
        ),
        request_max_body_size=BODY_LIMIT_BYTES,
        logging_config=None,
    )


def _told(handler: HTTPRouteHandler) -> HTTPRouteHandler:
    """The handler with the errors that each may answer, for the OpenAPI document."""
    handler.responses = {**problems.RESPONSES, **(handler.responses or {})}
    return handler


async def _dress(message: Message, scope: Scope) -> None:
    if message["type"] == "http.response.start":
        headers = MutableScopeHeaders.from_message(message)
        for name, value in HEADERS.items():
            headers[name] = value
