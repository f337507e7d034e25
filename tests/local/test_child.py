"""The engine process's round, with a fake engine: what is seen between two steps."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.local.inference.child import PROMPT_CAP_TOKENS, STEP_TOKENS, Engine, serve, unfit
from rivermouth.local.inference.commands import Commands, Taken, Unreadable
from rivermouth.local.words.protocol import Beat, Began, Cancel, Delta, Done, Failed, Generate, Load, Word


def done(identity: int, reason: str) -> Done:
    return Done(id=identity, reason=reason, prompt_tokens=1, output_tokens=1, prompt_ns=1, output_ns=1)


class FakeEngine:
    """Says one word a step for each live generation; writes down what it was told to do."""

    def __init__(self) -> None:
        self.says = True
        self.live: list[int] = []
        self.log: list[str] = []

    @property
    def idle(self) -> bool:
        return not self.live

    def admit(self, wanted: Generate) -> Began:
        self.live.append(wanted.id)
        self.log.append(f"admit {wanted.id}")
        return Began(wanted.id, 1)

    def cancel(self, identity: int) -> Done | None:
        self.log.append(f"cancel {identity}")
        if identity not in self.live:
            return None
        self.live.remove(identity)
        return done(identity, "cancelled")

    def step(self) -> list[Word]:
        self.log.append(f"step {self.live}")
        return [Delta(identity, "x") for identity in self.live] if self.says else []

    def release(self) -> None:
        self.log.append("release")


class FakeCommands:
    """Gives out what is scripted, one round at a time, then the end of stdin."""

    def __init__(self, *rounds: list[Taken]) -> None:
        self.rounds = list(rounds)
        self.waits: list[bool] = []

    def take(self, *, wait: bool) -> list[Taken] | None:
        self.waits.append(wait)
        return self.rounds.pop(0) if self.rounds else None


def generate(identity: int) -> Generate:
    return Generate(id=identity, prompt="x", context_tokens=8)


def run(engine: FakeEngine, commands: FakeCommands, early: list[Taken]) -> list[list[Word]]:
    sent: list[list[Word]] = []
    serve(cast("Engine", engine), cast("Commands", commands), early, sent.append)
    return sent


@pytest.mark.promise(35)
def test_a_cancel_is_seen_before_the_next_step() -> None:
    engine = FakeEngine()
    commands = FakeCommands([], [generate(2)], [Cancel(1)], [])
    sent = run(engine, commands, [generate(1)])
    assert engine.log == [
        "admit 1",
        "step [1]",
        "step [1]",
        "admit 2",
        "step [1, 2]",
        "cancel 1",
        "step [2]",
        "step [2]",
    ]
    assert sent[5] == [done(1, "cancelled")]
    assert all(word.id != 1 for words in sent[6:] for word in words)  # type: ignore[union-attr]


@pytest.mark.promise(35)
def test_a_prompt_is_read_in_chunks_between_which_a_cancel_is_seen() -> None:
    assert STEP_TOKENS == 256


def test_it_waits_only_when_there_is_nothing_to_do() -> None:
    engine = FakeEngine()
    commands = FakeCommands([generate(1)], [Cancel(1)], [Cancel(1)])
    run(engine, commands, [])
    assert commands.waits == [True, False, True, True]
    assert engine.log == ["release", "admit 1", "step [1]", "cancel 1", "release", "cancel 1", "release"]


def test_it_says_that_it_goes_on_when_it_has_had_nothing_else_to_say() -> None:
    """A long prompt makes no text; the server must not take that for a hang."""
    engine = FakeEngine()
    engine.says = False
    times = iter([0.0, 0.1, 0.5, 1.2, 1.3, 1.4, 2.4, 2.5, 2.6])
    sent: list[list[Word]] = []
    commands = FakeCommands([], [], [], [])
    serve(cast("Engine", engine), cast("Commands", commands), [generate(1)], sent.append, lambda: next(times))
    assert sent == [[Began(1, 1)], [Beat()], [Beat()]]
    assert len(engine.log) == 6, "admitted, and five steps"


@pytest.mark.fault("F10")
def test_a_command_that_cannot_be_read_is_one_failed_request(capsys: pytest.CaptureFixture[str]) -> None:
    engine = FakeEngine()
    load = Load(path="p", device="", properties={}, max_active=1, context_tokens=8, end_tokens=(), prefix_cache=False)
    sent = run(engine, FakeCommands([Unreadable(2, "why"), Unreadable(None, "who"), load], []), [generate(1)])
    assert engine.log == ["admit 1", "step [1]", "step [1]", "step [1]"]
    (failed,) = [word for words in sent for word in words if isinstance(word, Failed)]
    assert (failed.id, failed.kind) == (2, Kind.INVALID_REQUEST)
    assert "why" in failed.message
    assert [line[:12] for line in capsys.readouterr().err.splitlines()] == ["passed over:"] * 2


@pytest.mark.parametrize(
    ("tokens", "context", "code"),
    [
        (0, 8, None),
        (7, 8, "fits"),
        (8, 8, "context_length_exceeded"),
        (PROMPT_CAP_TOKENS - 1, 1 << 20, "fits"),
        (PROMPT_CAP_TOKENS, 1 << 20, "context_length_exceeded"),
    ],
)
def test_which_prompts_fit(tokens: int, context: int, code: str | None) -> None:
    refused = unfit(tokens, context)
    assert (refused.code if refused is not None else "fits") == code


def test_the_engine_s_telemetry_is_not_loaded() -> None:
    program = (
        "import sys; from rivermouth.local.inference.child import _import_engine; _import_engine();"
        "print([n for n, m in sys.modules.items() if n.startswith('openvino_telemetry') and m is not None])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == "[]"
