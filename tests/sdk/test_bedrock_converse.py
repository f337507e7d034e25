"""boto3's converse and converse_stream against a running server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import openai
import pytest
from botocore.exceptions import ClientError, EventStreamError

from rivermouth.store.port import Status
from tests.sdk.aws import REGION, boto
from tests.sdk.conftest import KEY, served
from tests.sdk.leader import Leader
from tests.sdk.said import ARGUMENTS, CITY, PIXEL, SEPARATORS, SIGNED, echo, thought
from tests.sdk.served import Served
from tests.tiny_gguf import TEXT

HI: Any = [{"role": "user", "content": [{"text": "Hi"}]}]
BOTH: Any = [{"role": "user", "content": [{"text": "Try both tools."}]}]
WEATHER: Any = {"toolSpec": {"name": "weather", "description": "Today's", "inputSchema": {"json": CITY}}}
TIME: Any = {"toolSpec": {"name": "time", "inputSchema": {"json": {"type": "object", "properties": {}}}}}
THINK: Any = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
PNG: bytes = b"\x89PNG"
USE: Any = {"toolUseId": "a", "name": "f", "input": {}}
IN_A_BUCKET: Any = {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/x.png"}}}


@pytest.fixture(scope="module")
def aws(back: Served) -> Iterator[Any]:
    with boto(back.url) as client:
        yield client


def whole(aws: Any, **fields: Any) -> Any:
    return aws.converse(**{"modelId": "scripted", "messages": HI, **fields})


def streamed(aws: Any, **fields: Any) -> Any:
    """What a client makes of the stream, going by the order of the events as clients do."""
    answer = aws.converse_stream(**{"modelId": "scripted", "messages": HI, **fields})
    return {**gathered(list(answer["stream"])), "ResponseMetadata": answer["ResponseMetadata"]}


def gathered(events: list[Any]) -> dict[str, Any]:
    content: list[Any] = []
    block: dict[str, Any] = {}
    index = 0
    said: dict[str, Any] = {}
    assert [*events[0]] == ["messageStart"]
    assert [[*e] for e in events[-2:]] == [["messageStop"], ["metadata"]]
    for event in events[1:]:
        ((name, value),) = event.items()
        if name == "contentBlockStart":
            assert (block, value["contentBlockIndex"]) == ({}, index)
            block = {kind: {**start} for kind, start in value["start"].items()}
        elif name == "contentBlockDelta":
            assert value["contentBlockIndex"] == index
            _add(block, value["delta"])
        elif name == "contentBlockStop":
            assert value["contentBlockIndex"] == index
            content.append(_whole(block))
            block, index = {}, index + 1
        else:
            said |= value
    assert block == {}
    return {**said, "output": {"message": {**events[0]["messageStart"], "content": content}}}


def _add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    ((kind, value),) = delta.items()
    if kind == "text":
        block["text"] = block.get("text", "") + value
    else:
        into = block.setdefault(kind, {})
        for name, piece in value.items():
            into[name] = into.get(name, type(piece)()) + piece


def _whole(block: dict[str, Any]) -> dict[str, Any]:
    """The block as a whole answer has it."""
    if "toolUse" in block:
        return {"toolUse": {**block["toolUse"], "input": json.loads(block["toolUse"].get("input") or "{}")}}
    if "reasoningContent" in block and "redactedContent" not in block["reasoningContent"]:
        return {"reasoningContent": {"reasoningText": block["reasoningContent"]}}
    return block


def content_of(answer: Any) -> Any:
    return answer["output"]["message"]["content"]


def text_of(answer: Any) -> str:
    return "".join(block.get("text", "") for block in content_of(answer))


def calls_of(answer: Any) -> list[Any]:
    return [block["toolUse"] for block in content_of(answer) if "toolUse" in block]


both_ways = pytest.mark.parametrize("ask", [whole, streamed])


class TestAnswers:
    @both_ways
    def test_text(self, aws: Any, ask: Any) -> None:
        answer = ask(aws, system=[{"text": "Be brief."}])
        assert answer["output"]["message"]["role"] == "assistant"
        assert content_of(answer) == [{"text": echo("Hi")}]
        assert answer["stopReason"] == "end_turn"
        usage = answer["usage"]
        assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"] > usage["inputTokens"] > 0
        assert answer["metrics"]["latencyMs"] >= 0

    @both_ways
    def test_limits(self, aws: Any, ask: Any) -> None:
        cut = ask(aws, inferenceConfig={"maxTokens": 3})
        assert (cut["stopReason"], cut["usage"]["outputTokens"]) == ("max_tokens", 3)
        config = {"stopSequences": ["nothing", "scripted"]}
        stopped = ask(aws, inferenceConfig=config, additionalModelResponseFieldPaths=["/stop_sequence"])
        assert stopped["stopReason"] == "stop_sequence"
        assert stopped["additionalModelResponseFields"] == {"stop_sequence": "scripted"}
        assert "additionalModelResponseFields" not in ask(aws, inferenceConfig=config)

    @pytest.mark.fault("F5")
    @both_ways
    def test_separators_of_lines_are_text(self, aws: Any, ask: Any) -> None:
        talk = [{"role": "user", "content": [{"text": SEPARATORS}]}]
        assert text_of(ask(aws, modelId="parrot/any", messages=talk)) == SEPARATORS

    @both_ways
    def test_images_and_documents_arrive(self, aws: Any, ask: Any) -> None:
        image = {"image": {"format": "png", "source": {"bytes": PNG}}}
        document = {"document": {"format": "pdf", "name": "a document", "source": {"bytes": b"%PDF-"}}}
        talk = [{"role": "user", "content": [image, {"text": "Look"}, document, {"cachePoint": {"type": "default"}}]}]
        assert text_of(ask(aws, messages=talk)).startswith('You said: "Look". I was given 1 image')

    @both_ways
    def test_a_local_model(self, aws: Any, ask: Any) -> None:
        assert text_of(ask(aws, modelId="tiny:latest", inferenceConfig={"temperature": 0})) == TEXT

    @pytest.mark.promise(174)
    def test_each_piece_comes_when_it_is_said(self, aws: Any) -> None:
        with Leader() as leader, ThreadPoolExecutor(1) as aside:  # the status waits for the first piece
            talk = [{"role": "user", "content": [{"text": leader.port}]}]
            asked = aside.submit(aws.converse_stream, modelId="led/any", messages=talk)
            leader.say("one")
            events = iter(asked.result()["stream"])
            assert next(events) == {"messageStart": {"role": "assistant"}}
            assert next(events)["contentBlockDelta"]["delta"] == {"text": "one"}
            leader.say("two")
            assert next(events)["contentBlockDelta"]["delta"] == {"text": "two"}
            leader.end()
            assert [name for event in events for name in event] == ["contentBlockStop", "messageStop", "metadata"]

    def test_what_the_headers_say(self, aws: Any) -> None:
        answer = aws.converse_stream(modelId="scripted", messages=HI, performanceConfig={"latency": "standard"})
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        assert headers["content-type"] == "application/vnd.amazon.eventstream"
        assert answer["ResponseMetadata"]["RequestId"] == headers["x-request-id"]
        assert "x-rivermouth-ignored" not in headers
        list(answer["stream"])
        ignored = whole(aws, additionalModelRequestFields={"speed": 3}, requestMetadata={"team": "y"})
        said = ignored["ResponseMetadata"]["HTTPHeaders"]["x-rivermouth-ignored"]
        assert "additionalModelRequestFields.speed" in said

    def test_without_its_prefix(self, back: Served) -> None:
        with boto(back.url, prefix="") as client:
            assert text_of(whole(client)) == text_of(streamed(client)) == echo("Hi")


class TestTools:
    @both_ways
    def test_calls_and_their_results(self, aws: Any, ask: Any) -> None:
        tools = {"tools": [WEATHER, TIME]}
        one = ask(aws, toolConfig={**tools, "toolChoice": {"auto": {}}})
        assert [(call["name"], call["input"]) for call in calls_of(one)] == [("weather", ARGUMENTS)]
        assert one["stopReason"] == "tool_use"
        forced = ask(aws, toolConfig={**tools, "toolChoice": {"tool": {"name": "time"}}})
        assert [(call["name"], call["input"]) for call in calls_of(forced)] == [("time", {})]

    @both_ways
    def test_parallel_calls(self, aws: Any, ask: Any) -> None:
        two = ask(aws, messages=BOTH, toolConfig={"tools": [WEATHER]})
        calls = calls_of(two)
        assert [call["input"] for call in calls] == [ARGUMENTS, ARGUMENTS]
        assert len({call["toolUseId"] for call in calls}) == 2
        results = [
            {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": f"rain {n}"}, {"json": {"n": n}}]}}
            for n, call in enumerate(calls)
        ]
        failed: Any = {"toolResult": {**results[1]["toolResult"], "status": "error"}}
        talk = [*BOTH, two["output"]["message"], {"role": "user", "content": [results[0], failed]}]
        last = ask(aws, messages=talk, toolConfig={"tools": [WEATHER]})
        assert "rain 0" in text_of(last)
        assert "rain 1" in text_of(last)

    @both_ways
    def test_an_answer_to_a_schema(self, aws: Any, ask: Any) -> None:
        schema = {"jsonSchema": {"schema": json.dumps(CITY), "name": "place"}}
        answer = ask(aws, outputConfig={"textFormat": {"type": "json_schema", "structure": schema}})
        assert json.loads(text_of(answer)) == ARGUMENTS


class TestReasoning:
    @both_ways
    def test_it_comes_signed_and_goes_back_as_it_came(self, aws: Any, ask: Any) -> None:
        first = ask(aws, additionalModelRequestFields=THINK, inferenceConfig={"maxTokens": 4000})
        reasoning, text = content_of(first)
        told = reasoning["reasoningContent"]["reasoningText"]
        assert (told["text"], text) == (thought("Hi"), {"text": echo("Hi")})
        assert told["signature"]
        talk = [*HI, first["output"]["message"], *HI]
        again = ask(aws, messages=talk, additionalModelRequestFields=THINK, inferenceConfig={"maxTokens": 4000})
        assert text_of(again) == echo("Hi")

    def test_hidden_reasoning_is_taken_back(self, aws: Any) -> None:
        hidden = {"reasoningContent": {"redactedContent": b"\x00\x01hidden"}}
        talk = [*HI, {"role": "assistant", "content": [hidden, {"text": "Ho"}]}, *HI]
        assert text_of(whole(aws, messages=talk)) == echo("Hi")


class TestErrors:
    @pytest.mark.fault("F15")
    @both_ways
    def test_an_unknown_model(self, aws: Any, ask: Any) -> None:
        with pytest.raises(aws.exceptions.ResourceNotFoundException, match="nobody") as raised:
            ask(aws, modelId="nobody")
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404

    @both_ways
    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "poet", "content": [{"text": "Hi"}]}]}, r"messages\.0\.role"),
            ({"messages": [{"role": "user", "content": [{"toolUse": USE}]}]}, r"messages\.0\.content"),
            ({"inferenceConfig": {"topP": 2.0}}, r"inferenceConfig\.topP"),
            ({"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}}, "guardrailConfig"),
            ({"messages": [{"role": "user", "content": [{"image": IN_A_BUCKET}]}]}, "s3Location"),
        ],
    )
    def test_a_wrong_field_is_named(self, aws: Any, ask: Any, fields: Any, field: str) -> None:
        with pytest.raises(aws.exceptions.ValidationException, match=field):
            ask(aws, **fields)

    def test_keys(self, keyed: Served) -> None:
        """R16: the access key id of a signature is the key."""
        with boto(keyed.url, KEY) as client:
            assert text_of(whole(client)) == text_of(streamed(client)) == echo("Hi")
        with boto(keyed.url, "wrong") as client:
            for ask in (whole, streamed):
                with pytest.raises(ClientError) as raised:
                    ask(client)
                assert raised.value.response["Error"]["Code"] == "UnrecognizedClientException"

    @pytest.mark.fault("F9", "F10", "F11", "F13", "F14", "F16")
    def test_an_error_in_the_stream(self, aws: Any, back: Served) -> None:
        """The vendor's own reader checks every checksum, the exception's among them."""
        answer = aws.converse_stream(modelId="scripted-error", messages=HI)
        got: list[Any] = []
        with pytest.raises(EventStreamError, match="fails after 5 tokens") as raised:
            got.extend(answer["stream"])
        answer["stream"].close()
        assert raised.value.response["Error"]["Code"] == "modelStreamErrorException"
        assert [*got[-1]] == ["contentBlockStop"]
        said = "".join(e["contentBlockDelta"]["delta"]["text"] for e in got if "contentBlockDelta" in e)
        assert said == 'You said: "Hi". This is'
        record = back.record(answer["ResponseMetadata"]["RequestId"])
        assert (record.status, record.text_chars) == (Status.FAILED, len(said))
        with pytest.raises(aws.exceptions.ModelErrorException):
            whole(aws, modelId="scripted-error")

    @pytest.mark.fault("F12")
    @both_ways
    def test_an_empty_answer_is_an_error(self, aws: Any, ask: Any) -> None:
        with pytest.raises(aws.exceptions.ModelErrorException):
            ask(aws, modelId="scripted-empty")


class TestLeaving:
    @pytest.mark.promise(33, 72, 73, 75)
    @pytest.mark.fault("F31")
    def test_an_early_close_reaches_the_model(self, aws: Any, back: Served) -> None:
        answer = aws.converse_stream(modelId="scripted-slow", messages=HI)
        next(iter(answer["stream"]))
        assert back.inflight() == 1
        answer["stream"].close()
        back.idle()
        record = back.record(answer["ResponseMetadata"]["RequestId"])
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
        assert record.text_chars < 600


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory, keyed: Served) -> Iterator[Served]:
    """A server whose Bedrock is `keyed`, spoken to in Converse, signed under an access key that is its key."""
    config = (
        "[resilience]\nretries = 0\n[providers.bedrock-converse]\n"
        f'base_url = "{keyed.url}/bedrock"\nregion = "{REGION}"\n'
    )
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


THROUGH = "bedrock-converse/scripted"


class TestUpstream:
    @both_ways
    def test_for_its_own_clients(self, between: Served, ask: Any) -> None:
        with boto(between.url) as client:
            answer = ask(client, modelId=THROUGH)
            assert (text_of(answer), answer["stopReason"]) == (echo("Hi"), "end_turn")
            two = ask(client, modelId=THROUGH, messages=BOTH, toolConfig={"tools": [WEATHER, TIME]})
            assert [call["name"] for call in calls_of(two)] == ["weather", "weather"]
            thinking = ask(client, modelId=f"{THROUGH}-think")
            assert content_of(thinking)[0]["reasoningContent"]["reasoningText"]["text"] == thought("Hi")

    @pytest.mark.parametrize("stream", [False, True])
    def test_for_openais_client(self, between: Served, stream: bool) -> None:
        talk: Any = [{"role": "user", "content": "Try both tools."}]
        tools: Any = [
            {"type": "function", "function": {"name": "weather", "parameters": CITY}},
            {"type": "function", "function": {"name": "time"}},
        ]
        with openai.OpenAI(base_url=f"{between.url}/v1", api_key="any", max_retries=0) as sdk:
            if stream:
                with sdk.chat.completions.stream(model=THROUGH, messages=talk, tools=tools) as events:
                    choice: Any = events.get_final_completion().choices[0]
            else:
                choice = sdk.chat.completions.create(model=THROUGH, messages=talk, tools=tools).choices[0]
        assert choice.finish_reason == "tool_calls"
        assert [call.function.name for call in choice.message.tool_calls] == ["weather", "weather"]

    @pytest.mark.parametrize("stream", [False, True])
    def test_for_anthropics_client(self, between: Served, stream: bool) -> None:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        ask: Any = {
            "model": f"{THROUGH}-think",
            "max_tokens": 4000,
            "messages": [{"role": "user", "content": [image, {"type": "text", "text": "Look"}]}],
        }
        with anthropic.Anthropic(base_url=between.url, api_key="any", max_retries=0) as sdk:
            if stream:
                with sdk.messages.stream(**ask) as events:
                    message: Any = events.get_final_message()
            else:
                message = sdk.messages.create(**ask)
        thinking, text = message.content
        assert (thinking.type, thinking.thinking) == ("thinking", thought("Look"))
        assert text.text == f'You said: "Look". I was given 1 image. {SIGNED}'
        assert message.usage.output_tokens > 10

    @pytest.mark.fault("F10", "F11", "F14", "F16")
    def test_an_error_in_its_stream(self, between: Served) -> None:
        with boto(between.url) as client, pytest.raises(EventStreamError, match="fails after 5 tokens") as raised:
            streamed(client, modelId=f"{THROUGH}-error")
        assert raised.value.response["Error"]["Code"] == "modelStreamErrorException"
        assert between.last_record().status is Status.FAILED

    @pytest.mark.fault("F15")
    def test_an_error_before_its_stream(self, between: Served) -> None:
        with boto(between.url) as client:
            for ask in (whole, streamed):
                with pytest.raises(client.exceptions.ResourceNotFoundException, match="nobody"):
                    ask(client, modelId="bedrock-converse/nobody")

    @pytest.mark.fault("F31")
    def test_leaving_reaches_it(self, between: Served, keyed: Served) -> None:
        with boto(between.url) as client:
            answer = client.converse_stream(modelId=f"{THROUGH}-slow", messages=HI)
            next(iter(answer["stream"]))
            answer["stream"].close()
        between.idle()
        keyed.idle()
        assert (between.last_record().status, keyed.last_record().status) == (Status.CANCELLED, Status.CANCELLED)
