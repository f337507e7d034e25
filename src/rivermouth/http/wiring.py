"""Services to a server: the data plane, the framework's routes, and the sockets they answer on."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from rivermouth import __version__
from rivermouth.compose import Ids, Services, policies_of
from rivermouth.config import Config, KeyConfig, RateLimits
from rivermouth.dialects import discover
from rivermouth.dialects.dialect import FINISH_EVERY, ROLE_EVERY, ROLE_WITH_CONTENT, Dialect, Surface
from rivermouth.editions import Edition
from rivermouth.engine.interrupt import By, Interrupt
from rivermouth.http.api.bodies import WholeBodies, answer_in_envelope
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.visitor import admitted
from rivermouth.http.app import App, Front
from rivermouth.http.chats import ChatStreams
from rivermouth.http.dataplane import DataPlane
from rivermouth.http.headers import Header
from rivermouth.http.kept import KeptRoutes
from rivermouth.http.keys import Caller, Keys
from rivermouth.http.later import AsgiApp, Later
from rivermouth.http.lifecycle import Lifecycle
from rivermouth.http.models import Models
from rivermouth.http.origins import Origins
from rivermouth.http.page import Page
from rivermouth.http.persons import Persons
from rivermouth.http.proxies import Proxies
from rivermouth.http.resume import Logging, Resumption
from rivermouth.http.routes import Routes
from rivermouth.http.rules import Rules
from rivermouth.http.server import Server
from rivermouth.loopback import is_loopback
from rivermouth.routing.endpoint import Policy

BODY_LIMIT_S = 60.0


class Wiring:
    """The server of these services: one application, and a front of it for each edition.

    bound: the addresses that it listens on.
    """

    def __init__(self, services: Services, *, bound: Iterable[str] = (), tls: ssl.SSLContext | None = None) -> None:
        self._services = services
        self._lifecycle = Lifecycle()
        self._bound = tuple(bound)
        self._pulls: set[Interrupt] = set()
        self._current = _Current(lambda: self._app.front)
        self._app = self._application(self._front(services.editions.current))
        self.server = Server(
            self._app,
            lifecycle=self._lifecycle,
            drain_s=lambda: services.config.timeouts.drain_s,
            inflight=lambda: self._inflight() + len(self._pulls),
            end_all=self._end_all,
            tls=tls,
        )

    def renew(self, config: Config) -> None:
        """New requests begin with this configuration, those that run end with theirs.

        Raises `ConfigError` or `OSError`, and then nothing has changed.
        """
        edition = self._services.maker.edition(config, self._services.editions.current)
        front = self._front(edition)
        self._services.adopt(edition)
        self._app.front = front

    def _inflight(self) -> int:
        return sum(1 for _ in self._services.inflight())

    def _end_all(self) -> None:
        self._services.end_all()
        for interrupt in list(self._pulls):
            interrupt.cancel(By.SHUTDOWN)

    def _front(self, edition: Edition) -> Front:
        config = edition.config
        dialects, policies = _as_configured(discover(), config), policies_of(config)
        keys = self._keys(config, dialects, policies)
        origins = Origins(
            bound=(config.server.host, *self._bound),
            hosts=config.http.allowed_hosts,
            origins=config.http.allowed_origins,
            keyed=lambda: not keys.open,
        )
        proxies = Proxies(config.http.trusted_proxies, config.http.proxy_headers)
        streams = ChatStreams(
            self._services.chat,
            identity=self._current,
            settings=self._services.chat_settings,
            lifecycle=self._lifecycle,
            new_id=Ids(),
            base_path=config.http.base_path,
            body_limit_bytes=config.http.body_limit_bytes,
        )
        return Front(
            edition=edition,
            data=self._data_plane(edition, dialects, policies, keys, origins),
            streams=streams,
            persons=Persons(self._services.accounts, keys, private=self._private(config, proxies)),
            rules=Rules(
                signup=config.accounts.signup,
                keys=keys,
                origins=config.http.allowed_origins,
                base_path=config.http.base_path,
            ),
            keys=keys,
            origins=origins,
            proxies=proxies,
        )

    def _keys(self, config: Config, dialects: Mapping[str, Dialect], policies: Mapping[str, Policy]) -> Keys:
        return Keys(
            (k.reveal() for k in config.server.keys),
            ((k.key.reveal(), _caller(name, k, policies)) for name, k in config.keys.items()),
            (key for d in dialects.values() for key in d.keys),
            ring=self._services.platform.ring,
            policies=policies,
            required=config.server.require_keys,
        )

    def _data_plane(
        self,
        edition: Edition,
        dialects: Mapping[str, Dialect],
        policies: Mapping[str, Policy],
        keys: Keys,
        origins: Origins,
    ) -> DataPlane:
        config, services = edition.config, self._services
        logging = Logging(services.logged, edition, config.http.base_path)
        return DataPlane(
            routes=Routes(dialects.values()),
            engine=edition.engine,
            catalog=edition.catalog,
            models=Models(local=services.local, catalog=edition.catalog, version=__version__, pulls=self._pulls),
            keys=keys,
            policies=policies,
            origins=origins,
            lifecycle=self._lifecycle,
            new_id=Ids(),
            clock_ns=time.time_ns,
            pseudonym=services.pseudonyms.of,
            secrets=config.secrets,
            body_limit_bytes=config.http.body_limit_bytes,
            body_limit_s=BODY_LIMIT_S,
            logging=logging,
            kept=KeptRoutes(services.kept, services.logged, logging, engine=edition.engine, catalog=edition.catalog),
        )

    def _private(self, config: Config, proxies: Proxies) -> bool:
        """Only this machine can reach the server, and nothing stands before it that others reach."""
        alone = all(map(is_loopback, (config.server.host, *self._bound)))
        return alone and not proxies and not config.http.base_path

    def _desk(self) -> Desk:
        services = self._services
        return Desk(
            archive=services.archive,
            platform=services.platform,
            pseudonyms=services.pseudonyms,
            breakers=services.maker.breakers,
            inflight=lambda: list(services.inflight()),
            queues=services.local.pool.queues,
            turns=services.chat.slots,
            now_ns=time.time_ns,
        )

    def _application(self, front: Front) -> App:
        base_path = self._services.config.http.base_path
        return App(
            front,
            chats=WholeBodies(self._later(self._chats)),
            page=Page(base_path),
            resumption=Resumption(self._services.logged),
            platform=WholeBodies(self._later(self._documents), reads=admitted, refuse=answer_in_envelope),
            rest=self._later(self._rest),
            base_path=base_path,
        )

    def _later(self, make: Callable[[], AsgiApp]) -> Later:
        return Later(make, lambda: self.server.settle_more())

    def _chats(self) -> AsgiApp:
        from rivermouth.http.api.accounts import account_routes
        from rivermouth.http.api.chats import chat_app, chat_routes
        from rivermouth.http.api.described import description

        services, base_path = self._services, self._services.config.http.base_path
        handlers = [*chat_routes(services.chat, self._current), *account_routes(services.accounts, self._current)]
        return chat_app([*handlers, description(handlers, __version__, base_path)])

    def _documents(self) -> AsgiApp:
        from rivermouth.http.api.platform.app import platform_app

        return platform_app(self._desk(), __version__, self._services.config.http.base_path)

    def _rest(self) -> AsgiApp:
        from rivermouth.http.api.health import platform

        return platform(
            lifecycle=self._lifecycle,
            inflight=self._inflight,
            metrics=self._services.metrics.render,
            version=__version__,
            bases=self._app.front.data.routes.bases,
        )


def _caller(name: str, key: KeyConfig, policies: Mapping[str, Policy]) -> Caller:
    return Caller(
        name,
        (policies[key.policy],) if key.policy is not None else (),
        key.models,
        role=key.role,
        scopes=key.scopes,
        metered=key.budget is not None or key.limits != RateLimits(),
        user=key.user,
        resumable=key.resumable,
    )


class _Current:
    """Who asks, and what they may, by the rules of the front that is there now."""

    def __init__(self, front: Callable[[], Front]) -> None:
        self._front = front

    async def identify(self, headers: Sequence[Header]) -> str:
        return await self.persons.identify(headers)

    @property
    def persons(self) -> Persons:
        return self._front().persons

    @property
    def rules(self) -> Rules:
        return self._front().rules


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
