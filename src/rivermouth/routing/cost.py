"""What calls cost.  Amounts are whole billionths of a currency unit, so sums agree whoever makes them.

The figure in an answer's routing block, in its record and in the usage are the same integer, divided when shown.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from rivermouth.config import Price
from rivermouth.ir.events import Usage
from rivermouth.store.port import NANO


class Cost(msgspec.Struct, frozen=True):
    """estimated: some of the tokens were counted here and not by a provider."""

    nano: int
    currency: str
    estimated: bool = False

    @property
    def amount(self) -> float:
        """In units of the currency."""
        return self.nano / NANO

    @property
    def basis(self) -> Literal["measured", "estimated"]:
        return "estimated" if self.estimated else "measured"


def cost(price: Price | None, usage: Usage | None) -> Cost | None:
    """Of one attempt; None where the price or the tokens are not known."""
    if price is None or usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    amount = price.cost(usage.input_tokens, usage.output_tokens, usage.cached_tokens or 0)
    return Cost(round(amount * NANO), price.currency, usage.estimated)


def together(first: Cost | None, second: Cost | None) -> Cost | None:
    """Of two attempts of one call.  Amounts of two currencies are no sum: the later one stands, flagged estimated."""
    if first is None or second is None:
        return second if first is None else first
    if first.currency != second.currency:
        return Cost(second.nano, second.currency, estimated=True)
    return Cost(first.nano + second.nano, first.currency, first.estimated or second.estimated)
