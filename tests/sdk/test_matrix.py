"""Every SDK over every upstream dialect: two servers, real sockets, and the same answer as without the one between.

SDK -> front -> (openai | responses | anthropic | ollama over HTTP) -> back, which runs the scripted models
SDK -> back                                                      what it is compared with
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from itertools import product
from typing import Any, Final, Literal, get_args

import ollama
import openai
import pytest

from rivermouth.ir.errors import Kind
from rivermouth.store.port import Status
from tests.sdk.clients import CLIENTS, Ask, Client, Failed, Seen
from tests.sdk.conftest import UPSTREAMS
from tests.sdk.leader import Leader
from tests.sdk.said import CITY, PIXEL, SEPARATORS, echo
from tests.sdk.served import DEADLINE_S, Served
from tests.sdk.wire import Wire

Way = Literal["whole", "streamed"]

THOROUGH: Final = bool(os.environ.get("RIVERMOUTH_THOROUGH"))
NEW: Final = "responses"
QUICK: Final = {(NEW, NEW), (NEW, "anthropic"), ("anthropic", NEW)}
"""Of the pairs with OpenAI's newer protocol; the matrix of the codecs has all, and `make fault` runs them here too."""
PAIRS: Final = [p for p in product(CLIENTS, UPSTREAMS) if THOROUGH or NEW not in p or p in QUICK]
pairs = pytest.mark.parametrize(("client", "upstream"), PAIRS, ids=[f"{c}-over-{u}" for c, u in PAIRS])
ways = pytest.mark.parametrize("way", ["whole", "streamed"])

ASKS: Final[dict[str, Ask]] = {
    "text": Ask(),
    "system": Ask(system="Be brief, and say what you see."),
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
    "responses": ("stopped_by",),
    "anthropic": (),
    "ollama": ("stopped_by", "signed", "reasoning_tokens"),
}
NOTHING: Final = Seen()
HI: Final[Any] = [{"role": "user", "content": "Hi"}]


def told(seen: Seen, client: str, upstream: str) -> Seen:
    """What is left of it behind this upstream.

    An Anthropic client is always given a signature, if an empty one, and Responses demands a number of such tokens.
    """
    lost = {name: getattr(NOTHING, name) for name in LOST[upstream] if (client, name) != ("anthropic", "signed")}
    if client == "responses" and "reasoning_tokens" in lost:
        lost["reasoning_tokens"] = 0
    return seen._replace(**lost)


@pytest.fixture(scope="module")
def direct(back: Served) -> Iterator[dict[str, Client]]:
    yield from _clients(back)


@pytest.fixture(scope="module")
def through(front: Served) -> Iterator[dict[str, Client]]:
    yield from _clients(front)


@pytest.fixture(scope="module")
def wanted(direct: dict[str, Client]) -> Callable[[str, Way, str], Seen]:
    """What each client hears of each case without a server between: asked once, compared with over every upstream."""
    return cache(lambda client, way, case: getattr(direct[client], way)("scripted", ASKS[case]))


def _clients(server: Served) -> Iterator[dict[str, Client]]:
    made = {name: make(server.url) for name, make in CLIENTS.items()}
    yield made
    for client in made.values():
        client.close()


def asked_for(way: Way, case: str, client: str, upstream: str) -> bool:
    """Of each pair all that is plain; of the rest each case for each client: whole over one upstream, streamed over the
    two that come after it, and the next case over others.

    The matrices of the codecs and of the servers have every client over every upstream, and `make fault` runs all here.
    """
    over = [u for c, u in PAIRS if c == client]
    place = (over.index(upstream) - [*ASKS].index(case)) % len(over)
    return THOROUGH or case in ("text", "reasoning and tools") or (place == 0 if way == "whole" else place in (1, 2))


ANSWERS: Final = [
    (way, case, client, upstream)
    for way, case, (client, upstream) in product(get_args(Way), ASKS, PAIRS)
    if asked_for(way, case, client, upstream)
]


def test_each_client_asks_for_each_case_in_each_way_and_so_does_each_pair() -> None:
    assert {(way, case, client) for way, case, client, _ in ANSWERS} >= set(product(get_args(Way), ASKS, CLIENTS))
    assert {(case, upstream) for _, case, _, upstream in ANSWERS} == set(product(ASKS, UPSTREAMS))
    assert {(client, upstream) for _, _, client, upstream in ANSWERS} == set(PAIRS)


@pytest.mark.parametrize(
    ("way", "case", "client", "upstream"),
    ANSWERS,
    ids=[f"{case}-{way}-{client}-over-{upstream}" for way, case, client, upstream in ANSWERS],
)
@pytest.mark.thorough(quick=True)
@pytest.mark.fault("F7", "F19", "F23", "F24", "F25", "F27")
def test_the_answer_is_the_same(
    wanted: Callable[[str, Way, str], Seen],
    through: dict[str, Client],
    client: str,
    upstream: str,
    way: Way,
    case: str,
) -> None:
    want = wanted(client, way, case)
    seen = getattr(through[client], way)(f"via-{upstream}/scripted", ASKS[case])
    if case == "stop" and upstream == "responses":  # that protocol has no stop sequences
        assert seen.text == echo("Hi")
        return
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
@pytest.mark.parametrize("think", [False, True])
@pytest.mark.fault("F19", "F20", "F25")
def test_an_agents_two_turns(
    direct: dict[str, Client], through: dict[str, Client], client: str, upstream: str, think: bool
) -> None:
    """What the SDK gave back is sent back as it is: calls, ids, reasoning and signatures are taken again."""
    ask = Ask("Try both tools.", tool=CITY, think=think)
    want = direct[client].agent("scripted", ask, "rain")
    seen = through[client].agent(f"via-{upstream}/scripted", ask, "rain")
    assert want.text.count('answered "rain"') == 2
    if think and upstream in ("anthropic", "responses"):  # reasoning goes back to its maker's models alone
        assert (seen.input_tokens or 0) < (want.input_tokens or 0)
        seen, want = (s._replace(input_tokens=None, thinking="", reasoning_tokens=0, output_tokens=0, signed=False)
                      for s in (seen, want))  # fmt: skip
    assert seen == told(want, client, upstream)


@pairs
@pytest.mark.promise(137, 174)
def test_each_piece_goes_through_both_servers_at_once(
    through: dict[str, Client], front: Served, back: Served, client: str, upstream: str
) -> None:
    """The second piece does not exist before the client has the first."""
    with Leader() as leader, ThreadPoolExecutor(1) as thread:
        pieces = through[client].pieces(f"via-{upstream}/led/any", Ask(leader.port))
        first = thread.submit(next, pieces)  # an SDK begins to ask when it is asked
        leader.say("one ")
        assert first.result(DEADLINE_S) == "one "
        for piece in ("two ✓ ", "three"):
            leader.say(piece)
            assert next(pieces) == piece
        leader.end()
        assert list(pieces) == []


@pairs
@pytest.mark.fault("F4")
def test_a_piece_of_a_megabyte(through: dict[str, Client], back: Served, client: str, upstream: str) -> None:
    """One frame, larger than any buffer on its way."""
    piece = "0123456789abcdeé" * 65536
    with Leader() as leader, ThreadPoolExecutor(1) as thread:
        pieces = through[client].pieces(f"via-{upstream}/led/any", Ask(leader.port))
        seen = thread.submit("".join, pieces)
        leader.say(piece)
        leader.end()
        assert seen.result(DEADLINE_S) == piece


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
    record = front.last_record()
    assert (record.status, record.kind) == (Status.FAILED, Kind.TRUNCATED)
    with pytest.raises(Failed) as raised:
        through[client].whole(f"{how}-{upstream}/scripted", Ask())
    assert raised.value.status == 502


ROUTES: Final[dict[str, tuple[str, dict[str, Any], bytes]]] = {
    "openai": ("/v1/chat/completions", {"stream": True}, b'\n\ndata: {"error":{'),
    "responses": ("/v1/responses", {"stream": True, "input": "Hi"}, b"\n\nevent: response.failed\ndata: {"),
    "anthropic": ("/v1/messages", {"stream": True, "max_tokens": 99}, b'\n\nevent: error\ndata: {"type":"error",'),
    "ollama": ("/api/chat", {}, b'\n{"error":"'),
}
"""Each client's route, what it needs besides the talk, and how its last frame begins when the stream failed."""
GOOD_ENDS: Final = (b"[DONE]", b"message_stop", b"response.completed", b'"done":true', b'"finish_reason":"', b'"llmeu"')


@pairs
@pytest.mark.parametrize("model", ["via-{}/scripted-error", "ended-{}/scripted", "torn-{}/scripted"])
@pytest.mark.promise(4, 5, 18, 19, 59)
@pytest.mark.fault("F10", "F13", "F14")
def test_a_failed_stream_has_one_bad_end_and_no_good_one(front: Served, client: str, upstream: str, model: str) -> None:
    """On the bare socket, where no SDK stops reading at the first error; also where the frames are passed on."""
    path, fields, last = ROUTES[client]
    with Wire(front.port, "POST", path, {"model": model.format(upstream), "messages": HI, **fields}) as wire:
        body = wire.read()
    assert wire.status == 200
    assert body.count(last) == 1
    assert body.endswith(b"}\n") if client == "ollama" else body.endswith(b"}\n\n")
    assert len(body.partition(last)[2].strip().splitlines()) == 1
    assert [end for end in GOOD_ENDS if end in body] == []
    assert body.count(b'"content_block_start"') == body.count(b'"content_block_stop"')


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
@pytest.mark.parametrize(
    ("path", "fields", "field"),
    [
        ("/api/generate", {"prompt": "Hi", "suffix": "end"}, "suffix"),
        ("/api/generate", {"prompt": "Hi", "context": [1, 2]}, "context"),
        ("/v1/chat/completions", {"messages": HI, "tools": [{"type": "web_search"}]}, "tools[0]"),
        ("/v1/chat/completions", {"messages": HI, "modalities": ["text", "audio"]}, "modalities"),
    ],
)
def test_what_would_be_answered_wrongly_is_refused(
    front: Served, upstream: str, path: str, fields: dict[str, Any], field: str
) -> None:
    """By the first that cannot do it: the other protocol, or, where it was passed on as it came, the model."""
    with Wire(front.port, "POST", path, {"model": f"via-{upstream}/scripted", **fields}) as wire:
        error = wire.json()["error"]
    assert wire.status == 400
    assert field in (error if isinstance(error, str) else error["param"])


@pytest.mark.parametrize("upstream", ["openai", "anthropic"])
def test_what_only_an_engine_of_ones_own_can_do_is_said_to_be_ignored(front: Served, upstream: str) -> None:
    wishes = {"keep_alive": "5m", "raw": True, "options": {"num_ctx": 4096, "mirostat": 1}}
    body = {"model": f"via-{upstream}/scripted", "prompt": "Hi", **wishes}
    with Wire(front.port, "POST", "/api/generate", body) as wire:
        wire.read()
    ignored = set(wire.headers["x-rivermouth-ignored"].split(", "))
    assert {"keep_alive_s", "raw", "context_tokens", "options.mirostat"} <= ignored


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


class TestEmbeddings:
    @pytest.mark.parametrize("upstream", ["openai", "ollama"])
    def test_the_vectors_are_the_same(
        self, sdk: openai.OpenAI, openai_sdk: openai.OpenAI, ollama_sdk: ollama.Client, front: Served, upstream: str
    ) -> None:
        model, texts = f"via-{upstream}/scripted-embed", ["river", "mouth"]
        want = openai_sdk.embeddings.create(model="scripted-embed", input=texts, encoding_format="float")
        vectors = [pytest.approx(d.embedding, abs=1e-6) for d in want.data]
        for encoding in ({}, {"encoding_format": "float"}):
            seen = sdk.embeddings.create(model=model, input=texts, **encoding)  # type: ignore[arg-type]
            assert [d.embedding for d in seen.data] == vectors
            assert (seen.usage, seen.model) == (want.usage, model)
        with ollama.Client(host=front.url) as other:
            assert [list(v) for v in other.embed(model, texts).embeddings] == vectors
            assert list(other.embeddings(model, "river").embedding) == vectors[0]
            assert [len(v) for v in other.embed(model, texts, dimensions=8).embeddings] == [8, 8]

    def test_a_protocol_that_has_none(self, sdk: openai.OpenAI) -> None:
        with pytest.raises(openai.NotFoundError):
            sdk.embeddings.create(model="via-anthropic/scripted-embed", input="river")


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.promise(11, 20)
def test_ollamas_other_route(ollama_sdk: ollama.Client, front: Served, upstream: str) -> None:
    """Generate over every upstream, its frames and not those of chat, and load where there is nothing to load."""
    with ollama.Client(host=front.url) as other:
        model = f"via-{upstream}/scripted"
        want = ollama_sdk.generate("scripted", "Look", system="Be brief.", images=[PIXEL], think=True)
        whole = other.generate(model, "Look", system="Be brief.", images=[PIXEL], think=True)
        assert (whole.response, whole.thinking, whole.eval_count) == (want.response, want.thinking, want.eval_count)
        frames = list(other.generate(model, "Look", system="Be brief.", images=[PIXEL], think=True, stream=True))
        assert "".join(f.response or "" for f in frames) == want.response
        assert "".join(f.thinking or "" for f in frames) == want.thinking
        assert (frames[-1].done, frames[-1].response, frames[-1].prompt_eval_count) == (
            True,
            "",
            want.prompt_eval_count,
        )
        assert other.generate(model).done_reason == "load"


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

    @pytest.mark.fault("F6")
    def test_headers_are_made_here(self, sdk: openai.OpenAI, back: Served) -> None:
        """The upstream has an id of its own; the client gets this server's."""
        raw = sdk.chat.completions.with_raw_response.create(model="via-openai/scripted", messages=HI)
        reply = raw.parse()
        assert raw.headers["x-request-id"] == reply._request_id != back.last_record().id
        assert raw.headers.get_list("content-length") == [str(len(raw.content))]
