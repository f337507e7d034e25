"""Static keys: each SDK's own place, on every route."""

from __future__ import annotations

import pytest

from rivermouth.dialects import discover
from rivermouth.http.keys import ANYBODY, Caller, Keys
from rivermouth.ir.errors import ApiError
from rivermouth.routing.endpoint import Policy

KEY = "rm-test-key-of-some-length"
PLACES = [key for d in discover().values() for key in d.keys]


def keys(*configured: str) -> Keys:
    return Keys(configured, (), PLACES)


@pytest.mark.parametrize(
    "header",
    [("authorization", f"Bearer {KEY}"), ("authorization", f"bearer  {KEY}"), ("x-api-key", KEY)],
)
def test_every_sdks_place_is_accepted(header: tuple[str, str]) -> None:
    name, value = header
    assert keys("other", KEY).caller([(name.encode(), value.encode())], b"") is not None


@pytest.mark.parametrize(
    "header",
    [("authorization", KEY), ("authorization", "Bearer "), ("authorization", f"Basic {KEY}"), ("x-api-key", KEY[:-1])],
)
def test_anything_else_is_not(header: tuple[str, str]) -> None:
    name, value = header
    assert keys(KEY).caller([(name.encode(), value.encode())], b"") is None


def test_the_name_of_a_key_does_not_tell_the_key() -> None:
    caller = keys(KEY).caller([(b"x-api-key", KEY.encode())], b"")
    assert caller is not None
    name = caller.name
    assert name is not None
    assert name not in KEY
    assert len(name) == 8


def test_without_keys_everybody_may_call() -> None:
    assert keys().open
    assert keys().caller([], b"") is ANYBODY
    assert not keys(KEY).open


def test_a_key_of_its_own_says_whose_it_is_and_what_it_may() -> None:
    eu = Policy(id="eu", regions=("eu-*",))
    known = Keys(["common"], [(KEY, Caller("ci", (eu,), ("gpt-*", "lab/*")))], PLACES)
    caller = known.caller([(b"authorization", f"Bearer {KEY}".encode())], b"")
    assert caller == Caller("ci", (eu,), ("gpt-*", "lab/*"))
    assert caller.bound
    caller.check("gpt-x")
    caller.check("lab/any/thing")
    with pytest.raises(ApiError) as refused:
        caller.check("claude")
    assert (refused.value.status, refused.value.code) == (403, "model_not_allowed")
    common = known.caller([(b"authorization", b"Bearer common")], b"")
    assert common is not None
    assert not common.bound
