"""Every SDK over every upstream dialect: two servers, real sockets, and the same answer as without the one between.

SDK -> front -> (openai | anthropic | ollama over HTTP) -> back, which runs the scripted models
SDK -> back                                                      what it is compared with
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import Any, Final, Literal

import openai
import pytest

from rivermouth.store.port import Status
from tests.sdk.clients import CLIENTS, Ask, Client, Failed, Seen
from tests.sdk.conftest import UPSTREAMS
from tests.sdk.said import CITY, SEPARATORS, echo
from tests.sdk.served import Served

Way = Literal["whole", "streamed"]

PAIRS: Final = list(product(CLIENTS, UPSTREAMS))
pairs = pytest.mark.parametrize(("client", "upstream"), PAIRS, ids=[f"{c}-over-{u}" for c, u in PAIRS])
ways = pytest.mark.parametrize("way", ["whole", "streamed"])

ASKS: Final[dict[str, Ask]] = {
    "text": Ask(),
    "tools": Ask(tool=CITY),
    "parallel tools": Ask("Try both tools.", tool=CITY),
    "tool results": Ask("Try both tools.", tool=CITY, results=("rain", "sun")),
    "reasoning": Ask(think=True),
    "reasoning and tools": Ask(think=True, tool=CITY),
    "images": Ask("Look", images=2),
    "json schema": Ask(schema=CITY),
    "stop": Ask(stop="scripted"),
    "length": Ask(limit=3),
}

# What the protocol between the two servers has no place for, and the client therefore goes without.
LOST: Final[dict[str, tuple[str, ...]]] = {
    "openai": ("stopped_by",),
    "anthropic": (),
    "ollama": ("stopped_by", "signed", "reasoning_tokens"),
}
NOTHING: Final = Seen()
HI: Final[Any] = [{"role": "user", "content": "Hi"}]


def told(seen: Seen, client: str, upstream: str) -> Seen:
    """What is left of it behind this upstream.  An Anthropic client is always given a signature, if an empty one."""
    lost = {name: getattr(NOTHING, name) for name in LOST[upstream] if (client, name) != ("anthropic", "signed")}
    return seen._replace(**lost)


@pytest.fixture(scope="module")
def direct(back: Served) -> Iterator[dict[str, Client]]:
    yield from _clients(back)


@pytest.fixture(scope="module")
def through(front: Served) -> Iterator[dict[str, Client]]:
    yield from _clients(front)


def _clients(server: Served) -> Iterator[dict[str, Client]]:
    made = {name: make(server.url) for name, make in CLIENTS.items()}
    yield made
    for client in made.values():
        client.close()


@pairs
@ways
@pytest.mark.parametrize("case", ASKS)
@pytest.mark.fault("F7", "F19", "F23", "F24", "F25", "F26", "F27", "F28")
def test_the_answer_is_the_same(
    direct: dict[str, Client], through: dict[str, Client], client: str, upstream: str, way: Way, case: str
) -> None:
    want = getattr(direct[client], way)("scripted", ASKS[case])
    seen = getattr(through[client], way)(f"via-{upstream}/scripted", ASKS[case])
    assert seen == told(want, client, upstream)


CUT: Final = '{"city":'
"""How far the scripted model comes with its call in one token."""
WRAPPED: Final = '{"input": "{\\"city\\":"}'


@pairs
@ways
def test_a_call_that_was_cut_is_never_completed_here(
    direct: dict[str, Client], through: dict[str, Client], client: str, upstream: str, way: Way
) -> None:
    """Where the wire takes text it is as the model wrote it; where it takes objects it is wrapped, or it is text."""
    ask = Ask(tool=CITY, limit=1)
    for seen in (
        getattr(direct[client], way)("scripted", ask),
        getattr(through[client], way)(f"via-{upstream}/scripted", ask),
    ):
        assert seen.finish == "length"
        if seen.calls:
            ((name, arguments),) = seen.calls
            # This SDK completes what was streamed by itself, and says so by its stop reason only.
            parsed_by_the_sdk = (client, way) == ("anthropic", "streamed") and arguments == "{}"
            assert (name, seen.text) == ("tool", "")
            assert arguments in (CUT, WRAPPED) or parsed_by_the_sdk
        else:
            assert CUT in seen.text


@pairs
@ways
@pytest.mark.fault("F15")
def test_an_error_before_the_answer_keeps_its_kind(
    through: dict[str, Client], client: str, upstream: str, way: Way
) -> None:
    with pytest.raises(Failed, match="nobody") as raised:
        getattr(through[client], way)(f"via-{upstream}/nobody", Ask())
    assert (raised.value.status, raised.value.text) == (404, "")


@pairs
@pytest.mark.fault("F10", "F11", "F14", "F16")
def test_an_error_in_the_answer_is_an_error(
    through: dict[str, Client], front: Served, client: str, upstream: str
) -> None:
    with pytest.raises(Failed, match="fails after 5 tokens") as raised:
        through[client].streamed(f"via-{upstream}/scripted-error", Ask())
    assert (raised.value.status, raised.value.text) == (200, 'You said: "Hi". This is')
    record = front.last_record()
    assert (record.status, record.finish_reason) == (Status.FAILED, None)
    assert record.text_chars == len(raised.value.text)
    with pytest.raises(Failed, match="fails after 5 tokens") as raised:
        through[client].whole(f"via-{upstream}/scripted-error", Ask())
    assert raised.value.status == 502


@pairs
@ways
@pytest.mark.fault("F12")
def test_an_empty_answer_is_an_error(through: dict[str, Client], client: str, upstream: str, way: Way) -> None:
    with pytest.raises(Failed) as raised:
        getattr(through[client], way)(f"via-{upstream}/scripted-empty", Ask())
    assert raised.value.status == 502


@pairs
@pytest.mark.parametrize("how", ["ended", "torn"])
@pytest.mark.promise(59)
@pytest.mark.fault("F10", "F16")
def test_a_wire_that_is_cut_is_an_error(
    through: dict[str, Client], front: Served, client: str, upstream: str, how: str
) -> None:
    """Also where HTTP says that this was all: the dialect's own end did not come."""
    with pytest.raises(Failed) as raised:
        through[client].streamed(f"{how}-{upstream}/scripted", Ask())
    assert (raised.value.status, raised.value.text) == (200, "You")
    assert front.last_record().status is Status.FAILED
    with pytest.raises(Failed) as raised:
        through[client].whole(f"{how}-{upstream}/scripted", Ask())
    assert raised.value.status == 502


@pairs
@pytest.mark.promise(33, 72, 75)
@pytest.mark.fault("F31")
def test_leaving_reaches_the_model_behind_both_servers(
    through: dict[str, Client], front: Served, back: Served, client: str, upstream: str
) -> None:
    with closing(through[client].pieces(f"via-{upstream}/scripted-slow", Ask())) as pieces:  # type: ignore[type-var]
        next(pieces)
        assert (front.inflight(), back.inflight()) == (1, 1)
    front.idle()
    back.idle()
    for server in (front, back):
        record = server.last_record()
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
        assert 0 < record.text_chars < 600


@pairs
@ways
def test_a_forced_call_is_made_or_refused(
    direct: dict[str, Client], through: dict[str, Client], client: str, upstream: str, way: Way
) -> None:
    """Ollama's protocol cannot force a call: then it is refused before anything is answered (R30)."""
    ask = Ask(tool=CITY, forced=True)
    model = f"via-{upstream}/scripted"
    if upstream == "ollama" and client != "ollama":
        with pytest.raises(Failed, match="tool") as raised:
            getattr(through[client], way)(model, ask)
        assert raised.value.status == 400
        return
    assert getattr(through[client], way)(model, ask).calls == getattr(direct[client], way)("scripted", ask).calls


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_the_models_of_the_upstream_are_listed(front: Served, upstream: str) -> None:
    """A provider's own list, by its own dialect, under the provider's name."""
    listed = {m["id"] for m in front.get("/v1/models")["data"]}
    assert {f"via-{upstream}/scripted", f"via-{upstream}/tiny:latest"} <= listed


@pairs
@ways
@pytest.mark.fault("F5")
def test_separators_of_lines_are_text(through: dict[str, Client], client: str, upstream: str, way: Way) -> None:
    seen = getattr(through[client], way)(f"via-{upstream}/parrot/any", Ask(SEPARATORS))
    assert seen.text == SEPARATORS


@pytest.fixture(scope="module")
def sdk(front: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{front.url}/v1", api_key="any", max_retries=0) as client:
        yield client


class TestOpenAi:
    """What only this client's protocol can ask for or show."""

    @pytest.mark.parametrize("upstream", UPSTREAMS)
    @pytest.mark.promise(57, 60, 71, 143)
    def test_usage_only_if_asked_for_and_the_block_of_this_server(self, sdk: openai.OpenAI, upstream: str) -> None:
        model = f"via-{upstream}/scripted"
        for options in ({}, {"stream_options": {"include_usage": True}}):
            chunks: list[Any] = list(sdk.chat.completions.create(model=model, messages=HI, stream=True, **options))  # type: ignore[call-overload]
            counted = [bool(c.usage) for c in chunks]
            assert counted == [False] * (len(chunks) - 1) + [bool(options)]
            assert {c.model for c in chunks} == {model}
            (block,) = [c.model_extra["llmeu"] for c in chunks if "llmeu" in c.model_extra]
            assert (block["provider"], block["model_used"]) == (f"via-{upstream}", "scripted")
        whole = sdk.chat.completions.create(model=model, messages=HI)
        assert (whole.model_extra or {})["llmeu"] == {**block, "trace_id": whole._request_id}
        assert whole.model == model

    @pytest.mark.parametrize("upstream", UPSTREAMS)
    def test_choices(self, sdk: openai.OpenAI, upstream: str) -> None:
        ask: Any = {"model": f"via-{upstream}/scripted", "messages": HI, "n": 2}
        if upstream != "openai":
            with pytest.raises(openai.BadRequestError) as raised:
                sdk.chat.completions.create(**ask)
            assert raised.value.param == "n"
            return
        want = [f"{echo('Hi')} (Choice {n} of 2.)" for n in (1, 2)]
        assert [c.message.content for c in sdk.chat.completions.create(**ask).choices] == want
        said = ["", ""]
        for chunk in sdk.chat.completions.create(**ask, stream=True):
            for choice in chunk.choices:
                said[choice.index] += choice.delta.content or ""
        assert said == want

    @pytest.mark.parametrize(("upstream", "ignored"), [("openai", None), ("anthropic", "seed"), ("ollama", None)])
    @pytest.mark.parametrize("stream", [False, True])
    def test_what_is_ignored_is_said(
        self, sdk: openai.OpenAI, upstream: str, ignored: str | None, stream: bool
    ) -> None:
        raw = sdk.chat.completions.with_raw_response.create(
            model=f"via-{upstream}/scripted", messages=HI, seed=7, stream=stream
        )
        raw.parse().close() if stream else raw.parse()  # type: ignore[union-attr]
        assert raw.headers.get("x-rivermouth-ignored") == ignored

    @pytest.mark.fault("F6", "F36")
    def test_headers_are_made_here(self, sdk: openai.OpenAI, back: Served) -> None:
        """The upstream has an id of its own; the client gets this server's."""
        raw = sdk.chat.completions.with_raw_response.create(model="via-openai/scripted", messages=HI)
        reply = raw.parse()
        assert raw.headers["x-request-id"] == reply._request_id != back.last_record().id
        assert raw.headers.get_list("content-length") == [str(len(raw.content))]
