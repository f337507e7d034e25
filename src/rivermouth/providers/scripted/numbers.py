"""The number nearest to zero that the keywords of a JSON schema allow, computed exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from rivermouth.providers.scripted.conform import Unsatisfiable, exact

BIGGEST: Final = 2**63 - 1


def nearest_to_zero(flat: dict[str, Any], step: Fraction) -> float:
    """The number nearest to 0 within the limits and on the steps (of `multipleOf`, or `step`; 0 is any number)."""
    low, above = _limit(flat, "minimum", "exclusiveMinimum", max)
    high, below = _limit(flat, "maximum", "exclusiveMaximum", min)
    if "multipleOf" in flat:
        given = exact(flat["multipleOf"])
        # On the grid of both, 1 and n/d, is every multiple of n.
        step = Fraction(given.numerator) if step else given
    if step > 0:
        first = None if low is None else math.floor(low / step) + 1 if above else math.ceil(low / step)
        last = None if high is None else math.ceil(high / step) - 1 if below else math.floor(high / step)
        chosen = _closest(first, last) * step
    else:
        chosen = _between(low, high, above, below)
    if abs(chosen) > BIGGEST:
        raise Unsatisfiable("the number is too large")
    return int(chosen) if chosen.denominator == 1 else float(chosen)


def _limit(
    flat: dict[str, Any], name: str, exclusive: str, tighter: Callable[[Fraction, Fraction], Fraction]
) -> tuple[Fraction | None, bool]:
    """The limit that counts and whether it is itself excluded.  Old drafts say `True` beside it, new ones a number."""
    plain = exact(flat[name]) if name in flat else None
    said = flat.get(exclusive)
    if said is True:
        return plain, plain is not None
    strict = None if said is None or said is False else exact(said)
    if plain is None or strict is None:
        return (plain, False) if strict is None else (strict, True)
    chosen = tighter(plain, strict)
    return chosen, chosen == strict


def _closest(first: int | None, last: int | None) -> int:
    """The whole number nearest to 0 from `first` to `last`."""
    if first is not None and last is not None and first > last:
        raise Unsatisfiable("no number lies between the limits")
    if first is not None and first > 0:
        return first
    return last if last is not None and last < 0 else 0


def _between(low: Fraction | None, high: Fraction | None, above: bool, below: bool) -> Fraction:
    """0 if it is allowed, else the limit next to it, else the next whole number inside, else the middle."""
    whole = None if low is None else Fraction(math.floor(low) + 1)
    whole_down = None if high is None else Fraction(math.ceil(high) - 1)
    middle = (low + high) / 2 if low is not None and high is not None else None
    for number in (Fraction(0), low, high, whole, whole_down, middle):
        if number is None:
            continue
        over = low is None or (number > low if above else number >= low)
        under = high is None or (number < high if below else number <= high)
        if over and under:
            return number
    raise Unsatisfiable("no number lies between the limits")
