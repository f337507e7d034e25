"""Policy: which candidates may serve a call, in which order, and why the others may not.  Pure.

A policy fails closed: what an endpoint does not say does not pass a rule that asks for it.  Several policies hold at
once (the server's, the key's, the model's, the request's own), and a candidate needs the consent of each, so a further
policy can only narrow.  What is refused here is never tried, however the others fail: the engine falls back within
the selection and nowhere else.

What a request needs (`Needs`) is judged apart and the other way round: an endpoint that does not say what it can do is
believed to be able to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from rivermouth.config import Capability, Price
from rivermouth.config.names import NO_POLICY
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.routing.endpoint import Candidate, Endpoint, Plan, Policy

DEFAULT_ID: Final = NO_POLICY


class Needs(msgspec.Struct, frozen=True):
    """What an endpoint must be able to do for one request.  tokens: of the prompt, estimated."""

    capabilities: frozenset[Capability] = frozenset()
    tokens: int = 0


class Verdict(msgspec.Struct, frozen=True):
    """What was decided of one candidate.  refusals: empty means that it may serve."""

    candidate: Candidate
    refusals: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """For the record and for people: why it is in the selection, or why not."""
        return "; ".join(self.refusals) or self.candidate.why


class Selection(msgspec.Struct, frozen=True):
    """What may be tried, in this order; and the verdict on every candidate of the plan, as the plan had them."""

    candidates: tuple[Candidate, ...]
    verdicts: tuple[Verdict, ...]


Judge = Callable[[Policy, Endpoint], str | None]
"""Why this policy does not admit the endpoint; None if it does."""


def select(
    plan: Plan,
    bound: Sequence[Policy] = (),
    always: Sequence[Policy] = (),
    *,
    needs: Callable[[], Needs],
    busy: Mapping[str, int],
    draw: Callable[[], float],
) -> Selection:
    """The candidates that every policy admits and that can do what is needed; each then has all its policies.

    bound: the policies of the call, the narrowest first.  always: the server's; those of a model's name come with the
    candidates and stand between the two.  Where several say an order, the first does.
    needs: asked only where an endpoint says what it can do.
    busy: running calls by endpoint id.  draw: a number in [0, 1), anew each time.
    Raises `Refused`: permission where policies leave nobody, invalid_request where nobody left can do it.
    """
    verdicts = [_verdict(_bound(c, bound, always)) for c in plan.candidates]
    admitted = [v.candidate for v in verdicts if not v.refusals]
    if not admitted:
        raise forbidden(plan.model, verdicts)
    if any(c.endpoint.capabilities is not None or c.endpoint.context_tokens is not None for c in admitted):
        needed = needs()
        verdicts = [v if v.refusals else Verdict(v.candidate, lacks(v.candidate.endpoint, needed)) for v in verdicts]
        able = [v.candidate for v in verdicts if not v.refusals]
        if not able:
            raise incapable(plan.model, verdicts, admitted, needed)
        admitted = able
    ordered = arranged(admitted, plan, busy=busy, draw=draw) if len(admitted) > 1 else admitted
    kept, alone = _until_no_fallback(ordered)
    if alone is not None:
        others = (f"policy {alone.id}: no fallback",)
        ids = {id(c) for c in kept}
        verdicts = [v if v.refusals or id(v.candidate) in ids else Verdict(v.candidate, others) for v in verdicts]
    return Selection(tuple(kept), tuple(verdicts))


def _until_no_fallback(ordered: Sequence[Candidate]) -> tuple[Sequence[Candidate], Policy | None]:
    """What may be tried one after the other, and the policy that ends it before all have been.

    Of one model's name the policies are the same for all.  A plan of several names ends where one of them forbids a
    fallback: it may have been tried for others, and nobody is tried for it.
    """
    for count, candidate in enumerate(ordered[:-1], 1):
        alone = next((p for p in candidate.policies if not p.fallback), None)
        if alone is not None:
            return ordered[:count], alone
    return ordered, None


def policy_id(candidate: Candidate) -> str:
    """The names of all policies that a selected candidate passed, as one word."""
    return "+".join(p.id for p in candidate.policies) or DEFAULT_ID


class Refused(ApiError):
    """Nobody may serve the call, or nobody can.  The message names each candidate and why."""

    def __init__(self, kind: Kind, text: str, verdicts: Sequence[Verdict], *, code: str) -> None:
        told = "; ".join(f"{v.candidate.endpoint.id}: {v.why}" for v in verdicts)
        super().__init__(kind, f"{text}: {told}", param="model" if kind is Kind.PERMISSION else None, code=code)
        self.verdicts = tuple(verdicts)


def forbidden(model: str, verdicts: Sequence[Verdict]) -> Refused:
    """403: policies leave nobody."""
    return Refused(Kind.PERMISSION, f"no endpoint for '{model}' is allowed", verdicts, code="policy_refused")


def incapable(model: str, verdicts: Sequence[Verdict], admitted: Sequence[Candidate], needs: Needs) -> Refused:
    """400: nobody of those whom policies admit can do what is asked."""
    able = (c.endpoint.capabilities for c in admitted)
    fits = any(known is None or needs.capabilities <= known for known in able)
    code = "context_length_exceeded" if fits else "capability_missing"
    text = f"no endpoint for '{model}' that is allowed can do what is asked"
    return Refused(Kind.INVALID_REQUEST, text, verdicts, code=code)


def _bound(candidate: Candidate, bound: Sequence[Policy], always: Sequence[Policy]) -> Candidate:
    """The candidate with every policy that holds for it, once."""
    if not bound and not always:
        return candidate
    held = {p.id: p for p in (*bound, *candidate.policies, *always)}
    return Candidate(candidate.endpoint, candidate.why, tuple(held.values()))


def _verdict(candidate: Candidate) -> Verdict:
    endpoint = candidate.endpoint
    refusals = []
    for policy in candidate.policies:
        for judge in JUDGES:
            reason = judge(policy, endpoint)
            if reason is not None:
                refusals.append(f"policy {policy.id}: {reason}")
    return Verdict(candidate, tuple(refusals))


def _region(policy: Policy, endpoint: Endpoint) -> str | None:
    return _listed("region", endpoint.region, policy.regions)


def _class(policy: Policy, endpoint: Endpoint) -> str | None:
    if policy.classes is None or endpoint.sovereignty in policy.classes:
        return None
    if endpoint.sovereignty is None:
        return "its sovereignty class is not known"
    return f"its sovereignty class is {endpoint.sovereignty}, not {_either(policy.classes)}"


def _provider(policy: Policy, endpoint: Endpoint) -> str | None:
    return _listed("provider", endpoint.provider, policy.providers)


def _retention(policy: Policy, endpoint: Endpoint) -> str | None:
    most_s = policy.retention_max_s
    if most_s is None:
        return None
    if endpoint.retention_s is None:
        said = f"'{endpoint.retention}', which is no time" if endpoint.retention else "not known"
        return f"its retention is {said}"
    return f"its retention is {endpoint.retention}, too long" if endpoint.retention_s > most_s else None


def _price(policy: Policy, endpoint: Endpoint) -> str | None:
    most, price = policy.price_max, endpoint.price
    if most is None:
        return None
    if price is None:
        return "its price is not known"
    if price.currency != most.currency:
        return f"its price is in {price.currency}, the ceiling in {most.currency}"
    if price.input / price.per > most.input / most.per:
        return "its price for input is above the ceiling"
    if price.output / price.per > most.output / most.per:
        return "its price for output is above the ceiling"
    return None


def _requires(policy: Policy, endpoint: Endpoint) -> str | None:
    if not policy.requires:
        return None
    if endpoint.capabilities is None:
        return "its capabilities are not known"
    missing = [c for c in policy.requires if c not in endpoint.capabilities]
    return f"it has no {' and no '.join(missing)}" if missing else None


def _context(policy: Policy, endpoint: Endpoint) -> str | None:
    least = policy.context_min_tokens
    if least is None:
        return None
    if endpoint.context_tokens is None:
        return "its context size is not known"
    if endpoint.context_tokens < least:
        return f"its context is {endpoint.context_tokens} tokens, less than {least}"
    return None


JUDGES: Final[tuple[Judge, ...]] = (_region, _class, _provider, _retention, _price, _requires, _context)
"""Every rule that a policy can make."""


def lacks(endpoint: Endpoint, needs: Needs) -> tuple[str, ...]:
    """What the endpoint says it cannot do of this."""
    found: list[str] = []
    if endpoint.capabilities is not None:
        found += [f"it has no {c}" for c in sorted(needs.capabilities - endpoint.capabilities)]
    if endpoint.context_tokens is not None and needs.tokens > endpoint.context_tokens:
        found.append(f"its context is {endpoint.context_tokens} tokens, and the prompt about {needs.tokens}")
    return tuple(found)


def arranged(
    candidates: Sequence[Candidate],
    plan: Plan,
    *,
    busy: Mapping[str, int],
    draw: Callable[[], float],
) -> list[Candidate]:
    """The candidates in the order of the narrowest policy that has one, else in the plan's.

    In a plan of several names only a policy that all of them have can order it.
    """
    held = [p for p in candidates[0].policies if all(p in c.policies for c in candidates)]
    order = next((p.order for p in held if p.order is not None), plan.order)
    weights = next((p.weights for p in held if p.weights), plan.weights)
    prefer = next((p.prefer for p in held if p.prefer), ())

    def weight(candidate: Candidate) -> float:
        return weights.get(candidate.endpoint.id, 1.0)

    match order:
        case "listed":
            ranked = list(candidates)
        case "price":
            ranked = sorted(candidates, key=lambda c: _dearness(c.endpoint.price))
        case "weighted":  # a draw without putting back: the first is each with a chance in proportion to its weight
            keys = {id(c): draw() ** (1.0 / weight(c)) if weight(c) > 0 else -1.0 for c in candidates}
            ranked = sorted(candidates, key=lambda c: keys[id(c)], reverse=True)
        case "least_busy":  # who has the same gets it by lot, or the first of the file would have all of a quiet hour
            lots = {id(c): ((busy.get(c.endpoint.id, 0) + 1) / max(weight(c), 1e-9), draw()) for c in candidates}
            ranked = sorted(candidates, key=lambda c: lots[id(c)])
    return sorted(ranked, key=lambda c: _place(c.endpoint.id, prefer))


def _dearness(price: Price | None) -> tuple[bool, str, float]:
    """By currency first, since amounts of two cannot be compared; what has no price comes last."""
    if price is None:
        return (True, "", 0.0)
    return (False, price.currency, (price.input + price.output) / price.per)


def _place(name: str, patterns: Sequence[str]) -> int:
    return next((i for i, p in enumerate(patterns) if fnmatchcase(name, p)), len(patterns))


def _listed(what: str, value: str | None, patterns: tuple[str, ...] | None) -> str | None:
    if patterns is None:
        return None
    if value is None:
        return f"its {what} is not known"
    folded = value.casefold()
    for pattern in patterns:
        if fnmatchcase(folded, pattern.casefold()):
            return None
    return f"its {what} is {value}, not {_either(patterns)}"


def _either(allowed: Sequence[str]) -> str:
    return " or ".join(allowed) or "any that is allowed"
