"""The unit for systemd and the file for container engines, judged without either."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from rivermouth.cli.app import app
from rivermouth.config import Config, ConfigError, load
from rivermouth.http.server import GRACE_S
from rivermouth.store.datadir import ENVIRONMENT
from tests.promises import ROOT

PLACE = ROOT / "packaging"
UNIT = (PLACE / "rivermouth.service").read_text(encoding="utf-8")
DIALECTS = frozenset({"openai_chat"})


def can_be_given(words: list[str]) -> None:
    """Raises for a command line that there is not."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name, *words = words
        command = command.commands[name]
    command.make_parser(command.context_class(command)).parse_args(list(words))


# -- the unit


def lines(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


def of(key: str) -> str:
    (value,) = lines(key)
    return value


def test_its_commands_can_be_given() -> None:
    for command in (of("ExecStartPre"), of("ExecStart")):
        program, *words = shlex.split(command)
        assert Path(program).name == "rivermouth"
        can_be_given(words)
    assert of("ExecReload") == "/bin/kill -HUP $MAINPID"
    assert of("Type") == "notify"


def test_it_waits_for_the_drain_and_keeps_the_data_where_the_server_looks() -> None:
    assert float(of("TimeoutStopSec")) > Config().timeouts.drain_s + GRACE_S
    assert f"{ENVIRONMENT}=%S/{of('StateDirectory')}" in of("Environment").split()
    assert of("KillMode") == "mixed"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("CapabilityBoundingSet", ""),
        ("UMask", "0077"),
        ("StateDirectoryMode", "0700"),
    ],
)
def test_it_may_do_little(key: str, value: str) -> None:
    assert of(key) == value


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=30)


def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    file = tmp_path / "rivermouth.service"
    file.write_text(UNIT.replace("/opt/rivermouth/bin/rivermouth", "/bin/true"), encoding="utf-8")
    done = analyze("verify", "--man=no", file)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "bad.service").write_text(UNIT.replace("KillMode=mixed", "KillMode=nonsense"), encoding="utf-8")
    assert "nonsense" in analyze("verify", "--man=no", tmp_path / "bad.service").stderr


def test_systemd_calls_it_well_protected(tmp_path: Path) -> None:
    version = analyze("--version").stdout.split()[1]
    if int(re.match(r"\d*", version)[0] or 0) < 250:  # type: ignore[index]
        pytest.skip("this systemd does not judge a file")
    done = analyze("security", "--offline=true", "--threshold=25", PLACE / "rivermouth.service")
    assert done.returncode == 0, done.stdout[-200:]


# -- the image


class Instruction(NamedTuple):
    word: str
    rest: str


def instructions(text: str) -> list[Instruction]:
    """Each with its continued lines joined, without comments."""
    whole = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    return [Instruction(*line.split(None, 1)) for line in whole.splitlines() if line.strip()]


IMAGE = instructions((PLACE / "Containerfile").read_text(encoding="utf-8"))
STAGES = [i for i, one in enumerate(IMAGE) if one.word == "FROM"]
LAST = IMAGE[STAGES[-1] :]


def values(stage: list[Instruction], word: str) -> list[str]:
    return [one.rest for one in stage if one.word == word]


def test_every_instruction_is_one() -> None:
    known = {"ARG", "FROM", "ENV", "WORKDIR", "COPY", "RUN", "LABEL", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"}
    assert {one.word for one in IMAGE} == known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}


def test_both_stages_stand_on_one_named_version() -> None:
    (argument,) = values(IMAGE[: STAGES[0]], "ARG")
    assert re.fullmatch(r"PYTHON=3\.1[123]-slim-\w+", argument)
    assert [rest.split() for rest in values(IMAGE, "FROM")] == [
        ["python:${PYTHON}", "AS", "build"],
        ["python:${PYTHON}", "AS", "run"],
    ]


def test_what_is_copied_is_there_and_is_let_in() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    let_in = [line[1:] for line in ignored if line.startswith("!")]
    assert "*" in ignored
    for rest in values(IMAGE, "COPY"):
        *sources, _ = rest.split()
        if sources[0].startswith("--from="):
            assert sources[0] == "--from=build"
            continue
        for source in sources:
            assert source not in (".", "./"), "not everything that lies about"
            assert (ROOT / source).exists()
            assert source.rstrip("/") in let_in


def test_nothing_is_installed_but_what_is_locked_or_was_built() -> None:
    installs = [part for rest in values(IMAGE, "RUN") for part in rest.split("&&") if "pip install" in part]
    assert len(installs) == 2
    assert "--require-hashes -r requirements/runtime.txt" in installs[0]
    assert {"--no-deps", "--no-index"} <= set(installs[1].split())
    assert not [rest for rest in values(IMAGE, "RUN") if re.search(r"curl|wget|apt-get|sudo", rest)]


def test_it_runs_as_nobody_in_particular() -> None:
    (user,) = values(LAST, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "by number, so that an engine can see that it is not root"
    after = LAST[[one.word for one in LAST].index("USER") :]
    assert "RUN" not in {one.word for one in after}
    assert f"--uid {user.partition(':')[0]}" in " ".join(values(LAST, "RUN"))


def test_no_secret_is_in_it() -> None:
    said = [*values(IMAGE, "ENV"), *values(IMAGE, "ARG"), *values(IMAGE, "LABEL")]
    assert not [line for line in said if re.search(r"key|token|secret|password", line, re.IGNORECASE)]


def test_its_commands_can_be_given_and_need_no_shell() -> None:
    entry, command = (json.loads(values(LAST, word)[0]) for word in ("ENTRYPOINT", "CMD"))
    assert entry == ["rivermouth"]
    can_be_given(command)
    *_, check = values(LAST, "HEALTHCHECK")[0].split("CMD ")
    program, *words = json.loads(check)
    assert program == "rivermouth"
    can_be_given(words)
    assert values(LAST, "STOPSIGNAL") == ["SIGTERM"]


def test_its_data_and_its_port_are_those_of_its_configuration() -> None:
    config = load(PLACE / "container.toml", {"RIVERMOUTH_KEY": "a-key-of-some-length"}, DIALECTS)
    assert values(LAST, "EXPOSE") == [str(config.server.port)]
    assert json.loads(values(LAST, "VOLUME")[0]) == ["/data"]
    assert f"{ENVIRONMENT}=/data" in values(LAST, "ENV")[0].split()
    copied = dict(rest.split() for rest in values(LAST, "COPY") if not rest.startswith("--"))
    assert copied["packaging/container.toml"] in json.loads(values(LAST, "CMD")[0])


def test_it_does_not_listen_without_a_key() -> None:
    with pytest.raises(ConfigError, match="the environment variable RIVERMOUTH_KEY is not set"):
        load(PLACE / "container.toml", {}, DIALECTS)
    assert load(PLACE / "container.toml", {"RIVERMOUTH_KEY": "k" * 20}, DIALECTS).server.host == "0.0.0.0"


def test_the_configuration_of_the_unit_can_be_used_as_it_is() -> None:
    config = load(PLACE / "rivermouth.toml", {}, DIALECTS)
    assert config.server.host == "127.0.0.1"
