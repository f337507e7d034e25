"""A neutral request as one command to an engine process, and how its answer is to be read.

Pure: what the model's file says of itself and what the client asks for decide everything.  Nothing that was asked for
is dropped in silence: it is in the command, or refused, or named through `warn`.

An answer that a grammar forces (JSON, a pattern, a call) begins at once: the grammar leaves no room for a thought.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rivermouth.ir.errors import invalid
from rivermouth.ir.request import Request
from rivermouth.local.models.registry import Manifest
from rivermouth.local.words.answer import Answer
from rivermouth.local.words.families import THINK_CLOSE, THINK_OPEN, Family, family_of
from rivermouth.local.words.offer import Offer, offer_of, tool_shapes
from rivermouth.local.words.pattern import pattern_text
from rivermouth.local.words.prompt import (
    Warner,
    check_length,
    check_limits,
    context_of,
    raw_prompt,
    role_prefixed,
    size_of,
    turns_of,
)
from rivermouth.local.words.protocol import Generate, Turn
from rivermouth.local.words.sampling import decoding_of
from rivermouth.local.words.schema import schema_text
from rivermouth.wire import json


class Plan(msgspec.Struct, frozen=True):
    """`wanted` is for the engine process.  stops: the client's own, in `wanted.stop` with those of `offer`."""

    wanted: Generate
    family: Family
    offer: Offer
    stops: tuple[str, ...]

    def answer(self, call_id: Callable[[int], str], *, in_thought: bool) -> Answer:
        """What reads the text."""
        family = msgspec.structs.replace(self.family, calls=self.offer.calls)
        return Answer(
            family, self.offer.names, in_thought=in_thought, most_calls=self.offer.most_calls, call_id=call_id
        )


class Thoughts(msgspec.Struct, frozen=True):
    """What a model is told of thinking.  switch: for a template that has it.  at_once: no thought may come."""

    switch: bool | None = None
    at_once: bool = False


def plan_of(
    request: Request, manifest: Manifest, warn: Warner, draw_seed: Callable[[], int], *, chat_template: bool = True
) -> Plan:
    """The request in the engine's words.

    chat_template: False formats every prompt with role prefixes.  Raises `ApiError` for what a local model cannot do.
    """
    warn = _once(warn)
    check_limits(request)
    context = context_of(request, manifest.context_tokens, warn)
    templated = manifest.template is not None and chat_template and not request.local.raw
    family = family_of(manifest.template) if templated else Family()
    offer = offer_of(request, family, warn)
    schema = None if offer.schemas else schema_text(request.response_format)
    regex = None if offer.schemas or request.local.regex is None else pattern_text(request.local.regex)
    if schema is not None and regex is not None:
        raise invalid("an answer cannot be forced in two ways", param="response_format")
    forced = bool(offer.schemas) or schema is not None or regex is not None
    thoughts = thoughts_of(request, family, warn, forced=forced)
    shapes = tool_shapes(offer.tools)
    shown = shapes if family.tools else ()
    turns, prompt = _prompt(request, family, warn, () if family.tools else shapes, templated=templated)
    longest = manifest.longest_token_bytes
    check_length(size_of(turns or ()) + len((prompt or "").encode(errors="replace")), longest, context)
    check_length(len(json.encode(shown)) if shown else 0, longest, context, "tools")
    wanted = Generate(
        id=0,
        turns=turns,
        prompt=prompt,
        context_tokens=context,
        max_tokens=request.max_tokens,
        decoding=decoding_of(request.sampling, draw_seed, warn),
        stop=(*request.stop, *offer.stops),
        schema=schema,
        regex=regex,
        calls=offer.schemas,
        tools=shown,
        enable_thinking=thoughts.switch,
        answer_at_once=thoughts.at_once,
        marks=((THINK_OPEN, THINK_CLOSE) if family.thinks else ()) + offer.marks,
    )
    return Plan(wanted, family, offer, request.stop)


def thoughts_of(request: Request, family: Family, warn: Warner, *, forced: bool) -> Thoughts:
    """What is to be said of thinking.  A wish that this model cannot meet is named."""
    asked = request.thinking
    if asked is not None and asked.enabled:
        if forced or not family.thinks:
            warn("thinking")
        else:
            for field in ("effort", "budget_tokens"):
                if getattr(asked, field) is not None:
                    warn(f"thinking.{field}")
    if not family.thinks:
        return Thoughts(switch=asked.enabled if asked is not None and family.switch else None)
    off = forced or (asked is not None and not asked.enabled)
    switch = None if not family.switch else False if off else asked.enabled if asked is not None else None
    return Thoughts(switch, at_once=off)


def _prompt(
    request: Request, family: Family, warn: Warner, described: tuple[dict[str, object], ...], *, templated: bool
) -> tuple[tuple[Turn, ...] | None, str | None]:
    """Messages for the file's template, or a text to be taken as it is; the other one is None."""
    if request.local.raw:
        return None, raw_prompt(request, warn)
    turns = turns_of(request, warn, family, described)
    return (turns, None) if templated else (None, role_prefixed(turns))


def _once(warn: Warner) -> Warner:
    named: set[str] = set()

    def warn_once(field: str) -> None:
        if field not in named:
            named.add(field)
            warn(field)

    return warn_once
