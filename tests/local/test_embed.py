"""Vectors from a local model, through the process that makes them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.request import EmbedRequest, Local
from rivermouth.local.embedding.work import HANDFUL_BYTES, HANDFUL_TEXTS, INPUTS_CAP, handfuls
from rivermouth.local.inference.generation import Embedding, Generation
from rivermouth.local.inference.process import EngineProcess
from rivermouth.local.inference.spec import EncoderSpec
from rivermouth.local.machine.pool import Limits
from rivermouth.local.provider import LocalProvider, model_info
from rivermouth.local.words.protocol import Delta, Done, Embed, Embedded, Failed, Vectors
from tests.local.asking import asking, install, pid_of
from tests.local.encoding import assert_vectors, embed, embedding, install_encoder
from tests.tiny_bert import TOKENS, WIDTH, build

pytestmark = pytest.mark.anyio

LONG = " ".join(["river", "mouth", "sea", "stream"] * 6)


@pytest.fixture(scope="session")
def encoder_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="session")
async def encoder(
    tmp_path_factory: pytest.TempPathFactory, encoder_files: Path, files: dict[str, Path], anyio_backend: str
) -> AsyncIterator[LocalProvider]:
    """A provider with the encoder, and a model that answers."""
    provider = LocalProvider(tmp_path_factory.mktemp("data") / "models")
    install_encoder(provider.registry, "tiny-encoder", encoder_files)
    install(provider.registry, "tiny", files["tiny"])
    yield provider
    await provider.close()


@pytest.fixture
async def alone(data_dir: Path, encoder_files: Path, anyio_backend: str) -> AsyncIterator[LocalProvider]:
    """The encoder for one test alone, which may do to it what it likes."""
    provider = LocalProvider(data_dir / "models")
    install_encoder(provider.registry, "tiny-encoder", encoder_files)
    yield provider
    await provider.close()


def handful(engine: EngineProcess, count: int) -> Embedding:
    """A request for so many vectors, sent past everything that bounds it."""
    return engine.embed(Embed(id=0, texts=("the river",) * count, context_tokens=TOKENS, cut="end"))


@pytest.mark.promise(76)
async def test_vectors_are_right_in_order_and_counted(encoder: LocalProvider) -> None:
    texts = ("the river", "", "sea", LONG.partition(" stream")[0], "the river")
    warned: list[str] = []
    reply = await embed(encoder, embedding(*texts), warned=warned)
    assert_vectors(reply, *texts)
    assert (reply.model, reply.input_tokens, reply.cut, warned) == ("tiny-encoder", 4 + 2 + 3 + 5 + 4, 0, [])


async def test_more_texts_than_a_step_or_a_line_has_room_for(encoder: LocalProvider) -> None:
    texts = [f"{'river ' * (n % 9)}sea" for n in range(HANDFUL_TEXTS + 30)]
    reply = await embed(encoder, embedding(*texts))
    assert_vectors(reply, *texts)


async def test_no_texts_no_vectors_and_a_loaded_model(alone: LocalProvider) -> None:
    reply = await embed(alone, embedding())
    assert (reply.vectors, reply.input_tokens) == ((), 0)
    assert [info.id for info in alone.running()] == ["tiny-encoder:latest"]


@pytest.mark.parametrize(
    ("fields", "read", "left_out"),
    [
        ({}, " ".join(LONG.split()[: TOKENS - 2]), "input.end"),
        ({"keep_end": True}, " ".join(LONG.split()[2 - TOKENS :]), "input.start"),
        ({"local": Local(context_tokens=4)}, "river mouth", "input.end"),
    ],
)
async def test_a_long_text_is_cut_and_that_is_said(
    encoder: LocalProvider, fields: dict[str, Any], read: str, left_out: str
) -> None:
    warned: list[str] = []
    reply = await embed(encoder, embedding("sea", LONG, **fields), warned=warned)
    assert_vectors(reply, "sea", read)
    assert (reply.cut, warned) == (1, [left_out])
    assert reply.input_tokens == 3 + len(read.split()) + 2


async def test_a_long_text_is_refused_where_it_may_not_be_cut(encoder: LocalProvider) -> None:
    fits = " ".join(LONG.split()[: TOKENS - 2])
    assert (await embed(encoder, embedding(fits, truncate=False))).cut == 0
    with pytest.raises(ApiError) as refused:
        await embed(encoder, embedding(*[fits] * HANDFUL_TEXTS, "sea", LONG, truncate=False))
    error = refused.value
    assert (error.kind, error.status, error.param, error.code) == (
        Kind.INVALID_REQUEST, 400, "input", "context_length_exceeded",
    )  # fmt: skip
    assert error.message == f"input {HANDFUL_TEXTS + 1} has more than the 16 tokens that can be read of it"


async def test_a_larger_context_than_the_model_s_is_not_had(encoder: LocalProvider) -> None:
    warned: list[str] = []
    reply = await embed(encoder, embedding(LONG, local=Local(context_tokens=512)), warned=warned)
    assert (reply.input_tokens, warned) == (TOKENS, ["context_tokens", "input.end"])


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (embedding("a", dimensions=8), "dimensions"),
        (embedding(*["a"] * (INPUTS_CAP + 1)), "input"),
        (embedding("a", local=Local(context_tokens=2)), "context_tokens"),
        (embedding("a", local=Local(context_tokens=-1)), "context_tokens"),
    ],
)
async def test_what_cannot_be_done_names_its_field(encoder: LocalProvider, request_: EmbedRequest, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        await embed(encoder, request_)
    assert (refused.value.status, refused.value.param) == (400, param)


async def test_the_model_s_own_dimensions_may_be_asked_for(encoder: LocalProvider) -> None:
    assert_vectors(await embed(encoder, embedding("sea", dimensions=WIDTH)), "sea")


async def test_each_kind_of_model_refuses_what_the_other_does(encoder: LocalProvider) -> None:
    with pytest.raises(ApiError, match="makes no embeddings") as answers:
        await encoder.prepare(embedding("a"), "tiny")
    with pytest.raises(ApiError, match="cannot answer") as embeds:
        await encoder.prepare(asking(), "tiny-encoder")
    for refused, code in ((answers, "no_embeddings"), (embeds, "embeddings_only")):
        assert (refused.value.status, refused.value.param, refused.value.code) == (400, "model", code)
    assert encoder.pool.statistics()["waiting"] == 0


async def test_it_is_listed_as_what_it_is(encoder: LocalProvider) -> None:
    info = next(info for info in await encoder.models() if info.id == "tiny-encoder:latest")
    assert (info.capabilities, info.format, info.family) == (("embedding",), "safetensors", "bert")
    assert (info.quantization, info.context_tokens, info.template) == ("F32", TOKENS, None)
    assert model_info(encoder.registry.get("tiny")).capabilities[0] == "completion"


@pytest.mark.promise(35)
async def test_who_leaves_stops_the_work_and_costs_nobody_else(encoder: LocalProvider) -> None:
    request = embedding(*["the river"] * INPUTS_CAP)
    with await encoder.prepare(request, "tiny-encoder") as lease:
        call = asyncio.create_task(encoder.embed(request, "tiny-encoder", lease, warn=print))
        engine = lease.loaded.engine
        while not engine.statistics()["live"]:
            await asyncio.sleep(0)
        (work,) = engine._live.values()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert isinstance(work, Embedding)
        assert work.closed.is_set()
        assert len(work.vectors) < HANDFUL_TEXTS
        assert engine.alive
    assert encoder.pool.statistics()["active"] == 0
    assert_vectors(await embed(encoder, embedding("sea")), "sea")


async def test_calls_share_the_model_and_a_long_one_holds_nobody_up(encoder: LocalProvider) -> None:
    order: list[str] = []

    async def one(name: str, count: int) -> None:
        reply = await embed(encoder, embedding(*[f"river {name}"] * count))
        assert_vectors(reply, *[f"river {name}"] * count)
        order.append(name)

    await embed(encoder, embedding("sea"))
    await asyncio.gather(one("long", INPUTS_CAP), *(one(name, 2) for name in "abcdefgh"))
    assert order[-1] == "long"


async def test_as_many_calls_at_once_as_there_are_slots(
    encoder: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await embed(encoder, embedding("sea"))
    monkeypatch.setattr(encoder.pool, "limits", Limits(max_waiting=0))
    request = embedding("sea")
    held = [await encoder.prepare(request, "tiny-encoder") for _ in range(32)]
    with pytest.raises(ApiError) as refused:
        await encoder.prepare(request, "tiny-encoder")
    assert refused.value.kind is Kind.OVERLOADED
    for lease in held:
        lease.close()


@pytest.mark.parametrize("killer", [signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.fault("F10", "F16")
async def test_a_crash_fails_its_calls_and_the_next_is_answered(alone: LocalProvider, killer: signal.Signals) -> None:
    await embed(alone, embedding("sea"))
    first = pid_of(alone, "tiny-encoder")
    os.kill(first, signal.SIGSTOP)  # so that the call is there when it dies
    request = embedding("sea", "river")
    with await alone.prepare(request, "tiny-encoder") as lease:
        call = asyncio.create_task(alone.embed(request, "tiny-encoder", lease, warn=print))
        while not lease.loaded.engine.statistics()["live"]:
            await asyncio.sleep(0)
        os.kill(first, killer)
        os.kill(first, signal.SIGCONT)
        with pytest.raises(ApiError) as died:
            await call
    assert died.value.kind is Kind.UPSTREAM
    assert died.value.message == f"engine process died ({killer.name})"
    assert_vectors(await embed(alone, embedding("sea")), "sea")
    assert pid_of(alone, "tiny-encoder") != first


async def test_a_step_that_hangs_is_killed_when_its_cancel_is_not_confirmed(alone: LocalProvider) -> None:
    with await alone.prepare(embedding("sea"), "tiny-encoder") as lease:
        engine = lease.loaded.engine
        os.kill(engine.pid, signal.SIGSTOP)
        first, second = handful(engine, 1), handful(engine, 1)
        await engine.confirm(first, confirm_s=0.05)
        with pytest.raises(ApiError, match="did not end within"):
            await second.outcome
        assert not engine.alive


@pytest.mark.fault("F10")
async def test_a_text_too_long_for_its_line_is_refused_and_costs_nobody(encoder: LocalProvider) -> None:
    with pytest.raises(ApiError) as refused:
        await embed(encoder, embedding("sea", "x" * 5_000_000))
    assert (refused.value.kind, refused.value.code) == (Kind.TOO_LARGE, "request_too_large")
    assert_vectors(await embed(encoder, embedding("sea", "river " * 600_000, local=Local(context_tokens=3))),
                   "sea", "river")  # fmt: skip


async def test_half_an_emoji_is_a_text_too(encoder: LocalProvider) -> None:
    reply = await embed(encoder, embedding("\ud83d", "sea \U0001f600"))
    assert [len(vector) for vector in reply.vectors] == [WIDTH, WIDTH]


async def test_keep_alive_rules_how_long_it_stays(alone: LocalProvider) -> None:
    await embed(alone, embedding("sea", local=Local(keep_alive_s=-1)))
    assert alone.running()[0].expires_at is None
    first = pid_of(alone, "tiny-encoder")
    await embed(alone, embedding("sea", local=Local(keep_alive_s=0)))
    while alone.running():
        await asyncio.sleep(0)
    assert_vectors(await embed(alone, embedding("sea")), "sea")
    assert pid_of(alone, "tiny-encoder") != first
    await alone.stand_by(asking(local=Local(keep_alive_s=0)), "tiny-encoder")
    assert alone.running() == []


async def test_the_network_is_built_once_and_removed_with_its_model(alone: LocalProvider) -> None:
    await embed(alone, embedding("sea", local=Local(keep_alive_s=0)))
    (built,) = (alone.registry.root / "networks").glob("*/*/encoder.xml")
    before = built.stat()
    assert_vectors(await embed(alone, embedding("sea")), "sea")
    assert built.stat() == before
    await alone.copy("tiny-encoder", "other")
    await alone.delete("tiny-encoder")
    assert_vectors(await embed(alone, embedding("sea"), "other"), "sea")
    await alone.delete("other")
    assert list((alone.registry.root / "networks").iterdir()) == []
    assert alone.running() == []


@pytest.mark.parametrize(
    ("without", "said", "words"),
    [
        (["embeddings.LayerNorm.bias"], {}, "no tensor 'embeddings.LayerNorm.bias'"),
        ([], {"hidden_act": "silu"}, "hidden_act is 'silu'"),
        ([], {"vocab_size": 20}, "instead of"),
    ],
)
async def test_a_model_that_cannot_be_built_says_why(
    data_dir: Path, tmp_path: Path, without: list[str], said: dict[str, object], words: str
) -> None:
    local = LocalProvider(data_dir / "models")
    install_encoder(local.registry, "bad", build(tmp_path / "files", without=without, **said))
    with pytest.raises(ApiError, match=words) as failed:
        await local.prepare(embedding("a"), "bad")
    assert (failed.value.kind, failed.value.code) == (Kind.UPSTREAM, "load_failed")
    assert local.pool.statistics()["loading"] == 0
    await local.close()


async def test_missing_packages_are_told_with_the_remedy(encoder_files: Path, tmp_path: Path) -> None:
    """A package of that name that cannot be imported, before the real one."""
    (tmp_path / "tokenizers.py").write_text("raise ImportError('nothing here')")
    spec = EncoderSpec(folder=encoder_files, cache=tmp_path / "cache", context_tokens=TOKENS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
        with pytest.raises(ApiError, match=r"pip install 'rivermouth\[openvino\]'") as missing:
            await EngineProcess.start(spec)
    assert missing.value.status == 501


async def test_an_answer_s_command_to_an_encoder_is_passed_over(alone: LocalProvider) -> None:
    """And the other way round nothing comes: the process says so on stderr and goes on."""
    with await alone.prepare(embedding("sea"), "tiny-encoder") as lease:
        engine = lease.loaded.engine
        engine._send(b'{"type":"generate","id":7,"prompt":"x","context_tokens":8}\n{"type":"embed","id":8}\n')
        assert_vectors(await embed(alone, embedding("sea")), "sea")
        assert [line for line in engine.stderr if "passed over" in line] == ["passed over: Generate"]


def test_texts_are_handed_out_in_bounded_pieces() -> None:
    texts = [*["a"] * 300, "b" * HANDFUL_BYTES, "c" * (HANDFUL_BYTES + 1), "", "d"]
    pieces = list(handfuls(texts))
    assert [text for piece in pieces for text in piece] == texts
    assert [len(piece) for piece in pieces] == [256, 44, 1, 1, 2]
    assert list(handfuls([])) == []


FLOATS = "AACAPwAAAEA="  # 1.0, 2.0


async def test_vectors_arrive_by_their_place() -> None:
    work = Embedding(1, 2)
    work.hear(Vectors(1, (1, 0), FLOATS))
    work.hear(Embedded(id=1, reason="done", prompt_tokens=3))
    assert work.vectors == [(2.0,), (1.0,)]
    assert (await work.outcome).prompt_tokens == 3
    assert work.closed.is_set()


@pytest.mark.parametrize(
    "word",
    [
        Vectors(1, (2,), FLOATS),
        Vectors(1, (-1,), FLOATS),
        Vectors(1, (0, 1), "AACAPw=="),
        Vectors(1, (0,), "AAA="),
        Vectors(1, (0,), ""),
        Vectors(1, (0,), "not base64"),
        Embedded(id=1, reason="done", prompt_tokens=3),
        Delta(1, "x"),
    ],
)
async def test_words_that_do_not_belong_to_vectors(word: Any) -> None:
    with pytest.raises(WireError):
        Embedding(1, 2).hear(word)


@pytest.mark.parametrize("word", [Vectors(1, (0,), FLOATS), Embedded(id=1, reason="done", prompt_tokens=3)])
async def test_words_that_do_not_belong_to_an_answer(word: Any) -> None:
    with pytest.raises(WireError):
        Generation(1, print, timeout_s=1, max_pending=1).hear(word)


async def test_a_process_that_breaks_the_protocol_of_vectors_is_ended(tmp_path: Path) -> None:
    program = 'import sys; sys.stdin.readline(); print(\'{"type":"vectors","id":1,"at":[9],"data":""}\', flush=True)\nsys.stdin.read()'  # noqa: E501
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdin=pipe, stdout=pipe, stderr=pipe)
    engine = EngineProcess(EncoderSpec(folder=tmp_path, cache=tmp_path, context_tokens=TOKENS), child)
    with pytest.raises(ApiError, match="broke its protocol"):
        await handful(engine, 1).outcome
    await engine.stop()


async def test_a_failure_that_nobody_waits_for_is_not_lost_noise() -> None:
    work = Embedding(1, 1)
    work.give_up()
    work.hear(Failed(id=1, kind="invalid_request", message="no"))
    assert work.closed.is_set()
    late = Embedding(1, 1)
    late.give_up()
    late.hear(Embedded(id=1, reason="cancelled", prompt_tokens=0))
    assert late.closed.is_set()
    answered = Generation(1, print, timeout_s=1, max_pending=1)
    answered.hear(Done(id=1, reason="stop", prompt_tokens=1, output_tokens=1, prompt_ns=1, output_ns=1))
    assert answered.closed.is_set()
