"""The server at its socket: what it makes of requests, good and bad, one after the other on one connection."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.dialects import discover
from rivermouth.http.routes import Routes
from rivermouth.store.port import Status
from tests.engine.client import Answer, Client, asking, connected
from tests.engine.lab import Lab, lab, until
from tests.engine.tls import self_signed
from tests.engine.words import ALL, OLLAMA, OPENAI, PLAIN, Speaks, talk

pytestmark = pytest.mark.anyio

KEY: Final = "rm-a-key-of-some-length"
PAGE: Final = "http://localhost:3000"
BASES: Final = Routes(discover().values()).bases
STRANGER: Final = "https://evil.example"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("open"), PLAIN, addresses=2) as made:
        yield made


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    config = PLAIN + '[server]\nkeys = ["env:KEY"]\n'
    with lab(tmp_path_factory.mktemp("keyed"), config, env={"KEY": KEY}) as made:
        yield made


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("mounted"), PLAIN + '[http]\nbase_path = "/ai/river"\n') as made:
        yield made


async def said(client: Client, speaks: Speaks = OPENAI) -> str:
    """The text of one streamed answer on this connection."""
    answer = await client.ask("POST", speaks.path, talk("scripted"))
    body = await answer.rest()
    assert speaks.finished(body)
    return speaks.text(body)


class TestOneConnection:
    async def test_it_serves_every_dialect_in_turn(self, server: Lab) -> None:
        async with connected(server.port) as client:
            for speaks in (*ALL, *ALL):
                assert "You said" in await said(client, speaks)

    @pytest.mark.parametrize(
        ("method", "path", "body", "status"),
        [
            ("POST", OPENAI.path, b"{", 400),
            ("POST", OPENAI.path, {"model": "nobody", "messages": [{"role": "user", "content": "x"}]}, 404),
            ("POST", OPENAI.path, {"model": "scripted"}, 400),
            ("GET", "/v1/nothing", None, 404),
            ("GET", OPENAI.path, None, 405),
            ("PURGE", OPENAI.path, None, 405),
            ("POST", "/nothing", b"x", 404),
            ("DELETE", "/health", None, 405),
            ("POST", "/v1/embeddings", {"model": "scripted-embed", "input": "x", "stream": True}, 400),
        ],
    )
    async def test_an_error_does_not_end_it(self, server: Lab, method: str, path: str, body: Any, status: int) -> None:
        async with connected(server.port) as client:
            answer = await client.ask(method, path, body)
            assert answer.status == status
            assert answer.headers["content-type"] == "application/json"
            assert await answer.json()
            assert "You said" in await said(client)

    async def test_requests_that_come_at_once_are_answered_in_order(self, server: Lab) -> None:
        async with connected(server.port) as client:
            for path in ("/health", "/v1/nothing", "/v1/models", "/"):
                await client.send("GET", path)
            await client.send("POST", OPENAI.path, talk("scripted"))
            answers = []
            for _ in range(5):
                answer = await client.answer()
                await answer.rest()
                answers.append(answer.status)
            assert answers == [200, 404, 200, 200, 200]

    async def test_head_has_no_body(self, server: Lab) -> None:
        async with connected(server.port) as client:
            for path, status in (("/", 200), ("/v1/models", 405), ("/health", 405)):
                assert (await client.ask("HEAD", path)).status == status
            assert "You said" in await said(client)

    @pytest.mark.parametrize(
        "bytes_",
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"hello there\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"],
        ids=["a TLS hello", "no request line", "no version of ours"],
    )
    async def test_what_is_no_request_is_refused_and_the_connection_closed(self, server: Lab, bytes_: bytes) -> None:
        async with connected(server.port) as client:
            await client.raw(bytes_)
            assert (await client.closed()).startswith(b"HTTP/1.1 400 ")
        async with connected(server.port) as client:
            assert "You said" in await said(client)

    @pytest.mark.parametrize(
        "lengths", ["content-length: 5\r\ncontent-length: 6\r\n", "content-length: 5\r\ntransfer-encoding: chunked\r\n"]
    )
    async def test_two_lengths_are_no_request(self, server: Lab, lengths: str) -> None:
        async with connected(server.port) as client:
            await client.raw(f"POST {OPENAI.path} HTTP/1.1\r\nhost: localhost\r\n{lengths}\r\n0\r\n\r\n".encode())
            assert (await client.closed()).startswith(b"HTTP/1.1 400 ")

    async def test_an_old_client_gets_its_answer_too(self, server: Lab) -> None:
        async with connected(server.port) as client:
            await client.raw(b"GET /health HTTP/1.0\r\n\r\n")
            assert b'"status":"ok"' in await client.closed()

    @pytest.mark.parametrize("speaks", ALL, ids=lambda speaks: speaks.name)
    async def test_a_stream_for_an_old_client_has_no_chunks_and_ends_with_its_connection(
        self, server: Lab, speaks: Speaks
    ) -> None:
        """HTTP/1.0 has no chunks (RFC 9112, 6.1): their lengths would stand in the text."""
        body = json.dumps(talk("scripted")).encode()
        async with connected(server.port) as client:
            length = f"content-length: {len(body)}\r\nconnection: keep-alive\r\n"
            await client.raw(f"POST {speaks.path} HTTP/1.0\r\n{length}\r\n".encode() + body)
            head, _, rest = (await client.closed()).partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        assert lines[0].endswith(b" 200 ok")
        assert [line for line in lines if line.startswith((b"transfer", b"connection"))] == [b"connection: close"]
        assert speaks.finished(rest)
        assert speaks.text(rest)

    async def test_an_upgrade_to_a_websocket_is_refused(self, server: Lab) -> None:
        wanted = {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        async with asking(server.port, "/v1/realtime", None, wanted, method="GET") as answer:
            assert answer.status == 404
            assert "unknown url" in OPENAI.refused(await answer.json())

    async def test_a_websocket_that_comes_through_is_closed(self, server: Lab) -> None:
        """uvicorn is told to take none; the application itself refuses them as well."""
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        app: Any = server.inside.server.config.app
        await app({"type": "websocket", "path": "/v1/realtime"}, receive, send)
        assert sent == [{"type": "websocket.close", "code": 1003}]

    async def test_every_answer_carries_the_calls_id_under_every_name(self, server: Lab) -> None:
        async with connected(server.port) as client:
            ids = set()
            for path, body in ((OPENAI.path, talk("scripted")), (OPENAI.path, b"{"), ("/v1/nothing", b"")):
                answer = await client.ask("POST", path, body, {"x-request-id": "mine-1"})
                await answer.rest()
                names = {answer.headers[n] for n in ("x-request-id", "request-id", "x-amzn-requestid")}
                assert len(names) == 1
                assert answer.headers["x-client-request-id"] == "mine-1"
                ids |= names
            assert len(ids) == 3

    @pytest.mark.parametrize("mine", ["", "x" * 129, "with space", "tab\there", "d\u00e9j\u00e0"])
    async def test_a_clients_id_that_is_none_is_dropped(self, server: Lab, mine: str) -> None:
        async with asking(server.port, "/v1/models", None, {"x-request-id": mine}, method="GET") as answer:
            assert "x-client-request-id" not in answer.headers


class TestAddresses:
    async def test_a_second_address_answers_as_the_first(self, server: Lab) -> None:
        first, second = server.ports
        assert first != second
        async with connected(second) as client:
            assert "You said" in await said(client, OLLAMA)

    async def test_a_base_path_stands_before_everything(self, mounted: Lab) -> None:
        async with connected(mounted.port) as client:
            for path in ("/ai/river/health", "/ai/river/", "/ai/river", "/ai/river/v1/models"):
                answer = await client.ask("GET", path)
                await answer.rest()
                assert answer.status == 200, path
            answer = await client.ask("POST", "/ai/river" + OPENAI.path, talk("scripted"))
            assert OPENAI.finished(await answer.rest())
            answer = await client.ask("GET", "/ai/river/v1/models/scripted%2Dthink")
            assert (await answer.json())["id"] == "scripted-think"

    @pytest.mark.parametrize("path", ["/health", "/v1/models", "/ai", "/ai/riverside/health", "/ai%2Friver/health"])
    async def test_and_nothing_is_beside_it(self, mounted: Lab, path: str) -> None:
        async with asking(mounted.port, path, method="GET") as answer:
            assert answer.status == 404
            assert "/ai/river" in (await answer.json())["error"]["message"]

    @pytest.mark.parametrize("path", ["/chat/completions", "/openai/chat/completions", "/anthropic/messages"])
    async def test_a_base_url_without_its_version_is_told_so(self, server: Lab, path: str) -> None:
        async with asking(server.port, path, b"{}") as answer:
            error = (await answer.json())["error"]
        assert (answer.status, error["code"]) == (404, "unknown_url")
        assert BASES in error["message"]

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [("POST", "/v1/chat", 404), ("POST", "/v1/models/x:streamGenerateContent", 405), ("POST", "/", 405)],
        ids=["Cohere", "Gemini", "TGI"],
    )
    async def test_a_base_url_without_its_prefix_is_told_so(
        self, server: Lab, method: str, path: str, status: int
    ) -> None:
        async with asking(server.port, path, b"{}", method=method) as answer:
            error = (await answer.json())["error"]
            assert "allow" in answer.headers or status == 404
        assert (answer.status, error["code"]) == (status, {404: "unknown_url", 405: "method_not_allowed"}[status])
        assert BASES in error["message"]

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/v1/models/scripted", 200),
            ("/v1/models/scripted%2Fscripted", 200),
            ("/v1/models/scripted/scripted", 200),
            ("/v1/models/nobody%2Fis%20here", 404),
        ],
    )
    async def test_a_models_name_in_the_path(self, server: Lab, path: str, status: int) -> None:
        async with asking(server.port, path, method="GET") as answer:
            assert answer.status == status
            if status == 404:
                assert "nobody/is here" in OPENAI.refused(await answer.json())

    async def test_what_is_not_served_is_answered_with_what_is(self, server: Lab) -> None:
        async with asking(server.port, "/v1/audio/speech", b"{}") as answer:
            reply = await answer.json()
        assert (answer.status, reply["error"]["code"]) == (404, "unknown_url")
        assert "POST /v1/chat/completions" in reply["error"]["message"]
        async with asking(server.port, "/v1/messages/batches", b"{}", {"anthropic-version": "2023-06-01"}) as answer:
            reply = await answer.json()
        assert (answer.status, reply["error"]["type"]) == (404, "not_found_error")
        async with asking(server.port, "/api/blobs/sha256:1", b"{}") as answer:
            assert answer.status == 404
            assert "POST /api/chat" in OLLAMA.refused(await answer.json())

    async def test_a_method_that_is_not_taken_is_answered_with_those_that_are(self, server: Lab) -> None:
        async with asking(server.port, OPENAI.path, method="GET") as answer:
            reply = await answer.json()
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert reply["error"]["code"] == "method_not_allowed"


class TestTls:
    async def test_it_serves_and_notices_a_client_that_leaves(self, tmp_path: Path) -> None:
        cert, key = self_signed(tmp_path)
        trust = ssl.create_default_context(cafile=str(cert))
        with lab(tmp_path, PLAIN, tls=(str(cert), str(key))) as server:
            async with connected(server.port, tls=trust) as client:
                assert "You said" in await said(client)
                await client.send("POST", OPENAI.path, talk("scripted-slow"))
                answer = await client.answer()
                await answer.until(b"river")
                client.leave()
            record = await server.record(answer.call_id)
            assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
            async with connected(server.port) as client:
                await client.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert b"200" not in await client.closed()
            await until(lambda: server.connections() == 0, "nobody is connected")


class TestBrowsers:
    """R26: a page of a stranger cannot use a server that demands no key."""

    @pytest.mark.parametrize("path", [OPENAI.path, OLLAMA.path, "/health", "/metrics", "/", "/v1/nothing"])
    async def test_a_host_that_is_not_ours_is_misdirected(self, server: Lab, path: str) -> None:
        async with asking(server.port, path, None, {"host": "rebound.example"}, method="GET") as answer:
            assert answer.status == 421
            assert "rebound.example" in str(await answer.json())

    @pytest.mark.parametrize("path", [OPENAI.path, OLLAMA.path, "/metrics", "/", "/health"])
    async def test_a_strangers_page_is_refused(self, server: Lab, path: str) -> None:
        for method in ("GET", "POST", "OPTIONS"):
            headers = {"origin": STRANGER, "access-control-request-method": "POST"}
            async with asking(server.port, path, b"{}", headers, method=method) as answer:
                assert answer.status == 403
                assert "access-control-allow-origin" not in answer.headers
                assert "allowed_origins" in str(await answer.json())

    async def test_a_listed_page_may_read_the_answer_and_its_id(self, server: Lab) -> None:
        async with asking(server.port, OPENAI.path, talk("scripted"), {"origin": PAGE}) as answer:
            assert OPENAI.finished(await answer.rest())
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "x-request-id" in answer.headers["access-control-expose-headers"]
        async with asking(server.port, "/health", None, {"origin": PAGE}, method="GET") as answer:
            assert answer.headers["access-control-allow-origin"] == PAGE

    async def test_also_when_it_is_an_error(self, server: Lab) -> None:
        async with asking(server.port, OPENAI.path, b"{", {"origin": PAGE}) as answer:
            assert answer.status == 400
            assert answer.headers["access-control-allow-origin"] == PAGE

    @pytest.mark.parametrize("path", [OPENAI.path, "/health", "/v1/nothing"])
    async def test_a_preflight_is_answered_before_a_key_is_asked_for(self, keyed: Lab, path: str) -> None:
        asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization, x-a"}
        async with asking(keyed.port, path, None, {"origin": PAGE, **asked}, method="OPTIONS") as answer:
            assert (answer.status, await answer.rest()) == (204, b"")
            assert answer.headers["access-control-allow-headers"] == "authorization, x-a"
        async with asking(keyed.port, path, None, {"origin": STRANGER, **asked}, method="OPTIONS") as answer:
            assert answer.status == 403


class TestKeys:
    @pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
    @pytest.mark.parametrize("key", [None, "", "wrong", KEY[:-1], KEY + "x"])
    async def test_without_a_good_one_nobody_calls(self, keyed: Lab, speaks: Speaks, key: str | None) -> None:
        """The words are always the same: nothing tells how near a guess was."""
        headers = {} if key is None else {"authorization": f"Bearer {key}", "x-api-key": key}
        async with asking(keyed.port, speaks.path, talk("scripted"), headers) as answer:
            assert answer.status == 401
            assert speaks.refused(await answer.json()) == "no valid API key was given"

    @pytest.mark.parametrize("path", ["/v1/models", "/api/tags", "/v1/nothing", "/metrics", "/schema", "/nothing"])
    async def test_nor_sees_anything_but_that_it_runs(self, keyed: Lab, path: str) -> None:
        async with asking(keyed.port, path, method="GET") as answer:
            assert answer.status == 401
            assert "no valid API key was given" in str(await answer.json())
        for path in ("/", "/health"):
            async with asking(keyed.port, path, method="GET") as answer:
                assert answer.status == 200

    @pytest.mark.parametrize("header", [("authorization", f"Bearer {KEY}"), ("x-api-key", KEY)])
    @pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
    async def test_with_one_in_any_place_everybody_does(
        self, keyed: Lab, speaks: Speaks, header: tuple[str, str]
    ) -> None:
        async with asking(keyed.port, speaks.path, talk("scripted"), dict([header])) as answer:
            assert speaks.finished(await answer.rest())
        record = await keyed.record(answer.call_id)
        assert record.key_name is not None
        assert record.key_name not in KEY

    async def test_a_body_is_not_read_before_the_key_is(self, keyed: Lab) -> None:
        async with connected(keyed.port) as client:
            head = f"POST {OPENAI.path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n"
            await client.raw(head.encode() + b"{")
            assert (await client.answer()).status == 401


class TestProbes:
    @pytest.mark.parametrize(("accept", "text"), [("*/*", "Ollama is running"), ("text/html,*/*", "Rivermouth")])
    async def test_the_root_says_what_it_is(self, server: Lab, accept: str, text: str) -> None:
        """A browser gets the page, or where none was built a line about it."""
        async with asking(server.port, "/", None, {"accept": accept}, method="GET") as answer:
            assert text in (await answer.rest()).decode()

    async def test_health_counts_the_calls_that_run(self, server: Lab) -> None:
        async with asking(server.port, OPENAI.path, talk("scripted-slow")) as running:
            await running.until(b"river")
            async with asking(server.port, "/health", method="GET") as answer:
                assert (await answer.json())["inflight"] == 1
        await server.idle()

    async def test_the_metrics_tell_how_calls_ended(self, server: Lab) -> None:
        async with connected(server.port) as client:
            await said(client)
            answer: Answer = await client.ask("GET", "/metrics")
            page = await answer.rest()
        assert answer.headers["content-type"].startswith("text/plain")
        assert b'rivermouth_calls_total{dialect="openai_chat"' in page
