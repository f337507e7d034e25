"""What is taken of the limits and budgets of keys, of policies and of the whole server."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler

from rivermouth.config import Budget, RateLimits
from rivermouth.http.api.platform.asking import Asked, least, visitor
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.shapes import moment
from rivermouth.platform.gate import BudgetState, LimitState
from rivermouth.store.port import NANO


class LimitDocument(msgspec.Struct, frozen=True, kw_only=True):
    """key: null for the whole server.  allowance: what is left.  running: calls."""

    key: str | None
    limits: RateLimits
    allowance: dict[str, Any]
    running: int


class LimitList(msgspec.Struct, frozen=True):
    data: list[LimitDocument]
    next: str | None = None


class BudgetDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A budget in its present period, [since, until).  known: false while it is being read what was spent before.
    The amounts are in `currency`.
    """

    kind: Literal["key", "policy"]
    name: str
    budget: Budget
    currency: str
    amount: float
    spent: float
    reserved: float
    left: float
    since: datetime
    until: datetime
    known: bool


class BudgetList(msgspec.Struct, frozen=True):
    data: list[BudgetDocument]
    next: str | None = None


def routes(desk: Desk) -> list[HTTPRouteHandler]:
    service = desk.platform

    @get("/platform/v1/limits", guards=[least("user")], tags=["keys"])
    async def limits(request: Asked) -> LimitList:
        """What is taken of the limits in this minute: of each key that has any, and of the whole server."""
        here = visitor(request)
        own = here.caller.name if here.caller is not None else None
        names = [view.name for view in service.keys(revoked=False) if view.limits != RateLimits()]
        shown = [None, *names] if here.may("auditor") else [name for name in names if name == own]
        return LimitList([_limit(service.limits(name)) for name in shown])

    @get("/platform/v1/budgets", guards=[least("user")], tags=["keys"])
    async def budgets(request: Asked) -> BudgetList:
        """What is spent and reserved of each budget in its present period."""
        here = visitor(request)
        own = here.caller.name if here.caller is not None else None
        states = service.budgets()
        mine = (s for s in states if here.may("auditor") or (s.kind == "key" and s.name == own))
        return BudgetList([_budget(state) for state in mine])

    return [limits, budgets]


def _limit(state: LimitState) -> LimitDocument:
    return LimitDocument(
        key=state.key, limits=state.limits, allowance=msgspec.to_builtins(state.allowance), running=state.running
    )


def _budget(state: BudgetState) -> BudgetDocument:
    left = max(state.amount_nano - state.spent_nano - state.reserved_nano, 0)
    return BudgetDocument(
        kind=state.kind,
        name=state.name,
        budget=state.budget,
        currency=state.budget.currency,
        amount=state.amount_nano / NANO,
        spent=state.spent_nano / NANO,
        reserved=state.reserved_nano / NANO,
        left=left / NANO,
        since=moment(state.since_ns),
        until=moment(state.until_ns),
        known=state.known,
    )
