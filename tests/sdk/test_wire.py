"""The promised frames, byte by byte, on bare sockets: nothing here that an SDK could forgive."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any, Final

import pytest

from rivermouth.store.port import Status
from tests.sdk.conftest import BODY_LIMIT_BYTES
from tests.sdk.leader import Leader
from tests.sdk.said import SEPARATORS, echo
from tests.sdk.served import DEADLINE_S, Served
from tests.sdk.wire import Wire, frames, lines

HI: Final = [{"role": "user", "content": "Hi"}]
WEATHER: Final = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
TOKENS: Final = ("You", " said:", ' "Hi".')
"""What the scripted model says within three tokens."""
EVENT_STREAM: Final = "text/event-stream; charset=utf-8"

CHAT: Final[dict[str, Any]] = {"model": "scripted", "messages": HI, "stream": True, "max_tokens": 3}
MESSAGES: Final[dict[str, Any]] = {"model": "scripted", "messages": HI, "stream": True, "max_tokens": 3}
OLLAMA_CHAT: Final[dict[str, Any]] = {"model": "scripted", "messages": HI, "options": {"num_predict": 3}}
GENERATE: Final[dict[str, Any]] = {"model": "scripted", "prompt": "Hi", "options": {"num_predict": 3}}

STREAMS: Final[dict[str, dict[str, Any]]] = {
    "/v1/chat/completions": CHAT,
    "/openai/v1/chat/completions": CHAT,
    "/v1/messages": MESSAGES,
    "/anthropic/v1/messages": MESSAGES,
    "/api/chat": OLLAMA_CHAT,
    "/api/generate": GENERATE,
    "/ollama/api/chat": OLLAMA_CHAT,
    "/ollama/api/generate": GENERATE,
}
surfaces = pytest.mark.parametrize("path", STREAMS)


def asking(path: str, model: str, text: str) -> dict[str, Any]:
    """A streamed request on this route."""
    body = {k: v for k, v in STREAMS[path].items() if k != "options"}
    said = {"prompt": text} if "prompt" in body else {"messages": [{"role": "user", "content": text}]}
    return {**body, **said, "model": model, **({"max_tokens": 1000} if "messages" in path else {})}


def asked(server: Served, path: str, body: dict[str, Any]) -> Wire:
    """The whole answer."""
    with Wire(server.port, "POST", path, body) as wire:
        wire.read()
    return wire


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class TestOpenAi:
    @staticmethod
    def expected(wire: Wire, deltas: list[dict[str, Any]], reason: str, block: dict[str, Any], usage: Any = ...) -> str:
        """The whole body: a chunk for each delta, the finish chunk with the block, the usage chunk, the terminator."""
        created = frames(wire.body)[0]["created"]
        counted: dict[str, Any] = {} if usage is ... else {"usage": None}

        def chunk(choices: list[Any], **more: Any) -> str:
            head = {"id": f"chatcmpl-{wire.headers['x-request-id']}", "object": "chat.completion.chunk"}
            return f"data: {dumps({**head, 'created': created, 'model': 'scripted', 'choices': choices, **more})}\n\n"

        said = [chunk([{"index": 0, "delta": delta, "finish_reason": None}], **counted) for delta in deltas]
        end = chunk([{"index": 0, "delta": {}, "finish_reason": reason}], **counted, llmeu=block)
        last = "" if usage is ... else chunk([], usage=usage)
        return "".join(said) + end + last + "data: [DONE]\n\n"

    @pytest.mark.promise(1, 2, 3, 7, 8, 9, 10, 50, 51, 55, 56, 57, 58, 71)
    def test_every_byte(self, back: Served) -> None:
        wire = asked(back, "/v1/chat/completions", CHAT)
        assert (wire.status, wire.headers["content-type"]) == (200, EVENT_STREAM)
        block = frames(wire.body)[-2]["llmeu"]
        deltas = [{"role": "assistant"}, *({"content": token} for token in TOKENS)]
        assert wire.body.decode() == self.expected(wire, deltas, "length", block)
        assert isinstance(frames(wire.body)[0]["created"], int)

    @pytest.mark.promise(138, 139, 140, 141, 142)
    def test_every_byte_under_the_dialects_own_prefix(self, back: Served) -> None:
        wire = asked(back, "/openai/v1/chat/completions", {**CHAT, "max_tokens": 1000})
        seen = frames(wire.body)
        block = seen[-2]["llmeu"]
        deltas = [c["choices"][0]["delta"] for c in seen[:-2]]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert all(set(d) == {"content"} for d in deltas[1:])
        assert "".join(d["content"] for d in deltas) == echo("Hi")
        assert wire.body.decode() == self.expected(wire, deltas, "stop", block)

    @pytest.mark.promise(143)
    def test_usage_is_the_last_chunk_if_asked_for(self, back: Served) -> None:
        wire = asked(back, "/v1/chat/completions", {**CHAT, "stream_options": {"include_usage": True}})
        seen = frames(wire.body)
        usage = {
            "prompt_tokens": 1,
            "completion_tokens": 3,
            "total_tokens": 4,
            "completion_tokens_details": {"reasoning_tokens": 0},
        }
        deltas = [{"role": "assistant"}, *({"content": token} for token in TOKENS)]
        assert wire.body.decode() == self.expected(wire, deltas, "length", seen[-3]["llmeu"], usage)
        wire = asked(back, "/v1/chat/completions", {**CHAT, "stream_options": {"include_usage": False}})
        assert b"usage" not in wire.body

    @pytest.mark.promise(9, 10)
    def test_a_call(self, back: Served) -> None:
        seen = frames(asked(back, "/v1/chat/completions", {**CHAT, "max_tokens": 99, "tools": [WEATHER]}).body)
        deltas = [c["choices"][0]["delta"] for c in seen[:-1]]
        (opened,) = deltas[1]["tool_calls"]
        assert opened["id"].startswith("call_")
        assert opened == {
            "index": 0,
            "id": opened["id"],
            "type": "function",
            "function": {"name": "weather", "arguments": ""},
        }
        assert deltas[2:-1] == [{"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}]
        assert (deltas[-1], seen[-2]["choices"][0]["finish_reason"], seen[-1]) == ({}, "tool_calls", "[DONE]")

    @pytest.mark.promise(60)
    def test_the_block_is_the_one_of_a_whole_reply(self, back: Served) -> None:
        body = {**CHAT, "model": "governed"}
        streamed = frames(asked(back, "/v1/chat/completions", body).body)[-2]["llmeu"]
        wire = asked(back, "/v1/chat/completions", {**body, "stream": False})
        whole = wire.json()["llmeu"]
        assert list(whole) == list(streamed)
        assert {**whole, "trace_id": None} == {**streamed, "trace_id": None}
        assert whole["trace_id"] == wire.headers["x-request-id"]

    @pytest.mark.promise(4, 5, 59)
    @pytest.mark.fault("F10", "F14")
    def test_a_failure_is_the_last_frame(self, back: Served) -> None:
        wire = asked(back, "/v1/chat/completions", {**CHAT, "model": "scripted-error", "max_tokens": 99})
        error = '{"error":{"message":"scripted-error fails after 5 tokens","type":"server_error","param":null,'
        assert wire.status == 200
        assert wire.body.decode().endswith(f'\n\ndata: {error}"code":"upstream_error"}}}}\n\n')
        assert wire.body.count(b'"error"') == 1
        assert b"[DONE]" not in wire.body
        assert b'"finish_reason":"' not in wire.body

    @pytest.mark.promise(6, 32)
    def test_frames_do_not_depend_on_who_made_the_text(self, back: Served) -> None:
        """A model with a chat template, one without, and the scripted one: the same stream but for the text."""
        bodies = {}
        for model in ("tiny", "plain", "scripted"):
            wire = asked(back, "/v1/chat/completions", {**CHAT, "model": model})
            assert wire.headers["content-type"] == EVENT_STREAM
            bodies[model] = frames(wire.body)
        texts = {}
        for model, seen in bodies.items():
            assert seen[-1] == "[DONE]"
            assert seen[0]["choices"][0]["delta"] == {"role": "assistant"}
            assert (seen[-2]["choices"][0]["delta"], seen[-2]["choices"][0]["finish_reason"]) == ({}, "length")
            assert {tuple(c) for c in seen[:-2]} == {("id", "object", "created", "model", "choices")}
            assert {tuple(c["choices"][0]["delta"]) for c in seen[1:-2]} == {("content",)}
            texts[model] = "".join(c["choices"][0]["delta"]["content"] for c in seen[1:-2])
        assert texts == {"tiny": "Hello from a", "plain": "Hello from a", "scripted": "".join(TOKENS)}


class TestAnthropic:
    @staticmethod
    def event(name: str, **fields: Any) -> str:
        return f"event: {name}\ndata: {dumps({'type': name, **fields})}\n\n"

    @pytest.mark.promise(149, 150, 151, 152, 153, 154, 155, 156)
    @pytest.mark.parametrize("path", ["/v1/messages", "/anthropic/v1/messages"])
    def test_every_byte(self, back: Served, path: str) -> None:
        wire = asked(back, path, {**MESSAGES, "max_tokens": 1000})
        assert (wire.status, wire.headers["content-type"]) == (200, EVENT_STREAM)
        seen = frames(wire.body)
        usage = seen[0]["message"]["usage"]
        assert set(usage) == {"input_tokens", "output_tokens"}
        message = {
            "id": f"msg_{wire.headers['request-id']}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        texts = [f["delta"]["text"] for f in seen if f["type"] == "content_block_delta"]
        assert "".join(texts) == echo("Hi")
        counts = {
            "input_tokens": 1,
            "output_tokens": len(texts),
            "output_tokens_details": {"thinking_tokens": 0},
        }
        assert wire.body.decode() == "".join(
            [
                self.event("message_start", message=message),
                self.event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
                *(
                    self.event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
                    for text in texts
                ),
                self.event("content_block_stop", index=0),
                self.event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=counts),
                self.event("message_stop"),
            ]
        )

    @pytest.mark.fault("F13")
    def test_a_failure_closes_the_block_and_is_the_last_event(self, back: Served) -> None:
        wire = asked(back, "/v1/messages", {**MESSAGES, "model": "scripted-error", "max_tokens": 99})
        error = {"type": "api_error", "message": "scripted-error fails after 5 tokens; try again later"}
        tail = self.event("content_block_stop", index=0)
        tail += self.event("error", error=error, request_id=wire.headers["request-id"])
        assert wire.body.decode().endswith(tail)
        assert b"message_stop" not in wire.body
        assert b"message_delta" not in wire.body
        blocks = wire.body.decode().removesuffix("\n\n").split("\n\n")
        assert all(b.startswith("event: ") and b.count("\n") == 1 for b in blocks)

    def test_reasoning_is_signed_once_before_its_block_ends(self, back: Served) -> None:
        seen = frames(asked(back, "/v1/messages", {**MESSAGES, "model": "scripted-think", "max_tokens": 999}).body)
        kinds = [(f["type"], f.get("delta", f.get("content_block", {})).get("type")) for f in seen]
        assert kinds[1] == ("content_block_start", "thinking")
        end = kinds.index(("content_block_stop", None))
        assert kinds[end - 1] == ("content_block_delta", "signature_delta")
        assert set(kinds[2 : end - 1]) == {("content_block_delta", "thinking_delta")}
        assert [f["index"] for f in seen[1:-2]] == [0] * end + [1] * (len(seen) - 3 - end)


class TestOllama:
    @pytest.mark.promise(11, 12, 14, 15, 17, 20, 21, 144, 145, 146, 147, 148)
    @pytest.mark.parametrize(
        ("prefix", "media"), [("/api", "application/x-ndjson"), ("/ollama/api", "application/json")]
    )
    @pytest.mark.parametrize("kind", ["chat", "generate"])
    def test_every_byte(self, back: Served, prefix: str, media: str, kind: str) -> None:
        wire = asked(back, f"{prefix}/{kind}", STREAMS[f"/api/{kind}"])
        assert (wire.status, wire.headers["content-type"]) == (200, media)
        seen = lines(wire.body)
        head = {"model": "scripted", "created_at": seen[0]["created_at"]}
        counts = {"total_duration": seen[-1]["total_duration"], "prompt_eval_count": 1, "eval_count": 3}
        assert counts["total_duration"] > 0

        def said(text: str) -> dict[str, Any]:
            return {"message": {"role": "assistant", "content": text}} if kind == "chat" else {"response": text}

        want = [{**head, **said(token), "done": False} for token in TOKENS]
        want.append({**head, **said(""), "done": True, "done_reason": "length", **counts})
        assert wire.body.decode() == "".join(dumps(line) + "\n" for line in want)

    @pytest.mark.promise(7, 16, 147)
    @pytest.mark.parametrize("kind", ["chat", "generate"])
    @pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "*/*"])
    @pytest.mark.fault("F7")
    def test_a_natural_end_whatever_is_accepted(self, back: Served, kind: str, accept: str) -> None:
        body = {k: v for k, v in STREAMS[f"/api/{kind}"].items() if k != "options"}
        with Wire(back.port, "POST", f"/api/{kind}", body, {"accept": accept}) as wire:
            last = lines(wire.read())[-1]
        assert wire.headers["content-type"] == "application/x-ndjson"
        assert (last["done"], last["done_reason"]) == (True, "stop")

    @pytest.mark.promise(18, 19)
    @pytest.mark.fault("F10")
    @pytest.mark.parametrize("kind", ["chat", "generate"])
    def test_a_failure_is_the_last_line(self, back: Served, kind: str) -> None:
        body = {k: v for k, v in STREAMS[f"/api/{kind}"].items() if k != "options"} | {"model": "scripted-error"}
        wire = asked(back, f"/api/{kind}", body)
        assert wire.body.endswith(b'\n{"error":"scripted-error fails after 5 tokens"}\n')
        assert b'"done":true' not in wire.body
        assert [set(line) for line in lines(wire.body)].count({"error"}) == 1

    @pytest.mark.promise(22, 23)
    def test_a_template_renders_both_routes_alike(self, back: Served) -> None:
        """The prompt's tokens are counted after rendering: the same on both routes, others without a template."""

        def counted(model: str) -> tuple[int, int]:
            chat = asked(back, "/v1/chat/completions", {**CHAT, "model": model, "stream": False}).json()
            ollama = lines(asked(back, "/api/chat", {**OLLAMA_CHAT, "model": model}).body)[-1]
            return chat["usage"]["prompt_tokens"], ollama["prompt_eval_count"]

        with_template, without = counted("tiny"), counted("plain")
        assert len(set(with_template)) == len(set(without)) == 1
        assert with_template != without


class TestEverySurface:
    @surfaces
    @pytest.mark.promise(137, 174)
    def test_a_generator_streams_piece_by_piece(self, back: Served, path: str) -> None:
        """The second piece does not exist before the client has the first."""
        with Leader() as leader:
            leader_says = ["one ", "two ✓ ", "three"]
            with Wire(back.port, "POST", path, asking(path, "led/any", leader.port)) as wire:
                for n, piece in enumerate(leader_says):
                    leader.say(piece)
                    body = wire.read_until(piece.encode())
                    assert all(later.encode() not in body for later in leader_says[n + 1 :])
                leader.end()
                wire.read()
        assert b'"two ' in wire.body
        assert not wire.body.count(b'"error"')

    @surfaces
    @pytest.mark.promise(33, 72, 73, 74, 75)
    @pytest.mark.fault("F31", "F32")
    @pytest.mark.parametrize("said", [0, 2])
    def test_a_closed_connection_ends_the_work(self, back: Served, path: str, said: int) -> None:
        """Before and after the first token; the generator's own clean-up runs, and the record says what was made."""
        before = back.usage("led/any").get(Status.CANCELLED, 0)
        with Leader() as leader:
            with Wire(back.port, "POST", path, asking(path, "led/any", leader.port)) as wire:
                leader.meet()
                for n in range(said):
                    leader.say(f"piece {n}.")
                    wire.read_until(f"piece {n}.".encode())
                assert back.inflight() == 1
            leader.wait_gone()
        back.idle()
        record = back.last_record()
        assert (record.status, record.cancelled_by, record.surface) == (
            Status.CANCELLED,
            "client",
            path.rpartition("/v1/")[0] + "/v1" if "/v1/" in path else path.rpartition("/")[0],
        )
        assert record.text_chars >= said * len("piece 0.")
        assert (record.output_tokens or 0) >= said
        assert back.usage("led/any")[Status.CANCELLED] == before + 1

    @surfaces
    @pytest.mark.promise(40, 52, 53, 54)
    def test_the_headers(self, back: Served, path: str) -> None:
        with Wire(back.port, "POST", path, STREAMS[path], {"x-request-id": "mine-1"}) as wire:
            wire.read()
        call_id = wire.headers["x-request-id"]
        assert wire.headers["request-id"] == wire.headers["x-amzn-requestid"] == call_id
        assert wire.headers["x-client-request-id"] == "mine-1"
        assert wire.headers["cache-control"] == "no-cache, no-transform"
        assert wire.headers["connection"] == "keep-alive"
        assert wire.headers["x-accel-buffering"] == "no"
        assert wire.headers["transfer-encoding"] == "chunked"
        assert "content-length" not in wire.headers
        assert "content-encoding" not in wire.headers
        assert [n for n, _ in wire.pairs if wire.pairs.count((n, wire.headers[n])) != 1] == []
        assert back.record(call_id).client_request_id == "mine-1"

    @surfaces
    @pytest.mark.fault("F5")
    def test_separators_of_lines_never_stand_in_a_line(self, back: Served, path: str) -> None:
        body = asked(back, path, asking(path, "parrot/any", SEPARATORS)).body
        assert not {"\u2028", "\u2029", "\x85", "\x0b", "\x0c"} & set(body.decode())
        assert b"\r" not in body

    @surfaces
    def test_the_connection_serves_the_next_request(self, back: Served, path: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", back.port, timeout=DEADLINE_S)
        try:
            ends = set()
            for _ in range(3):
                connection.request("POST", path, json.dumps(STREAMS[path]))
                ends.add(len(connection.getresponse().read()) > 0)
                assert connection.sock is not None
            assert ends == {True}
        finally:
            connection.close()

    @surfaces
    def test_a_body_in_chunks(self, back: Served, path: str) -> None:
        def pieces() -> Any:
            yield from (bytes([b]) for b in json.dumps(STREAMS[path]).encode())

        connection = http.client.HTTPConnection("127.0.0.1", back.port, timeout=DEADLINE_S)
        try:
            connection.request("POST", path, pieces(), encode_chunked=True, headers={"transfer-encoding": "chunked"})
            answer = connection.getresponse()
            assert (answer.status, b" said:" in answer.read()) == (200, True)
        finally:
            connection.close()

    @surfaces
    def test_a_body_over_the_limit_is_not_waited_for(self, back: Served, path: str) -> None:
        """Refused by its announced length, before a byte of it was sent."""
        with socket.create_connection(("127.0.0.1", back.port), DEADLINE_S) as sock:
            head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {BODY_LIMIT_BYTES + 1}\r\n\r\n"
            sock.sendall(head.encode())
            assert sock.recv(65536).startswith(b"HTTP/1.1 413 ")

    @surfaces
    @pytest.mark.fault("F15")
    def test_an_error_before_the_answer_is_an_http_error(self, back: Served, path: str) -> None:
        wire = asked(back, path, {**STREAMS[path], "model": "nobody"})
        assert (wire.status, wire.headers["content-type"]) == (404, "application/json")
        assert "nobody" in dumps(wire.json()["error"])
        assert int(wire.headers["content-length"]) == len(wire.body)


class TestNothingStreams:
    @pytest.mark.promise(78)
    @pytest.mark.parametrize(
        ("method", "path", "fields"),
        [
            ("POST", "/v1/embeddings", {"model": "scripted-embed", "input": "a"}),
            ("POST", "/openai/v1/embeddings", {"model": "scripted-embed", "input": "a"}),
            ("POST", "/v1/messages/count_tokens", {"model": "scripted", "messages": HI}),
            ("GET", "/v1/models", {}),
            ("GET", "/v1/models/scripted", {}),
            ("GET", "/anthropic/v1/models", {}),
            ("POST", "/api/embed", {"model": "scripted-embed", "input": "a"}),
            ("POST", "/api/embeddings", {"model": "scripted-embed", "prompt": "a"}),
            ("POST", "/api/show", {"model": "scripted"}),
            ("GET", "/api/tags", {}),
            ("GET", "/api/ps", {}),
            ("GET", "/api/version", {}),
        ],
    )
    def test_a_stream_is_refused_and_not_ignored(self, back: Served, method: str, path: str, fields: Any) -> None:
        with Wire(back.port, method, path, {**fields, "stream": True}) as wire:
            error = wire.json()["error"]
        assert wire.status == 400
        assert "stream" in (error if isinstance(error, str) else error["message"])
        if path.startswith(("/v1/e", "/v1/models", "/openai")):
            assert error["param"] == "stream"
        with Wire(back.port, method, path, {**fields, "stream": False}) as wire:
            assert (wire.status, wire.headers["content-type"]) == (200, "application/json")
            wire.read()
        if method == "GET":
            with Wire(back.port, method, f"{path}?stream=true") as wire:
                assert wire.status == 400

    @pytest.mark.promise(76)
    @pytest.mark.parametrize("path", ["/v1/embeddings", "/api/embed"])
    def test_embeddings_are_one_document(self, back: Served, path: str) -> None:
        wire = asked(back, path, {"model": "scripted-embed", "input": ["river", "mouth"]})
        assert (wire.status, wire.headers["content-type"]) == (200, "application/json")
        assert int(wire.headers["content-length"]) == len(wire.body)
        found = wire.json()
        vectors = [d["embedding"] for d in found["data"]] if "data" in found else found["embeddings"]
        assert [len(v) for v in vectors] == [384, 384]


class TestRoot:
    def test_what_clients_probe_for(self, back: Served) -> None:
        with Wire(back.port, "HEAD", "/") as wire:
            assert wire.status == 200
        with Wire(back.port, "GET", "/") as wire:
            assert (wire.status, wire.read()) == (200, b"Ollama is running")
            assert wire.headers["content-type"].startswith("text/plain")
        with Wire(back.port, "GET", "/", headers={"accept": "text/html,*/*"}) as wire:
            assert (wire.status, b"Rivermouth" in wire.read()) == (200, True)

    @pytest.mark.parametrize(
        ("method", "path", "headers", "served"),
        [
            ("GET", "/v1/files", {}, "POST /v1/chat/completions"),
            ("POST", "/v1/audio/speech", {}, "POST /v1/chat/completions"),
            ("GET", "/v1/messages/batches", {"anthropic-version": "2023-06-01"}, "POST /v1/messages"),
            ("POST", "/anthropic/v1/complete", {}, "POST /anthropic/v1/messages"),
            ("POST", "/api/create", {}, "POST /api/chat"),
        ],
    )
    def test_an_unknown_route_lists_what_is_served(
        self, back: Served, method: str, path: str, headers: dict[str, str], served: str
    ) -> None:
        with Wire(back.port, method, path, headers=headers) as wire:
            error = wire.json()["error"]
        assert wire.status == 404
        assert served in (error if isinstance(error, str) else error["message"])
        if "anthropic" in path + "".join(headers):
            assert wire.json()["type"] == "error"

    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/embeddings"])
    def test_a_wrong_method_is_told_the_right_one(self, back: Served, path: str) -> None:
        for method in ("GET", "PUT", "DELETE"):
            with Wire(back.port, method, path) as wire:
                assert (wire.status, wire.headers["allow"]) == (405, "POST")
                assert "POST" in dumps(wire.json()["error"])
