"""Paths to routes: the table of everything the data plane serves, made from the dialects' own lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

import msgspec

from rivermouth.dialects.dialect import ALWAYS, Dialect, Route, Surface
from rivermouth.http.headers import Header, get

REST: Final = "{model}"
NAMED: Final = "{id}"
"""The same for what is no model."""
AT_THE_PORT: Final = frozenset({"anthropic", "ollama"})
"""Dialects whose SDKs append the whole of a path, and so need no prefix."""
OPENAI: Final = "openai_chat"


class Match(msgspec.Struct, frozen=True):
    """A request's place: whose dialect, which surface, which route, and the model (or `NAMED`) that the path names."""

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
        self._rest: list[tuple[str, str, Match]] = []
        self._prefixes: list[tuple[str, Dialect]] = []
        self._surfaces: list[tuple[Dialect, Surface]] = []
        for dialect in dialects:
            for surface in dialect.surfaces:
                self._surfaces.append((dialect, surface))
                self._prefixes.append((_home(surface) + "/", dialect))
                for route in dialect.routes:
                    if route.path not in surface.lacks:
                        self._add(Match(dialect, surface, route))
        # The most telling pattern first: the longest text after the model, then before it.
        self._rest.sort(key=lambda entry: (-len(entry[1]), -len(entry[0])))
        self._prefixes.sort(key=lambda entry: -len(entry[0]))

    @property
    def bases(self) -> str:
        """A sentence that says how the base URL of each SDK ends; most calls of what is not served have a wrong one."""
        surfaces = [(d.name, s.prefix) for d, s in self._surfaces]
        openai = " or ".join(prefix for name, prefix in surfaces if name == OPENAI and prefix.endswith("/v1"))
        heads = {
            (name, prefix[1:].partition("/")[0])
            for name, prefix in surfaces
            if name not in AT_THE_PORT and (OPENAI, prefix) not in surfaces
        }
        others = sorted({f"/{head}" for name, head in heads if name.startswith(head)})
        return (
            f"Base URLs end in {openai} for OpenAI clients, in the port for Anthropic and Ollama ones, "
            f"and in {', '.join(others)} for those of that name."
        )

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
        known = [m for m in fitting or here if not self._swallows(m)]
        allowed = tuple(sorted({m.route.method for m in known}))
        dialect = known[0].dialect if known else self._dialect_of(path, headers)
        return NoRoute(dialect, allowed, self._served(path))

    def _swallows(self, match: Match) -> bool:
        """True for a route that takes whatever follows, beside others that say what is to be done with the model: it
        fits what is none of these, as in "/models/x:explain", without being about it."""
        before, found, after = _path(match).partition(REST)
        return bool(found) and not after and any(b == before and a for b, a, _ in self._rest)

    def _add(self, match: Match) -> None:
        path = _path(match)
        if REST in path:
            before, _, after = path.partition(REST)
            self._rest.append((before, after, match))
            return
        self._exact.setdefault(path, []).append(match)
        # A route that needs a header is asked before its unconditional namesake.
        self._exact[path].sort(key=lambda m: m.route.when_header is None)

    def _here(self, path: str) -> list[Match]:
        exact = self._exact.get(path)
        if exact is not None:
            return exact
        found = []
        for before, after, match in self._rest:
            if path.startswith(before) and path.endswith(after) and len(path) > len(before) + len(after):
                model = path[len(before) : len(path) - len(after)]
                found.append(msgspec.structs.replace(match, model=unquote(model)))
        return sorted(found, key=lambda m: m.route.when_header is None)

    def _dialect_of(self, path: str, headers: list[Header]) -> Dialect:
        owners = [d for prefix, d in self._prefixes if (path + "/").startswith(prefix)]
        telling = [d for d in owners if any(_names(r, headers) for r in d.routes)]
        return (telling or [d for d in owners if not any(r.when_header for r in d.routes)] or owners)[0]

    def _served(self, path: str) -> tuple[str, ...]:
        owners = {d.name for prefix, d in self._prefixes if (path + "/").startswith(prefix)}
        listed = [m for matches in self._exact.values() for m in matches] + [m for _, _, m in self._rest]
        near = (m for m in listed if m.dialect.name in owners and (path + "/").startswith(_home(m.surface) + "/"))
        return tuple(dict.fromkeys(f"{m.route.method} {m.surface.prefix}{m.route.path}" for m in near))


def _path(match: Match) -> str:
    return match.surface.prefix + match.route.path.replace(NAMED, REST)


def _home(surface: Surface) -> str:
    return surface.prefix if surface.home is None else surface.home


def _told(match: Match, headers: list[Header]) -> bool:
    """True unless the route needs a header that the request does not carry."""
    return match.route.when_header is None or ALWAYS in match.surface.options or _names(match.route, headers)


def _names(route: Route, headers: list[Header]) -> bool:
    return route.when_header is not None and get(headers, route.when_header.encode()) is not None
