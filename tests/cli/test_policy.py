"""`policy explain`: what a server would decide, without one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rivermouth.config.load import load
from rivermouth.dialects import discover
from rivermouth.platform.changes import NewKey
from rivermouth.platform.gate import PlatformGate
from rivermouth.platform.keyring import KeyRing
from rivermouth.platform.service import PlatformService
from rivermouth.store.database import open_database
from rivermouth.store.platform.sqlite import SqlitePlatformStore
from rivermouth.wire import json
from tests.cli.asking import Cli
from tests.engine.lab import lab
from tests.platform_api.office import CONFIG, Office


@pytest.fixture
def config() -> Path:
    """The file of this folder."""
    file = Path("rivermouth.toml")
    file.write_text(CONFIG, encoding="utf-8")
    return file


@pytest.fixture
def explain(cli: Cli, config: Path) -> Cli:
    return cli


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A server with the same configuration."""
    with lab(tmp_path_factory.mktemp("same"), CONFIG) as server:
        yield Office(server)


def test_it_tells_the_order_and_the_reasons(explain: Cli) -> None:
    ran = explain("policy", "explain", "--model", "gpt-x", "--policy", "europe")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "gpt-x: allowed",
        "policies   europe",
        "order      listed",
        "  1.       lab-eu: configured, 1 of 2",
        "no         lab-us: policy europe: its region is us-east, not eu-*",
    ]


def test_a_refusal_is_a_failure(explain: Cli) -> None:
    ran = explain("policy", "explain", "--model", "gpt-us", "--key", "bob")
    assert ran.code == 1
    assert ran.out.splitlines()[0] == "gpt-us: refused (policy_refused)"
    assert "policy europe: its region is us-east, not eu-*" in ran.out


def test_what_a_call_would_need_is_judged(explain: Cli, config: Path) -> None:
    config.write_text(
        CONFIG.replace('region = "us-east"', 'region = "us-east"\ncapabilities = ["tools"]\ncontext_tokens = 1000')
    )
    assert explain("policy", "explain", "--model", "gpt-us", "--tools").code == 0
    ran = explain("policy", "explain", "--model", "gpt-us", "--tools", "--images")
    assert (ran.code, "it has no images" in ran.out) == (1, True)
    ran = explain("policy", "explain", "--model", "gpt-us", "--prompt-tokens", "5000")
    assert (ran.code, "its context is 1000 tokens" in ran.out) == (1, True)


def test_a_key_of_the_database_is_one(explain: Cli, data_dir: Path) -> None:
    async def create() -> None:
        store = SqlitePlatformStore(open_database(data_dir / "rivermouth.db"))
        known = load(Path("rivermouth.toml"), {}, frozenset(discover()))
        async with PlatformService(store, known, ring=KeyRing(), gate=PlatformGate(), watch=False) as service:
            await service.create(NewKey(name="carol", policy="europe", models=("gpt-*",)), "test")

    asyncio.run(create())
    assert explain("policy", "explain", "--model", "gpt-us", "--key", "carol").code == 1
    assert explain("policy", "explain", "--model", "gpt-x", "--key", "carol").code == 0
    ran = explain("policy", "explain", "--model", "scripted/scripted", "--key", "carol", "--scripted")
    assert (ran.code, "model_not_allowed" in ran.out) == (1, True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--model", "gpt-x", "--key", "nobody"), 5),
        (("--model", "gpt-x", "--policy", "none-such"), 2),
        (("--model", "no-such-model"), 5),
        ((), 2),
    ],
)
def test_a_question_about_nothing_is_an_error(explain: Cli, words: tuple[str, ...], code: int) -> None:
    assert explain("policy", "explain", *words).code == code


@pytest.mark.parametrize("model", ["gpt-x", "gpt-us", "gpt-quiet", "scripted"])
@pytest.mark.parametrize("key", ["bob", "eve"])
def test_it_says_what_the_api_says(explain: Cli, same: Office, model: str, key: str) -> None:
    ran = explain("policy", "explain", "--model", model, "--key", key, "--scripted", "--json")
    asked = {"model": model, "key": key}
    status, told = asyncio.run(same.ask("POST", "/platform/v1/policies/dry-run", "admin", asked))
    assert status == 200
    assert json.decode(ran.out.encode()) == told
    assert ran.code == (0 if told["allowed"] else 1)
