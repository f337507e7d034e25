"""The server's single JSON documents and texts: what it is, how it is, what it measured.  Litestar serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from litestar import Litestar, MediaType, Request, Response, get, route
from litestar.exceptions import MethodNotAllowedException, NotFoundException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from rivermouth.http.envelope import envelope
from rivermouth.http.lifecycle import Lifecycle
from rivermouth.observe import CONTENT_TYPE

RUNNING = "Ollama is running"
"""The text that Ollama's clients probe for (R22)."""


def platform(
    *,
    lifecycle: Lifecycle,
    inflight: Callable[[], int],
    metrics: Callable[[], bytes],
    version: str,
    bases: str = "",
) -> Litestar:
    """The application for every path that is not the data plane's.  bases: said where one is asked for that is not."""

    @route("/", http_method=["GET", "HEAD"], media_type=MediaType.TEXT, sync_to_thread=False)
    def root() -> Response[str]:
        """The text that clients probe for.  A browser never comes here: it gets the page."""
        return Response(RUNNING, media_type=MediaType.TEXT)

    @get("/health", sync_to_thread=False)
    def health() -> Response[dict[str, Any]]:
        """200 while new calls are taken, 503 while the server drains."""
        state = "draining" if lifecycle.draining else "ok"
        body = {"status": state, "inflight": inflight(), "version": version}
        return Response(body, status_code=503 if lifecycle.draining else 200)

    @get("/metrics", media_type=MediaType.TEXT, sync_to_thread=False)
    def prometheus() -> Response[bytes]:
        """Everything measured, as Prometheus reads it."""
        return Response(metrics(), media_type=CONTENT_TYPE)

    def unknown(request: Request[Any, Any, Any], error: NotFoundException) -> Response[bytes]:
        """The commonest mistake is a base URL without its /v1."""
        path = request.scope["path"][:200]
        message = f"unknown url: {request.method} {path}. {bases}"
        return Response(envelope(404, message), media_type=MediaType.JSON, status_code=404)

    def untaken(request: Request[Any, Any, Any], error: MethodNotAllowedException) -> Response[bytes]:
        """Some SDKs post to their base URL itself, which is ours where it lacks a prefix."""
        body = envelope(405, f"{request.scope['path'][:200]} does not take {request.method}. {bases}")
        return Response(body, media_type=MediaType.JSON, status_code=405, headers=error.headers)

    return Litestar(
        route_handlers=[root, health, prometheus],
        exception_handlers={NotFoundException: unknown, MethodNotAllowedException: untaken},
        openapi_config=OpenAPIConfig(
            title="Rivermouth", version=version, path="/schema", render_plugins=[JsonRenderPlugin()]
        ),
        logging_config=None,
    )
