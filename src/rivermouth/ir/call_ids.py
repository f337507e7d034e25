"""Ids of tool calls, for wires that have none, whose peers leave them out or repeat them (F20), or have few letters.

An id is made from the position, so that the same body or answer always has the same ids.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

from rivermouth.ir.opaque import spell, unspelled

_SPELLED: Final = "rmid_"


def call_id(given: str | None, seed: str, number: int, taken: set[str]) -> str:
    """The upstream's id where it has one that is new, else one made from the answer's own id and the call's number.

    `taken` grows by it.
    """
    if given and given not in taken:
        taken.add(given)
        return given
    return fresh(f"call_{seed}_{number}" if seed else f"call_{number}", taken)


def fresh(wanted: str, taken: set[str]) -> str:
    """The id, made longer while it is taken; `taken` grows by it."""
    while wanted in taken:
        wanted += "x"
    taken.add(wanted)
    return wanted


class Pairing:
    """Calls and their results in a talk whose writers may leave ids out.  Linear in the talk.

    taken: the ids that the talk's calls have already.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._unanswered: OrderedDict[str, str] = OrderedDict()
        self._by_name: dict[str, deque[str]] = {}
        self._names: dict[str, str] = {}

    def call(self, given: str | None, name: str, position: str) -> str:
        """The call's id: its own, or one made of its position."""
        identity = given or fresh(f"call_{position}", self._taken)
        self._unanswered[identity] = self._names[identity] = name
        self._by_name.setdefault(name, deque()).append(identity)
        return identity

    def result(self, given: str | None, name: str | None, position: str) -> tuple[str, str | None]:
        """The id and the name of the call that a result answers.

        Without an id that a call has it is the first one that nothing answered yet, of that name if there is one.
        """
        known = given if given in self._names else self._find(name) or given
        identity = known or fresh(f"call_{position}", self._taken)
        self._unanswered.pop(identity, None)
        return identity, name or self._names.get(identity)

    def _find(self, name: str | None) -> str | None:
        if not name:
            return next(iter(self._unanswered), None)
        waiting = self._by_name.get(name, deque())
        while waiting and waiting[0] not in self._unanswered:
            waiting.popleft()
        return waiting[0] if waiting else None


def to_alphabet(identity: str, alphabet: re.Pattern[str]) -> str:
    """The same id where the wire's alphabet allows it, else one that `from_alphabet` restores.

    Letters, digits, "-" and "_" are allowed on every wire.
    """
    if alphabet.fullmatch(identity) and not identity.startswith(_SPELLED):
        return identity
    return _SPELLED + spell(identity)


def from_alphabet(identity: str) -> str:
    """The id as it was before `to_alphabet`."""
    if not identity.startswith(_SPELLED):
        return identity
    return unspelled(identity[len(_SPELLED) :]) or identity
