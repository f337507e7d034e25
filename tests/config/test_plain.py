"""What msgspec says becomes what a person can act on, and stays what it is where nothing is known of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from rivermouth.config.plain import plainly, sayings_of
from rivermouth.config.values import shaped


class Way(StrEnum):
    UP = "up"
    DOWN = "down"


class Inner(msgspec.Struct, frozen=True):
    currency: Annotated[str, shaped(r"^[A-Z]{3}$", "three capital letters")] = "EUR"
    period: Literal["day", "month"] = "day"


class Outer(msgspec.Struct, frozen=True):
    way: Way | None = None
    several: list[Literal["a", "b"]] | None = None
    inner: Inner | msgspec.UnsetType | None = msgspec.UNSET
    quoted: Annotated[str, shaped(r"^'$", "a quote")] = "'"
    silent: Annotated[str, msgspec.Meta(pattern="^x$")] = "x"
    number: int = 0


SAYINGS = sayings_of(Outer, group_by=list[Way])


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"way": "left"}, "expected one of up, down, not 'left'"),
        ({"several": ["a", "c"]}, "expected one of a, b, not 'c'"),
        ({"inner": {"period": "week"}}, "expected one of day, month, not 'week'"),
        ({"inner": {"currency": "euro"}}, "three capital letters"),
        ({"quoted": "x"}, "a quote"),
        ({"silent": "y"}, "Expected `str` matching regex '^x$'"),
        ({"number": "1"}, "Expected `int`, got `str`"),
    ],
)
def test_a_fault_is_said_in_words(tree: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(tree, Outer)
    text, _, place = str(caught.value).partition(" - at `$.")
    assert plainly(text, place.rstrip("`"), SAYINGS) == said


def test_a_parameter_is_known_by_its_name() -> None:
    assert plainly("Invalid enum value 'x'", "group_by", SAYINGS) == "expected one of up, down, not 'x'"
    assert plainly("Invalid enum value 'x'", "other", SAYINGS) == "Invalid enum value 'x'"
    assert plainly("Invalid enum value 'x'", None, SAYINGS) == "Invalid enum value 'x'"
