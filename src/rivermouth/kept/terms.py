"""For how long an answer may be kept.  Pure.

Nobody keeps it longer than those who were asked: a policy says the longest, an endpoint what it does itself, and the
word that an answer has for it (`retention`) has to be true of this server too.
"""

from __future__ import annotations

import msgspec

from rivermouth.routing.endpoint import Candidate

NANO = 1_000_000_000


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """store: answers are kept.  ttl_s: for how long at most.  background: some may be made without a connection.

    talk_bytes: how long a talk may be with all that goes before it.
    """

    store: bool = True
    ttl_s: float = 30 * 86_400.0
    background: bool = True
    talk_bytes: int = 32 * 1024 * 1024


def longest_s(candidate: Candidate, ttl_s: float) -> float:
    """How long what this candidate answers may be kept; 0: not at all."""
    endpoint, policies = candidate.endpoint, candidate.policies
    if not endpoint.records_text or not all(policy.records_text for policy in policies):
        return 0.0
    said = (endpoint.retention_s, *(policy.retention_max_s for policy in policies))
    return min(ttl_s, *(s for s in said if s is not None), ttl_s)


def until_ns(since_ns: int, seconds: float) -> int:
    return since_ns + int(seconds * NANO)
