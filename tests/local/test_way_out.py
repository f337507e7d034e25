"""Pulls go out as the configuration says: by its proxy, trusting its authority, whatever the source."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rivermouth.config.load import parse
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.catalog import HubSource
from rivermouth.local.models.references import web_entry
from rivermouth.local.models.registry import Registry
from rivermouth.local.sources.gathered import Orders
from rivermouth.local.sources.hub import list_repository
from rivermouth.local.sources.pip import PROXY_NAMES, way_out
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound, configured
from rivermouth.secrets import Secret
from tests.engine.tls import self_signed
from tests.local.fake_web import FakeWeb
from tests.local.pulling import HASTY, frames_of, puller_of

pytestmark = pytest.mark.anyio

HUB = "http://hub.example.org"
SOURCE = HubSource(repository="some/model", revision="main", file=None)


@pytest.fixture
async def proxy(anyio_backend: str) -> AsyncIterator[FakeWeb]:
    served = await FakeWeb().start()
    yield served
    await served.stop()


def by(proxy: FakeWeb) -> Outbound:
    return Outbound(proxy=Secret(proxy.url, "outbound.proxy"))


async def test_a_file_of_the_web_is_asked_for_by_the_proxy(data_dir: Path, proxy: FakeWeb) -> None:
    entry = web_entry("mine", "https://files.example.org/tiny.gguf", hashlib.sha256(b"").hexdigest())
    puller = puller_of(Registry(data_dir / "models"), orders=Orders(clocks=HASTY, outbound=by(proxy)))
    with pytest.raises(ApiError) as refused:
        await frames_of(puller, entry)
    assert (refused.value.kind, refused.value.code) == (Kind.NETWORK, "source_unreachable")
    assert [asked.path for asked in proxy.asked] == ["files.example.org:443"]


async def test_the_hub_is_asked_by_the_proxy_and_afterwards_as_before(
    monkeypatch: pytest.MonkeyPatch, proxy: FakeWeb
) -> None:
    from huggingface_hub import get_session

    monkeypatch.setenv("HF_ENDPOINT", HUB)
    usual = get_session()
    with pytest.raises(ApiError):
        await asyncio.to_thread(list_repository, SOURCE, None, by(proxy))
    assert [asked.path.partition("?")[0] for asked in proxy.asked] == [f"{HUB}/api/models/some/model/revision/main"]
    after = get_session()
    assert (type(after), after.trust_env, after.event_hooks) == (type(usual), True, usual.event_hooks)


def test_pip_is_told_of_the_proxy_and_of_who_is_spared(tmp_path: Path) -> None:
    said = Outbound(proxy=Secret("http://me:pw@proxy:3128", "outbound.proxy"), no_proxy=("index.local", "10.0.0.0/8"))
    told = way_out(said, tmp_path)
    assert {told[name] for name in PROXY_NAMES} == {"http://me:pw@proxy:3128"}
    assert told["NO_PROXY"] == told["no_proxy"] == "index.local,10.0.0.0/8"


def test_direct_is_past_the_environments_proxies(tmp_path: Path) -> None:
    told = way_out(Outbound(proxy=Secret("direct", "outbound.proxy")), tmp_path)
    assert {told[name] for name in PROXY_NAMES} == {""}
    assert told["NO_PROXY"] == "*"


def test_pip_trusts_the_authority_beside_the_systems(tmp_path: Path) -> None:
    certificate, _ = self_signed(tmp_path)
    bundle = Path(way_out(Outbound(ca_file=str(certificate)), tmp_path)["PIP_CERT"])
    trusted = ssl.create_default_context(cafile=str(bundle)).get_ca_certs()
    system = ssl.get_default_verify_paths().cafile
    others = ssl.create_default_context(cafile=system).get_ca_certs() if system is not None else []
    assert len(trusted) == len(others) + 1


def test_without_a_word_nothing_is_changed(tmp_path: Path) -> None:
    assert way_out(FROM_ENVIRONMENT, tmp_path) == {}


def test_what_the_configuration_says_is_what_pulls_get() -> None:
    file = '[outbound]\nproxy = "http://proxy:3128"\nno_proxy = ["here"]\nca_file = "ca.pem"\n'
    said = configured(parse(file, "rivermouth.toml", {}, frozenset()).outbound)
    assert (said.proxy and said.proxy.reveal(), said.no_proxy) == ("http://proxy:3128", ("here",))
    assert said.ca_file is not None
