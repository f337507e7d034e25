"""Files and folders of the operator's own: copied and checked, with links, pipes and half models refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.references import file_entry
from rivermouth.local.models.registry import Registry, digest_of, sha256_of
from rivermouth.local.sources.gathered import Orders
from rivermouth.local.sources.pull import MANIFEST
from tests.local.pulling import HASTY, check_frames, frames_of, nothing_left, puller_of
from tests.tiny_ir import ir_files, write_ir

pytestmark = pytest.mark.anyio


@pytest.fixture
def registry(data_dir: Path) -> Registry:
    return Registry(data_dir / "models")


@pytest.mark.promise(24, 25, 26, 27, 28)
async def test_a_file_of_the_user_s_own(registry: Registry, files: dict[str, Path]) -> None:
    frames = await frames_of(puller_of(registry), file_entry("mine:v1", files["tiny"]))
    check_frames(frames, ("tiny.gguf", f"sha256:{sha256_of(files['tiny'])}", files["tiny"].stat().st_size))
    model = registry.get("mine:v1")
    assert model.path.read_bytes() == files["tiny"].read_bytes()
    assert model.folder == model.path.parent
    assert model.file("tiny.gguf") == model.path
    assert files["tiny"].exists()


@pytest.mark.promise(24, 25, 26, 27, 28)
async def test_a_folder_with_an_openvino_model(registry: Registry, tmp_path: Path) -> None:
    files = {**ir_files(), "notes.txt": b"not taken", "evil.so": b"\x7fELF"}
    folder = write_ir(tmp_path / "ir", files)
    frames = await frames_of(puller_of(registry), file_entry("mine", folder))
    names = ["openvino_model.xml", *sorted(set(ir_files()) - {"openvino_model.xml"})]
    check_frames(frames, *((n, f"sha256:{sha256_of(folder / n)}", len(files[n])) for n in names))
    model = registry.get("mine")
    assert model.path == model.folder
    assert {file.name: model.file(file.name).read_bytes() for file in model.files} == ir_files()
    assert (model.manifest.digest, model.manifest.size_bytes) == (
        digest_of(model.files),
        sum(len(data) for data in ir_files().values()),
    )
    with pytest.raises(ApiError, match="has no file"):
        model.file("notes.txt")


async def test_two_files_with_the_same_bytes_are_told_once(registry: Registry, tmp_path: Path) -> None:
    """Clients key their bars on the digest, and a bar never goes back."""
    files = ir_files()
    files["openvino_detokenizer.bin"] = files["openvino_tokenizer.bin"]
    frames = await frames_of(puller_of(registry), file_entry("mine", write_ir(tmp_path / "ir", files)))
    told = [frame.file for frame in frames if frame.completed == 0]
    assert "openvino_detokenizer.bin" in told
    assert "openvino_tokenizer.bin" not in told
    assert registry.get("mine").file("openvino_tokenizer.bin").read_bytes() == files["openvino_tokenizer.bin"]


async def test_a_file_that_is_not_what_was_said(registry: Registry, files: dict[str, Path]) -> None:
    with pytest.raises(ApiError) as failed:
        await frames_of(puller_of(registry), file_entry("mine", files["tiny"], "sha256:" + "0" * 64))
    assert failed.value.code == "digest_mismatch"
    assert nothing_left(registry)


async def test_a_file_that_cannot_run_is_refused_by_name(
    registry: Registry, files: dict[str, Path], tmp_path: Path
) -> None:
    bad = tmp_path / "cut.gguf"
    bad.write_bytes(files["tiny"].read_bytes()[:-1])
    for path, param in ((bad, "model"), (tmp_path / "absent.gguf", "file")):
        with pytest.raises(ApiError, match=path.name) as refused:
            await frames_of(puller_of(registry), file_entry("mine", path))
        assert refused.value.kind is Kind.INVALID_REQUEST
        assert refused.value.param == param
        assert nothing_left(registry)


async def test_a_link_that_was_named_is_followed_and_one_in_a_folder_is_not(
    registry: Registry, files: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "link.gguf").symlink_to(files["tiny"])
    await frames_of(puller_of(registry), file_entry("named", tmp_path / "link.gguf"))
    assert not registry.get("named").path.is_symlink()

    folder = write_ir(tmp_path / "ir")
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("/etc/passwd")
    with pytest.raises(ApiError, match=r"'config\.json' is a symbolic link"):
        await frames_of(puller_of(registry), file_entry("mine", folder))
    assert registry.find("mine") is None


async def test_a_pipe_is_not_waited_for(registry: Registry, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ApiError, match="is not a file"):
        await frames_of(puller_of(registry), file_entry("mine", tmp_path / "pipe.gguf"))
    assert nothing_left(registry)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"openvino_model.xml": None}, "holds no OpenVINO model"),
        ({"config.json": None}, r"the model mine:latest cannot be run here: config\.json is missing"),
        ({"openvino_model.bin": b"cut"}, r"openvino_model\.bin is truncated: it has 3 bytes and needs 8196"),
        ({"openvino_model.xml": b"<net>"}, "is not XML"),
    ],
)
async def test_a_folder_that_is_no_whole_model(
    registry: Registry, tmp_path: Path, change: dict[str, bytes | None], words: str
) -> None:
    files = {name: data for name, data in {**ir_files(), **change}.items() if data is not None}
    with pytest.raises(ApiError, match=words) as refused:
        await frames_of(puller_of(registry), file_entry("mine", write_ir(tmp_path / "ir", files)))
    assert (refused.value.kind, refused.value.code) == (Kind.INVALID_REQUEST, "unsupported_model")
    assert nothing_left(registry)


async def test_a_model_beyond_the_limit_is_refused(registry: Registry, files: dict[str, Path]) -> None:
    with pytest.raises(ApiError) as large:
        await frames_of(
            puller_of(registry, orders=Orders(cap_bytes=1000, clocks=HASTY)), file_entry("x", files["tiny"])
        )
    assert large.value.kind is Kind.TOO_LARGE
    assert nothing_left(registry)


@pytest.mark.parametrize("asked", ["file:///etc/passwd", "file:/etc/passwd", "http://127.0.0.1/x", "HTTPS://host/x"])
async def test_a_client_names_no_path_and_no_address(registry: Registry, asked: str) -> None:
    """R28: the server fetches and reads nothing of a client's choice."""
    pull = puller_of(registry).pull(asked)
    assert await anext(pull) == MANIFEST
    with pytest.raises(ApiError) as refused:
        await anext(pull)
    assert (refused.value.kind, refused.value.code) == (Kind.PERMISSION, "pull_not_allowed")
