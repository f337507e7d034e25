"""The folder of models: whole or not at all, shared files, junk passed over."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.registry import Registry
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
