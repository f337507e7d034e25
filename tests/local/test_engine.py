"""The local model through its real process: text, ends, counts, cancel, crashes, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta, Usage
from rivermouth.ir.request import (
    Choose,
    EmbedRequest,
    Format,
    Image,
    Local,
    Message,
    Reasoning,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    Tool,
    ToolChoice,
)
from rivermouth.local.inference.process import EngineProcess, EngineSpec
from rivermouth.local.machine.pool import Limits
from rivermouth.local.models.registry import Registry
from rivermouth.local.provider import LocalProvider, model_info
from tests.local.asking import ask, asking, begin, install, pid_of, some_text, text_of, usage_of, whole
from tests.local.test_sampling import GOOD_SCHEMAS
from tests.tiny_gguf import SCRIPT, TEXT, build

pytestmark = pytest.mark.anyio


@pytest.mark.promise(6, 22, 30, 31)
async def test_the_text_is_exact_and_so_are_the_counts(local: LocalProvider) -> None:
    events = await ask(local, "tiny", asking("Hi"))
    assert text_of(events) == TEXT
    assert [type(event) for event in events if not isinstance(event, TextDelta)] == [
        Start, Usage, PartStart, PartEnd, Usage, Finish,
    ]  # fmt: skip
    assert events[2] == PartStart(0, PartKind.TEXT)
    assert events[-1] == Finish(Reason.STOP)
    usage = usage_of(events)
    # What the template makes of it has 3 special tokens and 18 letters; the script has 13 tokens, and the end is one.
    assert (usage.input_tokens, usage.output_tokens) == (21, 14)
    assert events[1] == Usage(input_tokens=21)
    assert usage.load_ns is not None
    assert usage.prompt_ns
    assert usage.output_ns
    assert not usage.estimated


@pytest.mark.fault("F1")
async def test_a_character_of_four_tokens_comes_whole(local: LocalProvider) -> None:
    events = await ask(local, "tiny", asking())
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert "\U0001f600" in deltas
    assert "�" not in "".join(deltas)


@pytest.mark.promise(10, 17)
async def test_length_is_an_end_of_its_own(local: LocalProvider) -> None:
    events = await ask(local, "tiny", asking(max_tokens=3))
    assert text_of(events) == "Hello from a"
    assert events[-1] == Finish(Reason.LENGTH)
    assert usage_of(events).output_tokens == 3


async def test_cut_inside_a_character_nothing_broken_is_shown(local: LocalProvider) -> None:
    events = await ask(local, "tiny", asking(max_tokens=9))
    assert text_of(events) == "Hello from a tiny local model "
    assert usage_of(events).output_tokens == 9


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ((" local",), "Hello from a tiny"),
        (("ny lo",), "Hello from a ti"),
        (("zebra", "e\U0001f600", " \U0001f600 b"), "Hello from a tiny local model"),
        (("Hello",), ""),
    ],
)
async def test_a_stop_string_ends_the_answer_and_is_not_shown(
    local: LocalProvider, stop: tuple[str, ...], text: str
) -> None:
    events = await ask(local, "tiny", asking(stop=stop))
    assert text_of(events) == text
    assert isinstance(events[-1], Finish)
    assert events[-1].reason is Reason.STOP
    assert events[-1].stop_sequence in stop


@pytest.mark.promise(33, 34, 35)
@pytest.mark.fault("F31")
async def test_cancel_stops_the_engine_at_a_token(local: LocalProvider) -> None:
    upstream = await begin(local, "loop", asking(model="loop"))
    assert await some_text(upstream)
    await upstream.close()
    done = upstream._generation.done
    assert done is not None
    assert done.reason == "cancelled"
    assert 0 < done.output_tokens < 2000
    # and the slot is free: the same process answers the next call
    events = await ask(local, "loop", asking(max_tokens=2))
    assert text_of(events) == "Hello from"


async def test_close_before_the_first_read_cancels(local: LocalProvider) -> None:
    upstream = await begin(local, "loop", asking())
    await upstream.close()
    await upstream.close()
    assert local.pool.statistics()["active"] == 0


async def test_a_read_that_is_cancelled_leaks_nothing(local: LocalProvider) -> None:
    upstream = await begin(local, "loop", asking())

    begun = asyncio.Event()

    async def read_all() -> None:
        await some_text(upstream)
        begun.set()
        while True:
            await upstream.read()

    reading = asyncio.create_task(read_all())
    await begun.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await upstream.close()
    assert (local.pool.statistics()["active"], local.pool.statistics()["waiting"]) == (0, 0)


async def test_a_prompt_that_the_tokenizer_would_cut_is_refused(local: LocalProvider) -> None:
    """It keeps the last 8192 tokens of any text, and this model has room for more."""
    with pytest.raises(ApiError) as refused:
        await ask(local, "plain", asking("x" * 9_000, max_tokens=1))
    assert refused.value.code == "context_length_exceeded"


@pytest.mark.parametrize("wanted", [asking("x" * 60), asking("x" * 100_000), asking(local=Local(context_tokens=8))])
async def test_a_prompt_over_the_context_is_refused_by_name(local: LocalProvider, wanted: object) -> None:
    with pytest.raises(ApiError) as refused:
        await ask(local, "short", wanted)  # type: ignore[arg-type]
    assert refused.value.kind is Kind.INVALID_REQUEST
    assert refused.value.code == "context_length_exceeded"
    assert local.pool.statistics()["active"] == 0


async def test_an_answer_ends_where_the_context_does(local: LocalProvider) -> None:
    for most in (None, 1_000):
        events = await ask(local, "short", asking(max_tokens=most))
        usage = usage_of(events)
        assert usage.input_tokens is not None
        assert usage.output_tokens is not None
        assert usage.input_tokens + usage.output_tokens == 64
        assert events[-1] == Finish(Reason.LENGTH)


@pytest.mark.promise(23)
async def test_role_prefixes_only_where_the_file_has_no_template(local: LocalProvider) -> None:
    said = usage_of(await ask(local, "plain", asking("Hi"))).input_tokens
    assert said == len("User: Hi\nAssistant:")
    assert usage_of(await ask(local, "tiny", asking("Hi"))).input_tokens == 21


@pytest.mark.promise(23)
async def test_templates_can_be_switched_off(local: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_chat_template", False)
    assert usage_of(await ask(local, "tiny", asking("Hi"))).input_tokens == len("User: Hi\nAssistant:")


async def test_a_raw_prompt_is_taken_as_it_is(local: LocalProvider) -> None:
    events = await ask(local, "tiny", asking("Hello from", local=Local(raw=True)))
    assert usage_of(events).input_tokens == 2
    assert text_of(events) == "".join(SCRIPT[2:])


async def test_a_file_of_half_floats_runs(local: LocalProvider) -> None:
    assert text_of(await ask(local, "f16", asking())) == TEXT


@pytest.mark.promise(38)
async def test_sampling_reaches_the_engine(local: LocalProvider) -> None:
    """A top_p this narrow leaves the likeliest token alone, at any temperature."""
    events = await ask(local, "tiny", asking(sampling=Sampling(temperature=50.0, top_p=1e-6, seed=7)))
    assert text_of(events) == TEXT
    hot = [
        text_of(await ask(local, "tiny", asking(sampling=Sampling(temperature=50.0, seed=seed), max_tokens=12)))
        for seed in (1, 1, 2)
    ]
    assert hot[0] == hot[1]
    assert hot[0] != hot[2]
    assert hot[0] != TEXT[: len(hot[0])]


@pytest.mark.promise(37, 39)
async def test_the_stream_is_built_with_the_configured_timeout(
    local: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = await begin(local, "tiny", asking())
    assert upstream._generation.stream.timeout_s == 180.0
    await upstream.close()
    monkeypatch.setattr(local, "_timeout_s", 7.0)
    upstream = await begin(local, "tiny", asking())
    assert upstream._generation.stream.timeout_s == 7.0
    await upstream.close()


async def test_json_is_forced(local: LocalProvider) -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}
    wanted = ResponseFormat(Format.JSON_SCHEMA, schema=schema)
    assert text_of(await ask(local, "tiny", asking(response_format=wanted, max_tokens=8))).startswith("{")


@pytest.mark.parametrize("schema", GOOD_SCHEMAS, ids=str)
async def test_every_schema_that_passes_is_known_to_the_engine(local: LocalProvider, schema: dict[str, Any]) -> None:
    """One that it does not know would end the process."""
    with await local.prepare(asking(), "tiny") as lease:
        wanted = ResponseFormat(Format.JSON_SCHEMA, schema=schema)
        assert text_of(await ask(local, "tiny", asking(response_format=wanted, max_tokens=4)))
        assert lease.loaded.engine.alive


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"tool_choice": ToolChoice(Choose.REQUIRED)}, "tool_choice"),
        ({"tools": (Tool("f"),), "tool_choice": ToolChoice(Choose.NAMED, "g")}, "tool_choice"),
        ({"messages": (Message(Role.USER, (Image(data="AA==", media_type="image/png"),)),)}, "messages"),
        ({"messages": ()}, "messages"),
        ({"local": Local(context_tokens=-1)}, "context_tokens"),
        ({"sampling": Sampling(top_p=1.5)}, "top_p"),
        ({"sampling": Sampling(repetition_penalty=0.0)}, "repetition_penalty"),
    ],
)
async def test_what_would_make_the_answer_wrong_is_refused(
    local: LocalProvider, fields: dict[str, object], param: str
) -> None:
    with pytest.raises(ApiError) as refused:
        await begin(local, "tiny", asking(**fields))
    assert refused.value.kind is Kind.INVALID_REQUEST
    assert refused.value.param == param
    assert local.pool.statistics()["active"] == 0


async def test_what_is_ignored_is_named(local: LocalProvider) -> None:
    warned: list[str] = []
    thought = Message(Role.ASSISTANT, (Reasoning("a"), Reasoning("b"), Text("c")))
    request = asking(
        messages=(thought, Message(Role.USER, (Text("d"),))),
        tools=(Tool("f"),),
        thinking=Thinking(effort="high"),
        sampling=Sampling(logprobs=True),
        local=Local(context_tokens=1 << 20),
        max_tokens=1,
    )
    await whole(await begin(local, "tiny", request, warned))
    assert sorted(warned) == ["context_tokens", "logprobs", "reasoning", "thinking", "tools"]


def test_a_model_is_told_with_its_licence_and_whom_it_asks_to_name(data_dir: Path, files: dict[str, Path]) -> None:
    registry = Registry(data_dir / "models")
    info = model_info(install(registry, "tiny", files["tiny"], license="Apache-2.0", attribution="Tiny by the tests"))
    assert (info.license, info.attribution) == ("Apache-2.0", "Tiny by the tests")


async def test_unknown_models_are_not_found(local: LocalProvider) -> None:
    for wanted in (asking(), EmbedRequest(model="nobody", input=("a",))):
        with pytest.raises(ApiError) as missing:
            await local.prepare(wanted, "nobody")
        assert missing.value.kind is Kind.NOT_FOUND


@pytest.fixture
def starts(own: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> list[EngineSpec]:
    """Every process that `own` starts."""
    seen: list[EngineSpec] = []
    start = own.pool._start

    async def noted(spec: EngineSpec) -> EngineProcess:
        seen.append(spec)
        return await start(spec)

    monkeypatch.setattr(own.pool, "_start", noted)
    return seen


async def nothing_runs(local: LocalProvider) -> None:
    """Returns when no model is loaded and no process is left."""
    while local.running():
        await asyncio.sleep(0)
    await local.close()
    assert local.pool.statistics() == {"models": 0, "loading": 0, "active": 0, "waiting": 0}


async def test_models_what_runs_and_a_call_after_which_it_goes(own: LocalProvider, starts: list[EngineSpec]) -> None:
    listed = {model.id: model for model in await own.models()}
    assert set(listed) == {f"{name}:latest" for name in ("tiny", "loop", "short", "plain", "f16")}
    tiny = listed["tiny:latest"]
    assert (tiny.owner, tiny.family, tiny.quantization, tiny.context_tokens) == ("local", "llama", "Q8_0", 2048)
    assert own.running() == []
    await ask(own, "tiny", asking(max_tokens=1))
    (running,) = own.running()
    assert running.id == "tiny:latest"
    assert running.expires_at is not None
    await ask(own, "tiny", asking(max_tokens=1, local=Local(keep_alive_s=0)))
    await nothing_runs(own)
    assert len(starts) == 1


async def test_a_setting_of_keep_alive_zero_is_one_load_for_each_call(
    own: LocalProvider, starts: list[EngineSpec]
) -> None:
    own.pool.limits = Limits(keep_alive_s=0)
    assert usage_of(await ask(own, "tiny", asking(max_tokens=1))).load_ns
    await nothing_runs(own)
    assert len(starts) == 1


async def test_a_second_name_shares_the_process(own: LocalProvider) -> None:
    await own.copy("tiny", "again:v2")
    await ask(own, "tiny", asking(max_tokens=1))
    first = pid_of(own, "tiny")
    assert text_of(await ask(own, "again:v2", asking(max_tokens=1))) == "Hello"
    assert pid_of(own, "again:v2") == first
    assert len(own.running()) == 1
    await own.delete("tiny")
    assert text_of(await ask(own, "again:v2", asking(max_tokens=1))) == "Hello"
    await own.delete("again:v2")
    assert own.running() == []


async def test_a_bad_file_ends_a_start_with_a_reason(data_dir: object, files: dict[str, object]) -> None:
    """Past the preflight (which never lets such a file into the registry), the process still fails in words."""
    spec = EngineSpec(path=files["tiny"].parent / "absent.gguf", context_tokens=64, end_tokens=(2,))  # type: ignore[attr-defined]
    with pytest.raises(ApiError) as failed:
        await EngineProcess.start(spec)
    assert failed.value.kind is Kind.UPSTREAM
    assert failed.value.code == "load_failed"


async def test_a_load_has_a_clock_of_its_own(files: dict[str, object]) -> None:
    spec = EngineSpec(path=files["tiny"], context_tokens=64, end_tokens=(2,))  # type: ignore[arg-type]
    with pytest.raises(ApiError) as late:
        await EngineProcess.start(spec, load_s=0.0)
    assert late.value.kind is Kind.TIMEOUT
    assert late.value.clock == "load"


@pytest.mark.promise(174)
async def test_a_script_may_be_anything(local: LocalProvider, data_dir: object) -> None:
    words = ("One", " Two", "é", "漢", ";")
    path = build(local.registry.root.parent / "other.gguf", words)
    install(local.registry, "other", path)
    message = (Message(Role.SYSTEM, (Text("be brief"),)), Message(Role.USER, (Text("go"),)))
    events = await ask(local, "other", asking(messages=message))
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(deltas) == "".join(words)
    assert len(deltas) > 4
