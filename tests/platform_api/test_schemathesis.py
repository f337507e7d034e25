"""What schemathesis makes of the OpenAPI documents, asked of a running server: it finds nothing.

A few examples of each operation here, many in `make fault`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks, openapi

from rivermouth.http.api.described import PATH, SHAPES
from tests.engine.lab import lab
from tests.platform_api.office import CONFIG, KEYS, Office
from tests.platform_api.test_roles import LEAST
from tests.thorough import THOROUGH

EXAMPLES: Final = 60 if THOROUGH else 3
ADMIN: Final = {"Authorization": f"Bearer {KEYS['admin']}"}
OPERATIONS: Final = sorted(route.replace(":str}", "}") for route in LEAST)
UNTOLD: Final = frozenset(
    {
        "GET /platform/v1/usage",  # a zone that there is, a time of at most so many days
        "GET /platform/v1/usage.csv",
        "GET /platform/v1/usage.jsonl",
        "POST /platform/v1/policies/dry-run",  # policies that there are
        "POST /platform/v1/keys",  # a policy and a zone that there are, an end that is not over
        "PATCH /platform/v1/keys/{key_id}",
    }
)
"""Operations that refuse for a reason that no schema can say: what fits the schema may be refused there."""
UNLIMITED: Final = """
[accounts]
login_tries = 10000
address_tries = 100000
"""
ACCEPTS_WHAT_FITS: Final = "positive_data_acceptance"

pytestmark = [
    pytest.mark.thorough(quick=True),
    pytest.mark.timeout(900 if THOROUGH else 60),
    pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One with records, so that there is something to find."""

    async def calls(place: Office) -> None:
        for who in ("user", "other"):
            await place.call(who)
            await place.call(who, model="gpt-us", stream=True, max_tokens=3)
        for number in range(1, HISTORY + 1):
            assert (await place.ask("POST", "/api/chats", "admin", {}))[1]["id"] == number
            said = {"content": "hello", "model": "scripted", "pieces": True}
            assert (await place.raw("POST", f"/api/chats/{number}/stream", "admin", said))[0] == 200

    with lab(tmp_path_factory.mktemp("office"), CONFIG + UNLIMITED) as made:
        asyncio.run(calls(Office(made)))
        yield made


@pytest.fixture(scope="module")
def described(server: Any) -> dict[Any, Any]:
    """The platform's document for each mode.  For requests that are wrong it does not tell of keys: a request without
    one would be wrong for that alone, and right in every other way."""
    url = f"{server.url}/platform/openapi.json"
    with urllib.request.urlopen(url) as answer:
        document = json.load(answer)
    keyless = {**document, "security": [], "components": {"schemas": document["components"]["schemas"]}}
    return {GenerationMode.POSITIVE: openapi.from_url(url), GenerationMode.NEGATIVE: openapi.from_dict(keyless)}


@pytest.mark.promise(77, 78)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_is_found_on_the_platform(server: Any, described: Any, operation: str, mode: Any) -> None:
    """Every answer has a status and a body that its document has told of, and no request crashes the server."""
    method, _, path = operation.partition(" ")
    left_out = {ACCEPTS_WHAT_FITS} if operation in UNTOLD else set()
    asked = described[mode][path][method]
    if mode is GenerationMode.POSITIVE or asked.query or asked.body:  # or nothing can be wrong
        _ask(asked, mode, server.url, ADMIN, _named(left_out))


STREAMS: Final = frozenset({("POST", "/api/chats/{chat_id}/stream"), ("GET", "/api/chats/{chat_id}/events")})
"""Which last as long as what they follow, and hold no JSON document: `tests/http/test_chats.py` reads them."""
CHOOSY: Final = frozenset(
    {
        ("POST", "/api/auth/signup"),  # names and passwords that are good enough
        ("POST", "/api/chats/{chat_id}/cancel"),  # 3.0 is a whole number to a schema, and none here
    }
)
"""Routes that refuse for a reason that no schema can say."""
HISTORY: Final = 3
"""Chats that there are, with an answer each."""


@pytest.fixture(scope="module")
def chat(server: Any) -> Any:
    """The chat's document for each mode, as above."""
    url = f"{server.url}{PATH}"
    with urllib.request.urlopen(url) as answer:
        document = json.load(answer)
    keyless = {**document, "security": [], "components": {"schemas": document["components"]["schemas"]}}
    return {GenerationMode.POSITIVE: openapi.from_url(url), GenerationMode.NEGATIVE: openapi.from_dict(keyless)}


@pytest.mark.promise(88, 89, 90, 91, 92, 94, 95, 96)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("route", sorted(SHAPES.keys() - STREAMS), ids=" ".join)
def test_nothing_is_found_on_the_chat(server: Any, chat: Any, route: tuple[str, str], mode: Any) -> None:
    method, path = route
    left_out = {ACCEPTS_WHAT_FITS} if route in CHOOSY else set()
    asked = chat[mode][path][method]
    numbers = itertools.cycle(range(1, HISTORY + 2))

    def there(case: Any) -> None:
        """Most of the chats that are asked for are there; what is deleted is none of them."""
        if mode is GenerationMode.POSITIVE and case.path_parameters and method != "DELETE":
            case.path_parameters["chat_id"] = next(numbers)

    if mode is GenerationMode.POSITIVE or asked.query or asked.body or asked.path_parameters:
        _ask(asked, mode, server.url, ADMIN, _named(left_out), there)


def _as_it_is(case: Any) -> None:
    """Nothing is changed of it."""


def _ask(
    operation: Any,
    mode: Any,
    url: str,
    headers: dict[str, str],
    left_out: list[Any],
    change: Callable[[Any], None] = _as_it_is,
) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def each(case: Any) -> None:
        change(case)
        case.call_and_validate(base_url=url, headers=headers, excluded_checks=left_out)

    each()


def _named(names: set[str]) -> list[Any]:
    return list(checks.CHECKS.get_by_names(sorted(names)))
