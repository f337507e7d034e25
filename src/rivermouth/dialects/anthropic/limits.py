"""What a caller has left of its limits, in the headers that Anthropic's SDKs and their users look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

from rivermouth.ir.allowance import Allowance, Quota
from rivermouth.wire.times import rfc3339


def limit_headers(allowance: Allowance, now_ns: int) -> Mapping[str, str]:
    """A reset is a moment, in RFC 3339."""
    return {
        name: value
        for what, quota in (("requests", allowance.requests), ("tokens", allowance.tokens))
        if quota is not None
        for name, value in _of(what, quota, now_ns)
    }


def _of(what: str, quota: Quota, now_ns: int) -> Iterator[tuple[str, str]]:
    yield f"anthropic-ratelimit-{what}-limit", str(quota.limit)
    yield f"anthropic-ratelimit-{what}-remaining", str(quota.remaining)
    yield f"anthropic-ratelimit-{what}-reset", rfc3339(ceil(now_ns / 1e9 + quota.reset_s))
