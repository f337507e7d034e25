"""Services to a server: the data plane, the framework's routes, and the sockets they answer on."""

from __future__ import annotations

import time

from rivermouth import __version__
from rivermouth.compose import Services, new_id
from rivermouth.dialects import discover
from rivermouth.http.api.health import platform
from rivermouth.http.app import App
from rivermouth.http.dataplane import DataPlane
from rivermouth.http.keys import Keys
from rivermouth.http.lifecycle import Lifecycle
from rivermouth.http.models import Models
from rivermouth.http.origins import Origins
from rivermouth.http.routes import Routes
from rivermouth.http.server import Server

BODY_LIMIT_S = 60.0


def application(services: Services, lifecycle: Lifecycle) -> App:
    """The whole server as one ASGI application."""
    config = services.config
    dialects = discover()
    keys = Keys((k.reveal() for k in config.server.keys), (key for d in dialects.values() for key in d.keys))
    origins = Origins(
        bound=config.server.host,
        hosts=config.http.allowed_hosts,
        origins=config.http.allowed_origins,
        keyed=not keys.open,
    )
    data = DataPlane(
        routes=Routes(dialects.values()),
        engine=services.engine,
        catalog=services.catalog,
        local=Models(local=services.local, catalog=services.catalog, version=__version__),
        keys=keys,
        origins=origins,
        lifecycle=lifecycle,
        new_id=new_id,
        clock_ns=time.time_ns,
        body_limit_bytes=config.http.body_limit_bytes,
        body_limit_s=BODY_LIMIT_S,
    )
    rest = platform(
        lifecycle=lifecycle,
        inflight=lambda: len(services.engine.inflight),
        metrics=services.metrics.render,
        version=__version__,
    )
    return App(data=data, platform=rest, keys=keys, origins=origins, base_path=config.http.base_path)


def server(services: Services, *, tls: tuple[str, str] | None = None) -> Server:
    """A server for these services; `run_on` gives it its sockets."""
    lifecycle = Lifecycle()
    return Server(
        application(services, lifecycle),
        lifecycle=lifecycle,
        drain_s=services.config.timeouts.drain_s,
        inflight=lambda: len(services.engine.inflight),
        end_all=services.end_all,
        trusted_proxies=services.config.http.trusted_proxies,
        tls=tls,
    )
