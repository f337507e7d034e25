"""An upstream's answer that reads well and cannot be passed on as it is: the upstream's fault, told as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.store.port import Status
from tests.engine.client import calling
from tests.engine.place import placed
from tests.engine.words import OLLAMA, PLAIN, provider, talk

pytestmark = pytest.mark.anyio

NDJSON = "application/x-ndjson"


WELL = b'{"model":"m","message":{"role":"assistant","content":"well"},"done":false}\n'
MORE = b'{"model":"m","message":{"role":"assistant","content":", so"},"done":false}\n'
OTHER = b'{"response":"other","model":"m","done":false}\n'


@pytest.mark.fault("F10", "F14")
@pytest.mark.parametrize(
    "reads", [(WELL, MORE, OTHER), (WELL, MORE + OTHER), (WELL + MORE + OTHER,)], ids=["apart", "two", "one"]
)
async def test_a_line_of_the_other_route_in_the_middle_is_a_malformed_answer(tmp_path: Path, reads: tuple[bytes, ...]):
    """And no fault of this server, which the lab would not let pass.  What came before it arrives, however it came."""
    async with placed(tmp_path, lambda url: PLAIN + provider("lab", url, dialect="ollama")) as place:
        async with calling(place.server.port, OLLAMA.path, talk("lab/m")) as client:
            asked = await place.asked()
            await asked.head(200, NDJSON)
            first, *others = reads
            await asked.send(first)
            answer = await client.answer()
            for read in others:
                await answer.until(b"so" if read == OTHER else b"well")
                await asked.send(read)
            body = await answer.rest()
            asked.cut()
        record = await place.server.record(answer.call_id)
    assert OLLAMA.text(body) == "well, so"
    assert OLLAMA.failed(body) is not None
    assert (record.status, record.kind) == (Status.FAILED, Kind.UPSTREAM)
    assert record.message == "malformed answer: a line of the sibling route"
