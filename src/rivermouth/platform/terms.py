"""What keys, policies and the whole server may: their limits and budgets, by name.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from rivermouth.config import Budget, Config, RateLimits
from rivermouth.store.platform.port import KeyRow

NO_LIMITS = RateLimits()


class Subject(NamedTuple):
    """Whose budget it is."""

    kind: Literal["key", "policy"]
    name: str

    def __str__(self) -> str:
        return f"the {self.kind} '{self.name}'"


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """limits: by the names of keys; only those that limit something.  server: what holds for all together."""

    limits: Mapping[str, RateLimits] = {}
    budgets: Mapping[Subject, Budget] = {}
    server: RateLimits = NO_LIMITS
    expected_output_tokens: int = 1024

    @property
    def empty(self) -> bool:
        return not self.limits and not self.budgets and self.server == NO_LIMITS


def terms_of(config: Config, rows: Iterable[KeyRow]) -> Terms:
    """Where the configuration has a key of the same name, it alone counts."""
    rows = [row for row in rows if row.name not in config.keys]
    limits = {row.name: row.limits for row in rows} | {name: key.limits for name, key in config.keys.items()}
    budgets = {Subject("key", row.name): row.budget for row in rows}
    budgets |= {Subject("key", name): key.budget for name, key in config.keys.items()}
    budgets |= {Subject("policy", name): policy.budget for name, policy in config.policies.items()}
    said = config.limits
    return Terms(
        limits={name: limit for name, limit in limits.items() if limit != NO_LIMITS},
        budgets={subject: budget for subject, budget in budgets.items() if budget is not None},
        server=RateLimits(
            requests_per_minute=said.requests_per_minute,
            tokens_per_minute=said.tokens_per_minute,
            concurrent=said.concurrent,
        ),
        expected_output_tokens=said.expected_output_tokens,
    )
