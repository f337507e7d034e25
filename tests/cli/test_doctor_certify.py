"""`rivermouth doctor certify`: a device is asked in earnest, one that is not here is told with what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermouth.cli import certify, doctor
from rivermouth.cli.certify import MEDIA, NUMBERS, Run, Timed, judged
from rivermouth.cli.engine_probe import Probe
from rivermouth.local.machine import history
from rivermouth.local.machine.router import EXECUTION_HEADER
from rivermouth.local.models.registry import Registry
from rivermouth.store.datadir import DataDir
from rivermouth.wire import json
from tests.cli.asking import Cli
from tests.local.asking import install

HEADERS = {"content-type": MEDIA, EXECUTION_HEADER: "CPU"}
FRAME = {"model": "tiny", "created_at": "2026-01-01T00:00:00Z", "response": "Hello", "done": False}
LAST = {**FRAME, "response": "", "done": True, "done_reason": "stop", "load_duration": 2_000_000_000,
        **dict.fromkeys(NUMBERS, 7)}  # fmt: skip


def lines(*frames: object) -> list[Timed]:
    return [Timed(0.5 * n, json.encode(frame) + b"\n") for n, frame in enumerate(frames, 1)]


def judge(*frames: object, status: int = 200, headers: dict[str, str] | None = None, call: str = "cold load") -> Run:
    return judged(call, status, HEADERS | (headers or {}), lines(*frames), "CPU")


@pytest.mark.promise(175)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("profile", ["throughput", "single"])
def test_the_cpu_is_certified(
    cli: Cli, models: Registry, tiny_file: Path, data_dir: Path, tmp_path: Path, profile: str
) -> None:
    model = install(models, "tiny", tiny_file)
    (tmp_path / "rivermouth.toml").write_text(f'[local]\nprofile = "{profile}"\n', encoding="utf-8")
    ran = cli("doctor", "certify", "--device", "cpu", "--json")
    assert ran.code == 0, ran.err
    made = json.decode(ran.out.encode())
    assert (made["ok"], made["device"], made["model"]) == (True, "CPU", "tiny:latest")
    cold, warm, loaded = made["runs"]
    assert [run["call"] for run in made["runs"]] == ["cold load", "warm load", "loaded"]
    assert cold["load_s"] > 0
    assert warm["load_s"] > 0
    assert made["gain"] == pytest.approx(cold["load_s"] / warm["load_s"], abs=0.01)
    assert loaded["first_token_s"] < warm["load_s"]
    assert loaded["frames"] > 5
    assert loaded["tokens_per_s"] > 0
    (way,) = history.read(doctor.cache_of(model, DataDir(data_dir))).loads.items()
    assert way[0] == ("CPU" if profile == "throughput" else "CPU, one at a time")
    assert (way[1].cold_s, way[1].warm_s) == (cold["load_s"], warm["load_s"])
    assert sorted(path.name for path in data_dir.iterdir()) == ["models"], "nothing else is left behind"


@pytest.mark.promise(175)
@pytest.mark.parametrize(
    ("device", "lacks"), [("NPU", "intel_vpu"), ("GPU", "libOpenCL.so.1"), ("GPU.7", "libOpenCL.so.1")]
)
def test_a_device_that_is_not_here_is_told_with_what_it_lacks(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, device: str, lacks: str
) -> None:
    monkeypatch.setattr(certify, "ask_engine", lambda: Probe("1", {"CPU": "a chip"}))
    ran = cli("doctor", "certify", "--device", device)
    assert ran.code == 5
    assert f"there is no {device} here" in ran.err
    assert "present: CPU" in ran.err
    assert lacks in ran.err


def test_without_an_engine_or_a_model_there_is_nothing_to_certify(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certify, "ask_engine", lambda: None)
    ran = cli("doctor", "certify", "--device", "CPU")
    assert (ran.code, "pip install 'rivermouth[openvino]'" in ran.err) == (5, True)
    monkeypatch.setattr(certify, "ask_engine", lambda: Probe(failure="ImportError: no"))
    assert cli("doctor", "certify", "--device", "CPU").code == 1
    monkeypatch.setattr(certify, "ask_engine", lambda: Probe("1", {"CPU": "a chip"}))
    ran = cli("doctor", "certify", "--device", "CPU")
    assert (ran.code, "rivermouth pull smollm2:135m" in ran.err) == (5, True)
    assert cli("doctor", "certify", "--device", "CPU", "--model", "absent").code == 5
    assert cli("doctor", "certify").code == 2


def test_an_answer_as_it_has_to_be_passes_with_its_times() -> None:
    run = judge(FRAME, FRAME, LAST)
    assert run.problems == []
    assert (run.frames, run.load_s, run.first_token_s) == (3, 2.0, 0.5)


@pytest.mark.parametrize(
    ("frames", "fields", "problem"),
    [
        ([], {}, "it is empty"),
        ([FRAME], {}, "line 1: done is False"),
        ([LAST, LAST], {}, "line 1: done is True"),
        ([FRAME, {**LAST, "done_reason": "load"}], {}, "line 2: done_reason is 'load'"),
        ([FRAME, {**LAST, "response": "x"}], {}, "line 2: response is 'x'"),
        ([FRAME, {**LAST, "eval_count": None}], {}, "line 2: eval_count is None"),
        ([{**FRAME, "model": 7}, LAST], {}, "line 1: model is 7"),
        ([FRAME, {"error": "it broke"}], {}, "line 2 is an error: it broke"),
        ([FRAME, [1], LAST], {}, "line 2 is not one JSON object"),
        ([FRAME, {**LAST, "load_duration": 0}], {}, "it does not say how long the load took"),
        ([FRAME, LAST], {"status": 500}, "status 500"),
        ([FRAME, LAST], {"headers": {"content-type": "application/json"}}, "its media type is application/json"),
        ([FRAME, LAST], {"headers": {EXECUTION_HEADER: "GPU.0"}}, "it ran on GPU.0"),
    ],
)
def test_whatever_is_wrong_with_an_answer_is_told(
    frames: list[object], fields: dict[str, object], problem: str
) -> None:
    assert any(told.startswith(problem) for told in judge(*frames, **fields).problems)  # type: ignore[arg-type]


def test_a_numbered_device_counts_as_its_kind() -> None:
    frames = lines(FRAME, LAST)
    on_gpu = HEADERS | {EXECUTION_HEADER: "GPU.1"}
    assert judged("loaded", 200, on_gpu, frames, "GPU").problems == []
    assert judged("loaded", 200, on_gpu, frames, "GPU.1").problems == []
    assert judged("loaded", 200, on_gpu, frames, "GPU.0").problems == ["it ran on GPU.1"]


def test_a_line_that_was_cut_is_seen() -> None:
    cut = [*lines(FRAME), Timed(1.0, json.encode(LAST))]
    assert judged("loaded", 200, HEADERS, cut, "CPU").problems == ["line 2 is not one JSON object"]
