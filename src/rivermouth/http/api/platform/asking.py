"""Who asks the platform's API, and what they may.

    user     its own calls and sums, the models it may ask for, what a policy would decide for it
    auditor  everything that can be read
    admin    everything

Roles are nested, so a route names the least of them.  A parameter that a route does not have is refused and not
ignored: whoever mistypes a filter would take the answer for that of another question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from rivermouth.config import Role
from rivermouth.http.api.platform.visitor import VISITOR, Visitor, forbidden
from rivermouth.ir.errors import ApiError, Kind, invalid

Asked = Request[Any, Any, Any]
Connection = ASGIConnection[Any, Any, Any, Any]
Guard = Callable[[Connection, BaseRouteHandler], None]


def visitor(connection: Connection) -> Visitor:
    found: Visitor = connection.scope[VISITOR]  # type: ignore[typeddict-item]
    return found


def least(role: Role) -> Guard:
    """A guard that lets in this role and those above it."""

    def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        here = visitor(connection)
        if here.caller is None:
            raise ApiError(Kind.AUTHENTICATION, "no valid API key was given", code="invalid_api_key")
        if not here.may(role):
            raise forbidden(role)

    return guard


def known_parameters(connection: Connection, handler: BaseRouteHandler) -> None:
    """A guard: every parameter is one of the route's, and is given once unless it is a list."""
    known = _parameters(handler)
    for name in connection.query_params.keys():  # noqa: SIM118 - a multi-dict's own iteration is by pairs
        if name not in known:
            raise _unknown(name, known)
        if len(connection.query_params.getall(name)) > 1 and not known[name]:
            raise invalid(f"the parameter {name} is given twice", name, "repeated_parameter")


def _unknown(name: str, known: Iterable[str]) -> ApiError:
    if name == "stream":
        return invalid("this route does not stream; leave out `stream`", "stream")
    if name == "key":
        return invalid("a key goes into a header, not into the address; the filter is key_name", "key")
    text = f"no parameter is called '{name[:100]}'; there are: {', '.join(known) or 'none'}"
    return invalid(text, name[:100], "unknown_parameter")


def _parameters(handler: BaseRouteHandler) -> dict[str, bool]:
    """Query parameters by name, and whether each is a list: the route's own, and those of what it depends on."""
    given = handler.resolve_dependencies()
    others = {*RESERVED, *given, *(name for path in handler.paths for name in _placeholders(path))}
    signatures = (handler.parsed_fn_signature, *(one.parsed_fn_signature for one in given.values()))
    fields = (pair for signature in signatures for pair in signature.parameters.items())
    return {name: bool(field.is_non_string_sequence) for name, field in fields if name not in others}


RESERVED: Final = frozenset({"request", "data"})


def _placeholders(path: str) -> Iterable[str]:
    return (part[1:-1].partition(":")[0] for part in path.split("/") if part.startswith("{"))
