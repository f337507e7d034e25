"""Downloads from an address: resumed, shared, bounded, and every lie of a server found out."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.catalog import Entry
from rivermouth.local.models.references import web_entry
from rivermouth.local.models.registry import Registry, sha256_of
from rivermouth.local.sources import blocks, partials
from rivermouth.local.sources.gathered import Orders
from rivermouth.local.sources.partials import Partial
from rivermouth.local.sources.transfer import REDIRECTS_CAP, REFUSALS, redirected
from tests.local.fake_web import FakeWeb, Served
from tests.local.pulling import (
    HASTY,
    check_frames,
    frames_of,
    nothing_left,
    parts,
    puller_of,
    rest_of,
    until_some_arrived,
)

pytestmark = pytest.mark.anyio

PATH = "/models/tiny.gguf"


@pytest.fixture
def registry(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setattr(partials, "KEPT_FROM_BYTES", 1)
    monkeypatch.setattr("rivermouth.local.sources.transfer.READ_BYTES", 1 << 16)
    return Registry(data_dir / "models")


@pytest.fixture(scope="module")
def body(files: dict[str, Path]) -> bytes:
    return files["tiny"].read_bytes()


@pytest.fixture
async def web(anyio_backend: str) -> AsyncIterator[FakeWeb]:
    served = await FakeWeb().start()
    yield served
    await served.stop()


def entry_at(web: FakeWeb, body: bytes, path: str = PATH) -> Entry:
    return web_entry("mine", web.url + path, hashlib.sha256(body).hexdigest())


@pytest.mark.promise(24, 25, 26, 27, 28)
async def test_a_file_from_an_address(registry: Registry, web: FakeWeb, body: bytes) -> None:
    web.pages[PATH] = Served(body)
    entry = entry_at(web, body, f"{PATH}?token=secret")
    frames = await frames_of(puller_of(registry), entry)
    check_frames(frames, ("tiny.gguf", f"sha256:{hashlib.sha256(body).hexdigest()}", len(body)))
    model = registry.get("mine")
    assert model.path.read_bytes() == body
    assert model.manifest.source == f"{web.url}{PATH}"  # without what may be a secret
    assert parts(registry) == []


async def test_what_is_here_is_not_fetched_again(registry: Registry, web: FakeWeb, body: bytes) -> None:
    web.pages[PATH] = Served(body)
    await frames_of(puller_of(registry), entry_at(web, body))
    frames = await frames_of(puller_of(registry), entry_at(web, body))
    check_frames(frames, ("tiny.gguf", f"sha256:{hashlib.sha256(body).hexdigest()}", len(body)))
    assert len(web.asked) == 1


@pytest.mark.promise(33)
async def test_a_pull_that_was_left_goes_on_where_it_stopped(registry: Registry, web: FakeWeb, body: bytes) -> None:
    half = len(body) // 2
    web.pages[PATH] = Served(body, stop_at=half)
    pull = puller_of(registry).pull_entry(entry_at(web, body))
    await until_some_arrived(pull)
    await web.stopped.wait()
    await pull.aclose()
    await web.dropped.wait()
    assert nothing_left(registry, partial=True)
    (kept,) = parts(registry)
    assert 0 < kept <= half

    web.pages[PATH] = Served(body)
    frames = await frames_of(puller_of(registry), entry_at(web, body))  # a new process would do the same
    check_frames(frames, ("tiny.gguf", f"sha256:{hashlib.sha256(body).hexdigest()}", len(body)))
    assert frames[2].completed == kept  # told from there on
    assert web.ranges_asked() == [None, f"bytes={kept}-"]
    assert web.asked[1].headers["if-range"] == '"v1"'
    assert registry.get("mine").path.read_bytes() == body
    assert parts(registry) == []


@pytest.mark.parametrize("changed", [{"etag": '"v2"'}, {"ranges": False}])
async def test_a_server_that_cannot_go_on_starts_over(
    registry: Registry, web: FakeWeb, body: bytes, changed: dict[str, object]
) -> None:
    web.pages[PATH] = Served(body, stop_at=len(body) // 2)
    pull = puller_of(registry).pull_entry(entry_at(web, body))
    await until_some_arrived(pull)
    await pull.aclose()
    web.pages[PATH] = Served(body, **changed)  # type: ignore[arg-type]
    frames = await frames_of(puller_of(registry), entry_at(web, body))
    check_frames(frames, ("tiny.gguf", f"sha256:{hashlib.sha256(body).hexdigest()}", len(body)))
    assert registry.get("mine").path.read_bytes() == body


@pytest.mark.parametrize("unproven", [{"etag": None}, {"etag": 'W/"weak"'}, {"ranges": False}])
async def test_what_cannot_be_gone_on_with_is_not_kept(
    registry: Registry, web: FakeWeb, body: bytes, unproven: dict[str, object]
) -> None:
    web.pages[PATH] = Served(body, stop_at=len(body) // 2, **unproven)  # type: ignore[arg-type]
    pull = puller_of(registry).pull_entry(entry_at(web, body))
    await until_some_arrived(pull)
    await pull.aclose()
    assert parts(registry) == []
    assert nothing_left(registry)


async def test_a_connection_that_is_lost_is_taken_up_again(registry: Registry, web: FakeWeb, body: bytes) -> None:
    answers = iter([Served(body, stop_at=len(body) // 3, cut=True), Served(body, stop_at=len(body) // 2, cut=True)])
    web.pages[PATH] = lambda asked: next(answers, Served(body))
    frames = await frames_of(puller_of(registry), entry_at(web, body))
    check_frames(frames, ("tiny.gguf", f"sha256:{hashlib.sha256(body).hexdigest()}", len(body)))
    assert web.ranges_asked() == [None, f"bytes={len(body) // 3}-", f"bytes={len(body) // 2}-"]


async def test_a_server_that_always_cuts_is_given_up(registry: Registry, web: FakeWeb, body: bytes) -> None:
    web.pages[PATH] = Served(body, stop_at=len(body) // 3, cut=True)
    with pytest.raises(ApiError) as cut:
        await frames_of(puller_of(registry), entry_at(web, body))
    assert (cut.value.kind, cut.value.code) == (Kind.TRUNCATED, "cut_short")
    assert len(web.asked) == 1 + HASTY.tries
    assert nothing_left(registry, partial=True)


async def test_two_who_pull_share_one_download(registry: Registry, web: FakeWeb, body: bytes) -> None:
    web.pages[PATH] = Served(body, stop_at=len(body) // 2)
    puller = puller_of(registry)
    first, second = puller.pull_entry(entry_at(web, body)), puller.pull_entry(entry_at(web, body))
    seen = [await until_some_arrived(first), await until_some_arrived(second)]
    assert puller.statistics() == {"downloads": 1, "followers": 2}
    web.go_on.set()
    for already, pull in zip(seen, (first, second), strict=True):
        whole = already + await rest_of(pull)
        check_frames(whole, ("tiny.gguf", f"sha256:{hashlib.sha256(body).hexdigest()}", len(body)))
    assert len(web.asked) == 1


async def test_the_same_file_under_two_names_at_once_is_a_clear_answer(
    registry: Registry, web: FakeWeb, body: bytes
) -> None:
    """Two programs that pull one file into one folder would meet in the same way."""
    web.pages[PATH] = Served(body, stop_at=len(body) // 2)
    pull = puller_of(registry).pull_entry(entry_at(web, body))
    await until_some_arrived(pull)
    other = web_entry("other", web.url + PATH, hashlib.sha256(body).hexdigest())
    with pytest.raises(ApiError) as busy:
        await frames_of(puller_of(registry), other)
    assert (busy.value.kind, busy.value.code) == (Kind.OVERLOADED, "pull_busy")
    web.go_on.set()
    await rest_of(pull)
    assert registry.get("mine").path.read_bytes() == body


@pytest.mark.parametrize(
    ("served", "kind", "code", "words"),
    [
        ({"status": status}, kind, code, words) for status, (kind, code, words) in REFUSALS.items()
    ]
    + [
        ({"status": 500}, Kind.UPSTREAM, "source_failed", "status 500"),
        ({"status": 302}, Kind.UPSTREAM, "source_failed", "status 302"),
        ({"announced": -1}, Kind.UPSTREAM, "bad_source", "does not say how large"),
        ({"extra": {"Content-Encoding": "gzip"}}, Kind.UPSTREAM, "bad_source", "coding"),
        ({"announced": 1 << 40}, Kind.TOO_LARGE, "model_too_large", "may be pulled"),
        ({"status": 206, "extra": {"Content-Range": "bytes 5-9/10"}}, Kind.UPSTREAM, "bad_source", "another range"),
    ],
)  # fmt: skip
async def test_what_a_server_does_wrong_is_told_by_its_host(
    registry: Registry, web: FakeWeb, body: bytes, served: dict[str, object], kind: Kind, code: str, words: str
) -> None:
    web.pages[PATH] = Served(body, **served)  # type: ignore[arg-type]
    with pytest.raises(ApiError, match=words) as failed:
        await frames_of(puller_of(registry), entry_at(web, body, f"{PATH}?token=secret"))
    assert (failed.value.kind, failed.value.code) == (kind, code)
    assert "secret" not in failed.value.message
    assert nothing_left(registry)


async def test_other_bytes_than_were_named_are_not_kept(registry: Registry, web: FakeWeb, body: bytes) -> None:
    web.pages[PATH] = Served(body[:-1] + b"x")
    with pytest.raises(ApiError) as wrong:
        await frames_of(puller_of(registry), entry_at(web, body))
    assert wrong.value.code == "digest_mismatch"
    assert nothing_left(registry)


async def test_a_file_that_cannot_run_is_refused_after_its_digest_was_right(registry: Registry, web: FakeWeb) -> None:
    text = b"GGUF" + bytes(300_000)
    web.pages[PATH] = Served(text)
    with pytest.raises(ApiError, match=r"tiny\.gguf cannot be run here") as refused:
        await frames_of(puller_of(registry), entry_at(web, text))
    assert refused.value.code == "unsupported_model"
    assert nothing_left(registry)


async def test_redirects_are_followed_and_bounded(registry: Registry, web: FakeWeb, body: bytes) -> None:
    web.pages["/1"] = Served(status=302, extra={"Location": "/2"})
    web.pages["/2"] = Served(status=307, extra={"Location": f"{web.url}{PATH}"})
    web.pages[PATH] = Served(body)
    await frames_of(puller_of(registry), web_entry("mine", f"{web.url}/1", hashlib.sha256(body).hexdigest()))
    assert [asked.path for asked in web.asked] == ["/1", "/2", PATH]

    web.asked.clear()
    web.pages["/round"] = Served(status=302, extra={"Location": "/round"})
    with pytest.raises(ApiError, match="redirects more than") as endless:
        await frames_of(puller_of(registry), web_entry("round", f"{web.url}/round", "0" * 64))
    assert endless.value.code == "bad_source"
    assert len(web.asked) == REDIRECTS_CAP + 1


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://user:word@127.0.0.1/", "https://"]
)
async def test_a_redirect_to_what_is_no_address(registry: Registry, web: FakeWeb, location: str) -> None:
    web.pages[PATH] = Served(status=302, extra={"Location": location})
    with pytest.raises(ApiError, match="redirects to what is no address"):
        await frames_of(puller_of(registry), web_entry("mine", web.url + PATH, "0" * 64))


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("http://host.example/x", "from https to http"),
        ("https://127.0.0.1/x", "into a private network"),
        ("https://localhost/x", "into a private network"),
        ("https://[::1]/x", "into a private network"),
        ("https://169.254.169.254/latest", "into a private network"),
        ("https://10.0.0.1/x", "into a private network"),
        ("https://intranet/x", "into a private network"),
    ],
)
def test_where_a_redirect_must_not_lead(location: str, words: str) -> None:
    with pytest.raises(ApiError, match=words):
        redirected("https://host.example/a", location)


@pytest.mark.parametrize("location", ["https://other.example/x", "/x", "x?y=1", "//cdn.example/x", "https://1.1.1.1/x"])
def test_where_a_redirect_may_lead(location: str) -> None:
    assert redirected("https://host.example/a", location).startswith("https://")


async def test_an_address_where_nobody_answers(registry: Registry, web: FakeWeb) -> None:
    nobody = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = nobody.sockets[0].getsockname()[1]
    nobody.close()
    with pytest.raises(ApiError) as failed:
        await frames_of(puller_of(registry), web_entry("mine", f"http://127.0.0.1:{port}/x?token=secret", "0" * 64))
    assert (failed.value.kind, failed.value.code) == (Kind.NETWORK, "source_unreachable")
    assert "secret" not in failed.value.message
    assert nothing_left(registry)


async def test_a_server_that_falls_silent(registry: Registry, web: FakeWeb, body: bytes) -> None:
    web.pages[PATH] = Served(body, stop_at=len(body) // 2)
    orders = Orders(clocks=msgspec.structs.replace(HASTY, silence_s=0.05, tries=1))
    with pytest.raises(ApiError) as silent:
        await frames_of(puller_of(registry, orders=orders), entry_at(web, body))
    assert (silent.value.kind, silent.value.code) == (Kind.TIMEOUT, "source_silent")
    assert nothing_left(registry, partial=True)


async def test_a_disk_that_fills_up_gets_its_room_back(
    registry: Registry, web: FakeWeb, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.pages[PATH] = Served(body)
    written = Partial.write

    def full(part: Partial, block: bytes) -> None:
        written(part, block[:1000])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Partial, "write", full)
    with pytest.raises(ApiError) as failed:
        await frames_of(puller_of(registry), entry_at(web, body))
    assert (failed.value.status, failed.value.code) == (507, "disk_full")
    assert nothing_left(registry)


async def test_a_full_disk_is_told_before_the_body_is_read(
    registry: Registry, web: FakeWeb, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "SPARE_BYTES", 1 << 60)
    web.pages[PATH] = Served(body, stop_at=1)  # it would wait for ever
    with pytest.raises(ApiError) as failed:
        await frames_of(puller_of(registry), entry_at(web, body))
    assert failed.value.code == "disk_full"
    assert nothing_left(registry)


async def test_a_model_beyond_the_limit_is_refused(registry: Registry, web: FakeWeb, body: bytes) -> None:
    web.pages[PATH] = Served(body)
    with pytest.raises(ApiError) as large:
        await frames_of(puller_of(registry, orders=Orders(cap_bytes=len(body) - 1, clocks=HASTY)), entry_at(web, body))
    assert (large.value.kind, large.value.code) == (Kind.TOO_LARGE, "model_too_large")
    assert nothing_left(registry)


def test_what_is_kept_is_whole_again(registry: Registry, files: dict[str, Path]) -> None:
    """The sum that goes on from a part is the one of the whole file."""
    body = files["tiny"].read_bytes()
    folder = partials.Partials(registry.root)
    first = folder.open("a" * 64)
    first.restart(partials.Origin('"v1"', len(body)))
    first.write(body[:1000])
    first.close()
    again = folder.open("a" * 64)
    again.rehash(lambda: True)
    again.write(body[1000:])
    assert again.tally().sha256 == sha256_of(files["tiny"])
    again.discard()
    again.close()
    assert list(folder.root.iterdir()) == []


def test_parts_are_bounded_in_age_and_size(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = partials.Partials(registry.root)
    monkeypatch.setattr(partials, "TOTAL_CAP_BYTES", 250)
    for number, age_s in enumerate((10.0, 20.0, 30.0, partials.AGE_CAP_S + 60)):
        part = folder.open(str(number) * 64)
        part.restart(partials.Origin('"v1"', 1000))
        part.write(bytes(100))
        part.close()
        os.utime(part.path, (1e9 - age_s, 1e9 - age_s))
    held = folder.open("2" * 64)  # somebody writes to it: it stays
    (folder.root / "orphan.json").write_text("{}")
    folder.sweep(1e9)
    assert sorted(path.name[0] for path in folder.root.iterdir()) == ["0", "0", "1", "1", "2", "2"]
    held.close()
    folder.sweep(1e9)
    assert sorted(path.name[0] for path in folder.root.iterdir()) == ["0", "0", "1", "1"]
