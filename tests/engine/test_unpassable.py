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


@pytest.mark.fault("F10", "F14")
async def test_a_line_of_the_other_route_in_the_middle_is_a_malformed_answer(tmp_path: Path):
    """And no fault of this server's, which the lab would not let pass."""
    async with placed(tmp_path, lambda url: PLAIN + provider("lab", url, dialect="ollama")) as place:
        async with calling(place.server.port, OLLAMA.path, talk("lab/m")) as client:
            asked = await place.asked()
            await asked.head(200, NDJSON)
            await asked.send(b'{"model":"m","message":{"role":"assistant","content":"well"},"done":false}\n')
            answer = await client.answer()
            await answer.until(b"well")
            await asked.send(b'{"response":"other","model":"m","done":false}\n')
            body = await answer.rest()
            asked.cut()
        record = await place.server.record(answer.call_id)
    assert OLLAMA.failed(body) is not None
    assert (record.status, record.kind) == (Status.FAILED, Kind.UPSTREAM)
    assert record.message == "malformed answer: a line of the sibling route"
