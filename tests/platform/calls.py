"""Calls for the gate, with a clock that the test moves."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

from rivermouth.config import Price
from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.engine.call import Call
from rivermouth.engine.reservation import Reservation
from rivermouth.ir.events import Usage
from rivermouth.ir.request import Message, Request, Role, Text
from rivermouth.platform.gate import PlatformGate
from rivermouth.routing.cost import cost
from rivermouth.routing.endpoint import Candidate, Endpoint, Policy
from rivermouth.routing.policy import Selection, Verdict
from rivermouth.store.port import CallRecord, Status

NS = 1_000_000_000
EUROS = Price(input=1_000_000.0, output=1_000_000.0, currency="EUR")
"""One euro a token."""


class Clock:
    """Both of a gate's clocks."""

    def __init__(self, unix_s: float = 1_796_000_000.0) -> None:
        self.unix_s = unix_s

    def now_s(self) -> float:
        return self.unix_s - 1_700_000_000.0

    def now_ns(self) -> int:
        return int(self.unix_s * NS)

    def gate(self) -> PlatformGate:
        return PlatformGate(now_s=self.now_s, clock_ns=self.now_ns)


numbers = count(1)


def call(clock: Clock, *, key: str | None = "k", prompt: int = 4, answer: int | None = 6) -> Call:
    """A call whose prompt is estimated at so many tokens, four at least."""
    request = Request(
        model="m", messages=(Message(Role.USER, (Text("x" * 4 * (prompt - 4)),)),), max_tokens=answer, stream=True
    )
    opened = CallRecord(
        id=f"{next(numbers):032x}",
        started_ns=clock.now_ns(),
        operation="generate",
        dialect="openai_chat",
        surface="/v1",
        model_asked="m",
        key_name=key,
    )
    return Call(
        opened=opened,
        dialect=DIALECT,
        surface=DIALECT.surfaces[0],
        route=DIALECT.routes[0],
        request=request,
        clock_ns=clock.now_ns,
    )


def candidate(name: str = "e", price: Price | None = EUROS, policies: tuple[Policy, ...] = ()) -> Candidate:
    return Candidate(Endpoint(id=name, provider="p", model="m", price=price), "configured", policies)


def selection(*candidates: Candidate) -> Selection:
    offered = candidates or (candidate(),)
    return Selection(offered, tuple(Verdict(c) for c in offered))


def final(of: Call, *, tokens: tuple[int, int] | None, price: Price | None = EUROS, **fields: Any) -> CallRecord:
    """How a call ended that came to these tokens, in and out; None: nobody was asked."""
    paid = cost(price, Usage(input_tokens=tokens[0], output_tokens=tokens[1])) if tokens is not None else None
    values: dict[str, Any] = {
        "status": Status.COMPLETED,
        "input_tokens": tokens[0] if tokens is not None else None,
        "output_tokens": tokens[1] if tokens is not None else None,
        "price_nano": paid.nano if paid is not None else None,
        "price_currency": paid.currency if paid is not None else None,
        "ended_ns": 5 * NS,
    }
    return msgspec.structs.replace(of.ledger.opened, **{**values, **fields})


def admitted(gate: PlatformGate, of: Call, offered: Selection | None = None) -> Reservation:
    return gate.admit(of, offered or selection())
