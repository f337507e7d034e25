"""What routing knows of one model at one provider, of a policy, and the plan made from it for one call."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rivermouth.config import Capability, Order, Price


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One model at one provider.  What the config does not say is None, and the routing block says null.

    retention: in the operator's words; `retention_s`: that as a time, None where it is none.
    records_text: False: what is said there may not be kept here.
    """

    id: str
    provider: str
    model: str
    version: str | None = None
    region: str | None = None
    sovereignty: str | None = None
    retention: str | None = None
    retention_s: float | None = None
    price: Price | None = None
    capabilities: frozenset[Capability] | None = None
    context_tokens: int | None = None
    records_text: bool = True


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One `[policies.ID]`.  None admits everything; an empty tuple admits nothing.

    regions, providers: patterns with `*` and `?`, whatever the case.  classes: of sovereignty.
    prefer: patterns of endpoint ids; what matches an earlier one comes first, whatever the order says.
    fallback: False: the first candidate of the order, and no other.  records_text: False: no text of its calls is kept.
    """

    id: str
    regions: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    providers: tuple[str, ...] | None = None
    retention_max_s: float | None = None
    price_max: Price | None = None
    requires: tuple[Capability, ...] = ()
    context_min_tokens: int | None = None
    order: Order | None = None
    prefer: tuple[str, ...] = ()
    weights: Mapping[str, float] = {}
    fallback: bool = True
    records_text: bool = True


class Candidate(msgspec.Struct, frozen=True):
    """An endpoint that may serve the call, why it is in the plan, and the policies that came with the model's name."""

    endpoint: Endpoint
    why: str
    policies: tuple[Policy, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """The candidates as the file has them, and the order in which the model's entry wants them tried.

    model: what was asked for, in the words of who asked; what each endpoint calls it stands there.
    """

    model: str
    candidates: tuple[Candidate, ...]
    order: Order = "listed"
    weights: Mapping[str, float] = {}
