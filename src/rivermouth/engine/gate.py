"""The port through which a call is let in, or not, once it is known who might serve it.

`admit` decides at once, without waiting for anything, so nothing can come between its look and its word.  `settle` is
told of the end of every call, let in or not, exactly once: after its upstreams have confirmed that they stopped, and
before its record is handed to the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rivermouth.engine.call import Call
from rivermouth.engine.reservation import Reservation
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.routing.cost import Cost
from rivermouth.routing.policy import Selection
from rivermouth.store.port import CallRecord


class Gate(Protocol):
    """active: there is something that it could refuse; where it is not, `admit` is not asked."""

    active: bool

    @property
    def weigh(self) -> Callable[[Request | EmbedRequest], int]:
        """What `admit` asks of the request alone, by `call.asked`.  Pure, and called in any thread."""
        ...

    def admit(self, call: Call, selection: Selection) -> Reservation:
        """Lets the call in; sets `call.allowance` where its caller has limits, also when it then refuses.

        Raises `ApiError`, and then nothing is reserved; `Refused` where it is about the candidates.
        """
        ...

    def again(self, reservation: Reservation, paid: Cost) -> bool:
        """A call that has come to so much may have another attempt, which is reserved for; False, and it may not."""
        ...

    def settle(self, reservation: Reservation | None, final: CallRecord) -> None:
        """The call has ended as its record says; None where it was not let in, or not asked."""
        ...
