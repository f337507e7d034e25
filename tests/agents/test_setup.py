"""docs/agents.md shows the set-up that was driven, and nothing that was not."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.agents.agents import AGENTS, KEY, Launch, Place
from tests.promises import DOCS

TEXT = (DOCS / "agents.md").read_text(encoding="utf-8")
HOME, WORK = Path("home"), Path("work")
PLACE = Place("http://127.0.0.1:8080", "coder", HOME, WORK)
AGENT = {agent.name: agent for agent in AGENTS}
OURS = {"NPM_CONFIG_REGISTRY"}
"""What is set for the test's sake alone."""


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Codex's program is looked for, whose folder is named after the machine; here nothing has to be installed."""
    program = tmp_path / "@openai" / "codex-here" / "vendor" / "machine" / "bin" / "codex"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setattr("tests.agents.agents.MODULES", tmp_path)
    monkeypatch.setattr("tests.agents.agents.PLATFORM", "here")


def launched(name: str) -> Launch:
    return AGENT[name].launch(PLACE)


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert isinstance(found, str)
    return found


def blocks(title: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("name", "title"),
    [("Claude Code", "Claude Code"), ("Codex", "Codex"), ("opencode", "opencode"), ("opencode, Anthropic", "opencode")],
)
def test_the_variables_are_those_of_the_page(name: str, title: str) -> None:
    shown = dict(re.findall(r"^export (\w+)=(.*)$", section(title), re.MULTILINE))
    assert {k: v for k, v in launched(name).variables.items() if k not in OURS} == shown


def test_codex_has_the_file_of_the_page() -> None:
    (written,) = launched("Codex").files.values()
    assert [tomllib.loads(block) for block in blocks("Codex", "")] == [tomllib.loads(written)]


def test_opencode_has_the_file_of_the_page() -> None:
    shown = [json.loads(block) for block in blocks("opencode", "json")]
    assert shown == [json.loads(text) for text in launched("opencode").files.values()]
    other = json.loads(launched("opencode, Anthropic").files[WORK / "opencode.json"])["provider"]["rivermouth"]
    assert other == {**shown[0]["provider"]["rivermouth"], "npm": "@ai-sdk/anthropic"}
    assert '`"npm": "@ai-sdk/anthropic"`' in section("opencode")


def test_cline_has_the_settings_of_the_page() -> None:
    title = "Cline and other editors"
    providers, others = launched("Cline").files.values()
    assert [json.loads(block) for block in blocks(title, "json")] == [json.loads(providers)]
    assert f"`{others}`" in section(title)
    for value in (f"{PLACE.url}/v1", KEY, PLACE.model):
        assert f"| `{value}` |" in section(title)


def test_the_ai_sdk_is_made_as_on_the_page() -> None:
    script = (Path(__file__).parent / "aisdk.mjs").read_text(encoding="utf-8")
    made = "".join(blocks("The AI SDK", "js"))
    assert members(script) == members(made) == [("Anthropic", {"apiKey", "baseURL"}), ("OpenAICompatible", COMPATIBLE)]


COMPATIBLE = {"apiKey", "baseURL", "includeUsage", "name"}


def members(script: str) -> list[tuple[str, set[str]]]:
    """What a script makes with the SDK, and which members it gives."""
    made = re.findall(r"create(\w+)\(\{(.*?)\}\)", script, re.DOTALL)
    return sorted((what, {each.split(":")[0].strip() for each in given.split(",")} - {""}) for what, given in made)
