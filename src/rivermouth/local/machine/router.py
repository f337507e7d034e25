"""Which device a call runs on: a pure decision over the prompt's length, the devices that are here, and who is busy.

    wanted  = the devices of the setting, in order of preference (those of the machine, NPU before GPU before CPU,
              where nothing is set)
    routed  = the first of them; the next one, where that is an NPU and the prompt is longer than it takes
    ran on  = routed, if it is here, sound and has room; else the next that is and has; else the first that is, in its
              queue

An NPU compiles its graph for prompts of a fixed length, and what is longer comes out garbled on some drivers, so the
limit is kept here.  The count is an estimate before a model is loaded, and the tokenizer's own afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind

CHAIN: Final = ("NPU", "GPU", "CPU")
NPU: Final = "NPU"
CPU: Final = "CPU"
NPU_PROMPT_TOKENS: Final = 1800

WITHIN: Final = "within_npu_limit"
EXCEEDS: Final = "prompt_exceeds_npu_limit"
BUSY: Final = "busy"
FALLBACK: Final = "device_fallback"

DEVICE_HEADER: Final = "x-npu-proxy-device"
EXECUTION_HEADER: Final = "x-npu-proxy-execution-device"
ROUTED_HEADER: Final = "x-npu-proxy-routed-device"
FALLBACK_HEADER: Final = "x-npu-proxy-fallback-reason"
ROUTE_HEADER: Final = "x-npu-proxy-route-reason"
CONTEXT_HEADER: Final = "x-npu-proxy-context-reason"
COUNT_HEADER: Final = "x-npu-proxy-token-count"
HEADERS: Final = (
    DEVICE_HEADER,
    EXECUTION_HEADER,
    ROUTED_HEADER,
    FALLBACK_HEADER,
    ROUTE_HEADER,
    CONTEXT_HEADER,
    COUNT_HEADER,
)
ONE_ENGINE: Final = "single_engine_runtime"
"""The route reason: every device is used by this one engine."""


class Route(msgspec.Struct, frozen=True):
    """Where a call runs, and why.  routed: the class of device chosen; device: the one that runs it, as in "GPU.1".

    context_reason: WITHIN or EXCEEDS.  fallback_reason: set exactly when the two differ: BUSY or FALLBACK.
    """

    routed: str
    device: str
    context_reason: str
    fallback_reason: str | None = None


def class_of(device: str) -> str:
    """ "GPU.1" -> "GPU"."""
    return device.partition(".")[0]


def context_reason(prompt_tokens: int, npu_tokens: int = NPU_PROMPT_TOKENS) -> str:
    """Does a prompt of so many tokens fit an NPU?"""
    return WITHIN if prompt_tokens <= npu_tokens else EXCEEDS


def in_order(present: Sequence[str], wanted: Sequence[str] = ()) -> list[str]:
    """The devices to use, best first: those that are wanted, or those that are here.  Case and numbers as wanted."""
    if wanted:
        return list(dict.fromkeys(device.upper() for device in wanted))
    known = [device for kind in CHAIN for device in present if class_of(device) == kind]
    return known or list(present)


def route(
    prompt_tokens: int,
    present: Sequence[str],
    wanted: Sequence[str] = (),
    *,
    npu_tokens: int = NPU_PROMPT_TOKENS,
    busy: Callable[[str], bool] = lambda device: False,
    failing: Callable[[str], bool] = lambda device: False,
) -> Route:
    """The decision for one call.  Raises `ApiError` when none of the wanted devices is here, or none takes the prompt.

    busy: whether a device has no room for one more call now.  failing: whether it could not load the model lately; it
    is left alone where another is here.
    """
    order = in_order(present, wanted)
    reason = context_reason(prompt_tokens, npu_tokens)
    able = order if reason == WITHIN else [device for device in order if class_of(device) != NPU]
    if not able:
        raise ApiError(
            Kind.INVALID_REQUEST,
            f"the prompt of about {prompt_tokens} tokens is longer than the {npu_tokens} of the NPU, and no other "
            "device is to be used",
            param="messages",
            code="context_length_exceeded",
        )
    here = list(dict.fromkeys(device for name in able for device in _matching(name, present)))
    if not here:
        raise absent(able, present)
    routed = class_of(able[0])
    sound = [device for device in here if not failing(device)] or here
    free = [device for device in sound if not busy(device)]
    device = free[0] if free else sound[0]
    if class_of(device) == routed:
        return Route(routed, device, reason)
    return Route(routed, device, reason, BUSY if class_of(sound[0]) == routed else FALLBACK)


def headers_of(route: Route, device: str, prompt_tokens: int | None, npu_tokens: int) -> Mapping[str, str]:
    """What an answer says of the way it was made (R18).  device: where it ran.

    prompt_tokens: the prompt's, as the engine counted them; None before it has.
    """
    reason = route.context_reason if prompt_tokens is None else context_reason(prompt_tokens, npu_tokens)
    headers = {
        DEVICE_HEADER: device,
        EXECUTION_HEADER: device,
        ROUTED_HEADER: route.routed,
        ROUTE_HEADER: ONE_ENGINE,
        CONTEXT_HEADER: reason,
    }
    if route.fallback_reason is not None:
        headers[FALLBACK_HEADER] = route.fallback_reason
    if prompt_tokens is not None:
        headers[COUNT_HEADER] = str(prompt_tokens)
    return headers


def absent(wanted: Sequence[str], present: Sequence[str]) -> ApiError:
    """None of the devices is here: which are, and what is missing for the others."""
    missing = "; ".join(f"{name}: {DRIVERS.get(class_of(name), 'unknown device')}" for name in wanted)
    return ApiError(
        Kind.INVALID_REQUEST,
        f"there is no {' or '.join(wanted)} here that the engine can use; present: {', '.join(present) or 'none'} "
        f"({missing})",
        code="device_absent",
        status=501,
    )


DRIVERS: Final = {
    "NPU": "needs the Linux NPU driver (intel_vpu) and its level-zero library",
    "GPU": "needs Intel's OpenCL runtime (libOpenCL.so.1 and intel-opencl-icd)",
    "CPU": "is always there",
}


def _matching(name: str, present: Sequence[str]) -> list[str]:
    """ "GPU" stands for every GPU, "GPU.1" for itself."""
    return [device for device in present if device == name or class_of(device) == name]
