"""The HTTP transport on real sockets: every way in which an upstream answers, fails, or is left."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Error, Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta
from rivermouth.ir.fold import fold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import EmbedRequest, Message, Original, Request, Role, Text
from rivermouth.providers.http import HttpProvider, HttpTarget, Shape, shape_of
from rivermouth.providers.provider import Batch, Upstream
from rivermouth.secrets import Secret
from rivermouth.wire import json
from rivermouth.wire.frame import Frame
from rivermouth.wire.sse import data as sse
from rivermouth.wire.stencil import Stencil
from tests.fakes import JSON, NDJSON, SSE, Asked, FakeUpstream, Script
from tests.providers.tiny import tiny, tiny_ndjson, with_embeddings

pytestmark = pytest.mark.anyio

KEY = "key-that-must-not-show-1234"
SAID: list[Event] = [Start(), PartStart(0, PartKind.TEXT), TextDelta(0, "a"), TextDelta(0, "b")]
END: list[Event] = [PartEnd(0), Finish(Reason.STOP)]


def frame(**word: str) -> bytes:
    return sse(json.encode(word))


HELLO = frame(say="a") + frame(say="b")
DONE = frame(end="stop")


def talk(*, stream: bool = True) -> Request:
    return Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),), stream=stream)


@asynccontextmanager
async def provider(url: str, dialect: Dialect | None = None, **more: object) -> AsyncIterator[HttpProvider]:
    target = HttpTarget(name="lab", dialect=dialect or tiny(), base_url=url, api_key=Secret(KEY), **more)  # type: ignore[arg-type]
    made = HttpProvider(target)
    try:
        yield made
    finally:
        await made.close()


def ignore(field: str) -> None:
    """A `warn` for tests that look at something else."""


async def opened(made: HttpProvider, *, stream: bool = True, same: bool = False) -> Upstream:
    return await made.open(talk(stream=stream), "m", same_dialect=same, warn=ignore)


async def batches(upstream: Upstream) -> list[Batch]:
    """All batches up to the one end; the order of the events is legal."""
    grammar = Grammar()
    found = []
    while not grammar.done:
        batch = await upstream.read()
        grammar.feed_all(batch.events)
        found.append(batch)
    return found


async def events(upstream: Upstream) -> list[Event]:
    try:
        return [event for batch in await batches(upstream) for event in batch.events]
    finally:
        await upstream.close()


async def until_cut(upstream: Upstream) -> tuple[list[Event], ApiError]:
    """What came before the read that raised, and what it raised."""
    found: list[Event] = []
    try:
        while True:
            found += (await upstream.read()).events
    except ApiError as error:
        return found, error


async def answered(script: Script, *, stream: bool = True, dialect: Dialect | None = None) -> list[Event]:
    """The events of one answer given by `script`."""
    async with FakeUpstream(script) as fake, provider(fake.url, dialect) as made:
        return await events(await opened(made, stream=stream))


async def failure(script: Script, *, stream: bool = True, dialect: Dialect | None = None) -> ApiError:
    """The error, however it is told: raised or as the last event."""
    try:
        last = (await answered(script, stream=stream, dialect=dialect))[-1]
    except ApiError as error:
        return error
    assert isinstance(last, Error)
    return last.error


def whole(status: int, media: str | None, body: bytes, **headers: str) -> Script:
    async def script(asked: Asked) -> None:
        await asked.answer(status, media, body, **headers)

    return script


class TestRequest:
    async def test_it_carries_the_key_and_our_headers_and_nothing_else(self) -> None:
        headers = {"X-Team": Secret("team-seven-secret")}
        async with (
            FakeUpstream(whole(200, SSE, HELLO + DONE)) as fake,
            provider(fake.url + "/v1/", headers=headers) as made,
        ):
            await events(await opened(made))
            asked = fake.requests[0]
        assert (asked.method, asked.path) == ("POST", "/v1/talk")
        assert json.decode(asked.body) == {"model": "m", "stream": True, "seed": 1}
        agent = asked.headers.pop("user-agent")
        assert agent.startswith("rivermouth/")
        assert asked.headers == {
            "host": fake.url.removeprefix("http://"),
            "content-type": "application/json",
            "content-length": str(len(asked.body)),
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "authorization": f"Bearer {KEY}",
            "x-tiny": "1",
            "x-team": "team-seven-secret",
        }

    async def test_azures_paths_name_the_model_and_the_version_and_its_key_has_a_header_of_its_own(self) -> None:
        how = {"key_header": "api-key", "api_version": "2024-10-21"}
        async with FakeUpstream(whole(200, SSE, HELLO + DONE)) as fake, provider(fake.url + "/openai", **how) as made:
            await events(await made.open(talk(), "my gpt/4", same_dialect=False, warn=ignore))
            asked = fake.requests[0]
            with pytest.raises(ApiError, match="cannot list"):
                await made.models()
        assert asked.path == "/openai/deployments/my%20gpt%2F4/talk?api-version=2024-10-21"
        assert asked.headers["api-key"] == KEY
        assert "authorization" not in asked.headers

    @pytest.mark.fault("F36")
    async def test_nothing_that_the_client_sent_besides_its_request_travels_on(self) -> None:
        request = Request(
            model="m",
            messages=(),
            stream=True,
            user="u-1",
            original=Original("other", {"authorization": json.raw("Bearer client-key")}),
        )
        async with FakeUpstream(whole(200, SSE, HELLO + DONE)) as fake, provider(fake.url) as made:
            await events(await made.open(request, "m", same_dialect=False, warn=ignore))
            asked = fake.requests[0]
        assert b"client-key" not in asked.body + repr(asked.headers).encode()

    async def test_losses_are_told(self) -> None:
        lost: list[str] = []
        async with FakeUpstream(whole(200, SSE, HELLO + DONE)) as fake, provider(fake.url, quirks=("no_seed",)) as made:
            await events(await made.open(talk(), "m", same_dialect=False, warn=lost.append))
            assert lost == ["colour", "seed"]
            assert json.decode(fake.requests[0].body) == {"model": "m", "stream": True}

    async def test_a_large_body_arrives_whole(self) -> None:
        text = "x" * 3_000_000

        def build(request: Request, model: str) -> object:
            from rivermouth.dialects.dialect import Outgoing

            return Outgoing(path="/talk", body=json.encode({"text": text}))

        import msgspec

        dialect = msgspec.structs.replace(tiny(), build_request=build)
        async with FakeUpstream(whole(200, SSE, HELLO + DONE)) as fake, provider(fake.url, dialect) as made:
            await events(await opened(made))
            assert json.decode(fake.requests[0].body) == {"text": text}


class TestStream:
    async def test_each_read_gives_what_arrived_at_once(self) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            await asked.head(200, SSE)
            upstream = await opening
            await asked.send(HELLO)
            assert await upstream.read() == Batch(SAID)
            await asked.send(b": keep-alive\n\n")
            assert await upstream.read() == Batch([])
            await asked.send(DONE[:5])
            assert await upstream.read() == Batch([])
            await asked.end(DONE[5:])
            assert await upstream.read() == Batch(END)
            await upstream.close()

    async def test_a_batch_that_is_not_taken_where_it_arrives_is_read_once(self) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            await asked.head(200, SSE)
            upstream = await opening
            passed: list[Batch] = []
            offered = asyncio.Event()

            class Once:
                def take(self, batch: Batch) -> bool:
                    passed.append(batch)
                    offered.set()
                    return len(passed) == 1

                def plain(self, part: int, upstream: Stencil) -> None:
                    """This one reads everything."""

            reading = asyncio.ensure_future(upstream.read(Once()))
            await asyncio.sleep(0)
            await asked.send(frame(say="a"))
            await offered.wait()
            assert passed == [Batch(SAID[:3])]
            assert not reading.done()
            await asked.send(frame(say="b"))
            await asked.send(DONE)
            assert await reading == passed[1]
            assert passed[1].events[0] == SAID[3]
            await asked.end()
            rest = passed[1].events[1:] or (await upstream.read()).events
            assert rest == END
            await upstream.close()

    @pytest.mark.parametrize("piece", [1, 2, 7])
    @pytest.mark.fault("F2")
    async def test_the_events_do_not_depend_on_the_pieces(self, piece: int) -> None:
        body = HELLO + DONE

        async def script(asked: Asked) -> None:
            await asked.head(200, SSE)
            for i in range(0, len(body), piece):
                await asked.send(body[i : i + piece])
            await asked.end()

        assert await answered(script) == SAID + END

    async def test_frames_are_kept_for_a_client_of_the_same_dialect(self) -> None:
        async with FakeUpstream(whole(200, SSE, HELLO + DONE)) as fake, provider(fake.url) as made:
            upstream = await opened(made, same=True)
            found = await batches(upstream)
            await upstream.close()
        frames = [f for batch in found for f in batch.frames or []]
        assert frames == [
            (Frame("", b'{"say":"a"}'), 3),
            (Frame("", b'{"say":"b"}'), 1),
            (Frame("", b'{"end":"stop"}'), 2),
        ]

    async def test_nothing_after_the_end_is_read(self) -> None:
        assert await answered(whole(200, SSE, HELLO + DONE + HELLO + frame(error="late"))) == SAID + END

    async def test_the_error_in_the_stream_is_the_providers(self) -> None:
        error = await failure(whole(200, SSE, HELLO + frame(error="overheated")))
        assert (error.kind, error.message, error.provider) == (Kind.UPSTREAM, "overheated", "lab")

    async def test_a_last_frame_without_its_line_end_counts_when_it_is_whole(self) -> None:
        assert await answered(whole(200, SSE, HELLO + DONE.rstrip())) == SAID + END
        line = b'{"say":"a"}\n{"say":"b"}\n{"end":"stop"}'
        assert await answered(whole(200, NDJSON, line), dialect=tiny_ndjson()) == SAID + END

    @pytest.mark.fault("F10", "F16")
    @pytest.mark.parametrize("cut", range(1, len(HELLO + DONE) - 2, 5))
    async def test_a_proper_http_end_is_no_end_of_the_answer(self, cut: int) -> None:
        error = await failure(whole(200, SSE, (HELLO + DONE)[:cut]))
        assert (error.kind, error.provider) == (Kind.TRUNCATED, "lab")

    @pytest.mark.fault("F12")
    async def test_an_empty_stream_is_a_failure(self) -> None:
        assert (await failure(whole(200, SSE, b""))).kind is Kind.TRUNCATED

    @pytest.mark.parametrize("how", ["cut", "reset"])
    @pytest.mark.fault("F10")
    async def test_what_came_before_a_cut_is_kept_and_the_cut_is_told(self, how: str) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            await asked.head(200, SSE)
            upstream = await opening
            await asked.send(HELLO)
            assert (await upstream.read()).events == SAID
            await asked.send(frame(say="c"))
            if how == "cut":
                asked.cut()
            else:
                asked.reset()
            found, error = await until_cut(upstream)
            assert (error.kind, error.provider) == (Kind.TRUNCATED, "lab")
            if how == "cut":
                assert found == [TextDelta(0, "c")]
            with pytest.raises(ApiError):
                await upstream.read()
            await upstream.close()

    async def test_frames_and_the_cut_that_arrive_together_are_told_apart(self) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            await asked.head(200, SSE, chunked=False, content_length="1000")
            upstream = await opening
            await asked.raw(HELLO)
            asked.cut()
            await asked.gone()
            assert (await upstream.read()).events == SAID
            with pytest.raises(ApiError) as caught:
                await upstream.read()
            assert caught.value.kind is Kind.TRUNCATED
            await upstream.close()

    @pytest.mark.fault("F17")
    @pytest.mark.parametrize(
        "bad", [b"data: {nonsense\n\n", b"data: [1]\n\n", b"data: \xff\n\n", b'data: {"say": "\n\n']
    )
    async def test_malformed_frames_are_an_error_after_what_was_good(self, bad: bytes) -> None:
        found = await answered(whole(200, SSE, HELLO + bad + DONE))
        assert found[:-1] == SAID
        last = found[-1]
        assert isinstance(last, Error)
        assert (last.error.kind, last.error.code, last.error.provider) == (Kind.UPSTREAM, "malformed", "lab")

    @pytest.mark.fault("F4")
    async def test_a_frame_above_the_cap_is_an_error(self) -> None:
        from rivermouth.wire.sse import SseReader

        small = tiny(lambda: SseReader(cap_bytes=1000))
        error = await failure(whole(200, SSE, frame(say="a") + b"data: " + b"x" * 2000), dialect=small)
        assert error.kind is Kind.UPSTREAM
        assert "larger than 1000 bytes" in error.message

    @pytest.mark.fault("F4")
    async def test_a_megabyte_in_one_frame_passes(self) -> None:
        text = "é😀" * 150_000
        found = await answered(whole(200, SSE, frame(say=text) + DONE))
        assert fold(found).choices[0].text == text


class TestShape:
    """F7: what comes back is read as what it is, whatever was asked."""

    @pytest.mark.fault("F7")
    async def test_a_document_for_a_stream(self) -> None:
        found = await answered(whole(200, JSON, b'{"text":["ab"]}'))
        assert fold(found).choices[0].text == "ab"

    @pytest.mark.fault("F7")
    async def test_a_stream_for_a_document(self) -> None:
        found = await answered(whole(200, SSE, HELLO + DONE), stream=False)
        assert fold(found).choices[0].text == "ab"

    async def test_a_document_for_a_document_keeps_its_bytes_for_the_same_dialect(self) -> None:
        body = b'{"text": ["ab"]}'
        async with FakeUpstream(whole(200, JSON, body)) as fake, provider(fake.url) as made:
            for same, kept in ((True, body), (False, None)):
                upstream = await opened(made, stream=False, same=same)
                batch = await upstream.read()
                await upstream.close()
                assert (batch.body, fold(batch.events).choices[0].text) == (kept, "ab")
            assert fake.requests[0].headers["accept"] == "application/json"
            assert fake.connections == 1

    @pytest.mark.parametrize("media", ["text/html", "text/html; charset=utf-8"])
    async def test_a_web_page_is_an_error(self, media: str) -> None:
        for stream in (True, False):
            error = await failure(whole(200, media, b"<html>login</html>"), stream=stream)
            assert error.kind is Kind.UPSTREAM
            assert "web page" in error.message

    @pytest.mark.parametrize("media", [None, "text/plain", "application/octet-stream"])
    async def test_a_type_that_says_nothing_is_read_as_what_was_asked(self, media: str | None) -> None:
        assert await answered(whole(200, media, HELLO + DONE)) == SAID + END
        found = await answered(whole(200, media, b'{"text":["ab"]}'), stream=False)
        assert fold(found).choices[0].text == "ab"

    @pytest.mark.parametrize(
        ("media", "stream", "want"),
        [
            ("text/event-stream; charset=utf-8", True, Shape.STREAM),
            ("TEXT/EVENT-STREAM", False, Shape.STREAM),
            ("application/x-ndjson", False, Shape.STREAM),
            ("application/json", True, Shape.DOCUMENT),
            ("application/json", False, Shape.DOCUMENT),
            ("text/html", True, Shape.PAGE),
            ("", True, Shape.STREAM),
            ("", False, Shape.DOCUMENT),
        ],
    )
    def test_the_table(self, media: str, stream: bool, want: Shape) -> None:
        assert shape_of(media, stream, frozenset({"text/event-stream"})) is want

    def test_json_is_a_stream_where_the_dialect_streams_under_that_name(self) -> None:
        both = frozenset({"application/x-ndjson", "application/json"})
        assert shape_of("application/json", True, both) is Shape.STREAM
        assert shape_of("application/json", False, both) is Shape.DOCUMENT

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"text":[]}', b"\xff"])
    async def test_a_document_that_is_none_is_malformed(self, body: bytes) -> None:
        error = await failure(
            whole(200, JSON, body.replace(b"[]", b'{"text":[]}') if body == b"[]" else body), stream=False
        )
        assert (error.kind, error.code) == (Kind.UPSTREAM, "malformed")

    @pytest.mark.fault("F11")
    async def test_an_error_inside_a_200_document_is_an_error(self) -> None:
        assert (await failure(whole(200, JSON, b'{"error":"no"}'), stream=False)).message == "no"

    async def test_a_document_that_is_cut_is_truncated(self) -> None:
        async def script(asked: Asked) -> None:
            await asked.head(200, JSON, chunked=False, content_length="100")
            await asked.raw(b'{"text":["a')
            asked.cut()

        assert (await failure(script, stream=False)).kind is Kind.TRUNCATED

    async def test_a_document_above_the_cap_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from rivermouth.providers import answers

        monkeypatch.setattr(answers.whole, "__defaults__", (1000,))
        error = await failure(whole(200, JSON, b'{"text":["' + b"x" * 2000 + b'"]}'), stream=False)
        assert error.kind is Kind.UPSTREAM
        assert "larger than 1000 bytes" in error.message


class TestRefusal:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, Kind.INVALID_REQUEST),
            (401, Kind.AUTHENTICATION),
            (404, Kind.NOT_FOUND),
            (429, Kind.RATE_LIMITED),
            (500, Kind.UPSTREAM),
            (503, Kind.OVERLOADED),
        ],
    )
    async def test_a_status_is_an_error_in_the_dialects_words(self, status: int, kind: Kind) -> None:
        error = await failure(whole(status, JSON, b'{"error":"no way"}'))
        assert (error.kind, error.message, error.status, error.provider) == (kind, "no way", status, "lab")

    @pytest.mark.parametrize(
        ("header", "want"), [("7", 7.0), ("0.5", 0.5), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)]
    )
    async def test_retry_after_is_kept(self, header: str, want: float | None) -> None:
        error = await failure(whole(429, JSON, b"{}", retry_after=header))
        assert error.retry_after_s == want

    async def test_how_long_to_wait_may_stand_in_the_body_and_a_header_wins(self) -> None:
        waits = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
        body = json.encode({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [waits]}})
        gemini = discover()["gemini"]
        assert (await failure(whole(429, JSON, body), dialect=gemini)).retry_after_s == 7.0
        assert (await failure(whole(429, JSON, body, retry_after="3"), dialect=gemini)).retry_after_s == 3.0

    @pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"\xff\xfe", b"[]", b"null", b'"x"'])
    async def test_any_body_will_do(self, body: bytes) -> None:
        assert (await failure(whole(502, "text/html", body))).kind is Kind.UPSTREAM

    async def test_a_body_that_is_cut_does_not_hide_the_status(self) -> None:
        async def script(asked: Asked) -> None:
            await asked.head(429, JSON, chunked=False, content_length="100")
            await asked.raw(b'{"err')
            asked.cut()

        assert (await failure(script)).kind is Kind.RATE_LIMITED

    async def test_only_the_beginning_of_an_endless_body_is_read(self) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            await asked.head(500, JSON)
            for _ in range(20):
                await asked.send(b"x" * 8192)
            with pytest.raises(ApiError) as caught:
                await opening
            assert caught.value.status == 500
            await asked.gone()

    @pytest.mark.fault("F36")
    async def test_a_redirect_is_not_followed(self) -> None:
        async with FakeUpstream() as other, provider(other.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await other.asked()
            await asked.answer(307, None, b"", location=f"{other.url}/elsewhere")
            with pytest.raises(ApiError) as caught:
                await opening
            assert caught.value.kind is Kind.UPSTREAM
            assert "307" in caught.value.message
            assert len(other.requests) == 1

    @pytest.mark.fault("F36")
    @pytest.mark.parametrize("stream", [True, False])
    async def test_a_key_that_the_upstream_echoes_does_not_show(self, stream: bool) -> None:
        told = json.encode({"error": f"bad key {KEY} for team-seven-secret"})
        scripts = [whole(401, JSON, told), whole(200, SSE, HELLO + sse(told)), whole(200, JSON, told)]
        for script in scripts:
            async with (
                FakeUpstream(script) as fake,
                provider(fake.url, headers={"X-Team": "team-seven-secret"}) as made,
            ):
                try:
                    last = (await events(await opened(made, stream=stream)))[-1]
                    assert isinstance(last, Error)
                    error = last.error
                except ApiError as raised:
                    error = raised
            for text in (str(error), repr(error), error.message):
                assert KEY not in text
                assert "team-seven-secret" not in text
            assert "bad key" in error.message

    def test_a_target_does_not_print_its_key(self) -> None:
        assert KEY not in repr(HttpTarget(name="lab", dialect=tiny(), base_url="http://x", api_key=KEY))


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port whose queue of connections is full, so that a connect neither succeeds nor fails."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(address)
        try:
            yield address[1]
        finally:
            for sock in waiting:
                sock.close()


class TestConnecting:
    async def test_nobody_listens(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            async with provider(f"http://127.0.0.1:{port}") as made:
                with pytest.raises(ApiError) as caught:
                    await opened(made)
        assert (caught.value.kind, caught.value.provider) == (Kind.NETWORK, "lab")
        assert KEY not in str(caught.value)

    async def test_a_connection_that_does_not_come_is_the_connect_clock(self) -> None:
        with deaf_port() as port:
            async with provider(f"http://127.0.0.1:{port}", connect_s=0.2) as made:
                with pytest.raises(ApiError) as caught:
                    await opened(made)
        assert (caught.value.kind, caught.value.clock) == (Kind.TIMEOUT, "connect")

    @pytest.mark.parametrize("how", ["cut", "reset"])
    async def test_a_connection_that_is_lost_before_the_head_is_network(self, how: str) -> None:
        async def script(asked: Asked) -> None:
            if how == "cut":
                asked.cut()
            else:
                asked.reset()

        error = await failure(script)
        assert (error.kind, error.provider) == (Kind.NETWORK, "lab")

    @pytest.mark.parametrize(
        "garbage", [b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"]
    )
    async def test_an_answer_that_is_not_http(self, garbage: bytes) -> None:
        async def script(asked: Asked) -> None:
            await asked.raw(garbage)
            asked.cut()

        assert (await failure(script)).kind in (Kind.UPSTREAM, Kind.NETWORK)

    async def test_tls_to_a_port_that_speaks_none(self) -> None:
        def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with provider(f"https://127.0.0.1:{port}") as made:
                with pytest.raises(ApiError) as caught:
                    await opened(made)
        assert caught.value.kind is Kind.NETWORK


class TestLeaving:
    """F31: the upstream learns at once that nobody waits any more."""

    @pytest.mark.fault("F31")
    @pytest.mark.promise(33, 72)
    async def test_close_in_the_middle_reaches_the_upstream(self) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            await asked.head(200, SSE)
            upstream = await opening
            await asked.send(HELLO)
            await upstream.read()
            assert not asked.is_gone
            await upstream.close()
            await asyncio.wait_for(asked.gone(), 5)
            await upstream.close()

    @pytest.mark.fault("F31")
    async def test_a_cancelled_open_reaches_the_upstream(self) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await asyncio.wait_for(asked.gone(), 5)

    @pytest.mark.fault("F31")
    async def test_a_cancelled_read_loses_nothing_and_close_reaches_the_upstream(self) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            await asked.head(200, SSE)
            upstream = await opening
            reading = asyncio.ensure_future(upstream.read())
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await asked.send(HELLO)
            assert (await upstream.read()).events == SAID
            await upstream.close()
            await asyncio.wait_for(asked.gone(), 5)

    @pytest.mark.fault("F31")
    async def test_a_cancelled_error_body_reaches_the_upstream(self) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            await asked.head(500, JSON)
            await asked.send(b"{")
            await asyncio.sleep(0)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await asyncio.wait_for(asked.gone(), 5)

    async def test_a_failed_answer_is_not_kept_open(self) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            await asked.head(200, SSE)
            upstream = await opening
            await asked.send(b"data: {\n\n")
            assert isinstance((await upstream.read()).events[-1], Error)
            await upstream.close()
            await asyncio.wait_for(asked.gone(), 5)

    @pytest.mark.parametrize("together", [True, False])
    async def test_a_finished_answer_keeps_its_connection(self, together: bool) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            for _ in range(3):
                opening = asyncio.ensure_future(opened(made))
                asked = await fake.asked()
                await asked.head(200, SSE)
                upstream = await opening
                if together:
                    await asked.end(HELLO + DONE)
                    await batches(upstream)
                    await upstream.close()
                else:
                    await asked.send(HELLO + DONE)
                    await batches(upstream)
                    closing = asyncio.ensure_future(upstream.close())
                    await asked.end()
                    await closing
            assert fake.connections == 1

    async def test_a_body_that_does_not_end_after_the_answer_is_given_up(self) -> None:
        async with FakeUpstream() as fake, provider(fake.url) as made:
            opening = asyncio.ensure_future(opened(made))
            asked = await fake.asked()
            await asked.head(200, SSE)
            upstream = await opening
            await asked.send(HELLO + DONE)
            await batches(upstream)
            await upstream.close()
            await asyncio.wait_for(asked.gone(), 5)

    async def test_many_streams_at_once_share_one_provider(self) -> None:
        async with FakeUpstream(whole(200, SSE, HELLO + DONE)) as fake, provider(fake.url) as made:

            async def one() -> list[Event]:
                return await events(await opened(made))

            assert await asyncio.gather(*(one() for _ in range(150))) == [SAID + END] * 150


class TestEncoding:
    @pytest.mark.fault("F6")
    async def test_an_upstream_that_compresses_unasked_is_understood(self) -> None:
        packed = gzip.compress(HELLO + DONE)
        assert await answered(whole(200, SSE, packed, content_encoding="gzip")) == SAID + END

    @pytest.mark.fault("F6")
    async def test_broken_compression_is_malformed(self) -> None:
        error = await failure(whole(200, SSE, b"this is not gzip", content_encoding="gzip"))
        assert error.kind in (Kind.UPSTREAM, Kind.TRUNCATED)


class TestOthers:
    async def test_embeddings(self) -> None:
        async with (
            FakeUpstream(whole(200, JSON, b"[[1.0,2.0]]")) as fake,
            provider(fake.url, with_embeddings()) as made,
        ):
            warned: list[str] = []
            reply = await made.embed(EmbedRequest(model="m", input=("a",)), "m", warn=warned.append)
            assert warned == ["truncate"]
            assert reply.vectors == ((1.0, 2.0),)
            assert fake.requests[0].path == "/embed"

    async def test_models(self) -> None:
        async with FakeUpstream(whole(200, JSON, b'["a","b"]')) as fake, provider(fake.url, with_embeddings()) as made:
            assert [m.id for m in await made.models()] == ["a", "b"]
            assert (fake.requests[0].method, fake.requests[0].path) == ("GET", "/models")
            assert fake.requests[0].headers["authorization"] == f"Bearer {KEY}"

    async def test_what_the_dialect_has_not_is_not_found(self) -> None:
        async with provider("http://127.0.0.1:9") as made:
            with pytest.raises(ApiError) as caught:
                await made.embed(EmbedRequest(model="m", input=("a",)), "m", warn=print)
            assert caught.value.kind is Kind.NOT_FOUND
            with pytest.raises(ApiError):
                await made.models()

    @pytest.mark.parametrize("body", [b"{", b""])
    async def test_a_malformed_list_is_an_error(self, body: bytes) -> None:
        async with FakeUpstream(whole(200, JSON, body)) as fake, provider(fake.url, with_embeddings()) as made:
            with pytest.raises(ApiError) as caught:
                await made.models()
            assert caught.value.code == "malformed"

    async def test_closing_an_unused_provider_and_closing_twice(self) -> None:
        async with provider("http://127.0.0.1:9") as made:
            await made.close()

    async def test_a_closed_provider_makes_no_connection_any_more(self) -> None:
        """Somebody may still be about to ask: its list was wanted when a new configuration left it out."""
        async with FakeUpstream(whole(200, JSON, b"[]")) as fake, provider(fake.url, with_embeddings()) as made:
            await made.close()
            with pytest.raises(ApiError) as caught:
                await made.models()
            assert (caught.value.kind, fake.connections) == (Kind.NETWORK, 0)
