"""The documents about calls, made of their records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from rivermouth.ir.errors import Kind
from rivermouth.routing.block import block_of
from rivermouth.store.archive import Place
from rivermouth.store.port import NANO, AttemptRecord, CallRecord, CallText, Outcome, Status

Basis = Literal["measured", "estimated"]


class Money(msgspec.Struct, frozen=True):
    """basis: estimated, where some of the tokens were counted here and not by a provider."""

    amount: float
    currency: str
    basis: Basis


class Tokens(msgspec.Struct, frozen=True):
    """null is not known, never 0.  estimated: counted here.  at_least: there may have been more."""

    input: int | None
    output: int | None
    cached: int | None
    reasoning: int | None = None
    estimated: bool = False
    at_least: bool = False


class Timings(msgspec.Struct, frozen=True):
    """Milliseconds since the call began."""

    first_token_ms: float | None
    total_ms: float | None


class CallSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A call as a list has it."""

    id: str
    status: Status
    started_at: datetime
    ended_at: datetime | None
    operation: str
    dialect: str
    surface: str
    stream: bool
    model: str
    model_used: str | None
    provider: str | None
    endpoint_id: str | None
    policy_id: str | None
    key_name: str | None
    end_user: str | None
    client_request_id: str | None
    kind: Kind | None
    message: str | None
    cancelled_by: str | None
    finish_reason: str | None
    tokens: Tokens
    text_chars: int
    chunks: int
    cost: Money | None
    timings: Timings
    erased: bool


class Candidate(msgspec.Struct, frozen=True):
    """Whether an endpoint might serve the call, and why or why not."""

    endpoint_id: str
    allowed: bool
    reason: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try at one endpoint.  The times are milliseconds since the call began."""

    number: int
    endpoint_id: str
    provider: str
    model: str
    outcome: Outcome
    started_ms: float
    ended_ms: float | None
    kind: Kind | None
    status_code: int | None
    message: str | None
    tokens: Tokens
    text_chars: int | None
    cost: Money | None


class Message(msgspec.Struct, frozen=True):
    role: str
    text: str


class AttemptError(msgspec.Struct, frozen=True):
    """Why an attempt failed, in words that may quote the prompt."""

    attempt: int
    message: str


class Words(msgspec.Struct, frozen=True):
    """What was said.  cut: some of it was too long to be kept."""

    prompt: list[Message]
    answer: str
    cut: bool
    errors: list[AttemptError]


class CallDocument(CallSummary, frozen=True, kw_only=True):
    """A call with all that is known of it.

    routing: the block that its answer carried, where the dialect has a place for it, to the byte.
    text: what was said, if that is kept.  ignored: fields of the request that the target could not be given.
    """

    held_by_keepalive: bool
    ignored: list[str]
    candidates: list[Candidate]
    attempts: list[Attempt]
    routing: dict[str, Any] | None
    text: Words | None


class CallList(msgspec.Struct, frozen=True):
    """next: the `after` of the next page; null when there is none.  A page may be short, or empty, and have a next."""

    data: list[CallSummary]
    next: str | None


def summary(call: CallRecord) -> CallSummary:
    return CallSummary(**_summary(call))


def document(call: CallRecord, text: CallText | None) -> CallDocument:
    return CallDocument(
        **_summary(call),
        held_by_keepalive=call.held_by_keepalive,
        ignored=list(call.ignored),
        candidates=[Candidate(d.candidate, d.allowed, d.why) for d in call.decisions],
        attempts=[_attempt(a) for a in call.attempts],
        routing=block_of(call),
        text=_words(text) if text is not None else None,
    )


def _summary(call: CallRecord) -> dict[str, Any]:
    ended_ns = None if call.ended_ns is None else call.started_ns + call.ended_ns
    return {
        "id": call.id,
        "status": call.status,
        "started_at": moment(call.started_ns),
        "ended_at": moment(ended_ns) if ended_ns is not None else None,
        "operation": call.operation,
        "dialect": call.dialect,
        "surface": call.surface,
        "stream": call.stream,
        "model": call.model_asked,
        "model_used": call.model_used,
        "provider": call.provider,
        "endpoint_id": call.endpoint_id,
        "policy_id": call.policy_id,
        "key_name": call.key_name,
        "end_user": call.end_user,
        "client_request_id": call.client_request_id,
        "kind": call.kind,
        "message": call.message,
        "cancelled_by": call.cancelled_by,
        "finish_reason": call.finish_reason,
        "tokens": Tokens(
            call.input_tokens,
            call.output_tokens,
            call.cached_tokens,
            call.reasoning_tokens,
            call.estimated,
            call.at_least,
        ),
        "text_chars": call.text_chars,
        "chunks": call.chunks,
        "cost": money(call.price_nano, call.price_currency, estimated=call.price_estimated),
        "timings": Timings(_ms(call.first_token_ns), _ms(call.ended_ns)),
        "erased": call.erased,
    }


def _attempt(a: AttemptRecord) -> Attempt:
    return Attempt(
        number=a.number,
        endpoint_id=a.endpoint_id,
        provider=a.provider,
        model=a.model,
        outcome=a.outcome,
        started_ms=a.started_ns / 1e6,
        ended_ms=_ms(a.ended_ns),
        kind=a.kind,
        status_code=a.status_code,
        message=a.message,
        tokens=Tokens(a.input_tokens, a.output_tokens, a.cached_tokens, estimated=a.estimated),
        text_chars=a.text_chars,
        cost=money(a.price_nano, a.price_currency, estimated=a.estimated),
    )


def _words(text: CallText) -> Words:
    prompt = [Message(said.role, said.text) for said in text.prompt]
    return Words(prompt, text.answer, text.cut, [AttemptError(one.attempt, one.message) for one in text.errors])


def money(nano: int | None, currency: str | None, *, estimated: bool) -> Money | None:
    """Billionths as money; None where it is not known."""
    if nano is None or currency is None:
        return None
    return Money(nano / NANO, currency, "estimated" if estimated else "measured")


def moment(unix_ns: int) -> datetime:
    """To the microsecond, in UTC; what no calendar has is its last moment."""
    seconds, rest_ns = divmod(unix_ns, NANO)
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest_ns // 1000)
    except (ValueError, OverflowError, OSError):
        return datetime.max.replace(tzinfo=UTC)


def maybe_moment(unix_ns: int | None) -> datetime | None:
    return moment(unix_ns) if unix_ns is not None else None


def _ms(duration_ns: int | None) -> float | None:
    return duration_ns / 1e6 if duration_ns is not None else None


def cursor(place: Place | None) -> str | None:
    """A place in the list as text."""
    return f"{place.started_ns}-{place.seq}" if place is not None else None
