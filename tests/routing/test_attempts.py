"""What happens next with a call: every branch of the decision, without a clock or a socket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.routing.attempts import BACKOFF_MAX_S, FINAL, HEALS, Failed, GiveUp, Try, next_step
from rivermouth.routing.endpoint import Candidate, Endpoint
from rivermouth.routing.health import COOLDOWN_MAX_S, COOLDOWN_S, ENTRIES_CAP, FAILURES_TO_OPEN, Health, State

NONE: frozenset[str] = frozenset()


def candidates(*names: str) -> list[Candidate]:
    return [Candidate(Endpoint(id=n, provider=n, model="m"), "configured") for n in names]


def longest() -> float:
    """A draw that takes nothing off a wait."""
    return 0.0


def step(
    names: str, failed: list[tuple[int, ApiError]], cooling: frozenset[str] = NONE, retries: int = 2
) -> Try | GiveUp:
    return next_step(candidates(*names), [Failed(i, e) for i, e in failed], cooling, retries, 600, longest)


def error(kind: Kind, **more: object) -> ApiError:
    return ApiError(kind, kind.value, **more)  # type: ignore[arg-type]


def test_the_first_candidate_is_asked_first() -> None:
    assert step("abc", []) == Try(0)


def test_a_candidate_on_a_cooldown_is_asked_last_and_still_asked() -> None:
    assert step("ab", [], cooling=frozenset("a")) == Try(1)
    assert step("ab", [(1, error(Kind.NETWORK))], cooling=frozenset("a")) == Try(0)
    assert step("a", [], cooling=frozenset("a")) == Try(0)


@pytest.mark.fault("F17")
@pytest.mark.parametrize("kind", sorted(set(Kind) - FINAL))
def test_every_failure_before_content_moves_to_the_next_candidate_at_once(kind: Kind) -> None:
    assert step("ab", [(0, error(kind))]) == Try(1)


@pytest.mark.parametrize("kind", sorted(FINAL))
def test_what_is_not_wanted_any_more_ends_the_call(kind: Kind) -> None:
    last = error(kind)
    assert step("ab", [(0, last)]) == GiveUp(last)


@pytest.mark.parametrize("kind", sorted(HEALS))
def test_then_the_same_endpoint_is_asked_again_with_growing_waits(kind: Kind) -> None:
    last = error(kind)
    assert step("a", [(0, last)]) == Try(0, 0.5)
    assert step("a", [(0, last)] * 2) == Try(0, 1.0)
    assert step("a", [(0, last)] * 3) == GiveUp(last)


@pytest.mark.parametrize("kind", [Kind.INVALID_REQUEST, Kind.TOO_LARGE])
def test_what_one_target_cannot_do_another_may_but_nobody_is_asked_twice(kind: Kind) -> None:
    refused = error(kind)
    assert step("ab", [(0, refused)]) == Try(1)
    assert step("ab", [(0, refused), (1, refused)]) == GiveUp(refused)
    assert step("ab", [(0, refused), (1, error(Kind.NETWORK))], retries=0) == GiveUp(refused)


def test_no_retries_means_one_try_for_each_candidate() -> None:
    last = error(Kind.UPSTREAM)
    assert step("ab", [(0, last), (1, last)], retries=0) == GiveUp(last)


def test_an_upstreams_retry_after_is_obeyed_or_the_call_ends() -> None:
    assert step("a", [(0, error(Kind.RATE_LIMITED, retry_after_s=3.0))]) == Try(0, 3.0)
    too_long = error(Kind.RATE_LIMITED, retry_after_s=BACKOFF_MAX_S + 1)
    assert step("a", [(0, too_long)]) == GiveUp(too_long)


def test_a_spent_quota_does_not_heal() -> None:
    spent = error(Kind.RATE_LIMITED, code="insufficient_quota")
    assert step("a", [(0, spent)]) == GiveUp(spent)


def test_a_target_that_used_up_its_time_is_not_asked_again_but_another_is() -> None:
    slow = error(Kind.TIMEOUT, clock="first_token")
    assert step("ab", [(0, slow)]) == Try(1)
    assert step("a", [(0, slow)]) == GiveUp(slow)
    assert step("a", [(0, error(Kind.TIMEOUT, clock="connect"))]) == Try(0, 0.5)


def test_when_the_calls_own_time_is_over_nothing_is_tried() -> None:
    over = error(Kind.TIMEOUT, clock="total")
    assert step("ab", [(0, over)]) == GiveUp(over)


def test_a_wait_that_the_total_clock_would_cut_is_not_begun() -> None:
    last = error(Kind.NETWORK)
    assert next_step(candidates("a"), [Failed(0, last)], NONE, 2, 0.4, longest) == GiveUp(last)


def test_when_all_say_wait_the_client_hears_the_shortest_wait() -> None:
    long, short = error(Kind.RATE_LIMITED, retry_after_s=60.0), error(Kind.RATE_LIMITED, retry_after_s=20.0)
    assert step("ab", [(0, short), (1, long)]) == GiveUp(short)


ERRORS = st.builds(
    lambda kind, wait, clock: ApiError(kind, "x", retry_after_s=wait, clock=clock if kind is Kind.TIMEOUT else None),
    st.sampled_from(Kind),
    st.none() | st.floats(0, 100),
    st.sampled_from(["connect", "first_token", "idle", "total"]),
)


@given(count=st.integers(1, 4), errors=st.lists(ERRORS, min_size=20, max_size=20), retries=st.integers(0, 3))
def test_every_call_ends_after_at_most_candidates_plus_retries(
    count: int, errors: list[ApiError], retries: int
) -> None:
    failed: list[Failed] = []
    for last in errors:
        now = next_step(candidates(*"abcd"[:count]), failed, NONE, retries, 600, longest)
        if isinstance(now, GiveUp):
            assert now.error in [f.error for f in failed]
            break
        failed.append(Failed(now.candidate, last))
    assert len(failed) <= count + retries


def test_three_failures_in_a_row_start_a_cooldown_and_a_success_ends_it() -> None:
    health = Health()
    for number in range(FAILURES_TO_OPEN):
        assert not health.cooling("a", 100.0), number
        health.failed("a", error(Kind.UPSTREAM), 100.0)
    assert health.cooling("a", 100.0)
    assert health.states(100.0) == {"a": State.OPEN}
    assert not health.cooling("a", 100.0 + COOLDOWN_MAX_S)
    health.succeeded("a")
    assert not health.cooling("a", 100.0)


def test_half_open_one_call_tries_and_a_failure_opens_it_for_twice_as_long() -> None:
    health = Health()
    for _ in range(FAILURES_TO_OPEN):
        health.failed("a", error(Kind.NETWORK), 0.0)
    later = COOLDOWN_S + 1
    assert health.state("a", later) is State.HALF_OPEN
    assert not health.cooling("a", later)
    health.begun("a", later)
    assert health.cooling("a", later)  # the others wait for what this one finds
    health.failed("a", error(Kind.NETWORK), later)
    assert health.cooling("a", later + 2 * COOLDOWN_S - 1)
    assert not health.cooling("a", later + 2 * COOLDOWN_S)


def test_a_try_that_was_stopped_leaves_its_place_to_the_next() -> None:
    health = Health()
    for _ in range(FAILURES_TO_OPEN):
        health.failed("a", error(Kind.NETWORK), 0.0)
    health.begun("a", COOLDOWN_S)
    health.left("a")
    assert not health.cooling("a", COOLDOWN_S)
    health.begun("a", COOLDOWN_S)
    health.succeeded("a")
    assert health.state("a", COOLDOWN_S) is State.CLOSED


def test_no_breaker_stays_open_for_longer_than_the_longest() -> None:
    health = Health()
    for _ in range(50):
        health.failed("a", error(Kind.NETWORK), 0.0)
    assert health.cooling("a", COOLDOWN_MAX_S - 1)
    assert not health.cooling("a", COOLDOWN_MAX_S)


def test_a_wait_is_shortened_by_chance_by_half_at_most() -> None:
    last = error(Kind.UPSTREAM)
    waits = [
        next_step(candidates("a"), [Failed(0, last)], NONE, 2, 600, lambda share=d: share) for d in (0.0, 0.5, 1.0)
    ]
    assert waits == [Try(0, 0.5), Try(0, 0.375), Try(0, 0.25)]


def test_a_wait_that_was_asked_for_is_kept_whole() -> None:
    last = error(Kind.OVERLOADED, retry_after_s=3.0)
    assert next_step(candidates("a"), [Failed(0, last)], NONE, 2, 600, lambda: 1.0) == Try(0, 3.0)


def test_a_retry_after_starts_a_cooldown_of_that_length_but_is_not_believed_for_ever() -> None:
    health = Health()
    health.failed("a", error(Kind.RATE_LIMITED, retry_after_s=30.0), 0.0)
    assert health.cooling("a", 29.0)
    assert not health.cooling("a", 31.0)
    health.failed("b", error(Kind.OVERLOADED, retry_after_s=1e9), 0.0)
    assert not health.cooling("b", COOLDOWN_MAX_S + 1)


def test_a_clients_own_mistake_does_not_make_an_endpoint_unhealthy() -> None:
    health = Health()
    for _ in range(10):
        health.failed("a", error(Kind.INVALID_REQUEST), 0.0)
    assert not health.cooling("a", 0.0)


def test_the_calls_own_time_says_nothing_about_the_endpoint() -> None:
    health = Health()
    for _ in range(10):
        health.failed("a", error(Kind.TIMEOUT, clock="total"), 0.0)
    assert not health.cooling("a", 0.0)


def test_what_clients_can_name_is_not_remembered_for_ever() -> None:
    health = Health()
    for number in range(3 * ENTRIES_CAP):
        health.failed(f"lab/{number}", error(Kind.NOT_FOUND), float(number))
        health.failed(f"lab/{number}", error(Kind.UPSTREAM, retry_after_s=1e6), float(number))
        assert len(health.states(0.0)) <= ENTRIES_CAP


def test_cooldown_can_be_switched_off() -> None:
    health = Health(enabled=False)
    for _ in range(10):
        health.failed("a", error(Kind.UPSTREAM, retry_after_s=60.0), 0.0)
    assert not health.cooling("a", 0.0)
