"""What a session's secret means when it is shown.  Pure.

the secret of now        the session goes on, with another secret
the one before it        within the grace: two tabs at once, or an answer that was lost; nothing changes
                         after it: somebody has kept an old secret, and nobody can say who is who
any other                the same
"""

from __future__ import annotations

import hmac
from enum import StrEnum
from typing import Final

from rivermouth.store.accounts.port import Session

NS: Final = 1_000_000_000


class Renewal(StrEnum):
    GO_ON = "go on"
    REPEAT = "repeat"
    REPLAYED = "replayed"
    OVER = "over"


def judge(session: Session | None, digest: str, now_ns: int, grace_s: float) -> Renewal:
    """digest: of the secret that was shown with the session's handle."""
    if session is None or session.expires_ns <= now_ns:
        return Renewal.OVER
    if hmac.compare_digest(digest, session.secret):
        return Renewal.GO_ON
    before = session.previous is not None and hmac.compare_digest(digest, session.previous)
    if before and now_ns - session.renewed_ns <= grace_s * NS:
        return Renewal.REPEAT
    return Renewal.REPLAYED
