"""The HTTP status is held until there is something to say, and for how long a client waits without a sign of life."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.store.port import Status
from tests.engine.client import calling
from tests.engine.place import Place, gone, placed
from tests.engine.test_commit import BEFORE_CONTENT, with_status
from tests.engine.words import (
    ALL,
    ANTHROPIC,
    END,
    IN_BAND,
    OLLAMA,
    OPENAI,
    PLAIN,
    ROLE,
    Speaks,
    begin,
    events,
    model,
    provider,
    refusal,
    says,
    talk,
)
from tests.fakes import JSON, Asked

pytestmark = pytest.mark.anyio

HOLD_S: Final = 0.05
CLOCK_S: Final = 0.4
SIGNING: Final = (OPENAI, ANTHROPIC)
"""The dialects in which something may be sent while a client waits."""


@pytest.fixture(scope="module")
async def patient(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """Holds the status for as long as a test takes."""

    def config(url: str) -> str:
        return PLAIN + provider("up", url) + provider("hasty", url, first_token_s=0.1)

    async with placed(tmp_path_factory.mktemp("patient"), config) as made:
        yield made


@pytest.fixture(scope="module")
async def lively(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """Shows life after `HOLD_S`."""

    def config(url: str) -> str:
        clocks = provider("hasty", url, first_token_s=CLOCK_S) + provider("brisk", url, idle_s=CLOCK_S)
        timeouts = f"[timeouts]\nhold_s = {HOLD_S}\n"
        return PLAIN + timeouts + provider("up", url) + provider("next", url) + clocks + model("pair", "up", "next")

    async with placed(tmp_path_factory.mktemp("lively"), config) as made:
        yield made


class Refused(NamedTuple):
    """An HTTP error as a client sees it; `type` is the dialect's own word, where it has one."""

    status: int
    type: str | None


def seen(speaks: Speaks, reply: Any) -> str | None:
    return reply["error"]["type"] if speaks is not OLLAMA else None


class TestHttpErrors:
    """Before the first content an error has its own status, in the dialect's own envelope."""

    EXPECTED: Final[dict[str, tuple[Refused, Refused, Refused]]] = {
        "status 500": (Refused(502, "server_error"), Refused(502, "api_error"), Refused(502, None)),
        "status 503": (Refused(503, "server_error"), Refused(529, "overloaded_error"), Refused(503, None)),
        "status 429": (Refused(429, "rate_limit_error"), Refused(429, "rate_limit_error"), Refused(429, None)),
        "our key is refused": (Refused(502, "server_error"), Refused(502, "api_error"), Refused(502, None)),
        "closed within the head": (Refused(502, "server_error"), Refused(502, "api_error"), Refused(502, None)),
        "silence": (Refused(504, "server_error"), Refused(504, "timeout_error"), Refused(504, None)),
        "a cut after the role": (Refused(502, "server_error"), Refused(502, "api_error"), Refused(502, None)),
        "no content, well ended": (Refused(502, "server_error"), Refused(502, "api_error"), Refused(502, None)),
        "a malformed frame": (Refused(502, "server_error"), Refused(502, "api_error"), Refused(502, None)),
        "an error in the stream": (Refused(502, "server_error"), Refused(502, "api_error"), Refused(502, None)),
    }

    @pytest.mark.fault("F15", "F11", "F12", "F14")
    @pytest.mark.parametrize("failure", EXPECTED)
    @pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
    async def test_a_failure_before_content_is_an_http_error(
        self, patient: Place, speaks: Speaks, failure: str
    ) -> None:
        fails, kind = BEFORE_CONTENT[failure]
        wanted = "hasty/m" if kind is Kind.TIMEOUT else "up/m"
        async with calling(patient.server.port, speaks.path, talk(wanted)) as client:
            await fails(await patient.asked())
            answer = await client.answer()
            reply = await answer.json()
        assert answer.headers["content-type"] == "application/json"
        assert Refused(answer.status, seen(speaks, reply)) == self.EXPECTED[failure][ALL.index(speaks)]
        assert speaks.refused(reply)
        record = await patient.server.record(answer.call_id)
        assert (record.status, record.held_by_keepalive) == (Status.FAILED, False)

    @pytest.mark.fault("F15")
    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
    async def test_the_upstreams_wait_is_the_clients(self, patient: Place, speaks: Speaks, stream: bool) -> None:
        async with calling(patient.server.port, speaks.path, talk("up/m", stream=stream)) as client:
            await (await patient.asked()).answer(429, JSON, refusal("slow down"), retry_after="6.2")
            answer = await client.answer()
            assert (answer.status, answer.headers["retry-after"]) == (429, "7")
            assert speaks.refused(await answer.json()) == "slow down"
            if speaks is not OLLAMA:
                assert answer.headers["x-should-retry"] == "true"

    @pytest.mark.fault("F15")
    async def test_a_client_that_sends_again_may_use_the_same_connection(self, patient: Place) -> None:
        async with calling(patient.server.port, OPENAI.path, talk("up/m")) as client:
            await with_status(503)(await patient.asked())
            assert (await (await client.answer()).json())["error"]
            await client.send("POST", OPENAI.path, talk("up/m"))
            asked = await patient.asked()
            await begin(asked, ROLE, says("now"))
            await asked.end(END)
            body = await (await client.answer()).rest()
            assert OPENAI.text(body) == "now"


async def answers(asked: Asked, text: str) -> None:
    await begin(asked, ROLE, says(text))
    await asked.end(END)


@pytest.mark.fault("F37", "F8")
class TestKeepAlives:
    @pytest.mark.parametrize("speaks", SIGNING, ids=lambda s: s.name)
    async def test_a_slow_upstream_is_bridged_by_signs_of_life(self, lively: Place, speaks: Speaks) -> None:
        async with calling(lively.server.port, speaks.path, talk("up/m")) as client:
            asked = await lively.asked()
            answer = await client.answer()
            assert (answer.status, answer.headers["content-type"]) == (200, speaks.media)
            assert speaks.keep_alive is not None
            await answer.until(3 * speaks.keep_alive)
            await answers(asked, "at last")
            body = await answer.rest()
        assert speaks.text(body) == "at last"
        assert speaks.finished(body)
        assert body.startswith(3 * speaks.keep_alive)
        record = await lively.server.record(answer.call_id)
        assert (record.status, record.held_by_keepalive) == (Status.COMPLETED, True)

    @pytest.mark.fault("F14")
    @pytest.mark.parametrize("speaks", SIGNING, ids=lambda s: s.name)
    @pytest.mark.parametrize("failure", ["status 503", "a cut after the role", "an error in the stream"])
    async def test_a_failure_after_that_comes_in_the_stream(self, lively: Place, speaks: Speaks, failure: str) -> None:
        fails, kind = BEFORE_CONTENT[failure]
        async with calling(lively.server.port, speaks.path, talk("up/m")) as client:
            asked = await lively.asked()
            answer = await client.answer()
            await fails(asked)
            body = await answer.rest()
        assert answer.status == 200
        assert speaks.failed(body)
        assert not speaks.finished(body)
        assert speaks.text(body) == ""
        record = await lively.server.record(answer.call_id)
        assert (record.status, record.kind, record.held_by_keepalive) == (Status.FAILED, kind, True)

    @pytest.mark.fault("F17")
    @pytest.mark.parametrize("speaks", SIGNING, ids=lambda s: s.name)
    async def test_a_sign_of_life_does_not_keep_another_candidate_from_answering(
        self, lively: Place, speaks: Speaks
    ) -> None:
        async with calling(lively.server.port, speaks.path, talk("pair")) as client:
            asked = await lively.asked()
            answer = await client.answer()
            await begin(asked, ROLE, IN_BAND)
            await answers(await lively.asked(), "fine")
            body = await answer.rest()
        assert speaks.text(body) == "fine"
        assert speaks.failed(body) is None
        assert body.count(speaks.opening) == 1

    @pytest.mark.parametrize("speaks", SIGNING, ids=lambda s: s.name)
    async def test_a_sign_of_life_winds_no_clock(self, lively: Place, speaks: Speaks) -> None:
        async with calling(lively.server.port, speaks.path, talk("hasty/m")) as client:
            asked = await lively.asked()
            answer = await client.answer()
            body = await answer.rest()
            await gone(asked)
        assert body.count(speaks.keep_alive or b"") > 1
        assert "first token" in (speaks.failed(body) or "")
        record = await lively.server.record(answer.call_id)
        assert (record.kind, record.held_by_keepalive) == (Kind.TIMEOUT, True)

    @pytest.mark.parametrize("speaks", SIGNING, ids=lambda s: s.name)
    async def test_in_the_middle_of_an_answer_too(self, lively: Place, speaks: Speaks) -> None:
        async with calling(lively.server.port, speaks.path, talk("brisk/m")) as client:
            asked = await lively.asked()
            await begin(asked, ROLE, says("well"))
            answer = await client.answer()
            body = await answer.rest()
            await gone(asked)
        before, _, after = body.partition(b"well")
        assert after.count(speaks.keep_alive or b"") > 1
        assert "no token for" in (speaks.failed(body) or "")
        record = await lively.server.record(answer.call_id)
        assert (record.kind, record.held_by_keepalive) == (Kind.TIMEOUT, (speaks.keep_alive or b"") in before)

    async def test_where_nothing_may_be_sent_the_status_stays_held(self, lively: Place) -> None:
        """Another call's signs of life tell the time."""
        async with calling(lively.server.port, OLLAMA.path, talk("up/m")) as waiting:
            asked = await lively.asked()
            async with calling(lively.server.port, OPENAI.path, talk("up/m")) as other:
                await lively.asked()
                await (await other.answer()).until(4 * (OPENAI.keep_alive or b""))
            await with_status(503)(asked)
            answer = await waiting.answer()
            assert answer.status == 503
            assert OLLAMA.refused(await answer.json()) == "no"
        record = await lively.server.record(answer.call_id)
        assert (record.status, record.held_by_keepalive) == (Status.FAILED, False)

    async def test_a_client_that_does_not_stream_gets_none(self, lively: Place) -> None:
        async with calling(lively.server.port, OPENAI.path, talk("up/m", stream=False)) as waiting:
            asked = await lively.asked()
            async with calling(lively.server.port, OPENAI.path, talk("up/m")) as other:
                await lively.asked()
                await (await other.answer()).until(4 * (OPENAI.keep_alive or b""))
            await with_status(503)(asked)
            assert (await waiting.answer()).status == 503

    async def test_anthropics_sign_is_an_event_of_its_own(self, lively: Place) -> None:
        async with calling(lively.server.port, ANTHROPIC.path, talk("up/m")) as client:
            asked = await lively.asked()
            answer = await client.answer()
            await answer.until(ANTHROPIC.keep_alive or b"")
            await answers(asked, "hi")
            names = [name for name, _ in events(await answer.rest())]
        assert names[0] == "ping"
        assert next(n for n in names if n != "ping") == "message_start"
