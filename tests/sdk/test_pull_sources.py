"""What clients may pull, with the Ollama SDK: the operator's catalogue, a hub where admitted, nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import ollama
import pytest
from anyio import to_thread

from rivermouth.wire import json
from tests.local.fake_hub import REPOSITORY, FakeHub
from tests.local.fake_web import FakeWeb
from tests.local.fake_web import Served as Page
from tests.sdk.conftest import served
from tests.sdk.served import Served
from tests.sdk.wire import Wire, lines
from tests.tiny_gguf import TEXT, build
from tests.tiny_ir import ir_files

pytest.importorskip("huggingface_hub", reason="the extra [hub] is not installed")
pytestmark = pytest.mark.anyio

CONFIG = '[local]\npulls = "hub"\ncatalog = "models.toml"\npull_limit_bytes = 10_000_000\n'
CATALOG = """
[[models]]
names = ["web", "web:v1"]
license = "Apache-2.0"
attribution = "Somebody"
source = {{ kind = "http", url = "{url}/tiny.gguf" }}
files = [{{ name = "tiny.gguf", sha256 = "{sha256}" }}]

[[models]]
names = ["restricted"]
license = "gemma"
terms = "https://host.example/terms"
source = {{ kind = "file", path = "tiny.gguf" }}
"""


@pytest.fixture(scope="module")
async def hub(anyio_backend: str) -> AsyncIterator[FakeHub]:
    made = await FakeHub(ir_files()).start()
    yield made
    await made.stop()


@pytest.fixture(scope="module")
async def shop(tmp_path_factory: pytest.TempPathFactory, hub: FakeHub, anyio_backend: str) -> AsyncIterator[Served]:
    folder = tmp_path_factory.mktemp("sources")
    body = build(folder / "tiny.gguf").read_bytes()
    web = await FakeWeb({"/tiny.gguf": Page(body)}).start()
    text = CATALOG.format(url=web.url, sha256=hashlib.sha256(body).hexdigest())
    (folder / "models.toml").write_text(text, encoding="utf-8")
    with served(folder, CONFIG, env={"HF_ENDPOINT": hub.hub.url}) as server:
        yield server
    await web.stop()


def told(frames: list[Any]) -> list[str]:
    """Each status once, in order."""
    return list(dict.fromkeys(frame.status for frame in frames))


async def test_a_name_of_the_operator_s_catalogue_answers_after_its_pull(shop: Served) -> None:
    async with ollama.AsyncClient(host=shop.url) as sdk:
        frames = [frame async for frame in await sdk.pull("web:v1", stream=True)]
        assert told(frames) == ["pulling manifest", "pulling tiny.gguf", "verifying sha256 digest", "success"]
        shown = await sdk.show("web:v1")
        assert (shown.license, shown.details and shown.details.format) == ("Apache-2.0\nSomebody", "gguf")
        reply = await sdk.chat("web:v1", [{"role": "user", "content": "Hi"}], options={"temperature": 0})
        assert reply.message.content == TEXT


async def test_an_openvino_model_of_the_hub_is_listed_shown_copied_and_deleted(shop: Served) -> None:
    async with ollama.AsyncClient(host=shop.url) as sdk:
        frames = [frame async for frame in await sdk.pull(f"hf:{REPOSITORY}", stream=True)]
        assert (frames[-1].status, len({frame.digest for frame in frames if frame.digest})) == (
            "success",
            len(ir_files()),
        )
        await sdk.copy(f"{REPOSITORY}:latest", "mine:v1")
        tags = {model.model: model for model in (await sdk.list()).models}
        assert tags["mine:v1"].digest == tags[f"{REPOSITORY}:latest"].digest
        assert tags["mine:v1"].size == sum(map(len, ir_files().values()))
        shown = await sdk.show("mine:v1")
        assert shown.details is not None
        assert (shown.details.format, shown.details.family, shown.details.quantization_level) == (
            "openvino",
            "qwen2",
            "INT8",
        )
        await sdk.delete(REPOSITORY)
        await sdk.delete("mine:v1")
        assert "mine:v1" not in {model.model for model in (await sdk.list()).models}
        with pytest.raises(ollama.ResponseError) as gone:
            await sdk.delete("mine:v1")
        assert gone.value.status_code == 404


async def test_a_restricted_licence_is_accepted_in_the_body(shop: Served) -> None:
    def pull(**more: object) -> tuple[int, bytes]:
        with Wire(shop.port, "POST", "/api/pull", {"model": "restricted", "stream": False, **more}) as wire:
            return wire.status, wire.read()

    for more in ({}, {"accept_license": "llama3"}, {"insecure": True}):
        status, body = await to_thread.run_sync(lambda more=more: pull(**more))
        assert status == 403
        said = json.decode(body)["error"]
        assert '"accept_license": "gemma"' in said
        assert "https://host.example/terms" in said
    status, body = await to_thread.run_sync(lambda: pull(accept_license="gemma"))
    assert (status, lines(body)) == (200, [{"status": "success"}])


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("http://127.0.0.1:1/x.gguf", 403),
        ("https://169.254.169.254/latest", 403),
        ("file:/etc/passwd", 403),
        ("hf:../../etc", 400),
        ("../../etc/passwd", 400),
        ("nobody", 404),
    ],
)
async def test_nothing_else_is_fetched_or_read(shop: Served, asked: str, status: int) -> None:
    async with ollama.AsyncClient(host=shop.url) as sdk:
        with pytest.raises(ollama.ResponseError) as refused:
            await sdk.pull(asked)
        assert refused.value.status_code == status
        frames = await sdk.pull(asked, stream=True)
        assert (await anext(frames)).status == "pulling manifest"
        with pytest.raises(ollama.ResponseError):
            await anext(frames)
