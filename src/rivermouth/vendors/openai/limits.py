"""What a caller has left of its limits, in the headers that OpenAI's SDKs and their users look at."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from rivermouth.ir.allowance import Allowance


def limit_headers(allowance: Allowance, now_ns: int) -> Mapping[str, str]:
    """A reset is a span, as in "17s" or "1m1s"."""
    said = {}
    for what, quota in (("requests", allowance.requests), ("tokens", allowance.tokens)):
        if quota is not None:
            said[f"x-ratelimit-limit-{what}"] = str(quota.limit)
            said[f"x-ratelimit-remaining-{what}"] = str(quota.remaining)
            said[f"x-ratelimit-reset-{what}"] = _span(ceil(quota.reset_s))
    return said


def _span(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
