"""Static keys: each SDK's own place, on every route."""

from __future__ import annotations

import pytest

from rivermouth.dialects import discover
from rivermouth.http.keys import Keys

KEY = "rm-test-key-of-some-length"
PLACES = [key for d in discover().values() for key in d.keys]


def keys(*configured: str) -> Keys:
    return Keys(configured, PLACES)


@pytest.mark.parametrize(
    "header",
    [("authorization", f"Bearer {KEY}"), ("authorization", f"bearer  {KEY}"), ("x-api-key", KEY)],
)
def test_every_sdks_place_is_accepted(header: tuple[str, str]) -> None:
    name, value = header
    assert keys("other", KEY).name_of([(name.encode(), value.encode())], b"") is not None


@pytest.mark.parametrize(
    "header",
    [("authorization", KEY), ("authorization", "Bearer "), ("authorization", f"Basic {KEY}"), ("x-api-key", KEY[:-1])],
)
def test_anything_else_is_not(header: tuple[str, str]) -> None:
    name, value = header
    assert keys(KEY).name_of([(name.encode(), value.encode())], b"") is None


def test_the_name_of_a_key_does_not_tell_the_key() -> None:
    name = keys(KEY).name_of([(b"x-api-key", KEY.encode())], b"")
    assert name is not None
    assert name not in KEY
    assert len(name) == 8


def test_without_keys_everybody_may_call() -> None:
    assert keys().open
    assert not keys(KEY).open
