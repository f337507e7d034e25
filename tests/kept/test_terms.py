"""For how long an answer may be kept, and what a chain of them must be."""

from __future__ import annotations

from typing import Any, Final

import pytest

from rivermouth.ir.errors import ApiError
from rivermouth.kept.chain import LINKS_CAP, NOT_FOUND, PARAM, turns_of
from rivermouth.kept.terms import longest_s
from rivermouth.routing.endpoint import Candidate, Endpoint, Policy
from tests.kept.rows import kept

TTL_S: Final = 1000.0
ROOM: Final = 10**6


def candidate(*policies: Policy, **endpoint: Any) -> Candidate:
    return Candidate(Endpoint(id="e", provider="p", model="m", **endpoint), "listed", policies)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (candidate(), TTL_S),
        (candidate(Policy(id="p")), TTL_S),
        (candidate(retention="for long", retention_s=None), TTL_S),
        (candidate(retention_s=5_000.0), TTL_S),
        (candidate(retention_s=10.0), 10.0),
        (candidate(retention_s=0.0), 0.0),
        (candidate(Policy(id="p", retention_max_s=20.0), retention_s=10.0), 10.0),
        (candidate(Policy(id="p", retention_max_s=20.0), Policy(id="q", retention_max_s=5.0)), 5.0),
        (candidate(Policy(id="p", retention_max_s=0.0)), 0.0),
        (candidate(Policy(id="p"), Policy(id="q", records_text=False)), 0.0),
        (candidate(records_text=False), 0.0),
    ],
)
def test_nobody_keeps_longer_than_those_who_were_asked(asked: Candidate, wanted: float) -> None:
    assert longest_s(asked, TTL_S) == wanted


def test_turns_are_in_the_order_in_which_they_were_said() -> None:
    turns = turns_of("resp_3", [kept(3), kept(2), kept(1)], ROOM)
    assert [turn.call_id for turn in turns] == ["call1", "call2", "call3"]
    assert (turns[0].input, turns[0].answer) == (kept(1).input, kept(1).answer)


@pytest.mark.parametrize(
    ("links", "limit_bytes", "code"),
    [
        ([], ROOM, NOT_FOUND),
        ([kept(3), kept(2)], ROOM, NOT_FOUND),
        ([kept(1, ended_ns=None)], ROOM, "previous_response_in_progress"),
        ([kept(2), kept(1)], 10, "previous_response_too_long"),
        ([kept(n) for n in range(LINKS_CAP + 1, 1, -1)], ROOM, "previous_response_too_long"),
    ],
    ids=["none", "a gap", "in progress", "bytes", "links"],
)
def test_a_chain_that_is_none_is_refused(links: list[Any], limit_bytes: int, code: str) -> None:
    with pytest.raises(ApiError) as refused:
        turns_of("resp_9", links, limit_bytes)
    assert (refused.value.status, refused.value.param, refused.value.code) == (400, PARAM, code)


def test_a_chain_may_be_as_long_as_its_cap() -> None:
    assert len(turns_of("resp_9", [kept(n) for n in range(LINKS_CAP, 0, -1)], ROOM)) == LINKS_CAP
