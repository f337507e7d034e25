"""What a client gets has one form, whoever makes it: a scripted model, a real one, a real one from its cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rivermouth.local.models.registry import Registry
from rivermouth.wire import json
from tests.engine.client import asking
from tests.engine.lab import Lab, lab
from tests.local.asking import install

pytestmark = [pytest.mark.anyio, pytest.mark.promise(169)]

MESSAGES = [{"role": "user", "content": "Hi"}]
ROUTES: dict[str, dict[str, Any]] = {
    "/api/generate": {"prompt": "Hi"},
    "/api/chat": {"messages": MESSAGES},
    "/v1/chat/completions": {"messages": MESSAGES, "stream_options": {"include_usage": True}},
}
WAYS = {"batching": "throughput", "one at a time": "single"}
OURS = ("content-type", "cache-control", "x-accel-buffering", "transfer-encoding")
MEASURED = {"load_duration", "prompt_eval_duration", "eval_duration", "completion_tokens_details"}
"""Members that tell what was measured, where it was: the scripted model runs no engine, and only the first answer after
a load has waited for one."""


class Form(NamedTuple):
    """What is the same in all answers of a route: status, headers, and the forms of its frames in their order."""

    status: int
    headers: dict[str, str | None]
    frames: list[Any]


def form_of(value: Any) -> Any:
    """Keys and kinds without the values; a number is a number."""
    match value:
        case dict():
            return {key: form_of(inner) for key, inner in value.items() if key not in MEASURED}
        case list():
            return [form_of(inner) for inner in value]
        case bool() | None:
            return value
        case int() | float():
            return "number"
    return type(value).__name__


def frames_of(body: bytes) -> list[Any]:
    """The frames of either framing; [DONE] as it is."""
    lines = [line.removeprefix(b"data: ") for line in body.splitlines() if line]
    return [line.decode() if line == b"[DONE]" else form_of(json.decode(line)) for line in lines]


async def form(server: Lab, route: str, model: str, *, stream: bool = True) -> Form:
    wanted = {"model": model, "stream": stream} | ROUTES[route]
    if not stream:
        wanted.pop("stream_options", None)
    async with asking(server.port, route, wanted) as answer:
        frames = [frame for frame, _ in groupby(frames_of(await answer.rest()))]  # as many pieces as there are
        return Form(answer.status, {name: answer.headers.get(name) for name in OURS}, frames)


@pytest.fixture(params=list(WAYS))
def server(request: pytest.FixtureRequest, tmp_path: Path, files: dict[str, Path]) -> Iterator[Lab]:
    install(Registry(tmp_path / "data" / "models"), "tiny", files["tiny"])
    config = f'[local]\ndevices = ["CPU"]\nprofile = "{WAYS[request.param]}"\n'
    with lab(tmp_path, config, scripted=True) as made:
        yield made


def loads(server: Lab) -> list[bool]:
    """Each load so far: was it from the cache?"""
    return [line["cached"] for line in server.log if line["event"] == "engine.loaded"]


async def test_real_mode_mock_mode_and_the_cache_leave_the_wire_alone(server: Lab) -> None:
    mock = {route: await form(server, route, "scripted") for route in ROUTES}
    assert all(found.status == 200 and len(found.frames) >= 2 for found in mock.values())
    cold = {route: await form(server, route, "tiny") for route in ROUTES}
    assert loads(server) == [False]
    async with asking(server.port, "/api/generate", {"model": "tiny", "keep_alive": 0}) as unloaded:
        await unloaded.rest()
    warm = {route: await form(server, route, "tiny") for route in ROUTES}
    assert loads(server) == [False, True]
    assert cold == mock
    assert warm == mock


async def test_whole_answers_too(server: Lab) -> None:
    for route in ROUTES:
        assert await form(server, route, "tiny", stream=False) == await form(server, route, "scripted", stream=False)
