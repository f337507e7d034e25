"""What is kept of a model between two loads, with the real engine and the tiny model."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from rivermouth.ir.errors import ApiError
from rivermouth.local.inference import converted
from rivermouth.local.inference.process import EngineProcess
from rivermouth.local.inference.spec import EngineSpec
from rivermouth.local.models.names import parse_name
from rivermouth.local.models.openvino_ir import inspect_ir
from rivermouth.local.models.registry import Manifest, ModelFile, digest_of, sha256_of
from rivermouth.local.provider import LocalProvider
from rivermouth.local.words.protocol import Generate
from rivermouth.wire import json
from tests.local.asking import ask, asking, text_of, usage_of
from tests.tiny_gguf import TEXT, build

pytestmark = pytest.mark.anyio

Asked = Callable[..., Awaitable["Told"]]


class Told(NamedTuple):
    cached: bool
    text: str
    tokens: int


@pytest.fixture
def asked(files: dict[str, Path], tmp_path: Path) -> Asked:
    """`await asked(field=...)` loads the tiny model with `tmp_path` / "cache" for what is made of it, and asks it."""
    spec = EngineSpec(path=files["tiny"], context_tokens=2048, end_tokens=(2,), cache=tmp_path / "cache")

    async def ask(**fields: object) -> Told:
        engine = await EngineProcess.start(msgspec.structs.replace(spec, **fields))
        try:
            generation = engine.generate(Generate(id=0, prompt="Hi", context_tokens=2048), timeout_s=10)
            text = "".join([piece async for piece in generation.stream])
            assert engine.ready is not None
            assert generation.done is not None
            return Told(engine.ready.cached, text, generation.done.output_tokens)
        finally:
            await engine.stop()

    return ask


def forms(cache: Path) -> list[Path]:
    return [place for place in cache.iterdir() if place.is_dir() and place.name != converted.COMPILED]


async def test_the_second_load_takes_what_the_first_one_made_and_answers_the_same(asked: Asked, tmp_path: Path) -> None:
    assert await asked() == Told(cached=False, text=TEXT, tokens=14)
    (form,) = forms(tmp_path / "cache")
    assert not (form / converted.LINK).exists()
    assert await asked() == Told(cached=True, text=TEXT, tokens=14)
    assert await asked(max_active=1) == Told(cached=True, text=TEXT, tokens=14)
    assert list((tmp_path / "cache" / converted.COMPILED).glob("*.blob"))
    assert await asked(max_active=1) == Told(cached=True, text=TEXT, tokens=14)
    assert forms(tmp_path / "cache") == [form]
    assert converted.size_of(tmp_path / "cache") > 400_000


async def test_a_folder_is_loaded_as_it_is(asked: Asked, tmp_path: Path) -> None:
    await asked()
    (form,) = forms(tmp_path / "cache")
    folder = Path(shutil.copytree(form, tmp_path / "model"))
    assert (await asked(path=folder, cache=None)).text == TEXT
    assert await asked(path=folder, cache=tmp_path / "other", max_active=1) == Told(False, TEXT, 14)
    assert await asked(path=folder, cache=tmp_path / "other", max_active=1) == Told(True, TEXT, 14)


async def test_what_was_damaged_is_made_again_and_what_another_version_made_goes(asked: Asked, tmp_path: Path) -> None:
    await asked()
    cache = tmp_path / "cache"
    (form,) = forms(cache)
    (form / "openvino_model.bin").write_bytes(b"short")
    (cache / "1-older").mkdir()
    (cache / ".making-999999999-x").mkdir()
    assert await asked() == Told(cached=False, text=TEXT, tokens=14)
    assert forms(cache) == [form]
    assert (await asked()).cached


async def test_without_room_nothing_is_kept_and_it_loads_all_the_same(asked: Asked, tmp_path: Path) -> None:
    """No file at all where the folder cannot be made: as on a disk that takes no more."""
    (tmp_path / "cache").write_bytes(b"")
    assert await asked() == Told(cached=False, text=TEXT, tokens=14)
    assert (tmp_path / "cache").read_bytes() == b""


def test_a_disk_with_too_little_room_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = build(tmp_path / "tiny.gguf")
    free = file.stat().st_size * converted.ROOM_FACTOR
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free - 1))
    assert converted.stage(tmp_path / "cache", file) is None
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free))
    place = converted.stage(tmp_path / "cache", file)
    assert place is not None
    assert (place / converted.LINK).resolve() == file


def test_what_was_not_written_whole_is_not_kept(tmp_path: Path) -> None:
    file = build(tmp_path / "tiny.gguf")
    place = converted.stage(tmp_path / "cache", file)
    assert place is not None
    for name in converted.FILES[:-1]:
        (place / name).write_bytes(b"x")
    assert converted.publish(tmp_path / "cache", "1-x", place) is None
    assert list((tmp_path / "cache").iterdir()) == []
    assert converted.found(tmp_path / "cache", "1-x") is None


def test_a_version_is_a_name_and_never_a_path() -> None:
    assert converted.form_of("2026.4.1.0-3408") == "1-2026.4.1.0-3408"
    assert converted.form_of("../../x") == "1--..-x"
    assert "/" not in converted.form_of("/" * 99)


async def test_prompts_that_begin_the_same_are_answered_as_they_would_be_alone(files: dict[str, Path]) -> None:
    """In a memory too small for all: they wait for each other, and none is cut, or goes on as another did."""
    spec = EngineSpec(path=files["tiny"], context_tokens=160, end_tokens=(2,), prefix_cache=True, kv_tokens=192)
    engine = await EngineProcess.start(spec)
    try:
        same = "x" * 100
        for _ in range(3):
            made = [
                engine.generate(Generate(id=0, prompt=f"{same}{n % 3}", context_tokens=160), timeout_s=10)
                for n in range(6)
            ]
            assert ["".join([piece async for piece in one.stream]) for one in made] == [TEXT] * 6
            assert {one.done.output_tokens for one in made if one.done is not None} == {14}
    finally:
        await engine.stop()


async def test_an_openvino_folder_in_the_registry_answers_like_any_model(
    asked: Asked, tmp_path: Path, own: LocalProvider
) -> None:
    """Made by the engine itself of the tiny file, and given the one text that such a folder has to have."""
    await asked()
    (form,) = forms(tmp_path / "cache")
    staged = own.registry.open_stage()
    folder = staged / "model"
    folder.mkdir()
    for name in converted.FILES:
        shutil.copy(form / name, folder / name)
    config = {"model_type": "llama", "max_position_embeddings": 2048, "eos_token_id": 2}
    (folder / "config.json").write_bytes(json.encode(config))
    facts = inspect_ir(folder)
    files = tuple(
        ModelFile(name=file.name, sha256=sha256_of(file) or "", size_bytes=file.stat().st_size)
        for file in sorted(folder.iterdir())
    )
    manifest = Manifest(
        digest=digest_of(files),
        size_bytes=sum(file.size_bytes for file in files),
        file="openvino_model.xml",
        created=1,
        architecture=facts.architecture,
        context_tokens=facts.context_tokens,
        parameters=facts.parameters,
        quantization=facts.quantization,
        longest_token_bytes=facts.longest_token_bytes,
        end_tokens=facts.end_tokens,
        template=facts.template,
        format="openvino",
        files=files,
    )
    own.registry.publish(parse_name("folder"), manifest, folder)
    own.registry.close_stage(staged)
    events = await ask(own, "folder", asking("Hi"))
    assert text_of(events) == TEXT
    assert usage_of(events).input_tokens == 21, "with the template that travels in the tokenizer"
    with pytest.raises(ApiError) as refused:
        await ask(own, "folder", asking("x" * 3000))
    assert refused.value.code == "context_length_exceeded"
