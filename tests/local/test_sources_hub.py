"""The hub, by a fake one on loopback: a commit, its files, its licence, its gate, and what it must not do."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.licenses import LicenseRefused, Licenses
from rivermouth.local.models.references import Pulls, hub_entry
from rivermouth.local.models.registry import Registry
from rivermouth.local.sources import partials
from rivermouth.local.sources.gathered import Orders
from rivermouth.local.sources.pull import Puller
from tests.local.fake_hub import COMMIT, REPOSITORY, FakeHub
from tests.local.fake_web import Served
from tests.local.pulling import HASTY, check_frames, frames_of, nothing_left, parts, puller_of, until_some_arrived
from tests.tiny_ir import TEMPLATE, ir_files

pytest.importorskip("huggingface_hub", reason="the extra [hub] is not installed")
pytestmark = pytest.mark.anyio

HubOf = Callable[..., Awaitable[FakeHub]]
ORDER = (
    "openvino_model.xml",
    "config.json",
    "generation_config.json",
    "openvino_detokenizer.bin",
    "openvino_detokenizer.xml",
    "openvino_model.bin",
    "openvino_tokenizer.bin",
    "openvino_tokenizer.xml",
    "tokenizer.json",
    "tokenizer_config.json",
)


@pytest.fixture
def registry(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setattr(partials, "KEPT_FROM_BYTES", 1)
    monkeypatch.setattr("rivermouth.local.sources.transfer.READ_BYTES", 1 << 10)
    return Registry(data_dir / "models")


@pytest.fixture
async def hub_of(monkeypatch: pytest.MonkeyPatch, anyio_backend: str) -> AsyncIterator[HubOf]:
    started: list[FakeHub] = []

    async def start(files: Mapping[str, bytes], **said: Any) -> FakeHub:
        hub = await FakeHub(files, **said).start()
        started.append(hub)
        monkeypatch.setenv("HF_ENDPOINT", hub.hub.url)
        return hub

    monkeypatch.delenv("HF_TOKEN", raising=False)
    yield start
    for hub in started:
        await hub.stop()


def lfs(size: int) -> dict[str, Any]:
    """A large file as the listing has it, with a sha256 that is wrong."""
    return {"sha256": "0" * 64, "size": size, "pointerSize": 1}


def told(files: Mapping[str, bytes], *names: str) -> list[tuple[str, str, int]]:
    return [(name, f"sha256:{hashlib.sha256(files[name]).hexdigest()}", len(files[name])) for name in names]


@pytest.mark.promise(24, 25, 26, 27, 28)
async def test_an_openvino_repository(registry: Registry, hub_of: HubOf, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ir_files()
    hub = await hub_of(
        {**files, "README.md": b"# Hi", ".gitattributes": b"", "evil.py": b"import os", "sub/config.json": b"{}"}
    )
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", False)
    frames = await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))
    check_frames(frames, *told(files, *ORDER))
    model = registry.get("org/model")
    assert {file.name: model.file(file.name).read_bytes() for file in model.files} == files
    assert sorted(path.name for path in model.folder.iterdir()) == sorted(files)  # and nothing else of it
    of = model.manifest
    assert (of.format, of.kind, of.file, of.template) == ("openvino", "chat", "openvino_model.xml", TEMPLATE)
    assert (of.context_tokens, of.end_tokens, of.quantization) == (4096, (7, 8, 9), "INT8")
    assert {asked.path.partition(REPOSITORY)[1] for asked in hub.hub.asked} == {REPOSITORY}  # nothing else is asked
    assert (of.license, of.source) == ("apache-2.0", f"hf:{REPOSITORY}@{COMMIT}")
    assert of.attribution == f"{REPOSITORY} ({hub.hub.url}/{REPOSITORY})"
    resolved = [asked.path for asked in hub.hub.asked if "/resolve/" in asked.path]
    assert all(path.startswith(f"/{REPOSITORY}/resolve/{COMMIT}/") for path in resolved)


async def test_one_gguf_file_of_several(registry: Registry, hub_of: HubOf, files: dict[str, Path]) -> None:
    body = files["tiny"].read_bytes()
    await hub_of({"quants/tiny-Q8_0.gguf": body, "other.gguf": b"GGUF"})
    with pytest.raises(ApiError, match=r"several GGUF files; name one of them: other\.gguf, quants/tiny-Q8_0\.gguf"):
        await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))
    frames = await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}/quants/tiny-Q8_0.gguf@{COMMIT}"))
    check_frames(frames, *told({"tiny-Q8_0.gguf": body}, "tiny-Q8_0.gguf"))
    assert registry.get("org/model:tiny-Q8_0").path.read_bytes() == body


async def test_a_second_pull_verifies_and_fetches_no_large_file(registry: Registry, hub_of: HubOf) -> None:
    files = ir_files()
    hub = await hub_of(files)
    await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))
    first = registry.get("org/model").manifest
    hub.cdn.asked.clear()
    check_frames(await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}")), *told(files, *ORDER))
    assert hub.cdn.asked == []
    assert registry.get("org/model").manifest.digest == first.digest


async def test_a_pull_that_was_left_goes_on(registry: Registry, hub_of: HubOf) -> None:
    files = ir_files()
    hub = await hub_of(files)
    hub.cdn.pages["/blob/openvino_model.bin"] = Served(files["openvino_model.bin"], stop_at=4096)
    pull = puller_of(registry).pull_entry(hub_entry(f"hf:{REPOSITORY}"))
    async for frame in pull:
        if frame.file == "openvino_model.bin" and frame.completed:
            break
    await pull.aclose()
    assert nothing_left(registry, partial=True)
    (kept,) = parts(registry)
    hub.cdn.pages["/blob/openvino_model.bin"] = Served(files["openvino_model.bin"])
    check_frames(await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}")), *told(files, *ORDER))
    assert f"bytes={kept}-" in hub.cdn.ranges_asked()


async def test_the_token_is_shown_to_the_hub_alone(
    registry: Registry, hub_of: HubOf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hub = await hub_of(ir_files())
    monkeypatch.setenv("HF_TOKEN", "hf_verysecrettoken")
    await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))
    assert {asked.headers.get("authorization") for asked in hub.hub.asked} == {"Bearer hf_verysecrettoken"}
    assert hub.cdn.asked
    assert all("authorization" not in asked.headers for asked in hub.cdn.asked)
    assert "hf_verysecrettoken" not in caplog.text
    assert not [path for path in registry.root.rglob("*.json") if b"hf_very" in path.read_bytes()]


async def test_without_a_token_none_is_looked_for(
    registry: Registry, hub_of: HubOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("hf_fromsomewhereelse")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    hub = await hub_of(ir_files())
    await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))
    assert all("authorization" not in asked.headers for asked in hub.hub.asked)


@pytest.mark.parametrize(("said", "name"), [("gemma", "gemma"), ("Other", "other"), (None, "unstated")])
async def test_a_restricted_licence_is_accepted_by_name_or_not_at_all(
    registry: Registry, hub_of: HubOf, said: str | None, name: str
) -> None:
    hub = await hub_of(ir_files(), licence=said)
    for accept in (None, "apache-2.0", "yes"):
        with pytest.raises(LicenseRefused, match=f"--accept-license {name}") as refused:
            await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"), accept)
        assert (refused.value.kind, refused.value.code) == (Kind.PERMISSION, "license_not_accepted")
        assert f"{hub.hub.url}/{REPOSITORY}" in refused.value.message
        assert nothing_left(registry)
    assert not [asked for asked in hub.hub.asked if "/resolve/" in asked.path]  # nothing was fetched
    await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"), name.upper())
    accepted = Licenses(registry.root).accepted()
    assert list(accepted) == [name if name == "gemma" else f"{name} {REPOSITORY}"]
    registry.delete("org/model")
    await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))  # it is remembered


async def test_a_gated_repository_is_accepted_by_name_although_its_licence_is_open(
    registry: Registry, hub_of: HubOf
) -> None:
    await hub_of(ir_files(), gated="manual")
    with pytest.raises(LicenseRefused, match="an account that accepted it"):
        await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))


@pytest.mark.parametrize(
    ("status", "headers", "kind", "code", "words"),
    [
        (403, {"X-Error-Code": "GatedRepo"}, Kind.PERMISSION, "hub_refused", "set HF_TOKEN"),
        (404, {"X-Error-Code": "RepoNotFound"}, Kind.NOT_FOUND, "not_at_source", "is not on the hub"),
        (404, {"X-Error-Code": "RevisionNotFound"}, Kind.NOT_FOUND, "not_at_source", "org/model at main"),
        (
            401,
            {"X-Error-Message": "Invalid credentials in Authorization header"},
            Kind.PERMISSION,
            "hub_refused",
            "access",
        ),
        (500, {}, Kind.UPSTREAM, "hub_failed", "failed to list"),
        (200, {}, Kind.UPSTREAM, "hub_failed", "cannot be read"),
    ],
)
async def test_what_the_hub_says_instead_of_a_listing(
    registry: Registry,
    hub_of: HubOf,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    headers: dict[str, str],
    kind: Kind,
    code: str,
    words: str,
) -> None:
    hub = await hub_of(ir_files())
    monkeypatch.setenv("HF_TOKEN", "hf_verysecrettoken")
    hub.hub.pages[f"/api/models/{REPOSITORY}/revision/main"] = Served(b"not json", status=status, extra=headers)
    with pytest.raises(ApiError, match=words) as failed:
        await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))
    assert (failed.value.kind, failed.value.code) == (kind, code)
    assert "secret" not in failed.value.message
    assert nothing_left(registry)


async def test_a_hub_that_does_not_answer(registry: Registry, hub_of: HubOf) -> None:
    hub = await hub_of(ir_files())
    await hub.hub.stop()
    with pytest.raises(ApiError) as failed:
        await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))
    assert (failed.value.kind, failed.value.code) == (Kind.NETWORK, "hub_unreachable")


@pytest.mark.parametrize(
    ("lie", "code", "words"),
    [
        (
            {"openvino_model.bin": {"lfs": {"sha256": "0" * 64, "size": 8448, "pointerSize": 1}}},
            "digest_mismatch",
            "sha256",
        ),
        (
            {"openvino_model.bin": {"lfs": {"sha256": "0" * 64, "size": 9, "pointerSize": 1}}},
            "wrong_size",
            "should have 9",
        ),
        ({"config.json": {"blobId": "0" * 40}}, "digest_mismatch", "git hash"),
        ({"config.json": {"size": 1}}, "wrong_size", "should have 1"),
        ({"config.json": {"blobId": None}}, "unsupported_model", "no sha256"),
        ({"openvino_model.xml": {"size": 1 << 40}}, "unsupported_model", "no sha256"),
        ({"": {"sha": "main"}}, "bad_source", "which commit"),
    ],
)
async def test_a_hub_that_lies_is_found_out(
    registry: Registry, hub_of: HubOf, lie: dict[str, Any], code: str, words: str
) -> None:
    hub = await hub_of(ir_files())
    hub.listed = lie
    with pytest.raises(ApiError, match=words) as failed:
        await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))
    assert failed.value.code == code
    assert nothing_left(registry)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"openvino_tokenizer.xml": None}, "lacks openvino_tokenizer.xml"),
        ({"openvino_model.xml": None}, "neither an OpenVINO model nor a GGUF file"),
        ({"config.json": b'{"model_type": "qwen2"}'}, "how long the context is"),
        ({"config.json": b"[]"}, "config.json is not a JSON object"),
    ],
)
async def test_a_repository_that_cannot_run_is_refused_before_its_large_files(
    registry: Registry, hub_of: HubOf, change: dict[str, bytes | None], words: str
) -> None:
    hub = await hub_of({name: data for name, data in {**ir_files(), **change}.items() if data is not None})
    with pytest.raises(ApiError, match=words) as refused:
        await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))
    assert refused.value.code == "unsupported_model"
    assert hub.cdn.asked == []
    assert nothing_left(registry)


async def test_names_that_climb_are_never_asked_for(registry: Registry, hub_of: HubOf) -> None:
    hub = await hub_of({**ir_files(), "../../evil.gguf": b"GGUF", "/etc/passwd": b"x", "a/../openvino_model.bin": b"x"})
    await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))
    assert not [asked.path for asked in hub.hub.asked if ".." in asked.path or "passwd" in asked.path]
    assert sorted(path.name for path in registry.root.rglob("*") if "evil" in path.name) == []


async def test_a_part_of_a_model_that_was_cut_is_refused(registry: Registry, hub_of: HubOf) -> None:
    await hub_of({"m-00001-of-00002.gguf": b"GGUF"})
    with pytest.raises(ApiError, match="cut in pieces"):
        await frames_of(puller_of(registry), hub_entry(f"hf:{REPOSITORY}"))


async def test_a_repository_beyond_the_limit_is_refused_before_anything_is_fetched(
    registry: Registry, hub_of: HubOf
) -> None:
    hub = await hub_of(ir_files())
    with pytest.raises(ApiError, match=r"local\.pull_limit_bytes") as large:
        await frames_of(puller_of(registry, orders=Orders(cap_bytes=9000, clocks=HASTY)), hub_entry(f"hf:{REPOSITORY}"))
    assert large.value.kind is Kind.TOO_LARGE
    assert hub.cdn.asked == []


async def test_a_client_pulls_from_the_hub_only_where_that_is_admitted(registry: Registry, hub_of: HubOf) -> None:
    await hub_of(ir_files())
    closed = Puller(registry, {}, orders=Orders(clocks=HASTY))
    with pytest.raises(ApiError) as refused:
        await frames_of(closed, f"hf:{REPOSITORY}")
    assert (refused.value.kind, refused.value.code) == (Kind.PERMISSION, "pull_not_allowed")
    admitted = Puller(registry, {}, pulls=Pulls.HUB, orders=Orders(clocks=HASTY))
    await frames_of(admitted, f"hf:{REPOSITORY}")
    assert registry.find("org/model") is not None


async def test_two_who_pull_one_repository_share_the_download(registry: Registry, hub_of: HubOf) -> None:
    files = ir_files()
    hub = await hub_of(files)
    hub.cdn.pages["/blob/openvino_detokenizer.bin"] = Served(files["openvino_detokenizer.bin"], stop_at=10)
    puller = puller_of(registry)
    first, second = (puller.pull_entry(hub_entry(f"hf:{REPOSITORY}")) for _ in range(2))
    await until_some_arrived(first)
    await until_some_arrived(second)
    assert puller.statistics() == {"downloads": 1, "followers": 2}
    await first.aclose()
    hub.cdn.go_on.set()
    assert [frame.status async for frame in second][-1] == "success"
