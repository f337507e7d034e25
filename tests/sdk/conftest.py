"""The servers of this folder, each started once: `back` does the work, `front` passes on to it, `keyed` wants a key."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anthropic
import ollama
import openai
import pytest

from rivermouth.local.models.registry import Registry
from tests.local.asking import install
from tests.local.encoding import install_encoder
from tests.promises import ROOT
from tests.running import START_S, running
from tests.sdk.cutter import Cutter
from tests.sdk.served import Served
from tests.tiny_bert import build as build_encoder
from tests.tiny_gguf import build

BODY_LIMIT_BYTES: Final = 1024 * 1024
KEY: Final = "river-key-1"

BACK: Final = f"""
server.default_model = "scripted"
[http]
body_limit_bytes = {BODY_LIMIT_BYTES}
[resilience]
retries = 0
cooldown = false
[local]
max_models = 3
devices = ["CPU"]
catalog = "models.toml"
[providers.led]
python = "tests.sdk.bots:led"
[providers.parrot]
python = "tests.sdk.bots:parrot"
[endpoints.eu]
provider = "scripted"
model = "scripted"
version = "2026-11"
region = "eu-west"
sovereignty = "eu-resident"
retention = "none"
price = {{ input = 1000000.0, output = 2000000.0, currency = "EUR" }}
[models.governed]
endpoints = ["eu"]
"""

CATALOG: Final = """
[[models]]
names = ["parcel"]
license = "Apache-2.0"
attribution = "Somebody"
source = { kind = "file", path = "tiny.gguf" }
"""
ENCODER: Final = "tiny-encoder"

KEYED: Final = 'server.keys = ["env:TEST_KEY"]\n'

UPSTREAMS: Final = {
    "openai": ("openai_chat", "v1"),
    "responses": ("openai_responses", "v1"),
    "anthropic": ("anthropic", "v1"),
    "ollama": ("ollama", "api"),
}


def provider(name: str, upstream: str, base: str) -> str:
    """A provider's table: the other server, in one of its dialects."""
    dialect, path = UPSTREAMS[upstream]
    return f'[providers.{name}]\ndialect = "{dialect}"\nbase_url = "{base}/{path}"\n'


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test of each kind pays for the start of up to three servers."""
    here = f"{Path(__file__).parent.relative_to(ROOT).as_posix()}/"
    for item in items:
        if item.nodeid.startswith(here):
            item.add_marker(pytest.mark.timeout(START_S * 3 + 30))


@contextmanager
def served(
    folder: Path, config: str, *, scripted: bool = True, env: dict[str, str] | None = None, module: str = "rivermouth"
) -> Iterator[Served]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    env = {"PYTHONPATH": path, **(env or {})}
    with running(folder, config, scripted=scripted, env=env, module=module) as server:
        seen = Served(server)
        try:
            yield seen
        finally:
            seen.dispose()


@pytest.fixture(scope="session")
def back(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The scripted models, two generators, and tiny local models: with a chat template, without, and without end.

    An encoder beside them, and one model more in the catalogue, `parcel`, to be pulled.
    """
    folder = tmp_path_factory.mktemp("back")
    registry = Registry(folder / "data" / "models")
    install(registry, "tiny", build(folder / "tiny.gguf"))
    install(registry, "plain", build(folder / "plain.gguf", template=None))
    install(registry, "loop", build(folder / "loop.gguf", loop=True, ctx=16384))
    install_encoder(registry, ENCODER, build_encoder(folder / "encoder"))
    (folder / "models.toml").write_text(CATALOG, encoding="utf-8")
    with served(folder, BACK) as server:
        yield server


@pytest.fixture(scope="session")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that demands KEY."""
    with served(tmp_path_factory.mktemp("keyed"), KEYED, env={"TEST_KEY": KEY}) as server:
        yield server


@pytest.fixture(scope="session")
def cutter(back: Served) -> Iterator[Cutter]:
    """Passes everything on to `back`, but only the beginning of its answers."""
    with Cutter(back.port) as between:
        yield between


@pytest.fixture(scope="session")
def front(tmp_path_factory: pytest.TempPathFactory, back: Served, cutter: Cutter) -> Iterator[Served]:
    """A server whose models are those of `back`, by each dialect; and once more with a wire that is cut."""
    config = "[resilience]\nretries = 0\ncooldown = false\n"
    for upstream in UPSTREAMS:
        config += provider(f"via-{upstream}", upstream, back.url)
        for how in ("ended", "torn"):
            config += provider(f"{how}-{upstream}", upstream, f"{cutter.url}/{how}")
    with served(tmp_path_factory.mktemp("front"), config, scripted=False) as server:
        yield server


@pytest.fixture(scope="session")
def openai_sdk(back: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{back.url}/v1", api_key="any", max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="session")
def anthropic_sdk(back: Served) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=back.url, api_key="any", max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="session")
def ollama_sdk(back: Served) -> Iterator[ollama.Client]:
    with ollama.Client(host=back.url) as sdk:
        yield sdk


@pytest.fixture(autouse=True)
def nothing_runs_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a call behind, or takes that of another for its own."""
    Served.since_ns = time.time_ns()
    yield
    for name in ("front", "back"):
        if name in request.fixturenames:
            request.getfixturevalue(name).idle()
    if "cohere" in request.module.__name__:
        gc.collect(1)
