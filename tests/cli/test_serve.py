"""`serve`: what it says first, how it refuses to start, how it ends; and how the others find it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from rivermouth.cli.bots import warn
from rivermouth.cli.certificate import usable
from rivermouth.cli.places import ADDRESS_FILE, addresses, announced, running
from rivermouth.cli.serve import FIRST_STEPS, address, wanted_at_once, welcome
from rivermouth.cli.term import Exit
from rivermouth.config import Config, HttpConfig, ProviderConfig, ServerConfig
from rivermouth.config.schema import LocalConfig
from rivermouth.local.models.registry import Registry
from rivermouth.secrets import Secret
from rivermouth.store.datadir import DataDir
from tests import running as real
from tests.cli.asking import Cli, run
from tests.engine.tls import self_signed
from tests.fakes import JSON, Asked, FakeUpstream
from tests.local.asking import install
from tests.running import Running


def test_with_nothing_to_answer_with_it_says_what_to_do_and_ends_in_order(tmp_path: Path) -> None:
    with real.running(tmp_path, scripted=False) as server:
        announced = (server.data / ADDRESS_FILE).read_text(encoding="ascii")
        code = server.stop()
    said = "".join(server.log)
    assert code == 0
    assert announced == server.url + "\n"
    assert f"data       {server.data}" in said
    assert "models     no local models" in said
    assert "providers  none" in said
    assert all(line in said for line in FIRST_STEPS)
    assert not (server.data / ADDRESS_FILE).exists()


def test_the_welcome_names_what_there_is(data_dir: Path) -> None:
    config = Config(providers={"lab": ProviderConfig(name="lab", api_key=Secret("the-key"))})
    lines = welcome(["http://127.0.0.1:8080"], DataDir(data_dir), ["tiny:latest"], config, scripted=True)
    assert lines[0] == "Rivermouth answers on http://127.0.0.1:8080"
    assert lines[2:] == ["  models     1 local model: tiny:latest", "  providers  scripted, lab"]
    assert "the-key" not in "".join(lines)


@pytest.mark.parametrize(
    ("name", "scripted", "told"), [("tiny", False, 0), ("scripted", True, 0), ("scripted", False, 1)]
)
def test_the_welcome_says_that_a_default_model_is_nowhere(data_dir: Path, name: str, scripted: bool, told: int) -> None:
    config = Config(server=ServerConfig(default_model=name))
    lines = welcome(["http://127.0.0.1:8080"], DataDir(data_dir), ["tiny:latest"], config, scripted=scripted)
    assert len([line for line in lines if f"nothing here is called {name}" in line]) == told


def test_two_servers_do_not_share_a_data_directory(server: Running) -> None:
    ran = run("serve", "--data-dir", server.data, "--port", "0")
    assert ran.code == 4
    assert f"in use by a server with pid {server.process.pid}; --data-dir" in ran.err
    assert "Traceback" not in ran.err


def test_a_taken_address_is_named(cli: Cli, taken: int) -> None:
    ran = cli("serve", "--port", str(taken))
    assert ran.code == 4
    assert f"cannot listen on 127.0.0.1:{taken}" in ran.err


def test_a_fault_of_the_configuration_is_told_with_its_line(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text("[server]\nprot = 1\n[timeouts]\nidle_s = -1\n", encoding="utf-8")
    ran = cli("serve", "--config", file)
    assert ran.code == 3
    lines = ran.err.splitlines()
    assert lines[0].startswith(f"rivermouth: {file}:2: server.prot: unknown key")
    assert lines[1].startswith(f"{file}:4: timeouts.idle_s: ")
    assert len(lines) == 2


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two certificates, their keys, and a file that is neither."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("one", "two"):
        certificate, key = self_signed(folder)
        certificate.rename(folder / f"{name}.pem")
        key.rename(folder / f"{name}.key")
    (folder / "text").write_text("no PEM", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("certificate", "key", "words"),
    [
        ("missing", "one.key", "--tls-cert {0}/missing: No such file"),
        ("one.pem", "missing", "--tls-key {0}/missing: No such file"),
        ("text", "one.key", "--tls-cert {0}/text: holds no certificate"),
        ("one.pem", "text", "--tls-key {0}/text: holds no key"),
        ("one.pem", "two.key", "--tls-key {0}/two.key: is not the key of the certificate"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_a_sentence(
    cli: Cli, pairs: Path, certificate: str, key: str, words: str
) -> None:
    ran = cli("serve", "--port", "0", "--tls-cert", pairs / certificate, "--tls-key", pairs / key)
    assert ran.code == Exit.CONFIG
    assert words.format(pairs) in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_certificate_and_its_key_can_be_used(pairs: Path) -> None:
    usable((str(pairs / "one.pem"), str(pairs / "one.key")))


def test_a_bot_that_cannot_be_imported_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "quitting_bot.py").write_text("raise SystemExit\n", encoding="utf-8")
    (tmp_path / "good_bot.py").write_text("def stream(messages):\n    yield 'Hi'\n", encoding="utf-8")
    targets = {"good": "good_bot:stream", "typo": "good_bot:strem", "gone": "no_such_bot:f", "quits": "quitting_bot:f"}
    warn(Config(providers={name: ProviderConfig(name=name, python=at) for name, at in targets.items()})).join()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["typo:", "gone:", "quits:"]
    assert "no function 'strem'" in lines[0]
    assert "providers.gone.python" in lines[1]


def test_the_file_in_the_folder_is_found(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "rivermouth.toml").write_text("[server]\nprot = 1\n", encoding="utf-8")
    assert cli("serve").err.startswith("rivermouth: rivermouth.toml:2: server.prot: ")


def test_another_address_without_a_key_is_refused(cli: Cli) -> None:
    ran = cli("serve", "--host", "0.0.0.0")
    assert ran.code == 3
    assert "--host" in ran.err


@pytest.mark.parametrize(
    "options",
    [("--also", "nonsense"), ("--also", "127.0.0.1:99999"), ("--port", "70000"), ("--tls-cert", "cert.pem")],
)
def test_a_wrong_option_is_a_wrong_command_line(cli: Cli, options: tuple[str, ...]) -> None:
    assert cli("serve", *options).code == 2


def test_an_address_has_two_halves() -> None:
    assert address("127.0.0.1:11434") == ("127.0.0.1", 11434)
    assert address("[::1]:80") == ("::1", 80)


def test_help_tells_the_exit_codes(cli: Cli) -> None:
    assert "6 no server or registry answers" in " ".join(cli("--help").out.split())
    assert cli("--version").out.strip() == "0.1.0"


# -- how a server is found


def test_the_announced_address_is_asked_first(data_dir: Path) -> None:
    config = Config(server=ServerConfig(host="0.0.0.0", port=99), http=HttpConfig(base_path="/ai"))
    data = DataDir(data_dir)
    assert addresses(config, data) == ["http://127.0.0.1:99/ai"]
    with announced(data, "http://127.0.0.1:5/ai"):
        assert addresses(config, data) == ["http://127.0.0.1:5/ai", "http://127.0.0.1:99/ai"]
    assert addresses(Config(server=ServerConfig(host="::1", port=9)), data) == ["http://[::1]:9"]


@pytest.mark.anyio
async def test_who_answers_as_a_rivermouth_is_asked_with_the_configured_key(data_dir: Path) -> None:
    async def answer(asked: Asked) -> None:
        body = b'{"status":"ok","inflight":0,"version":"1"}' if asked.path == "/health" else b"{}"
        await asked.answer(200, JSON, body)

    data = DataDir(data_dir)
    async with FakeUpstream(answer) as upstream:
        (data.path / ADDRESS_FILE).write_text("http://127.0.0.1:1\n", encoding="ascii")  # left by one that was killed
        port = int(upstream.url.rpartition(":")[2])
        config = Config(server=ServerConfig(port=port, keys=(Secret("the-key"),)))
        client = await asyncio.to_thread(running, config, data)
        assert client is not None
        await asyncio.to_thread(client.get, "/api/ps")
    assert upstream.requests[-1].headers["authorization"] == "Bearer the-key"


def test_a_second_address_is_exposed_as_little_as_the_first(cli: Cli, tmp_path: Path) -> None:
    done = cli("serve", "--also", "0.0.0.0:0", "--port", "0", "--data-dir", tmp_path)
    assert done.code == Exit.CONFIG
    assert "command line: --also: 0.0.0.0" in done.err
    assert "server.keys" in done.err


def test_a_single_user_s_model_is_loaded_at_once(models: Registry, tiny_file: Path) -> None:
    """The default one, or the only one; nobody guesses between two, and in the other profile none is."""
    single = Config(local=LocalConfig(profile="single"))
    assert wanted_at_once(single, models) is None
    install(models, "tiny", tiny_file)
    assert wanted_at_once(single, models) == "tiny:latest"
    assert wanted_at_once(Config(), models) is None
    install(models, "other:v1", tiny_file)
    assert wanted_at_once(single, models) is None
    default = msgspec.structs.replace(single, server=ServerConfig(default_model="tiny"))
    assert wanted_at_once(default, models) == "tiny:latest"


def test_a_file_that_asks_the_scripted_models_is_refused_by_a_server_without_them(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "rivermouth.toml").write_text('[models.writer]\nendpoints = ["scripted/scripted"]\n', encoding="utf-8")
    checked = cli("config", "check")
    assert (checked.code, "warning: models.writer.endpoints[0]: the scripted models" in checked.out) == (0, True)
    ran = cli("serve", "--port", "0")
    assert (ran.code, "rivermouth.toml:2: models.writer.endpoints[0]" in ran.err) == (Exit.CONFIG, True)
