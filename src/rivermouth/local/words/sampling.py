"""From a client's sampling wishes to the engine's.

A client that says nothing of randomness gets greedy decoding: the likeliest token each time.  Small models answer
best so, and the same question has the same answer.  Saying a temperature above 0, or narrowing the choice by top_p,
top_k or min_p, asks for sampling (at temperature 1 if none is said).  A seed alone asks for reproducibility, which
greedy decoding has.  Sampling without a seed draws one, because the engine's own default is a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from rivermouth.ir.errors import invalid
from rivermouth.ir.request import Sampling
from rivermouth.local.words.protocol import Decoding

SEEDS: Final = 1 << 63
# The engine's numbers are 32 bits wide: what is below these overflows there or is 0, and is as good as greedy.
TEMPERATURE_MIN: Final = 1e-5
TOP_P_MIN: Final = 1e-30
TOP_K_MAX: Final = 1 << 31
IGNORED: Final = ("logit_bias", "logprobs", "top_logprobs")


class Range(NamedTuple):
    low: float
    high: float


RANGES: Final[dict[str, Range]] = {
    "top_p": Range(0.0, 1.0),
    "min_p": Range(0.0, 1.0),
    "presence_penalty": Range(-2.0, 2.0),
    "frequency_penalty": Range(-2.0, 2.0),
}


def decoding_of(sampling: Sampling, draw_seed: Callable[[], int], warn: Callable[[str], None]) -> Decoding:
    """How the engine is to choose tokens.  Raises `ApiError` for a value outside its range."""
    for field, (low, high) in RANGES.items():
        value = getattr(sampling, field)
        if value is not None and not low <= value <= high:
            raise invalid(f"{field} must be between {low:g} and {high:g}, not {value:g}", param=field)
    if sampling.repetition_penalty is not None and sampling.repetition_penalty <= 0:
        raise invalid("repetition_penalty must be above 0", param="repetition_penalty")
    for field in IGNORED:
        if getattr(sampling, field):
            warn(field)
    penalties = Decoding(
        repetition_penalty=sampling.repetition_penalty,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
    )
    if is_greedy(sampling):
        return penalties
    seed = sampling.seed if sampling.seed is not None else draw_seed()
    return Decoding(
        do_sample=True,
        temperature=1.0 if sampling.temperature is None else sampling.temperature,
        top_p=sampling.top_p,
        top_k=min(sampling.top_k, TOP_K_MAX) if sampling.top_k and sampling.top_k > 0 else None,
        min_p=sampling.min_p or None,
        rng_seed=seed % SEEDS,
        repetition_penalty=penalties.repetition_penalty,
        presence_penalty=penalties.presence_penalty,
        frequency_penalty=penalties.frequency_penalty,
    )


def is_greedy(sampling: Sampling) -> bool:
    """True when the likeliest token is to be taken each time."""
    if (sampling.top_p is not None and sampling.top_p < TOP_P_MIN) or sampling.min_p == 1:
        return True
    if sampling.temperature is not None:
        return sampling.temperature < TEMPERATURE_MIN
    narrowed = (
        (sampling.top_p is not None and sampling.top_p < 1)
        or (sampling.top_k is not None and sampling.top_k > 0)
        or bool(sampling.min_p)
    )
    return not narrowed
