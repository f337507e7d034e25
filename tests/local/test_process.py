"""An engine process from the server's side, with stand-ins for what a healthy one never does."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.inference.process import Crash, EngineProcess, EngineSpec, child_environment, exit_words
from rivermouth.local.inference.stdio import native_reason
from rivermouth.local.provider import LocalProvider
from rivermouth.local.words.protocol import LINE_CAP_BYTES, Generate
from tests.local.asking import asking

pytestmark = pytest.mark.anyio


def spec_of(path: Path) -> EngineSpec:
    return EngineSpec(path=path, context_tokens=2048, end_tokens=(2,))


async def stand_in(program: str, path: Path) -> EngineProcess:
    """A process of the test's own in place of an engine's."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdin=pipe, stdout=pipe, stderr=pipe)
    return EngineProcess(spec_of(path), child)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("print('Loading model ...')", "broke its protocol"),
        ('print(\'{"type":"nonsense"}\')', "broke its protocol"),
        ("print('x' * (1 << 23))", "broke its protocol"),
        ("raise SystemExit(7)", "exit status 7"),
        ("import os; os.abort()", "SIGABRT"),
        ('print(\'{"type":"fatal","message":"no","code":"load_failed"}\')', "failed: no"),
    ],
)
async def test_a_process_that_is_no_engine_fails_in_words(program: str, words: str, tmp_path: Path) -> None:
    engine = await stand_in(program, tmp_path)
    with pytest.raises(ApiError, match=words) as failed:
        await engine._loaded
    assert failed.value.kind is Kind.UPSTREAM
    await engine.stop()


async def test_missing_packages_are_told_with_the_remedy(tmp_path: Path) -> None:
    engine = await stand_in('print(\'{"type":"fatal","message":"No module","code":"engine_not_installed"}\')', tmp_path)
    with pytest.raises(ApiError, match=r"pip install 'rivermouth\[openvino\]'") as missing:
        await engine._loaded
    assert missing.value.status == 501
    await engine.stop()


@pytest.mark.fault("F35")
async def test_the_last_of_stderr_is_kept(tmp_path: Path) -> None:
    engine = await stand_in(
        "import sys; [print(n, 'x' * 2000, file=sys.stderr) for n in range(100)]; print('end', file=sys.stderr)",
        tmp_path,
    )
    await engine.stop()
    assert engine.stderr[-1] == "end"
    assert len(engine.stderr) == 20
    assert max(map(len, engine.stderr)) == 500


async def test_a_process_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    engine = await stand_in("import time; time.sleep(60)", tmp_path)
    await engine.stop(stop_s=0.01)
    assert engine._process.returncode == -signal.SIGKILL
    assert not engine.alive


async def test_a_step_that_hangs_is_killed_when_its_cancel_is_not_confirmed(files: dict[str, Path]) -> None:
    engine = await EngineProcess.start(spec_of(files["loop"]))
    first, second = (engine.generate(Generate(id=0, prompt="x", context_tokens=2048), timeout_s=10) for _ in range(2))
    await anext(first.stream)
    os.kill(engine.pid, signal.SIGSTOP)
    await engine.confirm(first, confirm_s=0.05)
    assert not engine.alive
    with pytest.raises(ApiError, match="did not end within"):
        async for _ in second.stream:
            pass


@pytest.mark.parametrize("max_active", [1, 4], ids=["one at a time", "batching"])
async def test_a_process_that_stops_stepping_is_killed_and_only_its_calls_fail(
    files: dict[str, Path], max_active: int
) -> None:
    """Nobody asked for an end, and the clients' clocks are far longer."""
    told: list[Crash] = []

    async def crashed(crash: Crash) -> None:
        told.append(crash)

    spec = msgspec.structs.replace(spec_of(files["loop"]), step_s=0.4, max_active=max_active)
    stopped = await EngineProcess.start(spec, crashed=crashed)
    other = await EngineProcess.start(spec)
    running = [one.generate(Generate(id=0, prompt="x", context_tokens=2048), timeout_s=60) for one in (stopped, other)]
    await anext(running[0].stream)
    begun = time.monotonic()
    os.kill(stopped.pid, signal.SIGSTOP)
    with pytest.raises(ApiError, match="no step for") as failed:
        async for _ in running[0].stream:
            pass
    assert time.monotonic() - begun < 5
    assert failed.value.code == "engine_hangs"
    assert stopped._process.returncode == -signal.SIGKILL
    assert len("".join([text async for text in running[1].stream])) > 1000
    assert other.alive
    await other.stop()
    await stopped.stop()
    assert [(crash.how.code, crash.loaded, crash.answered) for crash in told] == [("engine_hangs", True, 0)]


async def test_what_it_wrote_to_stderr_is_told_and_not_to_the_client(tmp_path: Path) -> None:
    told: list[Crash] = []

    async def crashed(crash: Crash) -> None:
        told.append(crash)

    pipe = asyncio.subprocess.PIPE
    program = "import os, sys; sys.stderr.write('driver: out of memory\\n'); sys.stderr.flush(); os.abort()"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdin=pipe, stdout=pipe, stderr=pipe)
    engine = EngineProcess(spec_of(tmp_path), child, crashed)
    with pytest.raises(ApiError) as failed:
        await engine._loaded
    await engine.stop()
    assert "driver" not in str(failed.value)
    assert told[0].stderr == ("driver: out of memory",)
    assert told[0].pid == engine.pid
    assert not told[0].loaded


async def test_an_end_that_was_asked_for_is_no_crash(files: dict[str, Path]) -> None:
    async def crashed(crash: Crash) -> None:
        raise AssertionError(crash)

    engine = await EngineProcess.start(spec_of(files["tiny"]), crashed=crashed)
    generation = engine.generate(Generate(id=0, prompt="x", context_tokens=2048), timeout_s=10)
    assert [text async for text in generation.stream]
    assert engine.answered == 1
    await engine.stop()


async def test_a_cancel_from_another_thread_reaches_the_engine(local: LocalProvider) -> None:
    with await local.prepare(asking(), "loop") as lease:
        generation = lease.loaded.engine.generate(Generate(id=0, prompt="x", context_tokens=2048), timeout_s=10)
        await anext(generation.stream)
        await asyncio.to_thread(generation.stream.cancel)
        await generation.closed.wait()
    assert generation.done is not None
    assert generation.done.reason == "cancelled"


async def test_a_process_that_stopped_takes_no_call(tmp_path: Path) -> None:
    engine = await stand_in("import sys; sys.stdin.read()", tmp_path)
    running = engine.generate(Generate(id=0, prompt="x", context_tokens=2048), timeout_s=5)
    await engine.stop()
    with pytest.raises(ApiError, match="unloaded"):
        await anext(running.stream)
    with pytest.raises(ApiError, match="unloaded"):
        engine.generate(Generate(id=0, prompt="x", context_tokens=2048), timeout_s=5)


@pytest.mark.fault("F10")
async def test_a_request_too_long_for_its_line_is_refused_and_costs_nobody(local: LocalProvider) -> None:
    """Also one that got past the server's own check, which the process then refuses itself."""
    with await local.prepare(asking(), "tiny") as lease:
        engine = lease.loaded.engine
        for prompt in ("x" * LINE_CAP_BYTES, "\x01" * 1_300_000):
            wanted = Generate(id=0, prompt=prompt, context_tokens=2048)
            with pytest.raises(ApiError) as refused:
                engine.generate(wanted, timeout_s=10)
            assert (refused.value.kind, refused.value.code) == (Kind.TOO_LARGE, "request_too_large")
        assert engine.statistics()["live"] == 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rivermouth.local.inference.process.LINE_CAP_BYTES", 1 << 30)
            unreadable = engine.generate(wanted, timeout_s=10)
        good = engine.generate(Generate(id=0, prompt="x", context_tokens=2048, max_tokens=1), timeout_s=10)
        with pytest.raises(ApiError) as failed:
            await unreadable.began
        assert failed.value.code == "unreadable_request"
        assert [text async for text in good.stream] == ["Hello"]
        assert engine.alive


async def test_native_code_may_print_what_it_likes() -> None:
    """After the descriptor is taken away, neither Python's nor C's stdout reaches the protocol."""
    program = (
        "import os; from rivermouth.local.inference.stdio import own_stdout; out = own_stdout();"
        "print('noise', flush=True); os.write(1, b'more noise'); os.write(out, b'protocol')"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout == b"protocol"
    assert b"noise" in ran.stderr


def test_the_server_never_imports_the_engine() -> None:
    """Nothing that it imports does; in a process of its own, because other tests' tools import numpy."""
    program = (
        "import sys, rivermouth.compose, rivermouth.cli.serve, rivermouth.local.provider;"
        "print(sorted({'openvino', 'openvino_genai', 'numpy'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own word for a dead parent is Linux's")
async def test_the_engine_dies_with_the_server(files: dict[str, Path]) -> None:
    """Also when it is killed, and its stdin is kept open by somebody else; and the server never imported the engine."""
    program = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from rivermouth.local.inference.process import EngineProcess, EngineSpec\n"
        "async def main():\n"
        "    spec = EngineSpec(path=Path(sys.argv[1]), context_tokens=2048, end_tokens=(2,))\n"
        "    engine = await EngineProcess.start(spec)\n"
        "    print(engine.pid, flush=True)\n"
        "    print(sorted({'openvino', 'openvino_genai', 'numpy'} & set(sys.modules)), flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    server = subprocess.Popen([sys.executable, "-c", program, str(files["tiny"])], stdout=subprocess.PIPE)
    assert server.stdout is not None
    descriptor = os.pidfd_open(int(await asyncio.to_thread(server.stdout.readline)))
    try:
        assert await asyncio.to_thread(server.stdout.readline) == b"[]\n"
        server.kill()
        server.wait()
        server.stdout.close()
        gone, _, _ = await asyncio.to_thread(select.select, [descriptor], [], [], 10)
        assert gone
    finally:
        os.close(descriptor)


@pytest.mark.fault("F36")
def test_native_code_sees_no_keys() -> None:
    environment = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
        "LC_ALL": "C",
        "PYTHONPATH": "p",
    }
    assert child_environment(environment) == {"PATH": "/bin", "LC_ALL": "C", "PYTHONPATH": "p"}


@pytest.mark.parametrize(
    ("status", "words"),
    [(-11, "SIGSEGV"), (-9, "SIGKILL"), (3, "exit status 3"), (-250, "signal 250"), (None, "still running")],
)
def test_how_it_ended_in_words(status: int | None, words: str) -> None:
    assert exit_words(status) == words


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Check 'x' failed at /build/src/a.cpp:344:\n'top_p' must be positive\n", "'top_p' must be positive"),
        ("[22:43] /build/src/converter.cc:898: Unsupported type", "Unsupported type"),
        ("", "RuntimeError"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_a_native_error_without_its_place(said: str, reason: str) -> None:
    assert native_reason(RuntimeError(said)) == reason
