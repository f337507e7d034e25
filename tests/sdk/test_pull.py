"""Pull over HTTP with the Ollama SDK: real bytes through the real pip, from an index that stops half way."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import ollama
import pytest
from anyio import to_thread

from tests.local.fake_index import FakeIndex, build_wheel
from tests.sdk.conftest import served
from tests.sdk.served import Served, until
from tests.sdk.wire import Wire, lines
from tests.tiny_gguf import TEXT, build

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shop")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    return build_wheel(folder, build(folder / "tiny.gguf"))


@pytest.fixture(scope="module")
async def index(wheel: Path, anyio_backend: str) -> AsyncIterator[tuple[FakeIndex, str]]:
    made = FakeIndex(wheel)
    url = await made.start()
    yield made, url
    await made.stop()


@pytest.fixture(scope="module")
async def shop(folder: Path, wheel: Path, index: tuple[FakeIndex, str], anyio_backend: str) -> AsyncIterator[Served]:
    """A server whose catalogue has one model, "parcel", and whose pip asks the index."""
    env = {
        "SHOP_WHEEL": str(wheel),
        "SHOP_MODEL": str(folder / "tiny.gguf"),
        "PIP_INDEX_URL": index[1],
        "PIP_NO_CACHE_DIR": "1",
        "PIP_FIND_LINKS": "",
        "PIP_CONFIG_FILE": "/dev/null",
    }
    with served(folder, "", env=env, module="tests.sdk.shop") as server:
        yield server


def shape(frame: Any) -> tuple[Any, ...]:
    return (frame.status, frame.digest, frame.total, frame.completed)


def check_frames(frames: list[Any], digest: str, total: int) -> None:
    """The whole grammar of a pull that succeeds, line by line."""
    assert shape(frames[0]) == ("pulling manifest", None, None, None)
    assert shape(frames[-2]) == ("verifying sha256 digest", None, None, None)
    assert shape(frames[-1]) == ("success", None, None, None)
    files = frames[1:-2]
    assert {shape(f)[:3] for f in files} == {("pulling tiny.gguf", digest, total)}
    completed = [f.completed for f in files]
    assert completed[0] == 0
    assert completed[-1] == total
    assert completed == sorted(completed)


def stop_at(index: FakeIndex) -> None:
    """The next download stops half way."""
    for event in (index.half_sent, index.go_on, index.dropped):
        event.clear()


@pytest.mark.fault("F31")
async def test_a_client_that_leaves_stops_the_download(shop: Served, index: tuple[FakeIndex, str]) -> None:
    stop_at(index[0])
    async with ollama.AsyncClient(host=shop.url) as sdk:
        frames = await sdk.pull("parcel", stream=True)
        assert (await anext(frames)).status == "pulling manifest"
        with anyio.fail_after(20):
            await index[0].half_sent.wait()
        await frames.aclose()
        with anyio.fail_after(20):
            await index[0].dropped.wait()
        assert [m.model for m in (await sdk.list()).models if m.model == "parcel:latest"] == []


@pytest.mark.promise(13, 24, 25, 26, 27, 28, 49)
async def test_two_clients_share_one_download(shop: Served, wheel: Path, index: tuple[FakeIndex, str]) -> None:
    stop_at(index[0])
    downloads = index[0].downloads
    seen: dict[int, list[Any]] = {}
    async with ollama.AsyncClient(host=shop.url) as sdk:
        first = await sdk.pull("parcel", stream=True)
        second = await sdk.pull("parcel", stream=True)
        starts = [await anext(first), await anext(second)]
        with anyio.fail_after(20):
            await index[0].half_sent.wait()
        index[0].go_on.set()

        async def follow(number: int, frames: Any) -> None:
            seen[number] = [starts[number]] + [frame async for frame in frames]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, 0, first)
            tasks.start_soon(follow, 1, second)
        for frames in seen.values():
            body = wheel.read_bytes()
            check_frames(frames, f"sha256:{hashlib.sha256(body).hexdigest()}", len(body))
        assert index[0].downloads == downloads + 1
        reply = await sdk.chat("parcel", [{"role": "user", "content": "Hi"}], options={"temperature": 0})
        assert reply.message.content == TEXT


@pytest.mark.promise(13, 14, 24, 25, 26, 27, 28)
async def test_what_is_here_is_verified_and_told_on_the_wire(shop: Served, folder: Path) -> None:
    def pull(path: str, stream: bool | None) -> tuple[int, str, bytes]:
        asked = {"model": "parcel"} | ({} if stream is None else {"stream": stream})
        with Wire(shop.port, "POST", path, asked) as wire:
            return wire.status, wire.headers["content-type"], wire.read()

    file = (folder / "tiny.gguf").read_bytes()
    digest, total = f"sha256:{hashlib.sha256(file).hexdigest()}", len(file)
    await to_thread.run_sync(until, lambda: shop.get("/api/tags")["models"], "the model is listed")
    for path, media in (("/api/pull", "application/x-ndjson"), ("/ollama/api/pull", "application/json")):
        status, kind, body = await to_thread.run_sync(pull, path, None)
        assert (status, kind) == (200, media)
        seen = lines(body)
        assert seen[0] == {"status": "pulling manifest"}
        line = {"status": "pulling tiny.gguf", "digest": digest, "total": total}
        assert seen[1] == {**line, "completed": 0}
        assert seen[-3] == {**line, "completed": total}
        assert seen[-2:] == [{"status": "verifying sha256 digest"}, {"status": "success"}]
        status, kind, body = await to_thread.run_sync(pull, path, False)
        assert (status, kind, lines(body)) == (200, "application/json", [{"status": "success"}])


@pytest.mark.fault("F11", "F14")
async def test_an_unknown_model(shop: Served) -> None:
    """The stream has said "pulling manifest" by then, so the error is a line in it."""
    async with ollama.AsyncClient(host=shop.url) as sdk:
        frames = await sdk.pull("nobody", stream=True)
        assert (await anext(frames)).status == "pulling manifest"
        with pytest.raises(ollama.ResponseError, match="no model 'nobody'"):
            await anext(frames)
        with pytest.raises(ollama.ResponseError) as raised:
            await sdk.pull("nobody")
        assert raised.value.status_code == 404
