"""Kept answers for tests, each field set to something that can be told from its default."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.store.kept.port import KeptAnswer, Owner

ANNA: Final = Owner("anna", "key_a")
BOB: Final = Owner("bob", "key_b")
NOBODY: Final = Owner(None, None)
NOW_NS: Final = 50
LATER_NS: Final = 100


def kept(number: int = 1, **fields: Any) -> KeptAnswer:
    """An ended one; `number` makes its ids and its start."""
    values: dict[str, Any] = {
        "id": f"resp_{number}",
        "call_id": f"call{number}",
        "dialect": "openai_responses",
        "owner": ANNA,
        "created_ns": number,
        "expires_ns": LATER_NS,
        "input": b'[{"type":"message","role":"user","content":"d\xc3\xa9j\xc3\xa0 %d"}]' % number,
        "answer": b'{"id":"resp_%d","status":"completed","output":[]}' % number,
        "previous": f"resp_{number - 1}" if number > 1 else None,
        "background": True,
        "ended_ns": number + 1,
        "last": 7,
    }
    return KeptAnswer(**{**values, **fields})
