"""The folder of models: whole or not at all, shared files, junk passed over."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.names import parse_name
from rivermouth.local.models.registry import Manifest, Model, ModelFile, Registry, digest_of
from tests.local.asking import install


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "models")


def names(registry: Registry) -> list[str]:
    return [str(model.name) for model in registry.models()]


def test_an_empty_folder_is_no_folder(registry: Registry) -> None:
    assert registry.scan() == ([], [])
    assert registry.find("x") is None
    assert not registry.root.exists()


def test_publish_get_list(registry: Registry, files: dict[str, Path]) -> None:
    model = install(registry, "team/x", files["tiny"])
    assert registry.get("team/x") == registry.get("team/x:latest") == model
    assert model.path.read_bytes() == files["tiny"].read_bytes()
    assert model.path.name == f"{model.manifest.digest.replace(':', '-')}.gguf"
    assert names(registry) == ["team/x:latest"]
    assert list((registry.root / "staging").iterdir()) == []


def test_an_unknown_name_is_not_found_with_what_is_here(registry: Registry, files: dict[str, Path]) -> None:
    install(registry, "x", files["tiny"])
    with pytest.raises(ApiError, match="x:latest") as missing:
        registry.get("y")
    assert missing.value.kind is Kind.NOT_FOUND


def test_a_copy_shares_the_file_until_the_last_name_goes(registry: Registry, files: dict[str, Path]) -> None:
    first = install(registry, "x", files["tiny"])
    registry.copy("x", "y:2")
    assert names(registry) == ["x:latest", "y:2"]
    registry.delete("x")
    assert first.path.exists()
    assert registry.get("y:2").path == first.path
    registry.delete("y:2")
    assert not first.path.exists()
    with pytest.raises(ApiError):
        registry.delete("y:2")


def test_publishing_again_replaces(registry: Registry, files: dict[str, Path]) -> None:
    install(registry, "x", files["tiny"])
    second = install(registry, "x", files["loop"])
    assert registry.get("x").manifest.digest == second.manifest.digest


def test_junk_is_passed_over_and_reported(registry: Registry, files: dict[str, Path]) -> None:
    model = install(registry, "x", files["tiny"])
    manifests = registry.root / "manifests"
    (manifests / "README.txt").write_text("hello")
    (manifests / "x" / "cut.json").write_text('{"digest": "sha256:')
    (manifests / "x" / "binary.json").write_bytes(b"\xff\xfe\x00")
    (manifests / "y").mkdir()
    (manifests / "y" / "evil.json").write_bytes(
        msgspec.json.encode(msgspec.structs.replace(model.manifest, digest="sha256:../../../etc/passwd"))
    )
    (manifests / "y" / "lost.json").write_bytes(
        msgspec.json.encode(msgspec.structs.replace(model.manifest, digest="sha256:" + "0" * 64))
    )
    (manifests / "y" / "short.json").write_bytes(
        msgspec.json.encode(msgspec.structs.replace(model.manifest, size_bytes=1))
    )
    found = registry.scan()
    assert [str(m.name) for m in found.models] == ["x:latest"]
    assert len(found.problems) == 6
    assert any("missing" in problem for problem in found.problems)
    with pytest.raises(ApiError) as damaged:
        registry.get("y:lost")
    assert damaged.value.kind is Kind.INTERNAL


def test_a_half_written_manifest_is_never_seen(registry: Registry, files: dict[str, Path]) -> None:
    install(registry, "x", files["tiny"])
    (registry.root / "manifests" / "x" / ".latest.json.123").write_text("{")
    assert registry.scan().problems == []


def folder_of(registry: Registry, name: str, **files: bytes) -> Model:
    """A model of several files, as a pull publishes it; "__" in a file's name is its dot."""
    stage = registry.open_stage()
    place = stage / "model"
    place.mkdir()
    known = []
    for key, data in files.items():
        (place / key.replace("__", ".")).write_bytes(data)
        known.append(
            ModelFile(name=key.replace("__", "."), sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        )
    manifest = Manifest(
        digest=digest_of(known),
        size_bytes=sum(file.size_bytes for file in known),
        file=known[0].name,
        created=1,
        architecture="bert",
        context_tokens=256,
        parameters=1,
        quantization="F32",
        kind="embedding",
        format="safetensors",
        files=tuple(known),
        dimensions=8,
    )
    model = registry.publish(parse_name(name), manifest, place)
    registry.close_stage(stage)
    return model


def test_a_model_of_several_files(registry: Registry) -> None:
    model = folder_of(registry, "e", model__safetensors=b"weights", tokenizer__json=b"{}")
    assert registry.get("e") == model
    assert model.path == model.folder == registry.root / "blobs" / model.manifest.digest.replace(":", "-")
    assert model.file("tokenizer.json").read_bytes() == b"{}"
    assert [file.name for file in model.files] == ["model.safetensors", "tokenizer.json"]
    for name in ("other", "../e", "model"):
        with pytest.raises(ApiError, match="has no file"):
            model.file(name)


def test_the_digest_of_several_files_is_of_names_and_bytes() -> None:
    def known(*files: tuple[str, str]) -> str:
        return digest_of(ModelFile(name=name, sha256=digit * 64, size_bytes=1) for name, digit in files)

    assert known(("a", "0"), ("b", "1")) == known(("b", "1"), ("a", "0"))
    assert len({known(("a", "0"), ("b", "1")), known(("a", "1"), ("b", "0")), known(("a", "0"))}) == 3


def test_a_folder_is_shared_replaced_and_removed_as_a_file_is(registry: Registry) -> None:
    model = folder_of(registry, "x", a=b"1", b=b"2")
    registry.copy("x", "y")
    (model.folder / "a").write_bytes(b"damaged")
    with pytest.raises(ApiError, match="its file has 7 bytes, 1 were published"):
        registry.get("x")
    folder_of(registry, "x", a=b"1", b=b"2")  # a pull mends it, for both names
    assert registry.get("y").file("a").read_bytes() == b"1"
    registry.delete("x")
    assert model.folder.is_dir()
    registry.delete("y")
    assert not model.folder.exists()
    assert list((registry.root / "staging").iterdir()) == []


def test_a_folder_that_lacks_a_file_is_damaged(registry: Registry) -> None:
    (folder_of(registry, "x", a=b"1", b=b"2").folder / "b").unlink()
    assert registry.scan().problems == ["manifests/x/latest.json: its file is missing"]


def test_a_manifest_cannot_name_a_file_elsewhere(registry: Registry) -> None:
    model = folder_of(registry, "x", a=b"1")
    for name in ("../../lock", "/etc/hostname", ".hidden"):
        file = msgspec.structs.replace(model.files[0], name=name)
        manifest = msgspec.structs.replace(model.manifest, files=(file,))
        (registry.root / "manifests" / "x" / "latest.json").write_bytes(msgspec.json.encode(manifest))
        with pytest.raises(ApiError, match="is not the name of a file"):
            registry.get("x")


def test_a_manifest_of_the_first_version_is_read(registry: Registry, files: dict[str, Path]) -> None:
    model = install(registry, "x", files["tiny"])
    path = registry.root / "manifests" / "x" / "latest.json"
    old = msgspec.json.decode(path.read_bytes())
    for later in ("kind", "format", "files", "dimensions", "device"):
        del old[later]
    path.write_bytes(msgspec.json.encode(old))
    found = registry.get("x")
    assert (found.path, found.manifest.kind, found.manifest.format) == (model.path, "chat", "gguf")
    (file,) = found.files
    assert (f"sha256:{file.sha256}", file.size_bytes) == (model.manifest.digest, files["tiny"].stat().st_size)
    assert found.file("tiny.gguf") == model.path


def test_staging_of_dead_processes_is_swept(registry: Registry) -> None:
    staging = registry.root / "staging"
    staging.mkdir(parents=True)
    (staging / "999999999-dead").mkdir()
    (staging / "junk").mkdir()
    living = staging / f"{os.getpid()}-living"
    living.mkdir()
    stage = registry.open_stage()
    assert sorted(staging.iterdir()) == sorted([living, stage])
    registry.close_stage(stage)
    assert list(staging.iterdir()) == [living]
