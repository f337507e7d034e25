"""Call records for tests, each field set to something that can be told from its default."""

from __future__ import annotations

from typing import Any

import msgspec

from rivermouth.ir.errors import Kind
from rivermouth.store.port import AttemptRecord, CallRecord, Decision, Outcome, Status


def opened(number: int = 1, **fields: Any) -> CallRecord:
    """An open call; `number` makes its id and its start."""
    values: dict[str, Any] = {
        "id": f"req_{number:032x}",
        "started_ns": 1_000_000_000 * number,
        "operation": "generate",
        "dialect": "openai_chat",
        "surface": "/v1",
        "model_asked": "gpt-x",
        "stream": True,
        "client_request_id": "theirs-1",
        "key_name": "RIVERMOUTH_KEY",
        "decisions": (Decision("lab-eu", "first in order"),),
    }
    return CallRecord(**{**values, **fields})


def attempt(number: int = 1, **fields: Any) -> AttemptRecord:
    values: dict[str, Any] = {
        "number": number,
        "endpoint_id": "lab-eu",
        "provider": "lab",
        "model": "gpt-x-2026",
        "outcome": Outcome.COMPLETED,
        "started_ns": 5,
        "ended_ns": 50,
        "output_tokens": 7,
        "text_chars": 21,
    }
    return AttemptRecord(**{**values, **fields})


def ended(call: CallRecord, status: Status = Status.COMPLETED, **fields: Any) -> CallRecord:
    """The same call, ended."""
    values: dict[str, Any] = {
        "status": status,
        "endpoint_id": "lab-eu",
        "provider": "lab",
        "model_used": "gpt-x-2026",
        "finish_reason": "stop",
        "input_tokens": 11,
        "output_tokens": 7,
        "cached_tokens": 0,
        "reasoning_tokens": None,
        "text_chars": 21,
        "chunks": 7,
        "first_token_ns": 30,
        "ended_ns": 60,
        "held_by_keepalive": True,
        "price_nano": 97_500,
        "price_currency": "EUR",
        "ignored": ("seed",),
        "attempts": (
            attempt(1, outcome=Outcome.FAILED, kind=Kind.OVERLOADED, status_code=503, message="busy", output_tokens=0),
            attempt(2),
        ),
    }
    return msgspec.structs.replace(call, **{**values, **fields})
