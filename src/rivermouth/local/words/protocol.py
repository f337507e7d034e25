"""What the server and an engine process say to each other: one JSON object on each line, both ways.

    server -> engine   load, then any number of: generate, cancel          the end of its stdin ends the engine
    engine -> server   ready | fatal, then for each generate: began, delta*, done      or failed in place of any of them
                       beat, when there has been nothing else to say for a while

    server -> encoder  load_encoder, then any number of: embed, cancel
    encoder -> server  ready | fatal, then for each embed: vectors*, embedded          or failed in place of any of them

A `cancel` is answered by the `done` or `embedded` (or `failed`) of its request, at the next step; one for a request
that has ended already is ignored.  Ids are given by the server and never used twice in one process.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from rivermouth.wire import json

LINE_CAP_BYTES: Final = 4 * 1024 * 1024


class Load(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """First line.  `properties` go to the device as they are; `end_tokens` end an answer beside the file's own.

    path: a GGUF file, or a folder with an OpenVINO model.  cache: a folder of its own for what is made of them.
    stateful: answers one after another, with the memory of one.  prompt_tokens: the longest prompt that the device
    takes, None for the whole context.  kv_tokens: how many tokens the memory of all answers holds; 0 grows on demand.
    """

    path: str
    device: str
    properties: dict[str, str | int]
    max_active: int
    context_tokens: int
    end_tokens: tuple[int, ...]
    prefix_cache: bool
    cache: str | None = None
    stateful: bool = False
    prompt_tokens: int | None = None
    kv_tokens: int = 0


class Decoding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How tokens are chosen.  The fields are the engine's own words; None leaves its default."""

    do_sample: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    rng_seed: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message, as chat templates know it."""

    role: str
    content: str
    name: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()
    tool_call_id: str | None = None


class CallSchema(msgspec.Struct, frozen=True):
    """A tool, and the JSON schema (as text) of its arguments."""

    name: str
    parameters: str


class Generate(msgspec.Struct, frozen=True, kw_only=True, tag="generate"):
    """One answer wanted: either `turns` (for the file's chat template) or `prompt` (taken as it is).

    context_tokens: prompt and answer together.  max_tokens: None is all that is left.
    The answer has to be JSON of `schema` (JSON text), or to match `regex`, or to be a call of one of `calls`, written
    {"name": ..., "arguments": ...}.  tools: for the template, as it knows them.
    enable_thinking: for a template that has this switch.  answer_at_once: a thought that the rendered prompt would
    begin with is over.  marks: what is shown of the answer although the tokenizer thinks of it as special; with the
    mark that ends thoughts, the tokens of one are counted.
    count_only: the prompt is counted and nothing is made; a `done` has the number.
    """

    id: int
    turns: tuple[Turn, ...] | None = None
    prompt: str | None = None
    context_tokens: int
    max_tokens: int | None = None
    decoding: Decoding = Decoding()
    stop: tuple[str, ...] = ()
    schema: str | None = None
    regex: str | None = None
    calls: tuple[CallSchema, ...] = ()
    tools: tuple[dict[str, object], ...] = ()
    enable_thinking: bool | None = None
    answer_at_once: bool = False
    marks: tuple[str, ...] = ()
    count_only: bool = False


class LoadEncoder(msgspec.Struct, frozen=True, kw_only=True, tag="load_encoder"):
    """First line.  `folder` has the model's files; `cache` is a folder of its own, for what it makes of them."""

    folder: str
    cache: str
    device: str
    context_tokens: int


class Embed(msgspec.Struct, frozen=True, kw_only=True, tag="embed"):
    """Vectors wanted.  cut: "none", "start" or "end", what may be left out of a text of more than `context_tokens`.

    offset: as many texts of the same call were asked for before.
    """

    id: int
    texts: tuple[str, ...]
    context_tokens: int
    cut: str
    offset: int = 0


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    id: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The model is loaded and warm.  `device` is where it runs.  cached: it was made of what an earlier load kept."""

    device: str
    engine: str
    cached: bool = False


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """The process goes on, though it has had nothing else to say for a while."""


class Fatal(msgspec.Struct, frozen=True, tag="fatal"):
    """The process is about to end.  `code` "engine_not_installed" when the native packages are missing."""

    message: str
    code: str


class Began(msgspec.Struct, frozen=True, tag="began"):
    """The prompt was rendered and fits.  in_thought: it ends in the middle of a thought."""

    id: int
    prompt_tokens: int
    in_thought: bool = False


class Delta(msgspec.Struct, frozen=True, tag="delta"):
    id: int
    text: str


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """The end of one generation.  reason: "stop", "length" or "cancelled".  The token that ended it is counted.

    reasoning_tokens: how many of them were a thought; None where nobody looked.
    """

    id: int
    reason: str
    prompt_tokens: int
    output_tokens: int
    prompt_ns: int
    output_ns: int
    stop_sequence: str | None = None
    reasoning_tokens: int | None = None


class Vectors(msgspec.Struct, frozen=True, tag="vectors"):
    """Some of the vectors.  at: which texts they are of.  data: base64 of little-endian float32, one after another."""

    id: int
    at: tuple[int, ...]
    data: str


class Embedded(msgspec.Struct, frozen=True, kw_only=True, tag="embedded"):
    """The end of one embed.  reason: "done" or "cancelled".  cut: of how many texts something was left out."""

    id: int
    reason: str
    prompt_tokens: int
    cut: int = 0


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """`kind` is an `ir.errors.Kind`.  foreign: as an `ApiError` has it."""

    id: int
    kind: str
    message: str
    code: str | None = None
    param: str | None = None
    foreign: bool = False


Command = Load | Generate | LoadEncoder | Embed | Cancel
Word = Ready | Fatal | Beat | Began | Delta | Done | Vectors | Embedded | Failed

COMMANDS: Final = json.typed(cast("type[Command]", Command))
WORDS: Final = json.typed(cast("type[Word]", Word))
