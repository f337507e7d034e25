"""Many cases in one test, where a case costs less than a test does: what pytest does around each takes milliseconds.

    @in_turn("kind", Kind)                   in the place of @pytest.mark.parametrize("kind", Kind)
    @in_turn(("client", "upstream"), PAIRS)

A case that fails ends the test, and a note at the failure says which it was.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

NOTE_CHARS: Final = 500
Test = Callable[..., None]


def in_turn(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """What is left of the arguments are fixtures, which all the cases share."""
    every = tuple(cases)
    assert every, "a test without a case shows nothing"
    given = [dict(zip(names, case, strict=True)) if isinstance(names, tuple) else {names: case} for case in every]

    def decorate(test: Test) -> Test:
        assert not inspect.iscoroutinefunction(test), "its cases would share an event loop"

        @functools.wraps(test)
        def all_cases(*args: Any, **fixtures: Any) -> None:
            for case in given:
                try:
                    test(*args, **fixtures, **case)
                except BaseException as failed:
                    failed.add_note(f"in the case {case}"[:NOTE_CHARS])
                    raise

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in given[0]]
        assert len(left) + len(given[0]) == len(signature.parameters), f"{test.__name__} does not take {set(given[0])}"
        all_cases.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # what pytest asks
        return all_cases

    return decorate
