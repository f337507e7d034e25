"""The agents: how each is pointed at a server, and what it is heard to say.

A line of `AGENTS` is all that the rest knows of an agent.  Its program is that of the platform's own package, since
packages are installed without their scripts.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import hatch_build
import msgspec

from tests.agents.packages import HERE, MODULES
from tests.agents.stream import Tag
from tests.agents.task import PROMPT

KEY: Final = "any-key-will-do"
NOWHERE: Final = "http://127.0.0.1:9/"
CPUS: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
PLATFORM: Final = f"{sys.platform}-{CPUS.get(platform.machine().lower(), platform.machine())}"


class Way(StrEnum):
    """What an agent makes of an answer that breaks off behind its beginning.

    again: it drops what it has and asks once more.  rest: it keeps what it has and asks for the rest.  beside: it keeps
    what it has, asks once more, and has both.  told: it ends with the error, as a library leaves it to its user.
    refused: it says the error, tells its model that the call was no good, and goes on.
    """

    AGAIN = "again"
    REST = "rest"
    BESIDE = "beside"
    TOLD = "told"
    REFUSED = "refused"


class Place(msgspec.Struct, frozen=True):
    """Where one run is: the server, the model that it asks for, and the folders that are its own."""

    url: str
    model: str
    home: Path
    work: Path


class Launch(msgspec.Struct, frozen=True):
    """A command line and its own variables.  files: what has to be written before, by path."""

    command: tuple[str | Path, ...]
    variables: Mapping[str, str]
    files: Mapping[Path, str] = {}


class Heard(msgspec.Struct, frozen=True):
    """What an agent said on its standard output: the texts of its model, in order, and its errors."""

    texts: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent in one way of using it.

    package: whose version is its own.  dialect: of the server's, that it speaks.  asides: how many requests it makes
    beside its task, a title for one.  broken_call: where it does otherwise when a call breaks off.  not_run: how it
    answers such a call in its model's conversation, if it does; it has not run it then.  leaves: what it asks outside
    whatever it is told, and is refused.
    """

    name: str
    package: str
    dialect: str
    launch: Callable[[Place], Launch]
    hear: Callable[[Iterator[dict[str, Any]]], Iterator[tuple[str, str]]]
    broken: Way
    broken_call: Way | None = None
    not_run: str = ""
    asides: int = 0
    leaves: frozenset[str] = frozenset()

    def way(self, tag: Tag) -> Way:
        """What it makes of an answer that breaks off in a piece that carries this."""
        return self.broken_call or self.broken if tag is Tag.CALL else self.broken

    def heard(self, output: str) -> Heard:
        """What it said, from lines of JSON; other lines are for people."""
        said = list(self.hear(_objects(output)))
        return Heard(*(tuple(text for what, text in said if what == kind) for kind in ("text", "error")))


def _objects(output: str) -> Iterator[dict[str, Any]]:
    for line in output.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


# -- Claude Code


def _claude_code(place: Place) -> Launch:
    program = MODULES / f"@anthropic-ai/claude-code-{PLATFORM}" / "claude"
    told = ("--output-format", "stream-json", "--verbose", "--allowedTools", "Bash")
    variables = {
        "ANTHROPIC_BASE_URL": place.url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return Launch((program, "-p", PROMPT, "--model", place.model, *told), variables)


def _hear_claude_code(lines: Iterator[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if line["type"] == "assistant":
            made_up = line["message"]["model"] == "<synthetic>"
            for block in line["message"]["content"]:
                if block["type"] == "text":
                    yield "error" if made_up else "text", block["text"]
        elif line["type"] == "result" and line["is_error"]:
            yield "error", str(line.get("result"))


# -- Codex


def _codex(place: Place) -> Launch:
    (program,) = (MODULES / f"@openai/codex-{PLATFORM}" / "vendor").glob("*/bin/codex")
    told = ("exec", "--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox")
    config = f"""\
model = "{place.model}"
model_provider = "rivermouth"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
apps = false
plugins = false

[model_providers.rivermouth]
name = "Rivermouth"
base_url = "{place.url}/v1"
env_key = "RIVERMOUTH_KEY"
wire_api = "responses"
"""
    files = {place.home / ".codex" / "config.toml": config}
    return Launch((program, *told, PROMPT), {"RIVERMOUTH_KEY": KEY}, files)


def _hear_codex(lines: Iterator[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for line in lines:
        item = line.get("item") or {}
        if line["type"] == "item.completed" and item.get("type") == "agent_message":
            yield "text", item["text"]
        elif line["type"] == "turn.failed":
            yield "error", json.dumps(line["error"])


# -- opencode


def _opencode(client: str) -> Callable[[Place], Launch]:
    """With this package of the AI SDK, which it brings itself."""

    def launch(place: Place) -> Launch:
        program = MODULES / f"opencode-{PLATFORM}" / "bin" / "opencode"
        provider = {
            "npm": client,
            "options": {"baseURL": f"{place.url}/v1", "apiKey": KEY},
            "models": {place.model: {}},
        }
        config = json.dumps({"provider": {"rivermouth": provider}})
        variables = {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "NPM_CONFIG_REGISTRY": NOWHERE,  # at each start it looks for a package of its own
        }
        command = (program, "run", "--format", "json", "-m", f"rivermouth/{place.model}", PROMPT)
        return Launch(command, variables, {place.work / "opencode.json": config})

    return launch


def _hear_opencode(lines: Iterator[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if line["type"] == "text":
            yield "text", line["part"]["text"]
        elif line["type"] == "error":
            yield "error", json.dumps(line["error"])


# -- Cline, by its command line: the editors' extension has the same settings


def _cline(place: Place) -> Launch:
    program = MODULES / f"@cline/cli-{PLATFORM}" / "bin" / "cline"
    settings = {
        "provider": "openai-compatible",
        "apiKey": KEY,
        "model": place.model,
        "baseUrl": f"{place.url}/v1",
    }
    known = {"openai-compatible": {"settings": settings, "updatedAt": "2026-01-01T00:00:00Z", "tokenSource": "manual"}}
    providers = {"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": known}
    folder = place.home / ".cline" / "data" / "settings"
    files = {
        folder / "providers.json": json.dumps(providers),
        folder / "global-settings.json": json.dumps({"telemetryOptOut": True, "autoUpdateEnabled": False}),
    }
    # Without it a daemon on a fixed port outlives the run, and serves the next one from this one's home.
    return Launch((program, "--json", PROMPT), {"CLINE_SESSION_BACKEND_MODE": "local"}, files)


def _hear_cline(lines: Iterator[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for line in lines:
        event = line.get("event") or {}
        if event.get("type") == "content_end" and event["contentType"] == "text":
            yield "text", event["text"]
        elif line["type"] == "run_result" and line["finishReason"] != "completed":
            yield "error", json.dumps(line)


# -- the AI SDK


def _ai_sdk(client: str) -> Callable[[Place], Launch]:
    def launch(place: Place) -> Launch:
        node = hatch_build.of_wheel()
        assert node is not None
        return Launch((node.program, HERE / "aisdk.mjs", client, f"{place.url}/v1", place.model, PROMPT), {})

    return launch


def _hear_ai_sdk(lines: Iterator[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for line in lines:
        yield line["type"], line["text"]


AGENTS: Final = (
    Agent(
        name="Claude Code",
        package="@anthropic-ai/claude-code",
        dialect="anthropic",
        launch=_claude_code,
        hear=_hear_claude_code,
        broken=Way.REST,
    ),
    Agent(
        name="Codex",
        package="@openai/codex",
        dialect="openai_responses",
        launch=_codex,
        hear=_hear_codex,
        broken=Way.AGAIN,
    ),
    Agent(
        name="opencode",
        package="opencode-ai",
        dialect="openai_chat",
        launch=_opencode("@ai-sdk/openai-compatible"),
        hear=_hear_opencode,
        broken=Way.AGAIN,
        not_run="Tool execution aborted",
        asides=1,
    ),
    Agent(
        name="opencode, Anthropic",
        package="opencode-ai",
        dialect="anthropic",
        launch=_opencode("@ai-sdk/anthropic"),
        hear=_hear_opencode,
        broken=Way.BESIDE,
        not_run="Tool execution aborted",
        asides=1,
    ),
    Agent(
        name="Cline",
        package="@cline/cli-linux-x64",
        dialect="openai_chat",
        launch=_cline,
        hear=_hear_cline,
        broken=Way.TOLD,
        leaves=frozenset({"data.cline.bot:443"}),
    ),
    Agent(
        name="AI SDK",
        package="@ai-sdk/openai-compatible",
        dialect="openai_chat",
        launch=_ai_sdk("openai-compatible"),
        hear=_hear_ai_sdk,
        broken=Way.TOLD,
        broken_call=Way.REFUSED,
        not_run="JSON parsing failed",
    ),
    Agent(
        name="AI SDK, Anthropic",
        package="@ai-sdk/anthropic",
        dialect="anthropic",
        launch=_ai_sdk("anthropic"),
        hear=_hear_ai_sdk,
        broken=Way.TOLD,
    ),
)
BY_NAME: Final = {agent.name: agent for agent in AGENTS}


def version(package: str) -> str:
    """The version that the lock pins."""
    lock = json.loads((HERE / "package-lock.json").read_bytes())
    found: str = lock["packages"][f"node_modules/{package}"]["version"]
    return found
