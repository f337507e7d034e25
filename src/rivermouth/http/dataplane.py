"""The data plane: raw ASGI from the socket to the engine, with no framework in the way of a token.

A request is judged (host, origin, key, draining), its body read within bounds, parsed by its dialect, and handed to the
handler of its operation.  Whatever fails on that way is answered in the dialect's own error shape.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
import structlog

from rivermouth.dialects.dialect import Dialect, Operation, Route
from rivermouth.engine.call import Call, Sink
from rivermouth.engine.engine import Engine
from rivermouth.http.body import ClientLeft, Receive, read_body
from rivermouth.http.envelope import CODES
from rivermouth.http.exchange import Exchange
from rivermouth.http.headers import POLICY, Header, client_request_id, get, identity, trace_context
from rivermouth.http.kept import KeptRoutes
from rivermouth.http.keys import ANYBODY, Caller, Keys
from rivermouth.http.lifecycle import Lifecycle
from rivermouth.http.models import Models
from rivermouth.http.origins import Origins
from rivermouth.http.resume import Connection, Logging, read_out
from rivermouth.http.routes import Match, NoRoute, Routes
from rivermouth.http.sink import AsgiSink, Send
from rivermouth.ir.errors import ApiError, Kind, WireError, invalid
from rivermouth.ir.names import model_name
from rivermouth.ir.request import EmbedRequest, Keeping, Request, unkept
from rivermouth.ir.tokens import estimate_prompt
from rivermouth.kept.service import Asked
from rivermouth.routing.catalog import Catalog
from rivermouth.routing.endpoint import Policy
from rivermouth.secrets import Secret, holds_secret
from rivermouth.store.port import CallRecord
from rivermouth.wire import json

log = structlog.get_logger()

T = TypeVar("T")
Run = Callable[[Call, Sink], Coroutine[Any, Any, None]]
"""The engine's way to the end of a call."""


class DataPlane:
    """`await plane(scope, receive, send)` for every path that `routes.owns`."""

    def __init__(
        self,
        *,
        routes: Routes,
        engine: Engine,
        catalog: Catalog,
        models: Models,
        keys: Keys,
        policies: Mapping[str, Policy],
        origins: Origins,
        lifecycle: Lifecycle,
        new_id: Callable[[], str],
        clock_ns: Callable[[], int],
        pseudonym: Callable[[str], str],
        secrets: tuple[Secret, ...],
        body_limit_bytes: int,
        body_limit_s: float,
        logging: Logging,
        kept: KeptRoutes,
    ) -> None:
        self.routes = routes
        self._engine = engine
        self._catalog = catalog
        self._models = models
        self._keys = keys
        self._policies = policies
        self._origins = origins
        self._lifecycle = lifecycle
        self._new_id = new_id
        self._clock_ns = clock_ns
        self._pseudonym = pseudonym
        self._secrets = secrets
        self._body_limit_bytes = body_limit_bytes
        self._body_limit_s = body_limit_s
        self._logging = logging
        self._kept = kept
        self._handlers: Mapping[Operation, Callable[[Exchange], Awaitable[None]]] = {
            Operation.GENERATE: self._generate,
            Operation.EMBED: self._embed,
            Operation.COUNT_TOKENS: self._count_tokens,
            Operation.MODELS: self._list,
            Operation.MODEL: self._model,
            **kept.handlers,
        }

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        headers: list[Header] = list(scope["headers"])
        path = scope["raw_path"].partition(b"?")[0].decode("latin-1")
        method = scope["method"]
        call_id = self._new_id()
        found = _as_meant(self.routes.find(method, path, headers), headers, scope["query_string"])
        client_id = client_request_id(headers)
        common = identity(call_id, client_id)
        verdict = self._origins.judge(method, headers)
        common += verdict.cors
        surface = found.surface if isinstance(found, Match) else None
        connection = Connection.of(scope, receive, send, verdict.cors)
        ways = (connection.hang_up, connection.write, connection.at_once)
        sink = AsgiSink(send, found.dialect, surface, call_id, common, *ways)
        if verdict.preflight:
            await sink.answer(204, b"", [])
            return
        try:
            if verdict.status:
                code = CODES.get(verdict.status)
                raise ApiError(Kind.PERMISSION, verdict.message, status=verdict.status, code=code)
            caller = ANYBODY if _is_probe(found) else self._admit(headers, scope["query_string"])
            if isinstance(found, NoRoute):
                common += [(b"allow", ", ".join(found.allowed).encode())] if found.allowed else []
                raise _no_route(found, method, path, self.routes.bases)
            exchange = Exchange(found, call_id, self._clock_ns(), headers, scope["query_string"], connection, client_id)
            exchange.sink, exchange.caller = sink, caller
            await self._serve(exchange)
        except ClientLeft:
            log.debug("request.abandoned", call=call_id)
        except ApiError as error:
            await sink.fail(error)
        except WireError as error:
            await sink.fail(invalid(f"malformed request: {error}"))
        except Exception as error:  # the edge's seam: a fault of ours is an answer, not a dropped connection
            log.exception("request.crashed", call=call_id, path=path)
            if not sink.started:
                await sink.fail(ApiError(Kind.INTERNAL, f"internal error ({type(error).__name__}); see the log"))

    def _admit(self, headers: list[Header], query: bytes) -> Caller:
        """Who calls.  Raises when a key is needed and not there."""
        caller = self._keys.caller(headers, query)
        if caller is None:
            raise ApiError(Kind.AUTHENTICATION, "no valid API key was given", code="invalid_api_key")
        return caller

    def _asked(self, headers: list[Header]) -> tuple[Policy, ...]:
        """The policies that the request itself wants to hold; it can narrow, and nothing else.

        Raises `ApiError` for a name that is none, and for none at all: nobody may think a policy holds that does not.
        """
        given = [value.decode("latin-1") for name, value in headers if name == POLICY]
        if not given:
            return ()
        names = [n.strip() for n in ",".join(given).split(",") if n.strip()]
        if not names:
            raise invalid("the header names no policy", POLICY.decode(), "unknown_policy")
        for name in names:
            if name not in self._policies:
                known = f"; there are: {', '.join(self._policies)}" if self._policies else ""
                raise invalid(f"no policy is called '{name[:100]}'{known}", POLICY.decode(), "unknown_policy")
        return tuple(self._policies[name] for name in names)

    async def _serve(self, exchange: Exchange) -> None:
        route = exchange.match.route
        self._refuse_if_draining(exchange)
        if not route.streams:
            _refuse_stream_in(exchange.query)
        if route.method in WITH_BODY or _announces_body(exchange.headers):
            exchange.body = await self._body(exchange)
            self._refuse_if_draining(exchange)  # the drain may have begun while the body was on its way
            exchange.match = _as_asked(exchange.match, exchange.body)
            route = exchange.match.route
            if not route.streams:
                _refuse_stream(exchange.body)
        exchange.caller.check_operation(route.operation)
        if exchange.caller.bound and route.operation in MANAGING:
            raise ApiError(Kind.PERMISSION, "a key with a policy or models of its own may not change the models here")
        handler = self._handlers.get(route.operation)
        if handler is not None:
            await handler(exchange)
        else:
            await self._models.serve(exchange.match, exchange.body, exchange.answer(), exchange.sink, exchange.receive)

    async def _body(self, exchange: Exchange) -> bytes:
        try:
            limit_bytes, limit_s = self._body_limit_bytes, self._body_limit_s
            return await read_body(exchange.receive, exchange.headers, limit_bytes, limit_s, exchange.connection.here)
        except ApiError as error:
            exchange.sink.close_after = error.kind is Kind.TIMEOUT  # the rest of it may never come
            raise

    def _refuse_if_draining(self, exchange: Exchange) -> None:
        if self._lifecycle.draining and exchange.match.route.operation in CALLS:
            exchange.sink.close_after = True
            raise ApiError(Kind.OVERLOADED, "the server is shutting down", retry_after_s=self._lifecycle.retry_after_s)

    async def _generate(self, exchange: Exchange) -> None:
        match = exchange.match
        request = _with_headers(await _parsed(match, exchange.body), match.dialect, exchange.headers)
        if match.dialect.keeps is None:
            request = unkept(request)
        else:
            asked = await self._kept.asked(exchange, request)
            if asked.kept.store:
                await self._keep(exchange, asked)
                return
            request = asked.request
        if not request.messages and Operation.GENERATE in match.dialect.documents:
            exchange.caller.check(request.model)
            await self._models.stand_by(match, request, exchange.answer(request.model), exchange.sink)
            return
        await self._run(exchange, self._call(exchange, request), self._engine.generate)

    async def _keep(self, exchange: Exchange, asked: Asked) -> None:
        """A call whose answer is kept: on this connection, or without one."""
        call = self._call(exchange, asked.request)
        if call.refused is not None:
            await self._run(exchange, call, self._engine.generate)
            return
        if not asked.kept.background:
            await self._run(exchange, call, self._kept.watched(exchange, asked, call))
            return
        longest_s = await self._kept.placed(call)
        if longest_s is None:
            call.request = msgspec.structs.replace(asked.request, kept=Keeping(store=False))
            await self._run(exchange, call, self._engine.generate)
            return
        call.request = msgspec.structs.replace(asked.request, stream=True)
        await self._kept.begin(exchange, asked, call, longest_s, stream=asked.request.stream)

    async def _embed(self, exchange: Exchange) -> None:
        match = exchange.match
        if match.dialect.parse_embed is None:
            raise TypeError(f"{match.dialect.name} routes embeddings and cannot parse them")
        request = await _read(match.dialect.parse_embed, match, exchange.body)
        await self._run(exchange, self._call(exchange, request), self._engine.embed)

    async def _run(self, exchange: Exchange, call: Call, run: Run) -> None:
        """The call to its end, in this task; or in one of its own, of whose log this connection is a reader."""
        wish = self._logging.wish(exchange.headers, exchange.caller)
        logged = self._logging.open(call, exchange.caller, wish) if wish is not None else None
        if wish is None or logged is None:
            self._tell_limits(exchange, call)
            with exchange.watched(call):
                await run(call, exchange.sink)
            return
        exchange.sink = self._logging.sink(logged, call, wish, identity(call.id, exchange.client_id))
        self._tell_limits(exchange, call)
        self._logging.run(logged, run(call, exchange.sink))
        await read_out(logged, exchange.connection)

    def _tell_limits(self, exchange: Exchange, call: Call) -> None:
        """The answer says what its caller has left, where it has limits and the dialect has words for it."""
        say = exchange.match.dialect.limit_headers
        if say is None or not exchange.caller.metered:
            return

        def left() -> list[Header]:
            said = say(call.allowance, self._clock_ns()) if call.allowance is not None else {}
            return [(name.encode(), value.encode()) for name, value in said.items()]

        exchange.sink.limits = left

    async def _count_tokens(self, exchange: Exchange) -> None:
        match = exchange.match
        if match.dialect.encode_count is None:
            raise TypeError(f"{match.dialect.name} routes count_tokens and cannot encode it")
        request = await _parsed(match, exchange.body)
        if match.dialect.keeps is None:
            request = unkept(request)
        else:
            request = (await self._kept.asked(exchange, request)).request
        exchange.caller.check(request.model)
        await self._catalog.plan(request.model)
        long = _is_long(exchange, request)
        tokens = await asyncio.to_thread(estimate_prompt, request) if long else estimate_prompt(request)
        await exchange.json(match.dialect.encode_count(tokens))

    async def _list(self, exchange: Exchange) -> None:
        match = exchange.match
        if match.dialect.encode_models is None:
            raise TypeError(f"{match.dialect.name} routes models and cannot encode them")
        models = [m for m in await self._catalog.models() if exchange.caller.may_ask(m.id)]
        await exchange.json(match.dialect.encode_models(models, match.route))

    async def _model(self, exchange: Exchange) -> None:
        match, dialect = exchange.match, exchange.match.dialect
        if dialect.encode_model is None:
            raise TypeError(f"{dialect.name} routes a model and cannot encode it")
        read = dialect.bodies.get(Operation.MODEL)
        name = read(exchange.body) if match.model is None and read is not None else model_name(match.model)
        exchange.caller.check(name)
        await exchange.json(dialect.encode_model(await self._catalog.model(name), match.route))

    def _plain(self, client_id: str | None) -> str | None:
        """The client's id for its request, as it may be kept."""
        return None if client_id is None or holds_secret(client_id, self._secrets) else client_id

    def _call(self, exchange: Exchange, request: Request | EmbedRequest) -> Call:
        match, caller = exchange.match, exchange.caller
        if holds_secret(request.model, self._secrets):  # it would stand in the record, in sums and in traces
            raise invalid("a key stands where the model's name belongs", "model", "key_as_model")
        user = request.user if isinstance(request, Request) else None
        opened = CallRecord(
            id=exchange.call_id,
            started_ns=exchange.now_ns,
            operation=match.route.operation.value,
            dialect=match.dialect.name,
            surface=match.surface.prefix,
            model_asked=request.model,
            stream=isinstance(request, Request) and request.stream,
            client_request_id=self._plain(exchange.client_id),
            key_name=caller.name,
            end_user=self._pseudonym(user) if user is not None else None,
        )
        return Call(
            opened=opened,
            dialect=match.dialect,
            surface=match.surface,
            route=match.route,
            request=request,
            clock_ns=self._clock_ns,
            policies=(*self._asked(exchange.headers), *caller.policies),
            refused=caller.refusal(request.model),
            trace_context=trace_context(exchange.headers),
            keeps_text=True,
            long=_is_long(exchange, request),
        )


def _is_probe(found: Match | NoRoute) -> bool:
    """Whoever watches over servers has no key, here as at /health."""
    return isinstance(found, Match) and found.route.operation is Operation.HEALTH


def _as_meant(found: Match | NoRoute, headers: list[Header], query: bytes) -> Match | NoRoute:
    """The match with its surface as this request means it."""
    if isinstance(found, NoRoute) or found.dialect.variant is None:
        return found
    asked = dict(parse_qsl(query.decode("latin-1")))
    named = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    surface = found.dialect.variant(found.surface, found.route, asked, named)
    return msgspec.structs.replace(found, surface=surface)


def _as_asked(match: Match, body: bytes) -> Match:
    """The match with its route as the body means it."""
    reroute = match.dialect.reroute
    return match if reroute is None else msgspec.structs.replace(match, route=reroute(match.route, body, match.model))


async def _parsed(match: Match, body: bytes) -> Request:
    request = await _read(match.dialect.parse_request, match, body)
    if len(request.messages) > MESSAGES_CAP:
        raise ApiError(Kind.TOO_LARGE, f"a talk has at most {MESSAGES_CAP} messages here", param="messages")
    return request


async def _read(parse: Callable[[bytes, Route, str | None], T], match: Match, body: bytes) -> T:
    """The request that a body is; a large one is read in a thread, so that nobody else waits for it (F34)."""
    if len(body) <= INLINE_BODY_BYTES:
        return parse(body, match.route, match.model)
    return await asyncio.to_thread(parse, body, match.route, match.model)


def _is_long(exchange: Exchange, request: Request | EmbedRequest) -> bool:
    """It takes its time to walk through what is asked, which may be much more than the body: see `KeptRoutes.asked`."""
    if len(exchange.body) > INLINE_BODY_BYTES:
        return True
    whole = request.original if isinstance(request, Request) and exchange.match.dialect.keeps is not None else None
    return whole is not None and sum(map(len, whole.fields.values())) > INLINE_BODY_BYTES


INLINE_BODY_BYTES: Final = 256 * 1024
MESSAGES_CAP: Final = 20_000
MANAGING: Final = frozenset({Operation.PULL, Operation.COPY, Operation.DELETE})
CALLS: Final = frozenset({Operation.GENERATE, Operation.EMBED, Operation.PULL})
WITH_BODY: Final = frozenset({"POST", "PUT", "DELETE"})


def _with_headers(request: Request, dialect: Dialect, headers: list[Header]) -> Request:
    """The headers that a same-dialect upstream needs to understand the original body (F36: and no others)."""
    if request.original is None or not dialect.passed_headers:
        return request
    passed = {name: value for name in dialect.passed_headers if (value := get(headers, name.encode())) is not None}
    return msgspec.structs.replace(request, original=msgspec.structs.replace(request.original, headers=passed))


def _announces_body(headers: list[Header]) -> bool:
    """Most requests without need of a body have none; some clients send one with a GET all the same."""
    return get(headers, b"content-length") not in (None, "0") or get(headers, b"transfer-encoding") is not None


def _refuse_stream(body: bytes) -> None:
    """`stream: true` where nothing streams is an error, never ignored (R14).  A body that is no object is not ours."""
    if b'"stream"' in body and bytes(json.fields(body).get("stream", b"")) == b"true":
        raise _no_stream()


def _refuse_stream_in(query: bytes) -> None:
    """The same wish in the query of a GET, where it is the only place."""
    if b"stream" in query and dict(parse_qsl(query.decode("latin-1"))).get("stream", "").lower() in ("true", "1"):
        raise _no_stream()


def _no_stream() -> ApiError:
    return invalid("this route does not stream; leave out `stream` or set it to false", "stream")


def _no_route(found: NoRoute, method: str, path: str, bases: str) -> ApiError:
    if found.allowed:
        text = f"{path[:200]} takes {', '.join(found.allowed)}, not {method}. {bases}"
        return ApiError(Kind.INVALID_REQUEST, text, status=405, code="method_not_allowed")
    text = f"unknown url: {method} {path[:200]}. Served here: {'; '.join(found.served)}. {bases}"
    return ApiError(Kind.NOT_FOUND, text, code="unknown_url")
