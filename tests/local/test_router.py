"""The router's decision, over every machine that a fake list of devices can describe."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.machine.router import (
    BUSY,
    CHAIN,
    DRIVERS,
    EXCEEDS,
    FALLBACK,
    NPU_PROMPT_TOKENS,
    WITHIN,
    Route,
    class_of,
    in_order,
    route,
)

ALL = ("CPU", "GPU.0", "GPU.1", "NPU")
LONG = NPU_PROMPT_TOKENS + 1


@pytest.mark.promise(43, 44, 45, 46)
@pytest.mark.parametrize(
    ("tokens", "present", "wanted", "busy", "expected"),
    [
        (10, ("CPU",), (), "", Route("CPU", "CPU", WITHIN)),
        (LONG, ("CPU",), (), "", Route("CPU", "CPU", EXCEEDS)),
        (10, ALL, (), "", Route("NPU", "NPU", WITHIN)),
        (NPU_PROMPT_TOKENS, ALL, (), "", Route("NPU", "NPU", WITHIN)),
        (LONG, ALL, (), "", Route("GPU", "GPU.0", EXCEEDS)),
        (10, ALL, (), "NPU", Route("NPU", "GPU.0", WITHIN, BUSY)),
        (10, ALL, (), "NPU GPU.0", Route("NPU", "GPU.1", WITHIN, BUSY)),
        (10, ALL, (), "NPU GPU.0 GPU.1", Route("NPU", "CPU", WITHIN, BUSY)),
        (10, ALL, (), "NPU GPU.0 GPU.1 CPU", Route("NPU", "NPU", WITHIN)),
        (LONG, ALL, (), "GPU.0", Route("GPU", "GPU.1", EXCEEDS)),
        (10, ("CPU",), ("NPU", "CPU"), "", Route("NPU", "CPU", WITHIN, FALLBACK)),
        (10, ("CPU",), ("npu", "gpu", "cpu"), "CPU", Route("NPU", "CPU", WITHIN, FALLBACK)),
        (10, ALL, ("GPU.1",), "", Route("GPU", "GPU.1", WITHIN)),
        (10, ALL, ("CPU", "NPU"), "", Route("CPU", "CPU", WITHIN)),
    ],
)
def test_where_a_call_runs(
    tokens: int, present: tuple[str, ...], wanted: tuple[str, ...], busy: str, expected: Route
) -> None:
    assert route(tokens, present, wanted, busy=lambda device: device in busy.split()) == expected


def test_whatever_the_machine_the_call_runs_where_it_can_and_says_why() -> None:
    for many in range(1, len(ALL) + 1):
        for present, tokens in product(combinations(ALL, many), (1, LONG)):
            for occupied in (set(), set(present), {present[0]}):
                if tokens == LONG and set(map(class_of, present)) == {"NPU"}:
                    continue
                made = route(tokens, present, busy=occupied.__contains__)
                assert made.device in present
                assert (made.fallback_reason is not None) == (class_of(made.device) != made.routed)
                assert tokens == 1 or class_of(made.device) != "NPU"
                if occupied != set(present) and made.device in occupied:
                    able = [d for d in present if tokens == 1 or class_of(d) != "NPU"]
                    assert set(able) <= occupied


@pytest.mark.parametrize(("wanted", "present"), [(("NPU",), ("CPU",)), (("GPU", "NPU"), ("CPU",)), (("XYZ",), ALL)])
def test_an_absent_device_is_refused_with_what_is_there_and_what_is_missing(
    wanted: tuple[str, ...], present: tuple[str, ...]
) -> None:
    with pytest.raises(ApiError) as refused:
        route(1, present, wanted)
    error = refused.value
    assert (error.code, error.status) == ("device_absent", 501)
    assert ", ".join(present) in error.message
    assert all(name in error.message for name in wanted)


def test_a_prompt_that_no_device_takes_is_the_clients_error() -> None:
    with pytest.raises(ApiError) as refused:
        route(LONG, ALL, ("NPU",))
    assert (refused.value.kind, refused.value.code) == (Kind.INVALID_REQUEST, "context_length_exceeded")


def test_every_class_has_a_word_on_its_drivers() -> None:
    assert set(DRIVERS) == set(CHAIN)


def test_an_unknown_accelerator_is_used_when_it_is_all_there_is() -> None:
    assert in_order(("XPU",)) == ["XPU"]
    assert route(1, ("XPU",)) == Route("XPU", "XPU", WITHIN)
