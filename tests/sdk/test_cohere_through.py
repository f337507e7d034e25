"""Cohere's SDK over an upstream that speaks one of its protocols: two servers, and the same answer as without one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import cohere
import pytest
from cohere.core.api_error import ApiError as SdkError

from rivermouth.ir.errors import Kind
from rivermouth.store.port import Status
from tests.sdk.cohere_seen import (
    OLD_WEATHER,
    THINK,
    WAYS,
    WEATHER,
    ask_of,
    clients,
    dropped,
    pieces,
)
from tests.sdk.conftest import served
from tests.sdk.cutter import Cutter
from tests.sdk.served import Served

# The SDK leaves the socket of a stream that was left, or failed, to the collector; `conftest` lets it come by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

DIALECTS: Final = {"v1": "cohere_v1", "v2": "cohere_v2"}


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory, back: Served, cutter: Cutter) -> Iterator[Served]:
    """A server whose models are those of `back`, by both protocols; and once more with a wire that is cut."""
    bases = {"via": back.url, "ended": f"{cutter.url}/ended", "torn": f"{cutter.url}/torn"}
    config = "[resilience]\nretries = 0\ncooldown = false\n" + "".join(
        f'[providers.{how}-{version}]\ndialect = "{dialect}"\nbase_url = "{base}/cohere/{version}"\n'
        for version, dialect in DIALECTS.items()
        for how, base in bases.items()
    )
    with served(tmp_path_factory.mktemp("passing"), config, scripted=False) as server:
        yield server


Sdks = dict[str, Any]


@pytest.fixture(scope="module")
def sdks(passing: Served) -> Iterator[Sdks]:
    with clients(passing.url) as made:
        yield made


@pytest.fixture(scope="module")
def direct(back: Served) -> Iterator[Sdks]:
    with clients(back.url) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_is_dropped(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.WARNING)
    yield
    assert dropped(caplog) == []


@pytest.mark.parametrize("client", WAYS)
@pytest.mark.parametrize("upstream", DIALECTS)
class TestThroughAnother:
    @pytest.mark.parametrize("streams", [False, True])
    @pytest.mark.parametrize("case", ["text", "tools", "stop", "length"])
    def test_the_answer_is_the_same(
        self, direct: Sdks, sdks: Sdks, client: str, upstream: str, streams: bool, case: str
    ) -> None:
        ask = WAYS[client][streams]
        fields = {
            "text": ask_of(client),
            "tools": ask_of(client, "Try both tools.", tools=[WEATHER if client == "today" else OLD_WEATHER]),
            "stop": ask_of(client, stop_sequences=["scripted"]),
            "length": ask_of(client, max_tokens=3),
        }[case]
        want = ask(direct[client], **fields)
        seen = ask(sdks[client], **fields, model=f"via-{upstream}/scripted")
        if case == "stop" and upstream == "v1":  # the older protocol has no word for it
            want = want._replace(finish="COMPLETE")
        assert seen._replace(id="") == want._replace(id="")

    def test_an_error_before_the_answer_keeps_its_kind(self, sdks: Sdks, client: str, upstream: str) -> None:
        for ask in WAYS[client]:
            with pytest.raises(cohere.NotFoundError, match="nobody"):
                ask(sdks[client], model=f"via-{upstream}/nobody")

    @pytest.mark.promise(59)
    @pytest.mark.fault("F10", "F11", "F13", "F14", "F16")
    @pytest.mark.parametrize("model", ["via-{}/scripted-error", "ended-{}/scripted", "torn-{}/scripted"])
    def test_a_failed_stream_has_one_bad_end(
        self, sdks: Sdks, passing: Served, client: str, upstream: str, model: str
    ) -> None:
        name = model.format(upstream)
        events = list(sdks[client].chat_stream(**ask_of(client, model=name)))
        if client == "today":
            said = "".join(e.delta.message.content.text for e in events if e.type == "content-delta")
            ends = [e.delta for e in events if e.type == "message-end"]
            assert [e.type for e in events].count("content-end") == 1
        else:
            said = "".join(e.text for e in events if e.event_type == "text-generation")
            ends = [e for e in events if e.event_type == "stream-end"]
            assert ends[0].response.text == said
        assert [(e.finish_reason, bool(e.error)) for e in ends] == [("ERROR", True)]
        failed = "scripted-error" in name
        assert said == ('You said: "Hi". This is' if failed else "You")
        record = passing.last_record()
        assert (record.status, record.kind) == (Status.FAILED, Kind.UPSTREAM if failed else Kind.TRUNCATED)
        with pytest.raises(SdkError) as raised:
            sdks[client].chat(**ask_of(client, model=name))
        assert raised.value.status_code == 502

    @pytest.mark.promise(33, 72, 75)
    @pytest.mark.fault("F31")
    def test_leaving_reaches_the_model_behind_both(
        self, sdks: Sdks, passing: Served, back: Served, client: str, upstream: str
    ) -> None:
        ask = ask_of(client, model=f"via-{upstream}/scripted-slow")
        with closing(pieces(sdks[client], client, **ask)) as stream:  # type: ignore[type-var]
            next(stream)
            assert (passing.inflight(), back.inflight()) == (1, 1)
        passing.idle()
        back.idle()
        for server in (passing, back):
            record = server.last_record()
            assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")

    def test_embeddings_and_models(self, direct: Sdks, sdks: Sdks, client: str, upstream: str) -> None:
        ask: Any = {"texts": ["river"], "input_type": "search_query", "embedding_types": ["float"]}
        ask |= {"batching": False} if client == "before" else {}
        want = direct[client].embed(model="scripted-embed", **ask).embeddings.float_
        seen = sdks[client].embed(model=f"via-{upstream}/scripted-embed", **ask)
        assert [pytest.approx(v) for v in seen.embeddings.float_] == want
        assert seen.meta.billed_units.input_tokens == 1
        listed = {m.name: m.endpoints for m in sdks[client].models.list().models}
        assert listed[f"via-{upstream}/scripted-embed"] == ["embed"]


@pytest.mark.parametrize("streams", [False, True])
def test_reasoning_passes_through_another(direct: Sdks, sdks: Sdks, streams: bool) -> None:
    ask = WAYS["today"][streams]
    want = ask(direct["today"], thinking=THINK)
    assert ask(sdks["today"], thinking=THINK, model="via-v2/scripted")._replace(id="") == want._replace(id="")
