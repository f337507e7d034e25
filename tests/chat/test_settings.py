"""What the configuration and the environment say to the chat."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermouth.chat.settings import ChatSettings
from rivermouth.compose import chat_settings
from rivermouth.config import parse
from rivermouth.dialects import discover


def settings(text: str = "", **environment: str) -> ChatSettings:
    return chat_settings(parse(text, "rivermouth.toml", environment, frozenset(discover())))


@pytest.mark.promise(125, 126)
def test_the_clocks_are_the_documents_then_the_environments_then_the_files():
    def clocks(made: ChatSettings) -> tuple[float, float, float]:
        return made.limits.total_s, made.limits.idle_s, made.limits.first_token_s

    assert clocks(settings()) == (120, 30, 30)
    variables = {"AI_STREAM_TIMEOUT": "60", "AI_STREAM_IDLE_TIMEOUT": "7.5"}
    assert clocks(settings(**variables)) == (60, 7.5, 7.5)
    assert clocks(settings("[chat]\ntotal_s = 90\nidle_s = 9\n", **variables)) == (90, 9, 9)


@pytest.mark.parametrize("said", ["", "soon", "-1", "0", "1e9", "nan", "inf", " "])
def test_a_variable_that_is_no_number_of_seconds_says_nothing(said: str):
    made = settings(AI_STREAM_TIMEOUT=said, AI_STREAM_IDLE_TIMEOUT=said)
    assert (made.limits.total_s, made.limits.idle_s) == (120, 30)


def test_a_worker_stops_by_itself_before_it_is_thought_dead():
    made = ChatSettings()
    assert made.beat_s < made.fence_s < made.dead_s


def test_the_file_says_the_rest():
    made = settings(
        '[chat]\non_disconnect = "cancel"\nprefer_local = true\nsystem_prompt = "x"\nmax_content_chars = 5\n'
        'models = { kimi = "k" }\n'
    )
    assert (made.stop_on_disconnect, made.prefer_local, made.system_prompt) == (True, True, "x")
    assert (made.max_content_chars, made.models) == (5, {"kimi": "k"})
    assert made.offer == {"model": "smollm2:135m", "bytes": 98_362_432, "license": "Apache-2.0"}


def test_the_operators_own_catalogue_is_offered_from_and_nothing_where_nothing_may_be_pulled(tmp_path: Path):
    own = tmp_path / "models.toml"
    own.write_text(
        '[[models]]\nnames = ["mine:1b"]\nformat = "gguf"\nlicense = "MIT"\n'
        f'source = {{ kind = "http", url = "https://example.org/m.gguf" }}\n'
        f'files = [{{ name = "m.gguf", size_bytes = 5, sha256 = "{"0" * 64}" }}]\n'
    )
    assert settings(f'[local]\ncatalog = "{own}"\n').offer == {"model": "mine:1b", "bytes": 5, "license": "MIT"}
    assert settings('[local]\npulls = "none"\n').offer is None
