"""`rivermouth db`, `config check` and `health`: what an operator does beside a server, and before one."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from rivermouth.cli.places import announced
from rivermouth.cli.term import Exit
from rivermouth.store.datadir import DataDir
from rivermouth.store.tables import HEAD
from tests.cli.asking import Cli
from tests.engine.lab import lab
from tests.engine.tls import self_signed
from tests.running import Running


def schema(path: Path, name: str | None = None) -> str:
    with sqlite3.connect(path) as raw:
        if name is not None:
            raw.execute("UPDATE alembic_version SET version_num = ?", (name,))
        found = raw.execute("SELECT version_num FROM alembic_version").fetchone()[0]
    raw.close()
    return str(found)


# -- db


def test_a_database_is_brought_up_and_told_from_where(cli: Cli, data_dir: Path) -> None:
    ran = cli("db", "upgrade", "--json")
    file = str(data_dir / "rivermouth.db")
    assert (ran.code, json.loads(ran.out)) == (0, {"file": file, "from": None, "to": HEAD})
    assert f"{file} is at {HEAD} already" in cli("db", "upgrade").err
    assert schema(data_dir / "rivermouth.db") == HEAD


def test_a_newer_one_is_refused_and_left_as_it_is(cli: Cli, data_dir: Path) -> None:
    cli("db", "upgrade")
    schema(data_dir / "rivermouth.db", "from_the_future")
    ran = cli("db", "upgrade")
    assert (ran.code, "another version of this program" in ran.err) == (Exit.FAILED, True)
    assert schema(data_dir / "rivermouth.db") == "from_the_future"
    ran = cli("db", "backup", data_dir / "copy.db")
    assert (ran.code, "from_the_future" in ran.err) == (Exit.FAILED, True)


def test_a_copy_goes_and_comes_back(cli: Cli, data_dir: Path, tmp_path: Path) -> None:
    cli("db", "upgrade")
    ran = cli("db", "backup", tmp_path / "copy.db", "--json")
    made = json.loads(ran.out)
    assert (ran.code, made["file"], made["schema"]) == (0, str(tmp_path / "copy.db"), HEAD)
    assert cli("db", "backup", tmp_path / "copy.db").code == Exit.FAILED
    ran = cli("db", "restore", tmp_path / "copy.db")
    assert ran.code == 0
    assert f"What it was before is in {data_dir}/rivermouth.db.before-restore" in ran.err
    ran = cli("db", "restore", tmp_path / "copy.db", "--json")
    assert json.loads(ran.out)["kept"] == f"{data_dir}/rivermouth.db.before-restore-2"
    assert cli("db", "restore", tmp_path / "nothing.db").code == Exit.USAGE
    (tmp_path / "copy.db").write_bytes(b"nonsense" * 1000)
    assert cli("db", "restore", tmp_path / "copy.db").code == Exit.FAILED


def test_beside_a_server_it_can_be_copied_and_nothing_else(cli: Cli, server: Running, tmp_path: Path) -> None:
    at = ("--data-dir", server.data)
    assert cli("db", "backup", tmp_path / "copy.db", *at).code == 0
    for words in (("db", "upgrade"), ("db", "restore", tmp_path / "copy.db")):
        ran = cli(*words, *at)
        assert (ran.code, f"pid {server.process.pid}" in ran.err) == (Exit.BUSY, True)


# -- config check


GOOD = '[server]\ndefault_model = "nobody"\n'
LAB = '[providers.lab]\ndialect = "ollama"\nbase_url = "https://x.example"\n'
BAD = '[server]\nport = "x"\nprot = 1\n[models.m]\nendpoints = ["gone/m"]\n[timeouts]\nidle_s = -1\n'


def test_every_fault_is_told_with_its_line(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(BAD, encoding="utf-8")
    ran = cli("config", "check", file)
    assert ran.code == Exit.FAILED
    places = [line.partition(": ")[0] for line in ran.out.splitlines()]
    assert places == [f"{file}:{number}" for number in (2, 3, 7)]
    told = json.loads(cli("config", "check", file, "--json").out)
    assert [(p["line"], p["key"]) for p in told["problems"]] == [
        (2, "server.port"), (3, "server.prot"), (7, "timeouts.idle_s"),
    ]  # fmt: skip
    assert (told["file"], told["warnings"]) == (str(file), [])


def test_doubts_are_no_faults(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "a-token-of-some-length")
    file = tmp_path / "rivermouth.toml"
    file.write_text(GOOD + 'keys = ["a-key-in-the-file"]\nallow_open = true\n', encoding="utf-8")
    file.chmod(0o644)
    ran = cli("config", "check")
    assert (ran.code, "rivermouth.toml can be used" in ran.err) == (0, True)
    warnings = ran.out.splitlines()
    assert all(line.startswith("rivermouth.toml: warning: ") for line in warnings)
    words = ("nothing here is called nobody", "bedrock is off", "allow_open", "not only its owner can read it")
    assert [word in line for word, line in zip(words, warnings, strict=True)] == [True] * 4
    assert "a-key-in-the-file" not in ran.out
    file.chmod(0o600)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK")
    file.write_text('[server]\nkeys = ["env:KEY_OF_OURS"]\n', encoding="utf-8")
    monkeypatch.setenv("KEY_OF_OURS", "a-key-of-ours")
    file.chmod(0o644)
    assert cli("config", "check").out == ""


def test_files_that_a_start_would_need_are_looked_at(cli: Cli, tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    file = tmp_path / "rivermouth.toml"
    file.write_text(f'[server]\ntls_cert = "{cert.name}"\ntls_key = "{key.name}"\n', encoding="utf-8")
    assert cli("config", "check").code == 0
    key.write_text("nonsense")
    ran = cli("config", "check")
    assert (ran.code, f"server.tls_key {key}: holds no key in PEM" in ran.out) == (Exit.FAILED, True)
    file.unlink()
    assert cli("config", "check").code == Exit.NOT_FOUND
    assert cli("config", "check", "nowhere.toml").code == Exit.FAILED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[outbound]\nproxy = "socks5://proxy.example:1080"\n', "outbound.proxy: must be the address of an HTTP proxy"),
        ('[outbound]\nproxy = "http://"\n', "outbound.proxy: must be"),
        ('[outbound]\nproxy = "http://proxy.example:port"\n', "outbound.proxy: must be"),
        ('[outbound]\nno_proxy = ["x.example"]\n', "outbound.no_proxy: goes with outbound.proxy"),
        ('[outbound]\nca_file = "gone.pem"\n', "outbound.ca_file"),
        ('[http]\ntrusted_proxies = ["10.0.0.0/8", "10.0.0.0/99"]\n', "trusted_proxies[1]: 10.0.0.0/99 is neither"),
        ('[http]\ntrusted_proxies = ["proxy.example"]\n', "http.trusted_proxies[0]: must be an address or a network"),
        ('[http]\nproxy_headers = "both"\n', "http.proxy_headers: expected one of"),
        ('[providers.bot]\npython = "bot:stream"\nproxy = "direct"\n', "bot.proxy: a python provider has none"),
        (LAB + 'proxy = "nonsense"\n', "providers.lab.proxy: must be"),
        ('[server]\nkeys = ["file:gone"]\n', "gone cannot be read: No such file or directory"),
    ],
)
def test_what_the_network_around_it_cannot_be(cli: Cli, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "rivermouth.toml").write_text(text, encoding="utf-8")
    ran = cli("config", "check")
    assert (ran.code, words in ran.out) == (Exit.FAILED, True), ran.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"one-line\nanother\n", "does not hold one line"),
        (b"\n", "does not hold one line"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"x" * 70_000, "does not hold one line"),
    ],
)
def test_a_secret_in_a_file_is_one_line(cli: Cli, tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "rivermouth.toml").write_text('[server]\nkeys = ["file:key"]\n', encoding="utf-8")
    (tmp_path / "key").write_bytes(content)
    ran = cli("config", "check")
    assert (ran.code, words in ran.out) == (Exit.FAILED, True), ran.out
    assert "one-line" not in ran.out
    (tmp_path / "key").write_bytes(b"one-good-key\r\n")
    assert cli("config", "check").code == 0


# -- health


def test_health_is_asked_of_the_server_of_the_data_directory(cli: Cli, server: Running, data_dir: Path) -> None:
    ran = cli("health", "--data-dir", server.data)
    assert (ran.code, ran.err) == (0, f"{server.url} is ok\n")
    assert cli("health", "--url", server.url).code == 0
    ran = cli("health")
    assert (ran.code, "no server has this data directory" in ran.err) == (Exit.UNREACHABLE, True)
    with announced(DataDir(data_dir), "http://127.0.0.1:1"):
        assert cli("health").code == Exit.UNREACHABLE


def test_it_is_asked_by_its_address_whatever_name_its_certificate_has(cli: Cli, tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    with lab(tmp_path, "", tls=(str(cert), str(key))) as server:
        assert cli("health", "--data-dir", server.data_path).code == 0
        url = f"https://127.0.0.1:{server.port}"
        assert cli("health", "--url", url).code == Exit.UNREACHABLE, "a server that was named proves who it is"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSL_CERT_FILE", str(cert))
            assert cli("health", "--url", url).code == 0
