"""What the server and an engine process say to each other: one JSON object on each line, both ways.

    server -> engine   load, then any number of: generate, cancel          the end of its stdin ends the engine
    engine -> server   ready | fatal, then for each generate: began, delta*, done      or failed in place of any of them

A `cancel` is answered by the `done` (or `failed`) of its generation, at the next step; one for a generation that has
ended already is ignored.  Ids are given by the server and never used twice in one process.
"""

from __future__ import annotations

from typing import Final, cast

import msgspec

from rivermouth.wire import json

LINE_CAP_BYTES: Final = 4 * 1024 * 1024


class Load(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """First line.  `properties` go to the device as they are; `end_tokens` end an answer beside the file's own."""

    path: str
    device: str
    properties: dict[str, str]
    max_active: int
    context_tokens: int
    end_tokens: tuple[int, ...]
    prefix_cache: bool


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
    tool_calls: tuple[dict[str, object], ...] = ()
    tool_call_id: str | None = None


class Generate(msgspec.Struct, frozen=True, kw_only=True, tag="generate"):
    """One answer wanted: either `turns` (for the file's chat template) or `prompt` (taken as it is).

    context_tokens: prompt and answer together.  max_tokens: None is all that is left.  schema: JSON text.
    """

    id: int
    turns: tuple[Turn, ...] | None = None
    prompt: str | None = None
    context_tokens: int
    max_tokens: int | None = None
    decoding: Decoding = Decoding()
    stop: tuple[str, ...] = ()
    schema: str | None = None
    enable_thinking: bool | None = None


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    id: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The model is loaded and warm.  `device` is where it runs."""

    device: str
    engine: str


class Fatal(msgspec.Struct, frozen=True, tag="fatal"):
    """The process is about to end.  `code` "engine_not_installed" when the native packages are missing."""

    message: str
    code: str


class Began(msgspec.Struct, frozen=True, tag="began"):
    """The prompt was rendered and fits."""

    id: int
    prompt_tokens: int


class Delta(msgspec.Struct, frozen=True, tag="delta"):
    id: int
    text: str


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """The end of one generation.  reason: "stop", "length" or "cancelled".  The token that ended it is counted."""

    id: int
    reason: str
    prompt_tokens: int
    output_tokens: int
    prompt_ns: int
    output_ns: int
    stop_sequence: str | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """`kind` is an `ir.errors.Kind`."""

    id: int
    kind: str
    message: str
    code: str | None = None
    param: str | None = None


Command = Load | Generate | Cancel
Word = Ready | Fatal | Began | Delta | Done | Failed

COMMANDS: Final = json.typed(cast("type[Command]", Command))
WORDS: Final = json.typed(cast("type[Word]", Word))
