"""`chat`: one question, or a talk on a real terminal."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
import typer

from rivermouth.cli.chat import PIPED_TOKENS, asked, chosen, is_local
from rivermouth.cli.client import Client
from rivermouth.config import Config, ServerConfig
from rivermouth.ir.reply import ModelInfo
from rivermouth.local.models.registry import Registry
from rivermouth.wire import json
from tests.cli.asking import Cli, Terminal, on_terminal, run
from tests.cli.test_client import DONE, chunk
from tests.fakes import SSE, FakeUpstream
from tests.local.asking import install
from tests.running import Running
from tests.tiny_gguf import SCRIPT, TEXT


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_question_is_the_prompt_the_pipe_or_both(tmp_path: Path) -> None:
    file = tmp_path / "piped"
    file.write_text("of this\n", encoding="utf-8")
    with file.open() as piped:
        assert asked("Make a list", piped) == "Make a list\n\nof this"
    with file.open() as piped:
        assert asked(None, piped) == "of this"
    assert asked("Hi", Keyboard()) == "Hi"
    assert asked(None, Keyboard()) is None
    with pytest.raises(typer.BadParameter):
        asked(None, io.StringIO(""))


def test_a_model_that_may_cost_money_is_never_chosen() -> None:
    local, remote = ModelInfo(id="tiny:latest", owner="local"), ModelInfo(id="openai/gpt-x", owner="openai")
    assert chosen(Config(), [remote, local]) == "tiny:latest"
    assert chosen(Config(server=ServerConfig(default_model="openai/gpt-x")), [local]) == "openai/gpt-x"
    with pytest.raises(typer.Exit):
        chosen(Config(), [remote])


def test_one_question_to_a_server_that_is_found_by_its_data(cli: Cli, server: Running, silent: Path) -> None:
    ran = cli("chat", "-p", "Hi", "--data-dir", server.data, "--config", silent)
    assert ran == (0, TEXT + "\n", "")


def test_a_pipe_is_a_question_and_only_the_answer_is_on_stdout(server: Running) -> None:
    ran = run("chat", "scripted-think", "--url", server.url, stdin="Hello there\n")
    assert ran.code == 0
    assert "Hello there" in ran.out
    assert ran.err.strip() != ""
    assert ran.err.strip() not in ran.out
    assert "\x1b" not in ran.err


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        ("nosuch", 5, "model 'nosuch' not found"),
        ("smollm2:135m", 5, "model 'smollm2:135m' not found; to get it: rivermouth pull smollm2:135m"),
        ("scripted-error", 1, "fails after 5 tokens"),
    ],
)
def test_a_failure_is_a_sentence_and_a_code(cli: Cli, server: Running, model: str, code: int, words: str) -> None:
    ran = cli("chat", model, "Hi", "--url", server.url)
    assert ran.code == code
    assert words in ran.err
    assert "Traceback" not in ran.err


def test_a_server_that_is_named_needs_no_configuration_of_its_own(cli: Cli, server: Running, tmp_path: Path) -> None:
    (tmp_path / "rivermouth.toml").write_text('[server]\nkeys = ["env:NOT_SET_HERE"]\n', encoding="utf-8")
    assert cli("chat", "-p", "Hi", "--url", server.url, "--api-key", "k") == (0, TEXT + "\n", "")
    assert cli("ps", "--url", server.url, "--api-key", "k").code == 0
    assert cli("chat", "-p", "Hi").code == 3


def test_the_longest_answer_can_be_said(cli: Cli, server: Running) -> None:
    ran = cli("chat", "tiny", "-p", "Hi", "--max-tokens", "2", "--url", server.url)
    assert (ran.code, ran.out) == (0, "".join(SCRIPT[:2]) + "\n")
    assert "the token limit is reached" in ran.err
    assert "--max-tokens" not in ran.err
    assert cli("chat", "tiny", "-p", "Hi", "--max-tokens", "0", "--url", server.url).code == 2


@pytest.mark.parametrize(
    ("model", "local"), [("tiny", True), ("tiny:latest", True), ("scripted", False), ("no/x", False)]
)
def test_a_local_model_is_told_from_others(server: Running, model: str, local: bool) -> None:
    assert is_local(Client(server.url), model) is local


def test_where_nobody_can_say_it_no_model_is_local(silent: Path) -> None:
    port = silent.read_text(encoding="utf-8").split()[-1]
    assert is_local(Client(f"http://127.0.0.1:{port}"), "m") is False


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("owner", "prompt", "stdin", "limit"),
    [
        ("local", (), "Hi", PIPED_TOKENS),
        ("local", ("-p", "Say of this"), "Hi", PIPED_TOKENS),
        ("lab", (), "Hi", None),
        (None, ("--max-tokens", "7"), "Hi", 7),
    ],
)
async def test_what_a_local_model_answers_to_a_pipe_is_bounded(
    owner: str | None, prompt: tuple[str, ...], stdin: str, limit: int | None
) -> None:
    """Nobody may be there to stop a small model that never comes to its end; and what it left out is said."""
    async with FakeUpstream() as upstream:
        ended = asyncio.create_task(asyncio.to_thread(run, "chat", "m", *prompt, "--url", upstream.url, stdin=stdin))
        if owner is not None:
            about = await upstream.asked()
            assert (about.method, about.path) == ("GET", "/v1/models/m")
            model = {"id": "m", "object": "model", "created": 1, "owned_by": owner}
            await about.answer(200, "application/json", json.encode(model))
        one = await upstream.asked()
        assert json.decode(one.body).get("max_tokens", json.decode(one.body).get("max_completion_tokens")) == limit
        await one.head(200, SSE)
        await one.end(chunk(role="assistant", content="On and on") + chunk("length") + DONE)
        ran = await ended
    assert (ran.code, ran.out) == (0, "On and on\n")
    assert "the token limit is reached" in ran.err
    assert ("--max-tokens N" in ran.err) is (limit == PIPED_TOKENS)


def test_without_any_server_one_is_started_in_the_process(
    cli: Cli, data_dir: Path, models: Registry, tiny_file: Path, silent: Path
) -> None:
    install(models, "tiny", tiny_file)
    ran = run("chat", "tiny", "Hi", "--data-dir", data_dir, "--config", silent)
    assert ran == (0, TEXT + "\n", "")
    kept = ["models", "rivermouth.db", "server.lock", "token-keys.json"]
    assert sorted(path.name for path in data_dir.iterdir()) == kept
    assert json.decode(cli("calls", "--json").out.encode())[0]["status"] == "completed"


def test_a_server_in_the_process_has_the_scripted_models_where_the_configuration_asks_them(
    cli: Cli, data_dir: Path, silent: Path
) -> None:
    asks = '\n[models.writer]\nendpoints = ["scripted/scripted"]\n'
    silent.write_text(silent.read_text(encoding="utf-8") + asks, encoding="utf-8")
    ran = run("chat", "writer", "Hi", "--data-dir", data_dir, "--config", silent)
    assert (ran.code, 'You said: "Hi"' in ran.out) == (0, True)


def test_without_any_model_it_says_how_to_get_one(cli: Cli, silent: Path) -> None:
    ran = cli("chat", "-p", "Hi", "--config", silent)
    assert (ran.code, ran.out) == (5, "")
    assert "rivermouth pull smollm2:135m" in ran.err


@pytest.mark.anyio
async def test_ctrl_c_stops_an_answer_keeps_it_and_then_ends_the_talk() -> None:
    async with FakeUpstream() as upstream:
        with on_terminal("chat", "m", "--url", upstream.url, "--system", "Be brief") as terminal:
            await shown(terminal, ">>> ")
            terminal.press("first\r")
            one = await upstream.asked()
            await one.head(200, SSE)
            await one.send(chunk(role="assistant") + chunk(content="Once upon"))
            await shown(terminal, "Once upon")
            terminal.press("\x03")
            await one.gone()
            await shown(terminal, "(stopped)")
            await shown(terminal, ">>> ")
            terminal.press("second\r")
            two = await upstream.asked()
            await two.head(200, SSE)
            await two.send(chunk(role="assistant", reasoning_content="hmm") + chunk(content="a \x1b[31mtime"))
            await two.end(chunk("length") + DONE)
            await shown(terminal, "\x1b[2mhmm\x1b[0m")
            await shown(terminal, "a \ufffd[31mtime")
            await shown(terminal, "token limit")
            await shown(terminal, ">>> ")
            terminal.press("\x03")
            assert await asyncio.to_thread(terminal.code) == 130
    assert json.decode(two.body)["messages"] == [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "Once upon"},
        {"role": "user", "content": "second"},
    ]


@pytest.mark.anyio
async def test_a_failed_question_is_forgotten_and_the_talk_goes_on() -> None:
    async with FakeUpstream() as upstream:
        with on_terminal("chat", "m", "--url", upstream.url) as terminal:
            await shown(terminal, ">>> ")
            terminal.press("first\r")
            one = await upstream.asked()
            await one.answer(503, "application/json", b'{"error":{"message":"all busy"}}')
            await shown(terminal, "rivermouth: all busy")
            await shown(terminal, ">>> ")
            terminal.press("\r")
            await shown(terminal, ">>> ")
            terminal.press("second\r")
            two = await upstream.asked()
            await two.head(200, SSE)
            await two.end(chunk(content="Yes.") + chunk("stop") + DONE)
            await shown(terminal, "Yes.")
            await shown(terminal, ">>> ")
            terminal.press("\x04")
            assert await asyncio.to_thread(terminal.code) == 0
    assert json.decode(two.body)["messages"] == [{"role": "user", "content": "second"}]


async def shown(terminal: Terminal, text: str) -> None:
    await asyncio.to_thread(terminal.expect, text)
