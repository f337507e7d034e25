"""What a caller has left of its limits, in the headers that Anthropic's SDKs and their users look at."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from rivermouth.ir.allowance import Allowance
from rivermouth.wire.times import rfc3339


def limit_headers(allowance: Allowance, now_ns: int) -> Mapping[str, str]:
    """A reset is a moment, in RFC 3339."""
    said = {}
    for what, quota in (("requests", allowance.requests), ("tokens", allowance.tokens)):
        if quota is not None:
            said[f"anthropic-ratelimit-{what}-limit"] = str(quota.limit)
            said[f"anthropic-ratelimit-{what}-remaining"] = str(quota.remaining)
            said[f"anthropic-ratelimit-{what}-reset"] = rfc3339(ceil(now_ns / 1e9 + quota.reset_s))
    return said
