"""`doctor` and `ps`: what is asked of an installation and of a running server."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from rivermouth.cli import doctor
from rivermouth.cli.client import Client
from rivermouth.cli.doctor import State
from rivermouth.cli.engine_probe import Probe
from rivermouth.cli.places import announced
from rivermouth.config import Config, ProviderConfig, ServerConfig, load
from rivermouth.ir.events import TextDelta
from rivermouth.ir.request import Message, Request, Role, Text
from rivermouth.local.machine import history
from rivermouth.local.models.registry import Registry
from rivermouth.secrets import Secret
from rivermouth.store.datadir import LOCK, DataDir
from rivermouth.wire import json
from tests.cli.asking import Cli
from tests.local.asking import install
from tests.running import Running
from tests.tiny_gguf import TEXT


def test_everything_is_asked_and_told(cli: Cli, server: Running, silent: Path) -> None:
    ran = cli("doctor", "--json", "--data-dir", server.data, "--config", silent)
    assert ran.code == 0
    assert "openvino_genai" not in sys.modules
    told = json.decode(ran.out.encode())
    assert (told["ok"], told["broken"]) == (True, [])
    facts = {finding["name"]: finding["facts"] for finding in told["findings"]}
    assert list(facts) == [
        "version", "python", "config", "provider", "data", "disk", "lock", "reload", "records", "models", "engine",
        "memory", "loads", "crashes", "server",
    ]  # fmt: skip
    assert facts["lock"] == {"held": True, "pid": server.process.pid}
    assert facts["models"] == {"models": ["tiny:latest"], "problems": []}
    assert "CPU" in facts["engine"]["devices"]
    assert (facts["server"]["url"], facts["server"]["status"]) == (server.url, "ok")


def test_what_is_broken_is_marked_and_makes_it_fail(
    cli: Cli, data_dir: Path, models: Registry, tiny_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)  # as where the engine is not installed
    install(models, "tiny", tiny_file)
    install(models, "damaged", tiny_file)
    (data_dir / "models" / "manifests" / "damaged" / "latest.json").write_bytes(b"{")
    (data_dir / "rivermouth.db").write_bytes(b"no database")
    (tmp_path / "rivermouth.toml").write_text("[server]\nport = 1\nprot = 1\n", encoding="utf-8")
    ran = cli("doctor")
    assert ran.code == 1
    broken = [line.split()[1] for line in ran.out.splitlines() if line.startswith("broken")]
    assert broken == ["config", "records", "models", "engine"]
    assert "rivermouth.toml:3: server.prot: unknown key" in ran.out
    assert "pip install 'rivermouth[openvino]'" in ran.out


def test_an_engine_that_is_not_installed_matters_only_to_local_models() -> None:
    assert doctor.engine(None, needed=False).state is State.NOTE
    assert doctor.engine(None, needed=True).state is State.BROKEN
    assert doctor.engine(Probe(failure="ImportError: no"), needed=False).state is State.BROKEN
    assert doctor.engine(Probe("1", {"CPU": "a chip"}), needed=True).text == "OpenVINO GenAI 1; CPU (a chip)"


def test_providers_are_told_with_what_enables_them_and_without_their_keys() -> None:
    lab = ProviderConfig(name="lab", base_url="http://127.0.0.1:1/v1", api_key=Secret("the-key"))
    groq = ProviderConfig(name="groq", base_url="http://127.0.0.1:2", origin="GROQ_API_KEY")
    found = list(doctor.providers(Config(file="x.toml", providers={"lab": lab, "groq": groq}), {}))
    assert [finding.text for finding in found] == [
        "lab at http://127.0.0.1:1/v1, enabled by x.toml",
        "groq at http://127.0.0.1:2, enabled by the environment's GROQ_API_KEY",
    ]
    assert "the-key" not in json.encode(found).decode()


def test_a_bot_that_cannot_be_called_is_broken(tmp_path: Path) -> None:
    bot = ProviderConfig(name="mybot", python="no_such_module_of_mine:stream")
    (found,) = doctor.providers(Config(file="x.toml", providers={"mybot": bot}), {})
    assert found.state is State.BROKEN
    assert "the module cannot be imported" in found.text


def test_a_hint_names_every_variable_that_enables_a_provider_and_what_one_lacks() -> None:
    none, lacking = doctor.providers(Config(), {"AWS_BEARER_TOKEN_BEDROCK": "k-123456"})
    assert {"OPENAI_API_KEY", "OLLAMA_HOST", "VLLM_BASE_URL"} <= set(re.findall(r"\w+", none.text))
    assert (
        lacking.text == "bedrock is off: AWS_BEARER_TOKEN_BEDROCK is set, and AWS_REGION or AWS_DEFAULT_REGION is not"
    )
    assert lacking.state is State.NOTE


def test_a_profile_that_aws_does_not_know_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("[profile team]\nregion = eu-west-1\n", encoding="utf-8")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.delenv("AWS_PROFILE", raising=False)

    def told(profile: str | None) -> doctor.Finding:
        bedrock = ProviderConfig(name="bedrock", base_url="http://127.0.0.1:1", region="eu-west-1", profile=profile)
        (found,) = doctor.providers(Config(file="x.toml", providers={"bedrock": bedrock}), {})
        return found

    assert told("team").state is told(None).state is State.OK
    assert told("nobody").state is State.BROKEN
    assert "profile nobody: profile not found" in told("nobody").text
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "profile nobody: profile not found" in told(None).text


def test_a_default_model_that_is_nowhere_is_noted() -> None:
    config = Config(server=ServerConfig(default_model="mm"))
    (found,) = doctor.default_model(config, ["m:latest"])
    assert (found.state, found.name) == (State.NOTE, "default")
    assert [*doctor.default_model(config, ["mm:latest"])] == []


def test_a_server_that_holds_the_lock_and_does_not_answer_is_noted(data_dir: Path, silent: Path) -> None:
    data = DataDir(data_dir)
    config = load(silent, {}, frozenset())
    assert doctor.server(config, data, doctor.lock(data)).text == "none answers"
    address = f"https://127.0.0.1:{config.server.port}"
    with data.lock(), announced(data, address):
        found = doctor.server(config, data, doctor.lock(data))
    assert found.state is State.NOTE
    assert found.text.startswith(f"the server with pid {os.getpid()} does not answer at {address} or ")
    assert "chat --url" in found.text


def test_the_holder_of_the_lock_is_seen_without_taking_it(data_dir: Path) -> None:
    data = DataDir(data_dir)
    assert doctor.holder(data.path / LOCK) is None
    with data.lock():
        assert doctor.holder(data.path / LOCK) is not None
    assert doctor.holder(data.path / LOCK) is None
    with data.lock():
        pass


def test_loads_and_the_last_crash_of_a_model_are_told(data_dir: Path, models: Registry, tiny_file: Path) -> None:
    model, data = install(models, "tiny", tiny_file), DataDir(data_dir)
    assert doctor.loads([model], data).text == "no model has been loaded yet"
    assert doctor.crashes([model], data, now_s=0.0).state is State.OK
    cache = doctor.cache_of(model, data)
    history.note_load(cache, "CPU", 3.25, cached=False)
    history.note_load(cache, "CPU", 1.5, cached=True)
    history.note_crash(cache, history.LastCrash(at=1000, device="CPU", how="it died", stderr=("one", "two")))
    told = doctor.loads([model], data).text
    assert told.startswith("tiny:latest: CPU cold 3.25 s and warm 1.50 s, ")
    assert told.endswith(" B kept")
    found = doctor.crashes([model], data, now_s=1120.0)
    assert found.state is State.NOTE
    assert found.text.splitlines() == ["tiny:latest on CPU, 2 minutes ago: it died", "  one", "  two"]


def test_what_a_model_needs_is_told_before_it_is_loaded(data_dir: Path, models: Registry, tiny_file: Path) -> None:
    model, data = install(models, "tiny", tiny_file), DataDir(data_dir)
    found = doctor.memory([model], Config(), data, 1 << 30)
    assert found.state is State.OK
    assert found.text.splitlines()[0] == "1.1 GB free"
    assert found.text.splitlines()[1].startswith("tiny:latest needs 211 MB and 2.")
    short = doctor.memory([model], Config(), data, 1 << 20)
    assert (short.state, short.text.endswith(": too much")) == (State.NOTE, True)
    assert doctor.memory([model], Config(), data, None).state is State.OK


def test_ps_shows_what_a_server_has_loaded(cli: Cli, server: Running, silent: Path) -> None:
    request = Request(model="tiny", messages=(Message(Role.USER, (Text("Hi"),)),), stream=True)
    said = [event.text for event in Client(server.url).stream(request) if isinstance(event, TextDelta)]
    assert "".join(said) == TEXT
    ran = cli("ps", "--data-dir", server.data, "--config", silent)
    assert ran.code == 0
    titles = ["NAME", "SIZE", "PARAMETERS", "QUANTIZATION", "DEVICES", "CALLS", "UNLOADED"]
    assert ran.out.splitlines()[0].split() == titles
    assert ran.out.splitlines()[1].split()[0] == "tiny:latest"
    assert "in 4 minutes" in ran.out
    assert re.search(r" 0 of [1-9]", ran.out)
    told = json.decode(cli("ps", "--url", server.url, "--json").out.encode())[0]
    assert told["name"] == "tiny:latest"
    assert [(queue["active"], queue["waiting"]) for queue in told["queues"]] == [(0, [])]


def test_ps_without_a_server_says_how_to_start_one(cli: Cli, silent: Path) -> None:
    ran = cli("ps", "--config", silent)
    assert (ran.code, ran.out) == (6, "")
    assert "rivermouth serve" in ran.err
    assert cli("ps", "--url", "http://127.0.0.1:1").code == 6


def test_a_file_that_cannot_be_used_still_says_where_the_data_is(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RIVERMOUTH_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    (tmp_path / "rivermouth.toml").write_text('data_dir = "here"\n[server]\nprot = 1\n', encoding="utf-8")
    told = json.decode(cli("doctor", "--json").out.encode())
    findings = {finding["name"]: finding["text"] for finding in told["findings"]}
    assert findings["data"] == str(tmp_path / "here")
    assert "config" in told["broken"]
    assert "provider" not in findings  # the file may have some: nobody knows
    assert not (tmp_path / "elsewhere").exists()


def test_where_nobody_knows_where_the_data_is_nothing_is_said_of_another_place(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rivermouth.toml").write_text('data_dir "here"\n', encoding="utf-8")
    assert "server" in [finding["name"] for finding in json.decode(cli("doctor", "--json").out.encode())["findings"]]
    monkeypatch.delenv("RIVERMOUTH_DATA")
    told = json.decode(cli("doctor", "--json").out.encode())
    assert [finding["name"] for finding in told["findings"]][2:] == ["config", "data"]
    assert "--data-dir" in told["findings"][-1]["text"]
