"""Services to a server: the data plane, the framework's routes, and the sockets they answer on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from rivermouth import __version__
from rivermouth.compose import Ids, Services
from rivermouth.config import Config
from rivermouth.dialects import discover
from rivermouth.dialects.dialect import FINISH_EVERY, ROLE_EVERY, ROLE_WITH_CONTENT, Dialect, Surface
from rivermouth.http.api.accounts import Rules, account_routes
from rivermouth.http.api.bodies import WholeBodies
from rivermouth.http.api.chats import chat_app, chat_routes
from rivermouth.http.api.health import platform
from rivermouth.http.app import App
from rivermouth.http.chats import ChatStreams
from rivermouth.http.dataplane import DataPlane
from rivermouth.http.keys import Keys
from rivermouth.http.lifecycle import Lifecycle
from rivermouth.http.models import Models
from rivermouth.http.origins import Origins
from rivermouth.http.page import Page
from rivermouth.http.persons import Persons
from rivermouth.http.routes import Routes
from rivermouth.http.server import Server
from rivermouth.http.visitors import Proxies
from rivermouth.loopback import is_loopback

BODY_LIMIT_S = 60.0


def application(services: Services, lifecycle: Lifecycle, models: Models, bound: Iterable[str]) -> App:
    """The whole server as one ASGI application.  bound: the addresses that it listens on."""
    config = services.config
    dialects = _as_configured(discover(), config)
    keys = Keys((k.reveal() for k in config.server.keys), (key for d in dialects.values() for key in d.keys))
    origins = Origins(
        bound=(config.server.host, *bound),
        hosts=config.http.allowed_hosts,
        origins=config.http.allowed_origins,
        keyed=not keys.open,
    )
    routes = Routes(dialects.values())
    data = DataPlane(
        routes=routes,
        engine=services.engine,
        catalog=services.catalog,
        models=models,
        keys=keys,
        origins=origins,
        lifecycle=lifecycle,
        new_id=Ids(),
        clock_ns=time.time_ns,
        body_limit_bytes=config.http.body_limit_bytes,
        body_limit_s=BODY_LIMIT_S,
    )
    rest = platform(
        lifecycle=lifecycle,
        inflight=lambda: len(services.engine.inflight),
        metrics=services.metrics.render,
        queues=services.local.pool.queues,
        turns=services.chat.slots,
        version=__version__,
        bases=routes.bases,
    )
    proxies = Proxies(config.http.trusted_proxies)
    private = all(map(is_loopback, (config.server.host, *bound))) and not proxies and not config.http.base_path
    identity = Persons(services.accounts, keys, private=private)
    rules = Rules(
        open=config.accounts.signup == "open" or (config.accounts.signup is None and keys.open),
        proxies=proxies,
        origins=config.http.allowed_origins,
        base_path=config.http.base_path,
    )
    handlers = [*chat_routes(services.chat, identity), *account_routes(services.accounts, identity, rules)]
    streams = ChatStreams(
        services.chat,
        identity=identity,
        settings=services.chat_settings,
        lifecycle=lifecycle,
        new_id=Ids(),
        base_path=config.http.base_path,
        body_limit_bytes=config.http.body_limit_bytes,
    )
    return App(
        data=data,
        streams=streams,
        chats=WholeBodies(chat_app(handlers, __version__)),
        page=Page(config.http.base_path),
        platform=rest,
        keys=keys,
        origins=origins,
        base_path=config.http.base_path,
    )


def _as_configured(dialects: dict[str, Dialect], config: Config) -> dict[str, Dialect]:
    """The dialects with the settings that change their words: `openai.role` (R3), `gemini.finish_reason` (R9)."""
    openai, gemini = dialects["openai_chat"], dialects["gemini"]
    if config.openai.role == "every":
        openai = _with(openai, ROLE_EVERY, lambda surface: ROLE_WITH_CONTENT in surface.options)
    if config.gemini.finish_reason == "every":
        gemini = _with(gemini, FINISH_EVERY, lambda surface: True)
    return {**dialects, openai.name: openai, gemini.name: gemini}


def _with(dialect: Dialect, option: str, where: Callable[[Surface], bool]) -> Dialect:
    """The dialect with one more option on those of its surfaces."""
    surfaces = (msgspec.structs.replace(s, options=s.options | {option}) if where(s) else s for s in dialect.surfaces)
    return msgspec.structs.replace(dialect, surfaces=tuple(surfaces))


def server(services: Services, *, bound: Iterable[str] = (), tls: tuple[str, str] | None = None) -> Server:
    """A server for these services; `run_on` gives it its sockets, which listen on `bound`."""
    lifecycle = Lifecycle()
    models = Models(local=services.local, catalog=services.catalog, version=__version__)

    def end_all() -> None:
        services.end_all()
        models.end_all()

    return Server(
        application(services, lifecycle, models, bound),
        lifecycle=lifecycle,
        drain_s=services.config.timeouts.drain_s,
        inflight=lambda: len(services.engine.inflight) + len(models.pulls),
        end_all=end_all,
        tls=tls,
    )
