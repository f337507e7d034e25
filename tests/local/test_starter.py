"""Starting processes: memory first, a pause after a crash, and what is remembered of both."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from rivermouth.ir.errors import ApiError
from rivermouth.local.inference.process import Crash, EngineProcess, death_of
from rivermouth.local.inference.spec import EncoderSpec, EngineSpec, load_command, precision
from rivermouth.local.machine import history
from rivermouth.local.machine.starter import BACKOFF_CAP_S, Row, Starter, need_of, wait_s, way_of
from rivermouth.local.words.protocol import Fatal, Generate

pytestmark = pytest.mark.anyio


def spec_of(path: Path, cache: Path | None = None) -> EngineSpec:
    return EngineSpec(path=path, context_tokens=2048, end_tokens=(2,), cache=cache, model="tiny:latest")


class Pauses:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def crash(engine: EngineProcess) -> None:
    """Kills it as a fault of its own would, and waits for its end."""
    os.kill(engine.pid, signal.SIGSEGV)
    await engine._gone()


async def test_what_is_hopeless_is_refused_before_anything_is_started(files: dict[str, Path], tmp_path: Path) -> None:
    starter = Starter(free=lambda: 100_000_000)
    with capture_logs() as log, pytest.raises(ApiError) as refused:
        await starter(spec_of(files["tiny"], tmp_path))
    assert refused.value.code == "not_enough_memory"
    (told,) = log
    assert (told["event"], told["model"], told["free_mb"]) == ("engine.loading", "tiny:latest", 95)
    assert told["need_mb"] >= 200
    assert list(tmp_path.iterdir()) == []


async def test_it_can_be_forced_and_then_the_context_is_what_there_is_memory_for(files: dict[str, Path]) -> None:
    with capture_logs() as log:
        engine = await Starter(check_memory=False, free=lambda: 100_000_000)(spec_of(files["tiny"]))
    await engine.stop()
    assert [line["event"] for line in log] == ["engine.loading", "engine.little_memory", "engine.loaded"]
    assert isinstance(engine.spec, EngineSpec)
    assert engine.spec.context_tokens == 512
    assert engine.spec.kv_tokens == 512 + 64


async def test_a_cold_load_a_warm_one_and_a_crash_are_remembered(files: dict[str, Path], tmp_path: Path) -> None:
    starter = Starter()
    for cached in (False, True):
        engine = await starter(spec_of(files["tiny"], tmp_path))
        assert engine.ready is not None
        assert engine.ready.cached is cached
        if not cached:
            await engine.stop()
    assert history.read(tmp_path).crash is None, "an end that was asked for is none"
    with capture_logs() as log:
        await crash(engine)
    known = history.read(tmp_path)
    (times,) = known.loads.values()
    assert times.cold_s
    assert times.warm_s
    assert known.crash is not None
    assert known.crash.how == "engine process died (SIGSEGV)"
    (line,) = log
    assert (line["event"], line["reason"]) == ("engine.crashed", known.crash.how)


@pytest.mark.parametrize("loaded", [False, True])
async def test_what_a_process_says_that_has_answered_is_kept_by_nobody(
    tmp_path: Path, loaded: bool, files: dict[str, Path]
) -> None:
    """It may quote a prompt; what it says while it loads helps, and can quote none."""
    code = "engine_failed" if loaded else "load_failed"
    fatal = Fatal("cannot go on with 'a mellifluous quokka'", code)
    crashed = Crash(7, death_of(fatal, 4, ready=loaded), ("a mellifluous quokka",), loaded, 1)
    with capture_logs() as log:
        await Starter()._note_crash(spec_of(files["tiny"], tmp_path), crashed)
    known = history.read(tmp_path).crash
    assert known is not None
    assert ("quokka" in str(log), "quokka" in str(known)) == (not loaded, not loaded)
    assert known.how == ("local: engine_failed" if loaded else f"the engine process failed: {fatal.message}")


async def test_after_a_crash_the_next_process_waits_longer_each_time(files: dict[str, Path]) -> None:
    pauses = Pauses()
    starter = Starter(clock=pauses, sleep=pauses.sleep)
    for _ in range(3):
        await crash(await starter(spec_of(files["tiny"])))
    await (await starter(msgspec.structs.replace(spec_of(files["loop"])))).stop()  # another model does not wait
    engine = await starter(spec_of(files["tiny"]))
    assert pauses.slept == [1.0, 2.0, 4.0]
    generation = engine.generate(Generate(id=0, prompt="x", context_tokens=2048, max_tokens=1), timeout_s=10)
    assert [text async for text in generation.stream] == ["Hello"]
    await crash(engine)
    await (await starter(spec_of(files["tiny"]))).stop()
    assert pauses.slept[3:] == [1.0], "it had answered: its file is not what kills it"


@pytest.mark.parametrize(
    ("row", "now", "wait"),
    [
        (None, 5.0, 0.0),
        (Row(1, 5.0), 5.0, 1.0),
        (Row(1, 5.0), 5.75, 0.25),
        (Row(4, 5.0), 5.0, 8.0),
        (Row(4, 5.0), 99.0, 0.0),
        (Row(50, 5.0), 5.0, BACKOFF_CAP_S),
    ],
)
def test_the_pause_counts_from_the_crash(row: Row | None, now: float, wait: float) -> None:
    assert wait_s(row, now) == wait


def test_an_encoder_is_judged_by_its_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    need = need_of(EncoderSpec(folder=tmp_path, cache=tmp_path, context_tokens=8), 1 << 30)
    assert need.answers == 0
    assert need.model > 200 << 20


def test_what_cannot_be_read_of_the_past_is_as_if_it_were_not(tmp_path: Path) -> None:
    (tmp_path / history.FILE).write_bytes(b"{")
    assert history.read(tmp_path) == history.History()
    history.note_load(tmp_path / "new", "CPU", 1.5, cached=True)
    history.note_crash(tmp_path / "new", history.LastCrash(at=1, device="CPU", how="why", stderr=("a", "b")))
    known = history.read(tmp_path / "new")
    assert known.loads == {"CPU": history.LoadTimes(warm_s=1.5)}
    assert known.crash is not None
    history.note_load(tmp_path / history.FILE, "CPU", 1.0, cached=True)  # no folder, and no matter


def test_one_at_a_time_is_another_way_to_load(files: dict[str, Path]) -> None:
    many = spec_of(files["tiny"])
    assert (way_of(many), many.stateful) == ("CPU", False)
    single = msgspec.structs.replace(many, max_active=1)
    assert (way_of(single), single.stateful) == ("CPU, one at a time", True)


def test_small_models_and_unpacked_ones_run_at_full_precision() -> None:
    assert precision("CPU", 135_000_000, unpacked=False) == {"INFERENCE_PRECISION_HINT": "f32"}
    assert precision("CPU", 4_000_000_000, unpacked=False) == {}
    assert precision("GPU", 135_000_000, unpacked=False) == {}
    assert precision("NPU", 4_000_000_000, unpacked=True) == {"INFERENCE_PRECISION_HINT": "f32"}


def test_what_an_npu_is_told(files: dict[str, Path]) -> None:
    spec = msgspec.structs.replace(spec_of(files["tiny"]), device="NPU", prompt_tokens=1800, context_tokens=8192)
    load = load_command(spec)
    assert load.stateful  # type: ignore[union-attr]
    assert load.max_active == 1  # type: ignore[union-attr]
    assert load.properties == {"MAX_PROMPT_LEN": 2048, "MIN_RESPONSE_LEN": 512}  # type: ignore[union-attr]
    assert (load.prompt_tokens, load.context_tokens) == (1800, 2560)  # type: ignore[union-attr]
