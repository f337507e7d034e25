"""boto3, and Anthropic's SDK for Bedrock, against a running server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import anyio
import pytest
from anyio import to_thread
from botocore.exceptions import ClientError, EventStreamError

from rivermouth.store.port import Status
from tests.sdk.aws import REGION, boto
from tests.sdk.conftest import BODY_LIMIT_BYTES, KEY, served
from tests.sdk.leader import Leader
from tests.sdk.said import ARGUMENTS, CITY, PIXEL, SEPARATORS, SIGNED, echo, thought
from tests.sdk.served import Served
from tests.sdk.wire import Wire
from tests.tiny_gguf import TEXT

VERSION = "bedrock-2023-05-31"
ROOM = 2000
HI: Any = [{"role": "user", "content": "Hi"}]
BOTH: Any = [{"role": "user", "content": "Try both tools."}]
WEATHER: Any = {"name": "weather", "description": "Today's", "input_schema": CITY}
TIME: Any = {"name": "time", "input_schema": {"type": "object", "properties": {}}}
THINK: Any = {"type": "enabled", "budget_tokens": 1024}
METRICS = "amazon-bedrock-invocationMetrics"


@pytest.fixture(scope="module")
def aws(back: Served) -> Iterator[Any]:
    with boto(back.url) as client:
        yield client


@pytest.fixture(scope="module")
def claude(back: Served) -> Iterator[anthropic.AnthropicBedrock]:
    with anthropic.AnthropicBedrock(
        aws_region=REGION, base_url=f"{back.url}/bedrock", api_key="any", max_retries=0
    ) as sdk:
        yield sdk


def invoke(aws: Any, model: str, body: dict[str, Any]) -> Any:
    """The document that the model answered."""
    return json.loads(aws.invoke_model(modelId=model, body=json.dumps(body))["body"].read())


def objects(aws: Any, model: str, body: dict[str, Any]) -> list[Any]:
    """The objects that the model streamed."""
    answer = aws.invoke_model_with_response_stream(modelId=model, body=json.dumps(body))
    return [json.loads(event["chunk"]["bytes"]) for event in answer["body"]]


def prompt(text: str, **config: Any) -> dict[str, Any]:
    return {"inputText": text, **({"textGenerationConfig": config} if config else {})}


def messages(talk: Any = HI, **fields: Any) -> dict[str, Any]:
    return {"anthropic_version": VERSION, "max_tokens": ROOM, "messages": talk, **fields}


def whole(sdk: anthropic.AnthropicBedrock, **fields: Any) -> Any:
    return sdk.messages.create(**{"model": "scripted", "max_tokens": ROOM, "messages": HI, **fields})


def streamed(sdk: anthropic.AnthropicBedrock, **fields: Any) -> Any:
    """What the SDK's accumulator makes of the stream."""
    with sdk.messages.stream(**{"model": "scripted", "max_tokens": ROOM, "messages": HI, **fields}) as stream:
        return stream.get_final_message()


def text_of(message: Any) -> str:
    return "".join(b.text for b in message.content if b.type == "text")


both_ways = pytest.mark.parametrize("ask", [whole, streamed])
both_calls = pytest.mark.parametrize("call", [invoke, objects])
Call = Callable[[Any, str, dict[str, Any]], Any]


class TestTitan:
    def test_a_reply(self, aws: Any) -> None:
        (result,) = invoke(aws, "scripted", prompt("Hi"))["results"]
        assert (result["outputText"], result["completionReason"]) == (echo("Hi"), "FINISH")
        assert result["tokenCount"] > 10

    @pytest.mark.promise(167, 168, 174)
    def test_a_stream(self, aws: Any) -> None:
        *pieces, last = objects(aws, "scripted", prompt("Hi"))
        assert "".join(p["outputText"] for p in pieces) == echo("Hi")
        assert len(pieces) > 10
        assert {(p["index"], p["totalOutputTextTokenCount"]) for p in pieces} == {(0, None)}
        assert (last["outputText"], last["index"], last["completionReason"]) == ("", 0, "FINISH")
        assert last["totalOutputTextTokenCount"] == last[METRICS]["outputTokenCount"] == len(pieces)

    def test_limits(self, aws: Any) -> None:
        assert invoke(aws, "scripted", prompt("Hi", maxTokenCount=3))["results"][0]["completionReason"] == "LENGTH"
        assert objects(aws, "scripted", prompt("Hi", maxTokenCount=3))[-1]["completionReason"] == "LENGTH"
        (stopped,) = invoke(aws, "scripted", prompt("Hi", stopSequences=["scripted"]))["results"]
        assert (stopped["outputText"], stopped["completionReason"]) == (
            echo("Hi").partition("scripted")[0],
            "STOP_CRITERIA_MET",
        )

    @pytest.mark.fault("F5")
    def test_separators_of_lines_are_text(self, aws: Any) -> None:
        assert invoke(aws, "parrot/any", prompt(SEPARATORS))["results"][0]["outputText"] == SEPARATORS
        pieces = objects(aws, "parrot/any", prompt(SEPARATORS))
        assert "".join(p["outputText"] for p in pieces) == SEPARATORS

    @pytest.mark.promise(166, 167, 168)
    @pytest.mark.fault("F5")
    def test_a_plain_client_reads_plain_events(self, back: Served) -> None:
        """R8: no mark of AWS on it."""
        path = "/bedrock/model/parrot%2Fany/invoke-with-response-stream"
        with Wire(back.port, "POST", path, prompt("a\u2028")) as wire:
            first, second, last, nothing = wire.read().split(b"\n\n")
            assert wire.headers["content-type"] == "text/event-stream"
        assert first == b'data:{"outputText":"a","index":0,"totalOutputTextTokenCount":null}'
        assert second == b'data:{"outputText":"\\u2028","index":0,"totalOutputTextTokenCount":null}'
        assert last.startswith(b'data:{"outputText":"","index":0,"totalOutputTextTokenCount":')
        assert json.loads(last[5:])["completionReason"] == "FINISH"
        assert nothing == b""

    @pytest.mark.promise(137, 174)
    @pytest.mark.parametrize("mark", [{}, {"x-amz-date": "20261129T000000Z"}], ids=["plain", "binary"])
    def test_each_piece_comes_when_it_is_said(self, back: Served, mark: dict[str, str]) -> None:
        path = "/bedrock/model/led/any/invoke-with-response-stream"
        with Leader() as leader, Wire(back.port, "POST", path, prompt(leader.port), mark) as wire:
            leader.say("one")
            first = wire.read_until(b"b25lIi" if mark else b'"one"')  # the text in the base64 of the object
            leader.say("two")
            assert len(wire.read_until(b"dHdvIi" if mark else b'"two"')) > len(first)
            leader.end()
            wire.read()

    def test_a_local_model(self, aws: Any) -> None:
        assert invoke(aws, "plain", prompt("Hi", temperature=0, maxTokenCount=4))["results"][0]["completionReason"]


class TestMessages:
    @both_ways
    def test_text(self, claude: anthropic.AnthropicBedrock, ask: Any) -> None:
        message = ask(claude)
        assert (message.type, message.role, message.model) == ("message", "assistant", "scripted")
        assert [(b.type, b.text) for b in message.content] == [("text", echo("Hi"))]
        assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
        assert message.usage.input_tokens == 1
        assert message.usage.output_tokens > 10

    def test_the_objects_are_the_events_of_the_api(self, aws: Any) -> None:
        got = objects(aws, "scripted", messages(max_tokens=2))
        assert [o["type"] for o in got] == [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
        assert got[-1][METRICS]["outputTokenCount"] == 2
        document = invoke(aws, "scripted", messages(max_tokens=2))
        assert (document["type"], document["stop_reason"]) == ("message", "max_tokens")

    @both_ways
    def test_limits(self, claude: anthropic.AnthropicBedrock, ask: Any) -> None:
        cut = ask(claude, max_tokens=3)
        assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 3)
        stopped = ask(claude, stop_sequences=["nothing", "scripted"])
        assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "scripted")

    @pytest.mark.fault("F5")
    @both_ways
    def test_separators_of_lines_are_text(self, claude: anthropic.AnthropicBedrock, ask: Any) -> None:
        talk = [{"role": "user", "content": SEPARATORS}]
        assert text_of(ask(claude, model="parrot/any", messages=talk)) == SEPARATORS

    @both_ways
    def test_images_arrive(self, claude: anthropic.AnthropicBedrock, ask: Any) -> None:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        talk = [{"role": "user", "content": [image, {"type": "text", "text": "Look"}]}]
        assert text_of(ask(claude, messages=talk)) == f'You said: "Look". I was given 1 image. {SIGNED}'

    @both_ways
    def test_calls_and_their_results(self, claude: anthropic.AnthropicBedrock, ask: Any) -> None:
        one = ask(claude, tools=[WEATHER, TIME])
        assert [(b.type, b.name, b.input) for b in one.content] == [("tool_use", "weather", ARGUMENTS)]
        two = ask(claude, messages=BOTH, tools=[WEATHER])
        assert (two.stop_reason, [b.input for b in two.content]) == ("tool_use", [ARGUMENTS, ARGUMENTS])
        results = [
            {"type": "tool_result", "tool_use_id": b.id, "content": f"rain {n}"} for n, b in enumerate(two.content)
        ]
        talk = [*BOTH, {"role": "assistant", "content": two.content}, {"role": "user", "content": results}]
        said = text_of(ask(claude, messages=talk, tools=[WEATHER]))
        assert said == f'weather answered "rain 0". weather answered "rain 1". {SIGNED}'

    @both_ways
    def test_reasoning_is_a_signed_block_that_comes_back(self, claude: anthropic.AnthropicBedrock, ask: Any) -> None:
        first = ask(claude, thinking=THINK)
        thinking, text = first.content
        assert (thinking.type, thinking.thinking, text.text) == ("thinking", thought("Hi"), echo("Hi"))
        assert thinking.signature
        talk = [*HI, {"role": "assistant", "content": first.content}, *HI]
        assert text_of(ask(claude, thinking=THINK, messages=talk)) == echo("Hi")

    @both_ways
    def test_a_local_model(self, claude: anthropic.AnthropicBedrock, ask: Any) -> None:
        message = ask(claude, model="tiny", extra_body={"temperature": 0})
        assert (text_of(message), message.stop_reason) == (TEXT, "end_turn")

    def test_signed_requests_are_served_too(self, back: Served) -> None:
        with anthropic.AnthropicBedrock(
            aws_region=REGION, base_url=f"{back.url}/bedrock", aws_access_key="A", aws_secret_key="s", max_retries=0
        ) as sdk:
            assert text_of(streamed(sdk)) == text_of(whole(sdk)) == echo("Hi")


class TestPlaces:
    @pytest.mark.parametrize("prefix", ["/bedrock", ""])
    @pytest.mark.parametrize("model", ["scripted", "scripted/scripted"])
    def test_every_spelling_of_the_path(self, back: Served, prefix: str, model: str) -> None:
        """boto3 encodes the whole name, Anthropic's SDK leaves colons and slashes."""
        with boto(back.url, prefix=prefix) as aws:
            assert invoke(aws, model, prompt("Hi"))["results"][0]["outputText"] == echo("Hi")
            assert objects(aws, model, prompt("Hi"))[-1]["completionReason"] == "FINISH"
        with anthropic.AnthropicBedrock(
            aws_region=REGION, base_url=back.url + prefix, api_key="any", max_retries=0
        ) as sdk:
            assert text_of(streamed(sdk, model=model)) == text_of(whole(sdk, model=model)) == echo("Hi")
            assert text_of(whole(sdk, model="tiny:latest", extra_body={"temperature": 0})) == TEXT

    def test_what_the_headers_say(self, aws: Any) -> None:
        stream = aws.invoke_model_with_response_stream(
            modelId="scripted", body=json.dumps(prompt("Hi", maxTokenCount=1))
        )
        assert stream["contentType"] == "application/json"
        headers = stream["ResponseMetadata"]["HTTPHeaders"]
        assert headers["content-type"] == "application/vnd.amazon.eventstream"
        assert headers["x-amzn-bedrock-content-type"] == "application/json"
        assert stream["ResponseMetadata"]["RequestId"] == headers["x-request-id"]
        list(stream["body"])
        whole_answer = aws.invoke_model(modelId="scripted", body=json.dumps(prompt("Hi")))
        whole_answer["body"].read()
        assert whole_answer["contentType"] == "application/json"
        assert whole_answer["ResponseMetadata"]["RequestId"]

    def test_what_is_ignored_is_said(self, aws: Any) -> None:
        answer = aws.invoke_model(modelId="scripted", body=json.dumps({**prompt("Hi"), "guardrails": "x"}))
        answer["body"].read()
        assert answer["ResponseMetadata"]["HTTPHeaders"]["x-rivermouth-ignored"] == "guardrails"

    def test_tokens_are_counted(self, aws: Any) -> None:
        def count(text: str) -> int:
            body = json.dumps(messages([{"role": "user", "content": text}]))
            return int(aws.count_tokens(modelId="scripted", input={"invokeModel": {"body": body}})["inputTokens"])

        assert 0 < count("Hi") < 20 < 200 < count("Hi " * 400) < 800
        talk = [{"role": "user", "content": [{"text": "Hi"}]}]
        told = aws.count_tokens(modelId="scripted", input={"converse": {"messages": talk}})
        assert told["inputTokens"] == count("Hi")
        with pytest.raises(aws.exceptions.ValidationException, match=r"input\.converse\.messages"):
            aws.count_tokens(modelId="scripted", input={"converse": {"messages": []}})


class TestEmbeddings:
    def test_a_vector(self, aws: Any, back: Served) -> None:
        found = invoke(aws, "scripted-embed", {"inputText": "a river"})
        assert found["embedding"] == found["embeddingsByType"]["float"]
        assert found["inputTextTokenCount"] > 0
        assert back.last_record().operation == "embed"
        scaled = invoke(aws, "scripted-embed", {"inputText": "a river", "normalize": True, "embeddingTypes": ["float"]})
        assert sum(x * x for x in scaled["embedding"]) == pytest.approx(1)

    @pytest.mark.promise(76, 78)
    def test_it_is_not_streamed(self, aws: Any) -> None:
        with pytest.raises(aws.exceptions.ValidationException, match="not streamed"):
            objects(aws, "scripted-embed", {"inputText": "a river"})

    def test_what_it_cannot_be(self, aws: Any) -> None:
        for body, says in (
            ({"inputText": ""}, "inputText"),
            ({"inputText": "a", "embeddingTypes": ["binary"]}, "embeddingTypes"),
            ({"inputText": "a", "dimensions": 0}, "dimensions"),
            ({"inputText": 3, "normalize": True}, "inputText"),
        ):
            with pytest.raises(aws.exceptions.ValidationException, match=says):
                invoke(aws, "scripted-embed", body)


class TestErrors:
    @pytest.mark.fault("F15")
    @both_calls
    @pytest.mark.parametrize("body", [prompt("Hi"), messages()], ids=["titan", "anthropic"])
    def test_an_unknown_model(self, aws: Any, call: Call, body: Any) -> None:
        with pytest.raises(aws.exceptions.ResourceNotFoundException, match="nobody") as raised:
            call(aws, "nobody", body)
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404

    @both_calls
    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"anything": 1}, "body"),
            (prompt(""), "inputText"),
            (prompt("Hi", topP="much"), "textGenerationConfig.topP"),
            (messages(3), "messages"),
            (messages([{"role": "poet", "content": "Hi"}]), "messages.0.role"),
            (messages(max_tokens="many"), "max_tokens"),
        ],
    )
    def test_a_wrong_field_is_named(self, aws: Any, call: Call, body: Any, field: str) -> None:
        with pytest.raises(aws.exceptions.ValidationException, match=field):
            call(aws, "scripted", body)

    def test_what_is_no_json(self, aws: Any) -> None:
        with pytest.raises(aws.exceptions.ValidationException, match="JSON"):
            aws.invoke_model(modelId="scripted", body=b'{"inputText": "Hi')

    def test_a_body_over_the_limit(self, aws: Any) -> None:
        with pytest.raises(aws.exceptions.ValidationException) as raised:
            invoke(aws, "scripted", prompt("x" * BODY_LIMIT_BYTES))
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 413

    @pytest.mark.fault("F15")
    def test_unknown_routes_have_the_protocols_shape(self, aws: Any) -> None:
        where = {"s3OutputDataConfig": {"s3Uri": "s3://bucket/x"}}
        with pytest.raises(aws.exceptions.ResourceNotFoundException) as raised:
            aws.start_async_invoke(modelId="scripted", modelInput={}, outputDataConfig=where)
        assert "POST" in raised.value.response["Error"]["Message"]

    @pytest.mark.parametrize(
        "path", ["/bedrock/guardrail/g/version/1/apply", "/bedrock/async-invoke", "/bedrock/x", "/model/m/x"]
    )
    def test_so_has_everything_below_the_prefix(self, back: Served, path: str) -> None:
        with Wire(back.port, "POST", path, {}) as wire:
            assert wire.status == 404
            assert wire.headers["x-amzn-errortype"] == "ResourceNotFoundException"
            home = "/bedrock" if path.startswith("/bedrock") else ""
            assert f"POST {home}/model/{{model}}/invoke" in wire.json()["message"]

    def test_a_wrong_method(self, back: Served) -> None:
        with Wire(back.port, "GET", "/bedrock/model/scripted/invoke") as wire:
            assert (wire.status, wire.headers["allow"]) == (405, "POST")
            assert wire.headers["x-amzn-errortype"] == "ValidationException"

    def test_keys(self, keyed: Served) -> None:
        """R16: the access key id of a signature, or a bearer token."""
        with boto(keyed.url, KEY) as aws:
            assert objects(aws, "scripted", prompt("Hi"))[-1]["completionReason"] == "FINISH"
        with boto(keyed.url, "wrong") as aws:
            for call in (invoke, objects):
                with pytest.raises(ClientError) as raised:
                    call(aws, "scripted", prompt("Hi"))
                assert raised.value.response["Error"]["Code"] == "UnrecognizedClientException"
                assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
        good: Any = [{"api_key": KEY}, {"aws_access_key": KEY, "aws_secret_key": "s"}]
        bad: Any = [{"api_key": "wrong"}, {"aws_access_key": "wrong", "aws_secret_key": "s"}]
        for how in (*good, *bad):
            with anthropic.AnthropicBedrock(
                aws_region=REGION, base_url=f"{keyed.url}/bedrock", max_retries=0, **how
            ) as sdk:
                if how in good:
                    assert text_of(streamed(sdk)) == echo("Hi")
                else:
                    with pytest.raises(anthropic.PermissionDeniedError):
                        whole(sdk)

    @pytest.mark.fault("F9", "F10", "F11", "F14", "F16")
    @pytest.mark.parametrize("body", [prompt("Hi"), messages()], ids=["titan", "anthropic"])
    def test_an_error_in_the_stream(self, aws: Any, back: Served, body: Any) -> None:
        """The vendor's own reader checks every checksum, the exception's among them."""
        answer = aws.invoke_model_with_response_stream(modelId="scripted-error", body=json.dumps(body))
        got: list[Any] = []
        with pytest.raises(EventStreamError, match="fails after 5 tokens") as raised:
            got.extend(json.loads(event["chunk"]["bytes"]) for event in answer["body"])
        answer["body"].close()
        assert raised.value.response["Error"]["Code"] == "modelStreamErrorException"
        said = "".join(o.get("outputText") or o.get("delta", {}).get("text", "") for o in got)
        assert said == 'You said: "Hi". This is'
        assert "completionReason" not in got[-1]
        assert got[-1].get("type") in (None, "content_block_stop")
        record = back.record(answer["ResponseMetadata"]["RequestId"])
        assert (record.status, record.text_chars) == (Status.FAILED, len(said))
        with pytest.raises(aws.exceptions.ModelErrorException):
            invoke(aws, "scripted-error", body)

    @pytest.mark.fault("F10", "F14")
    def test_an_error_in_a_plain_stream(self, back: Served) -> None:
        path = "/bedrock/model/scripted-error/invoke-with-response-stream"
        with Wire(back.port, "POST", path, prompt("Hi")) as wire:
            frames = [json.loads(block[5:]) for block in wire.read().split(b"\n\n") if block]
        assert [*frames[-1]] == ["modelStreamErrorException"]
        assert all("completionReason" not in frame for frame in frames)

    @both_ways
    @pytest.mark.fault("F11")
    def test_errors_of_the_other_sdk(self, claude: anthropic.AnthropicBedrock, ask: Any) -> None:
        with pytest.raises(anthropic.NotFoundError, match="nobody"):
            ask(claude, model="nobody")
        with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
            ask(claude, max_tokens=-1)
        with pytest.raises(anthropic.APIStatusError, match="fails after 5 tokens"):
            ask(claude, model="scripted-error")

    @pytest.mark.fault("F12")
    @both_calls
    def test_an_empty_answer_is_an_error(self, aws: Any, call: Call) -> None:
        with pytest.raises(aws.exceptions.ModelErrorException):
            call(aws, "scripted-empty", prompt("Hi"))


class TestLeaving:
    @pytest.mark.promise(33, 72, 73, 75)
    @pytest.mark.fault("F31")
    @pytest.mark.parametrize("body", [prompt("Hi"), messages()], ids=["titan", "anthropic"])
    def test_an_early_close_reaches_the_model(self, aws: Any, back: Served, body: Any) -> None:
        answer = aws.invoke_model_with_response_stream(modelId="scripted-slow", body=json.dumps(body))
        next(iter(answer["body"]))
        assert back.inflight() == 1
        answer["body"].close()
        back.idle()
        record = back.record(answer["ResponseMetadata"]["RequestId"])
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
        assert record.text_chars < 600

    @pytest.mark.fault("F31")
    def test_so_does_that_of_the_other_sdk(self, claude: anthropic.AnthropicBedrock, back: Served) -> None:
        with claude.messages.stream(model="scripted-slow", max_tokens=ROOM, messages=HI) as stream:
            next(stream.text_stream)
        back.idle()
        record = back.record(str(stream.response.headers["request-id"]))
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")

    @pytest.mark.fault("F31", "F32")
    @pytest.mark.anyio
    async def test_a_cancelled_task_before_the_first_token(self, back: Served, anyio_backend: str) -> None:
        with Leader() as leader:
            talk: Any = [{"role": "user", "content": leader.port}]
            sdk = anthropic.AsyncAnthropicBedrock(
                aws_region=REGION, base_url=f"{back.url}/bedrock", api_key="any", max_retries=0
            )
            async with sdk, anyio.create_task_group() as tasks:

                async def ask() -> None:
                    async with sdk.messages.stream(model="led/any", max_tokens=9, messages=talk) as stream:
                        await stream.until_done()

                tasks.start_soon(ask)
                await to_thread.run_sync(leader.meet)
                tasks.cancel_scope.cancel()
            await to_thread.run_sync(leader.wait_gone)
            await to_thread.run_sync(back.idle)
        record = await to_thread.run_sync(back.last_record)
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")

    @pytest.mark.anyio
    async def test_asynchronously(self, back: Served, anyio_backend: str) -> None:
        sdk = anthropic.AsyncAnthropicBedrock(
            aws_region=REGION, base_url=f"{back.url}/bedrock", api_key="any", max_retries=0
        )
        async with sdk, sdk.messages.stream(model="scripted-think", max_tokens=ROOM, messages=HI) as stream:
            texts = [text async for text in stream.text_stream]
            message = await stream.get_final_message()
        assert "".join(texts) == text_of(message) == echo("Hi")


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory, keyed: Served) -> Iterator[Served]:
    """A server whose Bedrock is `keyed`, which takes the access key id of the signature for its key."""
    config = f'[resilience]\nretries = 0\n[providers.bedrock]\nbase_url = "{keyed.url}/bedrock"\nregion = "{REGION}"\n'
    folder = tmp_path_factory.mktemp("between")
    env = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_CONFIG_FILE": str(folder / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with served(folder, config, scripted=False, env=env) as server:
        yield server


class TestUpstream:
    @both_calls
    def test_a_signed_call_to_another_server(self, between: Served, call: Call) -> None:
        with boto(between.url) as aws:
            for body in (prompt("Hi"), messages()):
                answer = call(aws, "bedrock/scripted", body)
                assert SIGNED.partition(" ")[0] in json.dumps(answer, ensure_ascii=False)

    @both_ways
    def test_for_another_dialects_client(self, between: Served, ask: Any) -> None:
        with anthropic.Anthropic(base_url=between.url, api_key="any", max_retries=0) as sdk:
            message = ask(sdk, model="bedrock/scripted", tools=[WEATHER, TIME])
        assert [(b.type, b.name, b.input) for b in message.content] == [("tool_use", "weather", ARGUMENTS)]
        assert message.model == "bedrock/scripted"

    @pytest.mark.fault("F10", "F11", "F14", "F16")
    def test_an_error_in_its_stream(self, between: Served) -> None:
        with boto(between.url) as aws, pytest.raises(EventStreamError, match="fails after 5 tokens") as raised:
            objects(aws, "bedrock/scripted-error", messages())
        assert raised.value.response["Error"]["Code"] == "modelStreamErrorException"
        assert between.last_record().status is Status.FAILED

    def test_embeddings(self, between: Served) -> None:
        with boto(between.url) as aws:
            assert invoke(aws, "bedrock/scripted-embed", {"inputText": "a river"})["embedding"]

    def test_that_it_cannot_list_its_models_disturbs_nobody(self, between: Served) -> None:
        """Their list is another service's."""
        with anthropic.Anthropic(base_url=between.url, api_key="any", max_retries=0) as sdk:
            assert list(sdk.models.list()) == []
            with pytest.raises(anthropic.NotFoundError, match="nobody"):
                whole(sdk, model="nobody")  # type: ignore[arg-type]
