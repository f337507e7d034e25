"""Paths to routes: the table of everything the data plane serves, made from the dialects' own lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

import msgspec

from rivermouth.dialects.dialect import ALWAYS, Dialect, Route, Surface
from rivermouth.http.headers import Header, get

REST: Final = "{model}"


class Match(msgspec.Struct, frozen=True):
    """A request's place: whose dialect, which surface, which route, and the model that the path names."""

    dialect: Dialect
    surface: Surface
    route: Route
    model: str | None = None


class NoRoute(msgspec.Struct, frozen=True):
    """Nothing is served there.  `allowed`: methods that are, at this very path.  `dialect`: whose prefix it is."""

    dialect: Dialect
    allowed: tuple[str, ...] = ()
    served: tuple[str, ...] = ()


class Routes:
    """The data plane's table.  Raw paths, so that a model id with %2F in it stays one."""

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self._exact: dict[str, list[Match]] = {}
        self._rest: list[tuple[str, Match]] = []
        self._prefixes: list[tuple[str, Dialect]] = []
        for dialect in dialects:
            for surface in dialect.surfaces:
                self._prefixes.append((surface.prefix + "/", dialect))
                for route in dialect.routes:
                    self._add(Match(dialect, surface, route))
        self._rest.sort(key=lambda entry: -len(entry[0]))
        self._prefixes.sort(key=lambda entry: -len(entry[0]))

    def owns(self, path: str) -> bool:
        """True when the path is under a dialect's prefix, served or not."""
        return path in self._exact or any(path.startswith(prefix) for prefix, _ in self._prefixes)

    def find(self, method: str, path: str, headers: list[Header]) -> Match | NoRoute:
        """The route of a request."""
        path = path.rstrip("/") or "/"
        here = self._here(path)
        fitting = [m for m in here if _told(m, headers)]
        for match in fitting:
            if match.route.method == method:
                return match
        allowed = tuple(sorted({m.route.method for m in fitting or here}))
        dialect = (fitting or here)[0].dialect if here else self._dialect_of(path, headers)
        return NoRoute(dialect, allowed, self._served(path))

    def _add(self, match: Match) -> None:
        path = match.surface.prefix + match.route.path
        if path.endswith(REST):
            self._rest.append((path.removesuffix(REST), match))
            return
        self._exact.setdefault(path, []).append(match)
        # A route that needs a header is asked before its unconditional namesake.
        self._exact[path].sort(key=lambda m: m.route.when_header is None)

    def _here(self, path: str) -> list[Match]:
        exact = self._exact.get(path)
        if exact is not None:
            return exact
        found = []
        for prefix, match in self._rest:
            if path.startswith(prefix) and len(path) > len(prefix):
                found.append(msgspec.structs.replace(match, model=unquote(path.removeprefix(prefix))))
        return sorted(found, key=lambda m: m.route.when_header is None)

    def _dialect_of(self, path: str, headers: list[Header]) -> Dialect:
        owners = [d for prefix, d in self._prefixes if (path + "/").startswith(prefix)]
        telling = [d for d in owners if any(_names(r, headers) for r in d.routes)]
        return (telling or [d for d in owners if not any(r.when_header for r in d.routes)] or owners)[0]

    def _served(self, path: str) -> tuple[str, ...]:
        owners = {d.name for prefix, d in self._prefixes if (path + "/").startswith(prefix)}
        listed = [m for matches in self._exact.values() for m in matches] + [m for _, m in self._rest]
        near = (m for m in listed if m.dialect.name in owners and (path + "/").startswith(m.surface.prefix + "/"))
        return tuple(dict.fromkeys(f"{m.route.method} {m.surface.prefix}{m.route.path}" for m in near))


def _told(match: Match, headers: list[Header]) -> bool:
    """True unless the route needs a header that the request does not carry."""
    return match.route.when_header is None or ALWAYS in match.surface.options or _names(match.route, headers)


def _names(route: Route, headers: list[Header]) -> bool:
    return route.when_header is not None and get(headers, route.when_header.encode()) is not None
