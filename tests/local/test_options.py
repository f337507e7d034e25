"""What becomes of every option that a client's SDK can send, when a local model answers.

Each is in the command to the engine process, or refused by name, or named as ignored, or nothing that an answer depends
on.  The lists are the SDKs' own, so an option that a later SDK knows is missing here until somebody decides.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import ollama._types as ollama_types
import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase
from openai.types.chat.completion_create_params import CompletionCreateParamsBase, CompletionCreateParamsStreaming

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Operation
from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import Request, check_translatable
from rivermouth.local.models.registry import Manifest
from rivermouth.local.words.plan import plan_of
from rivermouth.local.words.protocol import Decoding, Generate
from tests.in_turn import in_turn
from tests.local import templates

MANIFEST: Final = Manifest(
    digest="sha256:0",
    size_bytes=1,
    file="model.gguf",
    created=0,
    architecture="llama",
    context_tokens=4096,
    parameters=1,
    quantization="Q8_0",
    longest_token_bytes=16,
    template=templates.HERMES,
)
BASE: Final = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
TOOLS: Final = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


class Sets(NamedTuple):
    """value: what the client sends.  field: of the command, or of its `decoding`.  made: what is there then."""

    value: Any
    field: str
    made: Any


class Ignored(NamedTuple):
    """name: what the answer's headers and warnings call it."""

    value: Any
    name: str


class Refused(NamedTuple):
    value: Any
    param: str


class Nothing(NamedTuple):
    """The same command without a word: it is about the call and not the answer."""

    value: Any


class Needs(NamedTuple):
    """Means something only beside other fields."""

    beside: dict[str, Any]
    fate: Sets | Ignored | Refused | Nothing


Fate = Sets | Ignored | Refused | Nothing | Needs

OPENAI: Final[dict[str, Fate]] = {
    "audio": Ignored({"voice": "v", "format": "wav"}, "audio"),
    "frequency_penalty": Sets(0.5, "frequency_penalty", 0.5),
    "function_call": Needs({"functions": [{"name": "f"}]}, Sets({"name": "f"}, "calls", 1)),
    "functions": Sets([{"name": "f"}], "tools", 1),
    "logit_bias": Ignored({"1": 5}, "logit_bias"),
    "logprobs": Ignored(True, "logprobs"),
    "max_completion_tokens": Sets(7, "max_tokens", 7),
    "max_tokens": Sets(7, "max_tokens", 7),
    "messages": Sets([{"role": "user", "content": "Ho"}], "turns", 1),
    "metadata": Nothing({"a": "b"}),
    "modalities": Refused(["text", "audio"], "modalities"),
    "model": Nothing("n"),
    "moderation": Ignored({"x": 1}, "moderation"),
    "n": Refused(2, "n"),
    "parallel_tool_calls": Needs({"tools": TOOLS}, Sets(False, "stop", ("</tool_call>",))),
    "prediction": Ignored({"type": "content", "content": "x"}, "prediction"),
    "presence_penalty": Sets(0.5, "presence_penalty", 0.5),
    "prompt_cache_key": Nothing("k"),
    "prompt_cache_options": Nothing({"x": 1}),
    "prompt_cache_retention": Nothing("24h"),
    "reasoning_effort": Ignored("high", "thinking"),
    "response_format": Sets({"type": "json_object"}, "schema", '{"type":"object"}'),
    "safety_identifier": Nothing("s"),
    "seed": Needs({"temperature": 1.0}, Sets(5, "rng_seed", 5)),
    "service_tier": Nothing("flex"),
    "stop": Sets(["x"], "stop", ("x",)),
    "store": Nothing(True),
    "stream": Nothing(True),
    "stream_options": Needs({"stream": True}, Nothing({"include_usage": True})),
    "temperature": Sets(0.5, "temperature", 0.5),
    "tool_choice": Needs({"tools": TOOLS}, Sets("required", "calls", 1)),
    "tools": Sets(TOOLS, "tools", 1),
    "top_logprobs": Ignored(2, "top_logprobs"),
    "top_p": Sets(0.5, "top_p", 0.5),
    "user": Nothing("u"),
    "verbosity": Ignored("low", "verbosity"),
    "web_search_options": Ignored({"x": 1}, "web_search_options"),
}

OLLAMA_OPTIONS: Final[dict[str, Fate]] = {
    **{
        name: Ignored(value, f"options.{name}")
        for name, value in {
            "embedding_only": True,
            "f16_kv": True,
            "logits_all": True,
            "low_vram": True,
            "main_gpu": 1,
            "mirostat": 2,
            "mirostat_eta": 0.1,
            "mirostat_tau": 5.0,
            "num_batch": 512,
            "num_gpu": 1,
            "num_keep": 4,
            "num_thread": 2,
            "numa": True,
            "penalize_newline": True,
            "repeat_last_n": 64,
            "tfs_z": 0.5,
            "typical_p": 0.5,
            "use_mlock": True,
            "use_mmap": True,
            "vocab_only": True,
        }.items()
    },
    "frequency_penalty": Sets(0.5, "frequency_penalty", 0.5),
    "num_ctx": Sets(512, "context_tokens", 512),
    "num_predict": Sets(7, "max_tokens", 7),
    "presence_penalty": Sets(0.5, "presence_penalty", 0.5),
    "repeat_penalty": Sets(1.1, "repetition_penalty", 1.1),
    "seed": Needs({"temperature": 1.0}, Sets(5, "rng_seed", 5)),
    "stop": Sets(["x"], "stop", ("x",)),
    "temperature": Sets(0.5, "temperature", 0.5),
    "top_k": Sets(40, "top_k", 40),
    "top_p": Sets(0.5, "top_p", 0.5),
}
OLLAMA_MORE: Final[dict[str, Fate]] = {
    "min_p": Sets(0.1, "min_p", 0.1),
    "nobody_knows": Ignored(1, "options.nobody_knows"),
}

_OLLAMA_COMMON: Final[dict[str, Fate]] = {
    "format": Sets("json", "schema", '{"type":"object"}'),
    "keep_alive": Nothing("5m"),
    "logprobs": Ignored(True, "logprobs"),
    "model": Nothing("n"),
    "options": Nothing({}),
    "stream": Nothing(False),
    "think": Ignored(True, "thinking"),
    "top_logprobs": Ignored(2, "top_logprobs"),
}
OLLAMA_CHAT: Final[dict[str, Fate]] = {
    **_OLLAMA_COMMON,
    "messages": Sets([{"role": "user", "content": "Ho"}], "turns", 1),
    "tools": Sets(TOOLS, "tools", 1),
}
OLLAMA_GENERATE: Final[dict[str, Fate]] = {
    **_OLLAMA_COMMON,
    "context": Refused([1], "context"),
    "height": Ignored(8, "height"),
    "images": Refused(["iVBORw0KGgo="], "messages"),
    "prompt": Sets("Ho", "turns", 1),
    "raw": Sets(True, "prompt", "Hi"),
    "steps": Ignored(8, "steps"),
    "suffix": Refused("x", "suffix"),
    "system": Sets("be brief", "turns", 2),
    "template": Refused("{{ .Prompt }}", "template"),
    "width": Ignored(8, "width"),
}
ANTHROPIC: Final[dict[str, Fate]] = {
    "cache_control": Nothing({"type": "ephemeral"}),
    "container": Ignored("c", "container"),
    "diagnostics": Ignored({"x": 1}, "diagnostics"),
    "inference_geo": Ignored("eu", "inference_geo"),
    "max_tokens": Sets(7, "max_tokens", 7),
    "messages": Sets([{"role": "user", "content": "Ho"}], "turns", 1),
    "metadata": Nothing({"user_id": "u"}),
    "model": Nothing("n"),
    "output_config": Ignored({"effort": "high"}, "thinking"),
    "service_tier": Nothing("auto"),
    "speed": Ignored("fast", "speed"),
    "stop_sequences": Sets(["x"], "stop", ("x",)),
    "system": Sets("be brief", "turns", 2),
    "thinking": Ignored({"type": "enabled", "budget_tokens": 1024}, "thinking"),
    "tool_choice": Needs(
        {"tools": [{"name": "f", "input_schema": {"type": "object"}}]}, Sets({"type": "any"}, "calls", 1)
    ),
    "tools": Sets([{"name": "f", "input_schema": {"type": "object"}}], "tools", 1),
    "user_profile_id": Ignored("u", "user_profile_id"),
    "workspace_id": Ignored("w", "workspace_id"),
}
ANTHROPIC_MORE: Final[dict[str, Fate]] = {
    "temperature": Sets(0.5, "temperature", 0.5),
    "top_p": Sets(0.5, "top_p", 0.5),
    "top_k": Sets(40, "top_k", 40),
}


def request_of(dialect: str, kind: str, body: dict[str, Any]) -> Request:
    speaks = discover()[dialect]
    route = next(r for r in speaks.routes if r.operation is Operation.GENERATE and r.kind == kind)
    return speaks.parse_request(json.dumps(body).encode(), route, None)


def planned(dialect: str, kind: str, body: dict[str, Any]) -> tuple[Generate, list[str]]:
    """The command, and all that is named as ignored, as the engine adds it up."""
    request = request_of(dialect, kind, body)
    check_translatable(request)
    named = list(request.unmodelled)
    return plan_of(request, MANIFEST, named.append, lambda: 1).wanted, named


def check(dialect: str, kind: str, base: dict[str, Any], option: dict[str, Any], fate: Fate) -> None:
    match fate:
        case Refused():
            with pytest.raises(ApiError) as refused:
                planned(dialect, kind, _merged(base, option))
            assert refused.value.param == fate.param
        case Ignored():
            wanted, named = planned(dialect, kind, _merged(base, option))
            assert named == [fate.name]
            assert wanted == planned(dialect, kind, base)[0]
        case Nothing():
            assert planned(dialect, kind, _merged(base, option)) == planned(dialect, kind, base)
        case Sets():
            wanted, named = planned(dialect, kind, _merged(base, option))
            assert named == []
            made = getattr(wanted.decoding if fate.field in Decoding.__struct_fields__ else wanted, fate.field)
            assert made not in ((), None)
            assert (len(made) if isinstance(fate.made, int) and not isinstance(made, int) else made) == fate.made
            assert wanted != planned(dialect, kind, base)[0]
        case Needs():
            raise AssertionError("unfold it first")


def _merged(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    options = {**base.get("options", {}), **more.get("options", {})}
    return {**base, **more, **({"options": options} if options else {})}


def each(dialect: str, kind: str, base: dict[str, Any], fates: dict[str, Fate], inside: str | None = None) -> list[Any]:
    """One case for each option; `inside` is the member that holds them."""
    cases = []
    for name, fate in fates.items():
        beside, plain = (fate.beside, fate.fate) if isinstance(fate, Needs) else ({}, fate)
        option = {name: plain.value}
        if inside is not None:
            beside, option = {inside: beside}, {inside: option}
        cases.append((dialect, kind, _merged(base, beside), option, plain))
    return cases


CLAUDE: Final = {**BASE, "max_tokens": 100}
PROMPT: Final = {"model": "m", "prompt": "Hi"}


@pytest.mark.promise(38)
@in_turn(
    ("dialect", "kind", "base", "option", "fate"),
    [
        *each("openai_chat", "chat", BASE, OPENAI),
        *each("ollama", "chat", BASE, OLLAMA_OPTIONS | OLLAMA_MORE, "options"),
        *each("ollama", "generate", PROMPT, OLLAMA_OPTIONS | OLLAMA_MORE, "options"),
        *each("ollama", "chat", BASE, OLLAMA_CHAT),
        *each("ollama", "generate", PROMPT, OLLAMA_GENERATE),
        *each("anthropic", "messages", CLAUDE, ANTHROPIC | ANTHROPIC_MORE),
    ],
)
def test_every_option_has_its_fate(
    dialect: str, kind: str, base: dict[str, Any], option: dict[str, Any], fate: Fate
) -> None:
    check(dialect, kind, base, option, fate)


@pytest.mark.parametrize(
    ("table", "known"),
    [
        (OPENAI, {*CompletionCreateParamsBase.__annotations__, *CompletionCreateParamsStreaming.__annotations__}),
        (OLLAMA_OPTIONS, set(ollama_types.Options.model_fields)),
        (OLLAMA_CHAT, set(ollama_types.ChatRequest.model_fields)),
        (OLLAMA_GENERATE, set(ollama_types.GenerateRequest.model_fields)),
        (ANTHROPIC, set(MessageCreateParamsBase.__annotations__)),
    ],
    ids=["openai", "ollama options", "ollama chat", "ollama generate", "anthropic"],
)
def test_the_tables_are_total(table: dict[str, Fate], known: set[str]) -> None:
    assert set(table) == known


def test_every_choice_of_decoding_can_be_made() -> None:
    """All that the engine can be told, somebody can say."""
    tables = (OPENAI, OLLAMA_OPTIONS, OLLAMA_MORE, ANTHROPIC, ANTHROPIC_MORE)
    plain = [fate.fate if isinstance(fate, Needs) else fate for table in tables for fate in table.values()]
    said = {fate.field for fate in plain if isinstance(fate, Sets)}
    assert set(Decoding.__struct_fields__) - said == {"do_sample"}
