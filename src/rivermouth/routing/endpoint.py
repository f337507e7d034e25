"""What routing knows of one model at one provider, and the plan made from it for one call."""

from __future__ import annotations

import msgspec

from rivermouth.config import Price
from rivermouth.ir.events import Usage


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One model at one provider.  What the config does not say is None, and the routing block says null."""

    id: str
    provider: str
    model: str
    version: str | None = None
    region: str | None = None
    sovereignty: str | None = None
    retention: str | None = None
    price: Price | None = None


class Candidate(msgspec.Struct, frozen=True):
    """An endpoint that may serve the call, and why it is in the plan."""

    endpoint: Endpoint
    why: str


class Plan(msgspec.Struct, frozen=True):
    """The candidates in order; the first is the one wanted."""

    model: str
    candidates: tuple[Candidate, ...]


def cost(price: Price | None, usage: Usage | None) -> float | None:
    """What a call cost, in the price's currency; None where the price or the tokens are not known."""
    if price is None or usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return price.cost(usage.input_tokens, usage.output_tokens, usage.cached_tokens or 0)
