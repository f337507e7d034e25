"""The fake upstreams on real sockets, driven by the vendors' own SDKs: they speak as vendors do, and fail as told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.agents.cases import CASES, Case, Fault, Kind
from tests.agents.fence import Fence
from tests.agents.task import COMMANDS, PROMPT, THOUGHTS, WORKS
from tests.agents.upstream import Run, TaskUpstream

pytestmark = pytest.mark.anyio

NOTHING = Fault(Kind.NONE)
OPENAI_TOOLS: Any = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
ANTHROPIC_TOOLS: Any = [{"name": "bash", "input_schema": {"type": "object"}}]
MESSAGES: Any = [{"role": "user", "content": PROMPT}]


@pytest.fixture
async def openai_fake() -> AsyncIterator[TaskUpstream]:
    async with TaskUpstream("openai") as fake:
        yield fake


@pytest.fixture
async def anthropic_fake() -> AsyncIterator[TaskUpstream]:
    async with TaskUpstream("anthropic") as fake:
        yield fake


def openai_sdk(fake: TaskUpstream) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{fake.url}/v1", api_key="k", max_retries=0)


def anthropic_sdk(fake: TaskUpstream) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=fake.url, api_key="k", max_retries=0)


async def test_openai_streamed_and_whole(openai_fake: TaskUpstream) -> None:
    openai_fake.runs["m"] = Run(NOTHING)
    asked: Any = {"model": "m", "messages": MESSAGES, "tools": OPENAI_TOOLS}
    async with openai_sdk(openai_fake) as sdk:
        async with sdk.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
            streamed = await stream.get_final_completion()
        whole = await sdk.chat.completions.create(**asked)
    for answer in (streamed, whole):
        said = answer.choices[0].message
        assert (said.content, said.reasoning_content) == (WORKS, THOUGHTS)
        assert COMMANDS[0] in said.tool_calls[0].function.arguments
        assert (answer.choices[0].finish_reason, answer.usage.total_tokens) == ("tool_calls", 120)
    assert [(post.streams, post.struck) for post in openai_fake.runs["m"].posts] == [(True, False), (False, False)]


async def test_anthropic_streamed_and_whole(anthropic_fake: TaskUpstream) -> None:
    anthropic_fake.runs["m"] = Run(NOTHING)
    asked: Any = {"model": "m", "max_tokens": 99, "messages": MESSAGES, "tools": ANTHROPIC_TOOLS}
    async with anthropic_sdk(anthropic_fake) as sdk:
        async with sdk.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        whole = await sdk.messages.create(**asked)
    for answer in (streamed, whole):
        thoughts, text, call = answer.content
        assert (thoughts.thinking, text.text, call.input["command"]) == (THOUGHTS, WORKS, COMMANDS[0])
        assert (answer.stop_reason, answer.usage.output_tokens) == ("tool_use", 20)
        assert len(thoughts.signature) > 40


async def test_a_request_that_a_vendor_would_refuse_is_refused(anthropic_fake: TaskUpstream) -> None:
    anthropic_fake.runs["m"] = Run(NOTHING)
    assistant = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "forged"}]}
    async with anthropic_sdk(anthropic_fake) as sdk:
        with pytest.raises(anthropic.BadRequestError, match="a thought with the signature 'forged'"):
            await sdk.messages.create(model="m", max_tokens=9, messages=[*MESSAGES, assistant, *MESSAGES])


async def test_what_belongs_to_no_run_is_kept_and_refused(openai_fake: TaskUpstream) -> None:
    async with openai_sdk(openai_fake) as sdk:
        with pytest.raises(openai.NotFoundError):
            await sdk.chat.completions.create(model="stray", messages=MESSAGES)
        with pytest.raises(openai.NotFoundError):
            await sdk.models.list()
    assert openai_fake.strangers == ["POST /v1/chat/completions stray", "GET /v1/models None"]


BEFORE = {case.name: case for case in CASES if case.fault.kind in (Kind.OVERLOADED, Kind.LIMITED) and case.told}


@pytest.mark.parametrize(("name", "status"), [("overloaded, told", 503), ("limited, told", 429)])
async def test_a_fault_strikes_once_and_only_in_the_task(openai_fake: TaskUpstream, name: str, status: int) -> None:
    run = openai_fake.runs["m"] = Run(BEFORE[name].fault)
    async with openai_sdk(openai_fake) as sdk:
        await sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "a title?"}])
        with pytest.raises(openai.APIStatusError) as refused:
            await sdk.chat.completions.create(model="m", messages=MESSAGES, tools=OPENAI_TOOLS)
        assert (refused.value.status_code, refused.value.response.headers.get("retry-after")) == (
            status,
            "1" if status == 429 else None,
        )
        await sdk.chat.completions.create(model="m", messages=MESSAGES, tools=OPENAI_TOOLS)
    assert [(post.of_the_task, post.struck) for post in run.posts] == [(False, False), (True, True), (True, False)]


@pytest.mark.parametrize("case", [case for case in CASES if case.fault.kind is Kind.CUT], ids=lambda case: case.name)
async def test_a_cut_comes_where_the_case_says(anthropic_fake: TaskUpstream, case: Case) -> None:
    anthropic_fake.runs["m"] = Run(Fault(case.fault.kind, case.fault.tag, case.fault.times))
    asked = {"model": "m", "max_tokens": 9, "stream": True, "messages": MESSAGES, "tools": ANTHROPIC_TOOLS}
    got: list[str] = []
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.RemoteProtocolError):
            async with client.stream("POST", f"{anthropic_fake.url}/v1/messages", json=asked) as answer:
                got += [line async for line in answer.aiter_lines()]
    kinds = {"thoughts": "thinking_delta", "text": "text_delta", "call": "input_json_delta"}
    assert sum(kinds[case.fault.tag] in line for line in got) in (0, case.fault.times)
    assert not any("message_stop" in line for line in got)


async def test_the_fence_lets_nothing_out_and_keeps_what_wanted_to() -> None:
    async with Fence() as fence, httpx.AsyncClient(proxy=fence.url) as client:
        assert (await client.get("http://telemetry.example/x")).status_code == 403
        with pytest.raises(httpx.ProxyError):
            await client.get("https://telemetry.example/x")
    assert fence.wanted == ["http://telemetry.example/x", "telemetry.example:443"]
