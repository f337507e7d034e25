from __future__ import annotations

from typing import Any

import pytest

from rivermouth.ir.request import Sampling
from rivermouth.vendors.cohere.sampling import MEMBERS, RANGES, UNSAMPLED, write_sampling


def test_every_field_has_a_member_or_is_a_loss() -> None:
    assert set(Sampling.__struct_fields__) == MEMBERS.keys() | UNSAMPLED
    assert RANGES.keys() <= MEMBERS.keys()


@pytest.mark.parametrize(
    ("sampling", "wire", "lost"),
    [
        (Sampling(), {}, set()),
        (Sampling(temperature=0.0, top_p=0.5, top_k=0), {"temperature": 0.0, "p": 0.5, "k": 0}, set()),
        (Sampling(top_p=1.0, top_k=900), {"p": 0.99, "k": 500}, {"top_p", "top_k"}),
        (Sampling(top_p=0.0, seed=-1), {"p": 0.01, "seed": 0}, {"top_p", "seed"}),
        (Sampling(frequency_penalty=-2.0, presence_penalty=1.5), {"frequency_penalty": 0.0, "presence_penalty": 1.0}, {
            "frequency_penalty", "presence_penalty"
        }),
        (Sampling(logprobs=False), {}, set()),
        (Sampling(min_p=0.1, logprobs=True, top_logprobs=2, logit_bias={"1": 1.0}, repetition_penalty=1.1), {}, {
            "min_p", "logprobs", "top_logprobs", "logit_bias", "repetition_penalty"
        }),
    ],
)  # fmt: skip
def test_values_out_of_range_are_cut_and_named(sampling: Sampling, wire: dict[str, Any], lost: set[str]) -> None:
    losses: set[str] = set()
    assert write_sampling(sampling, losses) == wire
    assert losses == lost
