"""`demo`: real where it can be, and honest where it cannot."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import anthropic
import huggingface_hub
import ollama
import openai
import pytest

from rivermouth.cli import demo
from rivermouth.cli.demo import FALLEN_BACK, HONEST, MODEL, shown, timing, ways
from rivermouth.cli.term import own_name
from rivermouth.config import Config, ServerConfig
from rivermouth.local.models.registry import Registry
from tests.cli.asking import on_terminal, run
from tests.local.asking import install
from tests.promises import DOCS
from tests.running import Running
from tests.test_docs import fenced
from tests.tiny_gguf import TEXT


def no_model_named(url: str) -> None:
    """The example of a page whose SDK names no model, as it stands there."""
    page = (DOCS / "dialects" / "tgi.md").read_text(encoding="utf-8")
    (code,) = [code for code in fenced(page, "python") if "text_generation" in code]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
        exec(compile(code.replace("http://127.0.0.1:8080", url), "example", "exec"), {})
    huggingface_hub.close_session()


def test_the_model_answers_over_http_and_the_server_goes_on_until_ctrl_c(
    data_dir: Path, tiny_file: Path, silent: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = silent.read_text(encoding="utf-8").split()[-1]
    install(Registry(data_dir / "models"), MODEL, tiny_file)
    with on_terminal("demo", "--data-dir", data_dir, "--port", port) as terminal:
        terminal.expect("Ctrl-C stops the server.")
        found = re.search(r"answers on (http://127\.0\.0\.1:\d+)", terminal.shown)
        assert found is not None
        no_model_named(found[1])
        assert capsys.readouterr().out == TEXT
        terminal.press("\x03")
        assert terminal.code() == 0
        said = terminal.shown.replace("\r\n", "\n")
    assert TEXT in said
    assert "scripted" not in said.lower()
    assert "\n".join(HONEST) in said
    assert f"openai     {found[1]}/v1\n" in said
    assert f"anthropic  {found[1]}\n" in said
    assert f"ollama     {found[1]}\n" in said
    assert (data_dir / "server.url").exists() is False


def test_without_a_registry_the_scripted_model_answers_and_it_is_said(data_dir: Path, taken: int, silent: Path) -> None:
    closed = silent.read_text(encoding="utf-8").split()[-1]
    pip = {"PIP_INDEX_URL": f"http://127.0.0.1:{closed}/", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": "/dev/null"}
    ran = run("demo", "--once", "--data-dir", data_dir, "--port", str(taken), env=pip)
    assert ran.code == 0
    assert f"{MODEL} could not be pulled" in ran.err
    assert FALLEN_BACK in ran.err
    assert re.search(rf"Port {taken} is taken; this is on \d+\.", ran.err)
    assert demo.QUESTION in ran.out
    assert "Traceback" not in ran.err


def test_without_the_engine_nothing_is_pulled(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)  # as where it is not installed
    why = demo.unavailable(Registry(data_dir / "models"))
    assert why is not None
    assert "pip install 'rivermouth[openvino]'" in why


def test_a_default_that_is_configured_stays() -> None:
    assert shown(Config(), MODEL).default_model == MODEL
    assert shown(Config(server=ServerConfig(default_model="mine")), MODEL).default_model == "mine"


def test_the_lines_say_when_a_model_is_scripted() -> None:
    assert "The model above is scripted." in ways("http://x", "scripted", "rivermouth")
    assert not any("scripted" in line for line in ways("http://x", MODEL, "rivermouth"))


def test_the_line_for_each_sdk_is_code_that_streams_an_answer(server: Running) -> None:
    sdks = {"OpenAI": openai.OpenAI, "Anthropic": anthropic.Anthropic, "Client": ollama.Client}
    lines = [line.strip() for line in ways(server.url, "scripted", "rivermouth") if line.startswith("    ")]
    assert [line.partition("(")[0] for line in lines] == list(sdks)
    for line, (name, sdk) in zip(lines, sdks.items(), strict=True):
        made: list[Any] = []

        def client(sdk: Any = sdk, made: list[Any] = made, **options: Any) -> Any:
            made.append(sdk(**options))
            return made[0]

        assert len(list(eval(line, {name: client}))) > 2
        (made[0]._client if name == "Client" else made[0]).close()


def test_the_last_lines_name_the_command_as_it_can_be_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [".venv/bin/rivermouth", "demo"])
    assert own_name() == ".venv/bin/rivermouth"
    assert f"In another terminal: {own_name()} chat m" in "\n".join(ways("http://x", "m", own_name()))
    monkeypatch.setattr(sys, "argv", ["/elsewhere/rivermouth/__main__.py", "demo"])
    assert own_name() == f"{sys.executable} -m rivermouth"
    (tmp_path / "rivermouth").touch(mode=0o755)
    assert own_name() == "rivermouth"


def test_beside_a_running_server_the_data_directory_is_the_first_thing_it_says(server: Running) -> None:
    ran = run("demo", "--once", "--data-dir", server.data, "--port", str(server.port))
    assert ran.code == 4
    assert ran.err.startswith(f"rivermouth: the data directory {server.data} is in use")
    assert "--data-dir" in ran.err
    assert "taken" not in ran.err


def test_speed_is_counted_from_the_first_token() -> None:
    assert timing(10.0, 12.5, 14.5, 40) == "first token after 2.5 s, with the model's loading, then 20 tokens/s"
    assert timing(10.0, 12.5, 12.5, None) == "first token after 2.5 s, with the model's loading"
