"""Cohere's SDK against a running server: its clients of today (v2), and those that it still has from before (v1)."""

from __future__ import annotations

import base64
import json
import logging
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import anyio
import cohere
import pytest
from anyio import to_thread
from cohere.core.api_error import ApiError as SdkError

from rivermouth.store.port import Status
from tests.sdk.cohere_seen import (
    BOTH,
    HI,
    OLD_ARGUMENTS,
    OLD_WEATHER,
    THINK,
    TIME,
    WAYS,
    WEATHER,
    ask_of,
    both_old_ways,
    both_ways,
    dropped,
    gathered,
    old_gathered,
    old_seen_of,
    old_streamed,
    old_whole,
    pieces,
    seen_of,
    streamed,
    whole,
)
from tests.sdk.conftest import BODY_LIMIT_BYTES, KEY
from tests.sdk.leader import Leader
from tests.sdk.said import ARGUMENTS, CITY, PIXEL, SEPARATORS, SIGNED, echo, thought
from tests.sdk.served import DEADLINE_S, Served
from tests.sdk.wire import Wire
from tests.tiny_gguf import TEXT

# The SDK leaves the socket of a stream that was left, or failed, to the collector; `conftest` lets it come by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def v2(back: Served) -> Iterator[cohere.ClientV2]:
    with cohere.ClientV2("any", base_url=f"{back.url}/cohere", max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def v1(back: Served) -> Iterator[cohere.Client]:
    with cohere.Client("any", base_url=f"{back.url}/cohere", max_retries=0) as sdk:
        yield sdk


@pytest.fixture(autouse=True)
def nothing_is_dropped(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.WARNING)
    yield
    assert dropped(caplog) == []


class TestText:
    @both_ways
    def test_text(self, v2: cohere.ClientV2, ask: Any) -> None:
        seen = ask(v2)
        assert (seen.text, seen.thinking, seen.calls, seen.finish) == (echo("Hi"), "", [], "COMPLETE")
        assert seen.input_tokens == 1
        assert seen.output_tokens is not None
        assert seen.output_tokens > 10
        assert seen.billed == (seen.input_tokens, seen.output_tokens)

    @pytest.mark.promise(160, 161, 162)
    @both_old_ways
    def test_text_of_before(self, v1: cohere.Client, ask: Any) -> None:
        seen = ask(v1)
        assert (seen.text, seen.calls, seen.finish) == (echo("Hi"), [], "COMPLETE")
        assert seen.input_tokens == 1
        assert seen.billed == (seen.input_tokens, seen.output_tokens)

    def test_the_events(self, v2: cohere.ClientV2) -> None:
        events = list(v2.chat_stream(model="scripted", messages=HI, max_tokens=2))
        assert [e.type for e in events] == [
            "message-start",
            "content-start",
            "content-delta",
            "content-delta",
            "content-end",
            "message-end",
        ]

    @pytest.mark.promise(160, 161, 162)
    def test_the_events_of_before(self, v1: cohere.Client) -> None:
        events = list(v1.chat_stream(model="scripted", message="Hi", max_tokens=2))
        assert [e.event_type for e in events] == ["stream-start", *["text-generation"] * 2, "stream-end"]
        end = events[-1]
        assert end.finish_reason == end.response.finish_reason == "MAX_TOKENS"

    @pytest.mark.promise(160, 161, 162)
    def test_the_bytes_of_before(self, back: Served) -> None:
        """R21: `Accept` changes nothing (F7)."""
        body = {"message": "Hi", "model": "scripted", "max_tokens": 2, "stream": True}
        with Wire(back.port, "POST", "/cohere/v1/chat", body, {"accept": "text/event-stream"}) as wire:
            lines = [json.loads(line) for line in wire.read().splitlines()]
        assert (wire.status, wire.headers["content-type"]) == (200, "application/json")
        start, *said, end = lines
        identity, text = start["generation_id"], "".join(piece.pop("text") for piece in said)
        assert identity == wire.headers["x-request-id"]
        assert start == {"is_finished": False, "event_type": "stream-start", "generation_id": identity}
        assert said == [{"is_finished": False, "event_type": "text-generation"}] * 2
        assert (end["is_finished"], end["event_type"], end["finish_reason"]) == (True, "stream-end", "MAX_TOKENS")
        response = end["response"]
        assert (response["id"], response["text"]) == (identity, text)
        assert response["message"] == {"role": "assistant", "content": text}

    def test_the_bytes(self, back: Served) -> None:
        body = {"messages": HI, "model": "scripted", "max_tokens": 2, "stream": True}
        with Wire(back.port, "POST", "/cohere/v2/chat", body, {"accept": "application/json"}) as wire:
            blocks = wire.read().decode("ascii").split("\n\n")
        assert (wire.status, wire.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert blocks.pop() == ""
        for named, data in (block.split("\n") for block in blocks):
            assert named == f"event: {json.loads(data.removeprefix('data: '))['type']}"

    def test_what_is_ignored_is_said(self, v2: cohere.ClientV2, v1: cohere.Client) -> None:
        """R30."""
        told = v2.with_raw_response.chat(model="scripted", messages=HI, safety_mode="STRICT", k=3, priority=1)
        assert set(told.headers["x-rivermouth-ignored"].split(", ")) == {"safety_mode", "top_k"}
        with v1.with_raw_response.chat_stream(model="scripted", message="Hi", prompt_truncation="AUTO") as stream:
            assert stream.headers["x-rivermouth-ignored"] == "prompt_truncation"

    @both_old_ways
    def test_a_client_that_names_no_model_gets_the_default(self, v1: cohere.Client, ask: Any) -> None:
        """R15."""
        assert ask(v1, model=None).text == echo("Hi")

    @both_ways
    def test_limits(self, v2: cohere.ClientV2, ask: Any) -> None:
        cut = ask(v2, max_tokens=3)
        assert (cut.finish, cut.output_tokens) == ("MAX_TOKENS", 3)
        stopped = ask(v2, stop_sequences=["nothing", "scripted"])
        assert (stopped.finish, stopped.text) == ("STOP_SEQUENCE", echo("Hi").partition("scripted")[0])

    @both_old_ways
    def test_limits_of_before(self, v1: cohere.Client, ask: Any) -> None:
        cut = ask(v1, max_tokens=3)
        assert (cut.finish, cut.output_tokens) == ("MAX_TOKENS", 3)
        stopped = ask(v1, stop_sequences=["scripted"])
        assert (stopped.finish, stopped.text) == ("COMPLETE", echo("Hi").partition("scripted")[0])

    @pytest.mark.fault("F5")
    @both_ways
    def test_separators_of_lines_are_text(self, v2: cohere.ClientV2, ask: Any) -> None:
        messages = [{"role": "user", "content": SEPARATORS}]
        assert ask(v2, model="parrot/any", messages=messages).text == SEPARATORS

    @pytest.mark.fault("F5")
    @both_old_ways
    def test_separators_of_lines_are_text_of_before(self, v1: cohere.Client, ask: Any) -> None:
        """Its reader splits lines at all of them, and leaves out what is then no JSON."""
        assert ask(v1, model="parrot/any", message=SEPARATORS).text == SEPARATORS

    @both_ways
    def test_instructions(self, v2: cohere.ClientV2, ask: Any) -> None:
        alone = ask(v2, messages=[{"role": "system", "content": "Hi"}])
        assert alone.text == f"You said nothing. {SIGNED}"
        before = ask(v2, messages=[{"role": "system", "content": "Be brief."}, *HI])
        assert before.text == echo("Hi")
        assert before.input_tokens > 1

    @both_ways
    def test_images_arrive(self, v2: cohere.ClientV2, ask: Any) -> None:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        messages = [{"role": "user", "content": [{"type": "text", "text": "Look"}, image]}]
        assert ask(v2, messages=messages).text == f'You said: "Look". I was given 1 image. {SIGNED}'

    @both_old_ways
    def test_the_talk_comes_back(self, v1: cohere.Client, ask: Any) -> None:
        """Clients send the `chat_history` of one answer with their next message."""
        first = v1.chat(model="scripted", message="Hi", preamble="Be brief.")
        assert first.chat_history is not None
        assert [(t.role, t.message) for t in first.chat_history] == [("USER", "Hi"), ("CHATBOT", echo("Hi"))]
        seen = ask(v1, message="And now?", chat_history=first.chat_history)
        assert seen.text == echo("And now?")
        assert seen.input_tokens > 10

    @both_ways
    def test_documents_are_shown(self, v2: cohere.ClientV2, ask: Any) -> None:
        documents = ["The river is deep.", {"id": "d2", "data": {"title": "Sea", "text": "It is wide."}}]
        assert ask(v2, documents=documents).input_tokens > ask(v2).input_tokens


class TestTools:
    @both_ways
    def test_a_call(self, v2: cohere.ClientV2, ask: Any) -> None:
        seen = ask(v2, tools=[WEATHER, TIME])
        ((_, name, arguments),) = seen.calls
        assert (name, arguments, seen.text, seen.finish) == ("weather", ARGUMENTS, "", "TOOL_CALL")

    @both_ways
    def test_parallel_calls(self, v2: cohere.ClientV2, ask: Any) -> None:
        seen = ask(v2, messages=BOTH, tools=[WEATHER])
        assert [(name, arguments) for _, name, arguments in seen.calls] == [("weather", ARGUMENTS)] * 2
        assert len({identity for identity, _, _ in seen.calls}) == 2

    @both_ways
    def test_forced_and_forbidden(self, v2: cohere.ClientV2, ask: Any) -> None:
        forced = ask(v2, tools=[TIME], tool_choice="REQUIRED")
        assert [(name, arguments) for _, name, arguments in forced.calls] == [("time", {})]
        assert ask(v2, tools=[WEATHER], tool_choice="NONE").text == echo("Hi")

    @both_ways
    def test_the_results_come_back(self, v2: cohere.ClientV2, ask: Any) -> None:
        """The SDK's own message is sent back as it is; results are found by id and not by position."""
        said = v2.chat(model="scripted", messages=BOTH, tools=[WEATHER]).message
        assert said.tool_calls is not None
        results = [
            {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "rain"},
            {
                "role": "tool",
                "tool_call_id": said.tool_calls[1].id,
                "content": [{"type": "document", "document": {"id": "1", "data": {"sky": "sun"}}}],
            },
        ]
        seen = ask(v2, messages=[*BOTH, said, *results[::-1]], tools=[WEATHER])
        assert seen.text == f'weather answered "{{"sky":"sun"}}". weather answered "rain". {SIGNED}'
        assert seen.finish == "COMPLETE"

    @both_old_ways
    def test_a_call_of_before(self, v1: cohere.Client, ask: Any) -> None:
        seen = ask(v1, tools=[OLD_WEATHER])
        ((_, name, arguments),) = seen.calls
        assert (name, arguments, seen.text, seen.finish) == ("weather", OLD_ARGUMENTS, "", "COMPLETE")

    @both_old_ways
    def test_the_results_of_before_come_back(self, v1: cohere.Client, ask: Any) -> None:
        """Once with the talk that led to them, as for several steps, and once without, as for one."""
        first = v1.chat(model="scripted", message="Try both tools.", tools=[OLD_WEATHER])
        assert first.tool_calls is not None
        results = [{"call": c, "outputs": [{"sky": f"rain {n}"}]} for n, c in enumerate(first.tool_calls)]
        answered = [f'weather answered "{{"sky":"rain {n}"}}".' for n in (0, 1)]
        talk: dict[str, Any] = {"message": "", "chat_history": first.chat_history}
        assert ask(v1, **talk, tools=[OLD_WEATHER], tool_results=results).text == f"{' '.join(answered)} {SIGNED}"
        alone = {"message": "Try both tools.", "tool_results": results, "force_single_step": True}
        assert ask(v1, **alone, tools=[OLD_WEATHER]).text == f"{' '.join(answered)} {SIGNED}"


class TestStructure:
    @both_ways
    def test_a_schema(self, v2: cohere.ClientV2, ask: Any) -> None:
        wanted = {"type": "json_object", "json_schema": CITY}
        assert json.loads(ask(v2, response_format=wanted).text) == ARGUMENTS
        assert isinstance(json.loads(ask(v2, response_format={"type": "json_object"}).text), dict)

    @both_old_ways
    def test_a_schema_of_before(self, v1: cohere.Client, ask: Any) -> None:
        wanted = {"type": "json_object", "schema": CITY}
        assert json.loads(ask(v1, response_format=wanted).text) == ARGUMENTS


class TestReasoning:
    @both_ways
    @pytest.mark.parametrize("fields", [{"thinking": THINK}, {"model": "scripted-think"}])
    def test_it_is_a_block_of_its_own(self, v2: cohere.ClientV2, ask: Any, fields: Any) -> None:
        seen = ask(v2, **fields)
        assert (seen.thinking, seen.text, seen.finish) == (thought("Hi"), echo("Hi"), "COMPLETE")

    def test_it_comes_before_the_text_and_goes_back(self, v2: cohere.ClientV2) -> None:
        said = v2.chat(model="scripted", messages=HI, thinking=THINK).message
        assert [b.type for b in said.content or []] == ["thinking", "text"]
        again = v2.chat(model="scripted", messages=[*HI, said, *HI], thinking=THINK)
        without = v2.chat(model="scripted", messages=[*HI, {"role": "assistant", "content": echo("Hi")}, *HI])
        assert again.usage.tokens.input_tokens > without.usage.tokens.input_tokens  # type: ignore[union-attr,operator]

    @both_old_ways
    def test_before_there_was_no_place_for_it(self, v1: cohere.Client, ask: Any) -> None:
        assert ask(v1, model="scripted-think").text == echo("Hi")


class TestErrors:
    @pytest.mark.fault("F15")
    @both_ways
    def test_an_unknown_model(self, v2: cohere.ClientV2, ask: Any) -> None:
        with pytest.raises(cohere.NotFoundError) as raised:
            ask(v2, model="nobody")
        assert "nobody" in raised.value.body["message"]
        assert raised.value.body["id"]

    @pytest.mark.fault("F15")
    @both_old_ways
    def test_an_unknown_model_of_before(self, v1: cohere.Client, ask: Any) -> None:
        with pytest.raises(cohere.NotFoundError, match="nobody"):
            ask(v1, model="nobody")

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "poet", "content": "Hi"}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}, "messages[0].content[0].text"),
            ({"max_tokens": "many"}, "max_tokens"),
            ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
            ({"tools": [WEATHER], "tool_choice": "PERHAPS"}, "tool_choice"),
            ({"thinking": {"type": "deep"}}, "thinking.type"),
            ({"response_format": {"type": "xml"}}, "response_format.type"),
        ],
    )
    @both_ways
    def test_a_wrong_value_names_its_field(self, v2: cohere.ClientV2, ask: Any, fields: Any, field: str) -> None:
        with pytest.raises(cohere.BadRequestError) as raised:
            ask(v2, request_options={"additional_body_parameters": fields})
        assert field in raised.value.body["message"]

    @both_old_ways
    def test_a_wrong_value_of_before_names_its_field(self, v1: cohere.Client, ask: Any) -> None:
        for fields, field in (
            ({"message": ""}, "message"),
            ({"chat_history": [{"role": "POET"}]}, "chat_history[0].role"),
        ):
            with pytest.raises(cohere.BadRequestError) as raised:
                ask(v1, request_options={"additional_body_parameters": fields})
            assert field in raised.value.body["message"]
        with pytest.raises(cohere.BadRequestError, match="connectors"):
            ask(v1, connectors=[{"id": "web-search"}])

    def test_keys(self, keyed: Served) -> None:
        for kind, asks in ((cohere.ClientV2, (whole, streamed)), (cohere.Client, (old_whole, old_streamed))):
            with kind(KEY, base_url=f"{keyed.url}/cohere", max_retries=0) as sdk:
                assert asks[1](sdk).text == echo("Hi")
            for wrong in ("wrong", ""):
                with kind(wrong, base_url=f"{keyed.url}/cohere", max_retries=0) as sdk:
                    for ask in asks:
                        with pytest.raises(cohere.UnauthorizedError):
                            ask(sdk)
                    with pytest.raises(cohere.UnauthorizedError):
                        sdk.models.list()

    def test_a_body_over_the_limit(self, v2: cohere.ClientV2, v1: cohere.Client) -> None:
        text = "x" * BODY_LIMIT_BYTES
        for ask in (whole, streamed):
            with pytest.raises(SdkError) as raised:
                ask(v2, messages=[{"role": "user", "content": text}])
            assert (raised.value.status_code, "message" in raised.value.body) == (413, True)
        with pytest.raises(SdkError) as raised:
            old_whole(v1, message=text)
        assert raised.value.status_code == 413

    def test_what_is_not_served(self, v2: cohere.ClientV2, v1: cohere.Client) -> None:
        with pytest.raises(cohere.NotFoundError, match="POST /cohere/v2/chat"):
            v2.rerank(model="scripted", query="a", documents=["b"])
        with pytest.raises(cohere.NotFoundError, match="POST /cohere/v1/chat"):
            v1.datasets.list()

    @pytest.mark.promise(78)
    def test_a_stream_where_nothing_streams(self, v2: cohere.ClientV2, v1: cohere.Client) -> None:
        """R14."""
        streaming: Any = {"additional_body_parameters": {"stream": True}}
        with pytest.raises(cohere.BadRequestError, match="stream"):
            v2.embed(model="scripted-embed", input_type="search_query", texts=["a"], request_options=streaming)
        with pytest.raises(cohere.BadRequestError, match="stream"):
            v1.embed(model="scripted-embed", texts=["a"], request_options=streaming)
        with pytest.raises(cohere.BadRequestError, match="stream"):
            v1.models.list(request_options={"additional_query_parameters": {"stream": "true"}})

    @pytest.mark.fault("F10", "F11", "F13", "F14")
    def test_an_error_in_the_stream(self, v2: cohere.ClientV2, back: Served) -> None:
        events = list(v2.chat_stream(model="scripted-error", messages=HI))
        said = "".join(e.delta.message.content.text for e in events if e.type == "content-delta")
        assert said == 'You said: "Hi". This is'
        assert [e.type for e in events[-2:]] == ["content-end", "message-end"]
        end = events[-1].delta
        assert (end.finish_reason, "fails after 5 tokens" in end.error) == ("ERROR", True)
        assert back.last_record().status is Status.FAILED
        with pytest.raises(SdkError) as raised:
            v2.chat(model="scripted-error", messages=HI)
        assert raised.value.status_code == 502

    @pytest.mark.fault("F10", "F11", "F14")
    def test_an_error_in_the_stream_of_before(self, v1: cohere.Client, back: Served) -> None:
        events = list(v1.chat_stream(model="scripted-error", message="Hi"))
        said = "".join(e.text for e in events if e.event_type == "text-generation")
        assert said == events[-1].response.text == 'You said: "Hi". This is'
        end = events[-1]
        assert (end.event_type, end.finish_reason, "fails after 5 tokens" in end.error) == ("stream-end", "ERROR", True)
        assert [e.event_type for e in events].count("stream-end") == 1
        assert back.last_record().status is Status.FAILED

    @pytest.mark.fault("F12")
    def test_an_empty_answer_is_an_error(self, v2: cohere.ClientV2, v1: cohere.Client) -> None:
        for asks, sdk in (((whole, streamed), v2), ((old_whole, old_streamed), v1)):
            for ask in asks:
                with pytest.raises(SdkError) as raised:
                    ask(sdk, model="scripted-empty")
                assert raised.value.status_code == 502


@pytest.mark.parametrize("client", WAYS)
@pytest.mark.promise(137, 174)
def test_each_piece_comes_as_the_generator_yields_it(v2: cohere.ClientV2, v1: cohere.Client, client: str) -> None:
    """The second piece does not exist before the client has the first."""
    sdk = v2 if client == "today" else v1
    with Leader() as leader, ThreadPoolExecutor(1) as thread:
        seen = pieces(sdk, client, **ask_of(client, leader.port, model="led/any"))
        first = thread.submit(next, seen)  # an SDK begins to ask when it is asked
        leader.say("one ")
        assert first.result(DEADLINE_S) == "one "
        for piece in ("two ✓ ", "three"):
            leader.say(piece)
            assert next(seen) == piece
        leader.end()
        assert list(seen) == []


@pytest.mark.parametrize("client", WAYS)
@pytest.mark.fault("F4")
def test_a_piece_of_a_megabyte(v2: cohere.ClientV2, v1: cohere.Client, client: str) -> None:
    """Larger than the lines that this SDK takes."""
    piece = "0123456789abcdeé" * 65536
    with Leader() as leader, ThreadPoolExecutor(1) as thread:
        sdk = v2 if client == "today" else v1
        seen = thread.submit("".join, pieces(sdk, client, **ask_of(client, leader.port, model="led/any")))
        leader.say(piece)
        leader.end()
        assert seen.result(DEADLINE_S) == piece


@pytest.mark.parametrize("client", WAYS)
class TestLeaving:
    @pytest.mark.promise(33, 72, 73, 75)
    @pytest.mark.fault("F31")
    def test_an_early_close_reaches_the_model(
        self, v2: cohere.ClientV2, v1: cohere.Client, back: Served, client: str
    ) -> None:
        sdk = v2 if client == "today" else v1
        with closing(pieces(sdk, client, **ask_of(client, model="scripted-slow"))) as stream:  # type: ignore[type-var]
            said = next(stream)
            assert back.inflight() == 1
        back.idle()
        record = back.last_record()
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
        assert len(said) <= record.text_chars < 600

    @pytest.mark.fault("F31", "F32")
    @pytest.mark.anyio
    async def test_a_cancelled_task_before_the_first_token(self, back: Served, client: str, anyio_backend: str) -> None:
        kind: Any = cohere.AsyncClientV2 if client == "today" else cohere.AsyncClient
        with Leader() as leader:
            sdk = kind("any", base_url=f"{back.url}/cohere", max_retries=0)
            async with sdk, anyio.create_task_group() as tasks:

                async def ask() -> None:
                    async for _ in sdk.chat_stream(**ask_of(client, leader.port, model="led/any")):
                        pass

                tasks.start_soon(ask)
                await to_thread.run_sync(leader.meet)
                tasks.cancel_scope.cancel()
            await to_thread.run_sync(leader.wait_gone)
            await to_thread.run_sync(back.idle)
        record = await to_thread.run_sync(back.last_record)
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")


class TestAsynchronously:
    @pytest.mark.anyio
    async def test_today(self, back: Served, anyio_backend: str) -> None:
        async with cohere.AsyncClientV2("any", base_url=f"{back.url}/cohere", max_retries=0) as sdk:
            events = [e async for e in sdk.chat_stream(model="scripted-think", messages=HI)]
            reply = await sdk.chat(model="scripted-think", messages=HI)
            with pytest.raises(cohere.NotFoundError):
                await sdk.chat(model="nobody", messages=HI)
        assert gathered(events)[:4] == seen_of(reply)[:4] == (echo("Hi"), thought("Hi"), [], "COMPLETE")

    @pytest.mark.anyio
    async def test_before(self, back: Served, anyio_backend: str) -> None:
        async with cohere.AsyncClient("any", base_url=f"{back.url}/cohere", max_retries=0) as sdk:
            events = [e async for e in sdk.chat_stream(model="scripted", message="Hi")]
            reply = await sdk.chat(model="scripted", message="Hi")
            vectors = await sdk.embed(model="scripted-embed", texts=["river"])
        assert old_gathered(events)[:4] == old_seen_of(reply)[:4] == (echo("Hi"), "", [], "COMPLETE")
        assert len(vectors.embeddings[0]) == 384  # type: ignore[index,arg-type]


def unpacked(text: str) -> tuple[float, ...]:
    data = base64.b64decode(text)
    return struct.unpack(f"<{len(data) // 4}f", data)


class TestOthers:
    @pytest.mark.promise(76)
    def test_embeddings(self, v2: cohere.ClientV2) -> None:
        ask: Any = {"model": "scripted-embed", "input_type": "search_document", "texts": ["river", "sea"]}
        reply = v2.embed(**ask, embedding_types=["float", "base64"])
        floats, packed = reply.embeddings.float_, reply.embeddings.base64
        assert floats is not None
        assert packed is not None
        assert [len(v) for v in floats] == [384, 384]
        assert [pytest.approx(unpacked(t), abs=1e-6) for t in packed] == floats
        assert (reply.response_type, reply.texts) == ("embeddings_by_type", ["river", "sea"])
        assert reply.meta is not None
        assert reply.meta.billed_units is not None
        assert reply.meta.billed_units.input_tokens == 2
        assert v2.embed(**ask).embeddings.float_ == floats
        inputs: Any = [{"content": [{"type": "text", "text": t}]} for t in ask.pop("texts")]
        assert v2.embed(**ask, inputs=inputs).embeddings.float_ == floats
        few = v2.embed(**ask, texts=["river"], output_dimension=8).embeddings.float_
        assert few is not None
        assert len(few[0]) == 8

    @pytest.mark.parametrize("kind", ["int8", "uint8", "binary", "ubinary"])
    def test_embeddings_in_the_vendors_own_scale_are_refused(self, v2: cohere.ClientV2, kind: Any) -> None:
        with pytest.raises(cohere.BadRequestError, match="embedding_types"):
            v2.embed(model="scripted-embed", input_type="search_query", texts=["a"], embedding_types=[kind])

    @pytest.mark.promise(76)
    @pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")  # of the SDK's own doing
    def test_embeddings_of_before(self, v1: cohere.Client) -> None:
        """Of 97 texts the SDK makes two calls, side by side, and one answer."""
        texts = ["river", *["sea"] * 96]
        plain = v1.embed(model="scripted-embed", texts=texts)
        assert (plain.response_type, len(plain.embeddings)) == ("embeddings_floats", 97)  # type: ignore[arg-type]
        typed = v1.embed(model="scripted-embed", texts=["river"], input_type="search_query", embedding_types=["float"])
        assert typed.response_type == "embeddings_by_type"
        assert typed.embeddings.float_ == plain.embeddings[:1]  # type: ignore[union-attr,index]
        with pytest.raises(cohere.BadRequestError):
            v1.embed(model="scripted-embed", images=[f"data:image/png;base64,{PIXEL}"])
        with pytest.raises(cohere.NotFoundError):
            v1.embed(model="nobody", texts=["a"])

    @pytest.mark.parametrize("kind", [cohere.ClientV2, cohere.Client])
    def test_models(self, back: Served, kind: Any) -> None:
        with kind("any", base_url=f"{back.url}/cohere", max_retries=0) as sdk:
            listed = {m.name: m.endpoints for m in sdk.models.list().models}
            assert {"scripted", "tiny:latest", "governed"} <= set(listed)
            assert (listed["scripted"], listed["scripted-embed"]) == (["chat"], ["embed"])
            assert sdk.models.get("tiny").context_length == 2048
            assert sdk.models.get("parrot/default").name == "parrot/default"
            with pytest.raises(cohere.NotFoundError, match="nobody"):
                sdk.models.get("nobody")

    def test_the_ids(self, v2: cohere.ClientV2, back: Served) -> None:
        raw = v2.with_raw_response.chat(model="scripted", messages=HI)
        assert raw.data.id == raw.headers["x-request-id"]
        assert back.record(raw.data.id).status is Status.COMPLETED
        with v2.with_raw_response.chat_stream(model="scripted", messages=HI) as stream:
            assert gathered(list(stream.data)).id == stream.headers["x-request-id"]

    @both_ways
    def test_a_local_model(self, v2: cohere.ClientV2, ask: Any) -> None:
        seen = ask(v2, model="tiny", temperature=0)
        assert (seen.text, seen.finish) == (TEXT, "COMPLETE")
