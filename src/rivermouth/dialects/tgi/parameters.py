"""The native routes' request, both ways: a prompt that no chat template touches, and its parameters.

A server samples only when told to, so temperature 0 and `do_sample: false` are one wish (O6).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Route
from rivermouth.dialects.tgi.tables import COMPAT, DEFAULT_MODEL, NAME, UNTRANSLATABLE
from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.ir.names import loss_names, unread
from rivermouth.ir.request import (
    Format,
    Local,
    Message,
    Original,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Text,
)
from rivermouth.wire import json

_JSON_GRAMMARS: Final = frozenset({"json", "json_object", "json_schema"})


class Grammar(msgspec.Struct):
    type: str
    value: Any = None


class Parameters(msgspec.Struct):
    """What is acted on; the rest rides along in the original."""

    details: bool | None = None
    do_sample: bool | None = None
    frequency_penalty: float | None = None
    grammar: Grammar | None = None
    max_new_tokens: int | None = None
    repetition_penalty: float | None = None
    return_full_text: bool | None = None
    seed: int | None = None
    stop: list[str] | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None


class _Body(msgspec.Struct):
    inputs: str
    parameters: Parameters | None = None
    stream: bool | None = None


class Wishes(msgspec.Struct, frozen=True):
    """What a native client wants to see beside the answer's text."""

    details: bool = False
    prompt: str = ""  # to stand before the answer, where the full text was asked for
    seed: int | None = None


_body: Final = json.typed(_Body)
_prompt: Final = json.typed(str)
_parameters: Final = json.typed(Parameters)
_READ: Final = frozenset(_Body.__struct_fields__)
_STREAMS: Final = {"generate": False, "generate_stream": True}


def parse_native(fields: dict[str, json.Raw], body: bytes, route: Route) -> Request:
    """The neutral request.  Raises `ApiError` (invalid_request) with the field at fault."""
    try:
        asked = json.decode_as(_body, body)
        sent = json.fields(fields["parameters"]) if asked.parameters is not None else {}
    except WireError as error:
        raise field_error(error) from None
    if not asked.inputs:
        raise invalid("the prompt is empty", "inputs")
    wanted = asked.parameters or Parameters()
    _check(wanted)
    form, foreign = _grammar(wanted.grammar)
    rest = unread(sent, Parameters.__struct_fields__)
    return Request(
        model=DEFAULT_MODEL,
        messages=(Message(Role.USER, (Text(asked.inputs),)),),
        stream=bool(asked.stream) if route.kind == COMPAT else _STREAMS.get(route.kind, route.streams),
        include_usage=True,
        max_tokens=wanted.max_new_tokens,
        stop=tuple(s for s in wanted.stop or () if s),
        response_format=form,
        sampling=_sampling(wanted),
        local=Local(raw=True, regex=_regex(wanted.grammar), regex_field="parameters.grammar"),
        original=Original(NAME, fields),
        untranslatable=(*foreign, *_named(n for n in rest if n in UNTRANSLATABLE)),
        unmodelled=loss_names((*unread(fields, _READ), *_named(n for n in rest if n not in UNTRANSLATABLE))),
    )


def field_error(error: WireError) -> ApiError:
    """A JSON shape error as the client's fault, with the field's path."""
    words, path, missing = json.misfit(error)
    return invalid("a required field is missing" if missing else words, path)


def wishes(request: Request | None) -> Wishes:
    """Read again from what the client sent; one that sent something else wants nothing of it."""
    original = request.original if request is not None else None
    if original is None or original.dialect != NAME or "inputs" not in original.fields:
        return Wishes()
    sent = original.fields.get("parameters")
    wanted = Parameters() if sent is None or bytes(sent) == b"null" else json.decode_as(_parameters, sent)
    prompt = json.decode_as(_prompt, original.fields["inputs"]) if wanted.return_full_text else ""
    return Wishes(bool(wanted.details), prompt, wanted.seed)


def write_native(request: Request, losses: set[str]) -> dict[str, Any]:
    """The body for a prompt without a template: the texts of the talk as they stand."""
    texts = [*(t.text for t in request.system), *(m.text for m in request.messages)]
    parameters: dict[str, Any] = {"details": True}
    sampling = request.sampling
    for name in ("repetition_penalty", "frequency_penalty", "seed"):
        if (value := getattr(sampling, name)) is not None:
            parameters[name] = value
    for name in ("min_p", "presence_penalty", "logit_bias", "logprobs", "top_logprobs"):
        if getattr(sampling, name) not in (None, False):
            losses.add(name)
    _write_randomness(sampling, parameters, losses)
    if request.max_tokens is not None:
        parameters["max_new_tokens"] = request.max_tokens
    if request.stop:
        parameters["stop"] = list(request.stop)
    form = request.response_format
    if form is not None and form.kind is not Format.TEXT:
        parameters["grammar"] = {"type": "json", "value": form.schema or {"type": "object"}}
    return {"inputs": "\n".join(t for t in texts if t), "parameters": parameters}


def _write_randomness(sampling: Sampling, parameters: dict[str, Any], losses: set[str]) -> None:
    """Servers refuse a temperature of 0, and a top_p of 0 or 1, which are ways not to have them."""
    if sampling.temperature == 0 or sampling.top_p == 0:
        parameters["do_sample"] = False
        return
    if sampling.temperature is not None:
        parameters["temperature"] = sampling.temperature
    if sampling.top_p is not None and sampling.top_p < 1:
        parameters["top_p"] = sampling.top_p
    if sampling.top_k is not None:
        if sampling.top_k > 0:
            parameters["top_k"] = sampling.top_k
        else:
            losses.add("top_k")
    if parameters.keys() & {"temperature", "top_p", "top_k"}:
        parameters["do_sample"] = True


def _check(wanted: Parameters) -> None:
    for name, least in (("max_new_tokens", 1), ("top_k", 0), ("temperature", 0), ("top_p", 0), ("seed", 0)):
        value = getattr(wanted, name)
        if value is not None and value < least:
            raise invalid(f"must be at least {least}", f"parameters.{name}")
    if wanted.top_p is not None and wanted.top_p > 1:
        raise invalid("must be at most 1", "parameters.top_p")


def _sampling(wanted: Parameters) -> Sampling:
    greedy = wanted.do_sample is False and wanted.temperature is None
    return Sampling(
        temperature=0.0 if greedy else wanted.temperature,
        top_p=wanted.top_p,
        top_k=wanted.top_k,
        seed=wanted.seed,
        frequency_penalty=wanted.frequency_penalty,
        repetition_penalty=wanted.repetition_penalty,
    )


def _grammar(grammar: Grammar | None) -> tuple[ResponseFormat | None, tuple[str, ...]]:
    """The format, or the name of a grammar that only a server of this protocol knows."""
    if grammar is None:
        return None, ()
    if grammar.type not in _JSON_GRAMMARS:
        return None, () if _regex(grammar) else ("parameters.grammar",)
    schema = schema_of(grammar.value)
    if schema is None:
        raise invalid("a JSON grammar needs a schema", "parameters.grammar.value")
    return ResponseFormat(Format.JSON_SCHEMA, schema), ()


def _regex(grammar: Grammar | None) -> str | None:
    """The regular expression that the whole answer has to match."""
    if grammar is None or grammar.type != "regex" or not isinstance(grammar.value, str) or not grammar.value:
        return None
    return grammar.value


def schema_of(value: Any) -> dict[str, Any] | None:
    """A schema, bare, as text, or inside the newer form that names it; None for anything else."""
    if isinstance(value, str):
        try:
            value = json.decode(value.encode("utf-8", "replace"))
        except WireError:
            return None
    if not isinstance(value, dict):
        return None
    inner = value.get("schema")
    return inner if isinstance(inner, dict) and "type" not in value else value


def _named(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"parameters.{name}" for name in names)
