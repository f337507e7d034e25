"""Ids on the wire, for clients that ask for them: each is how many bytes there are up to the end of its event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rivermouth.wire.sse import KEEP_ALIVE, SseReader, with_offset
from tests.engine.client import asking
from tests.engine.lab import Lab, lab
from tests.goldens.ways import body_of, match_of
from tests.resume.asgi import visit
from tests.resume.ways import EVERY, served_by

pytestmark = pytest.mark.anyio

IDS: Final = {"x-rivermouth-resumable": "ids", "content-type": "application/json"}
ONCE: Final = {"x-rivermouth-resumable": "1", "content-type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("ids"), served_by("scripted/scripted")) as server:
        yield server


def offsets(body: bytes) -> list[tuple[int, int]]:
    """Each id, and where its event really ends."""
    found, at = [], 0
    for block in body.replace(b"\r\n", b"\n").split(b"\n\n")[:-1]:
        at += len(block) + 2
        ids = [line[4:] for line in block.split(b"\n") if line.startswith(b"id: ")]
        assert len(ids) <= 1
        found += [(int(number), at) for number in ids]
    return found


EVENT: Final = st.sampled_from([b"data: {}\n\n", b"event: a\ndata: b\n\n", b"data:x\n\n", b"data: \xe2\x82\xac\n\n"])


@settings(max_examples=20)
@given(st.lists(st.lists(EVENT, min_size=1, max_size=4), max_size=20), st.integers(0, 10**7))
def test_every_id_is_an_offset_whatever_its_digits(reads: list[list[bytes]], before: int) -> None:
    at, plain, body = before, b"", b""
    for read in reads:
        data = with_offset(b"".join(read), at)
        at += len(data)
        plain += b"".join(read)
        body += data
        assert data.endswith(b"id: %d\n\n" % at)
    assert SseReader().feed(body) == SseReader().feed(plain)


@pytest.mark.parametrize(
    "data", [KEEP_ALIVE, b": a\n\n", b"retry: 5\n\n", b"data: {}\n\n: ping\n\n", b"data: cut", b""]
)
def test_what_ends_in_no_event_gets_no_id(data: bytes) -> None:
    """An id without data is what breaks clients."""
    assert with_offset(data, 7) == data


def test_lines_end_as_they_did() -> None:
    assert with_offset(b"data: {}\r\n\r\n", 0) == b"data: {}\r\nid: 20\r\n\r\n"


@pytest.mark.parametrize("name", EVERY)
async def test_only_event_streams_have_a_place_for_them(server: Lab, name: str) -> None:
    way = EVERY[name]
    answer = await server.run(visit(server, "POST", way.path, body_of(way), IDS))
    if not match_of(way).surface.stream_type.startswith("text/event-stream"):
        assert answer.status == 400
        assert b"no event stream" in answer.body
        return
    found = offsets(answer.body)
    assert found
    assert all(number == at for number, at in found)
    assert found[-1][0] == len(answer.body)
    plain = await server.run(visit(server, "POST", way.path, body_of(way), ONCE))
    assert b"\nid: " not in plain.body
    for number, at in found:
        rest = await server.run(
            visit(server, "GET", answer.headers["x-rivermouth-resume"], headers={"last-event-id": str(number)})
        )
        assert answer.body[:at] + rest.body == answer.body
        assert rest.status == (204 if at == len(answer.body) else 200)


async def test_a_document_has_none(server: Lab) -> None:
    body: dict[str, Any] = {**EVERY["openai_chat"].body, "stream": False}
    del body["stream_options"]
    async with asking(server.port, EVERY["openai_chat"].path, body, IDS) as answer:
        assert answer.status == 200
        assert "choices" in await answer.json()
