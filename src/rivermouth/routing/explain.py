"""What policies decide for a model, told to people and programs without anybody being asked.  Pure.

The reasons are those that a call would have in its record, in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import msgspec

from rivermouth.config import Order
from rivermouth.ir.errors import ApiError
from rivermouth.routing.endpoint import Plan, Policy
from rivermouth.routing.policy import Refused, Selection, Verdict


class Considered(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate.  place: from 1, in the order in which they would be tried; None for who would not be."""

    endpoint_id: str
    provider: str
    model: str
    allowed: bool
    reason: str
    place: int | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would meet now.

    code, message: why it would be refused; null where it would not.  policies: those that hold, the narrowest first.
    order: how those who may serve follow each other; "weighted" and "least_busy" are drawn for each call anew.
    """

    model: str
    allowed: bool
    code: str | None = None
    message: str | None = None
    order: Order = "listed"
    policies: tuple[str, ...] = ()
    candidates: tuple[Considered, ...] = ()


def explained(
    plan: Plan,
    policies: Sequence[Policy],
    always: Sequence[Policy],
    decide: Callable[[], Selection],
    models: Sequence[str] | None = None,
) -> Explanation:
    """The decision as a value.  decide: makes it, and raises `Refused`.  models: patterns of what the key may ask for.

    policies: those of the request and of its key.  always: the server's.
    """
    own = [p for candidate in plan.candidates for p in candidate.policies]
    held = tuple(dict.fromkeys(p.id for p in (*policies, *own, *always)))
    orders = (p.order for p in (*policies, *own, *always) if p.order is not None)
    order = next(orders, plan.order)
    refused: ApiError | None = None
    try:
        chosen = decide()
    except Refused as error:
        refused, verdicts, places = error, error.verdicts, {}
    else:
        verdicts = chosen.verdicts
        places = {c.endpoint.id: place for place, c in enumerate(chosen.candidates, 1)}
    considered = tuple(_considered(verdict, places.get(verdict.candidate.endpoint.id)) for verdict in verdicts)
    if models is not None and not any(fnmatchcase(plan.model, pattern) for pattern in models):
        why = f"this key may not ask for '{plan.model}'"
        shut = tuple(msgspec.structs.replace(c, allowed=False, reason=why, place=None) for c in considered)
        return Explanation(
            model=plan.model,
            allowed=False,
            code="model_not_allowed",
            message=why,
            order=order,
            policies=held,
            candidates=shut,
        )
    return Explanation(
        model=plan.model,
        allowed=refused is None,
        code=refused.code if refused is not None else None,
        message=refused.message if refused is not None else None,
        order=order,
        policies=held,
        candidates=considered,
    )


def _considered(verdict: Verdict, place: int | None) -> Considered:
    endpoint = verdict.candidate.endpoint
    return Considered(
        endpoint_id=endpoint.id,
        provider=endpoint.provider,
        model=endpoint.model,
        allowed=not verdict.refusals,
        reason=verdict.why,
        place=place,
    )


def lines(told: Explanation) -> list[str]:
    """The explanation for a person: the decision, then who would be tried in which order, then who would not."""
    head = f"{told.model}: allowed" if told.allowed else f"{told.model}: refused ({told.code})"
    said = [head, f"policies   {', '.join(told.policies) or 'none'}", f"order      {told.order}"]
    tried = sorted((c for c in told.candidates if c.place is not None), key=lambda c: c.place or 0)
    said += [f"{c.place:>3}.       {c.endpoint_id}: {c.reason}" for c in tried]
    said += [f"no         {c.endpoint_id}: {c.reason}" for c in told.candidates if c.place is None]
    return said
