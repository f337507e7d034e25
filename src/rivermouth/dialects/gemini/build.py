"""A neutral request to the call of a Gemini upstream.  The model and the wish for a stream are in the path."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Outgoing
from rivermouth.dialects.gemini import names
from rivermouth.dialects.gemini.parse import JSON_TYPE
from rivermouth.dialects.gemini.schema import PARAMETERS, RESPONSE, to_wire
from rivermouth.dialects.gemini.tables import (
    BUDGET_ONLY,
    EFFORTS,
    MODES_OUT,
    NAME,
    SAMPLING,
    SIGNED_CALLS,
    UNSAMPLED,
)
from rivermouth.dialects.gemini.turns import Turns, vouch
from rivermouth.ir.opaque import holds_sealed, sealed
from rivermouth.ir.request import Choose, Format, Original, Request, Thinking, Tool, check_translatable
from rivermouth.vendors.output_caps import clamped
from rivermouth.wire import json

_PLAIN: Final = "generateContent"
_STREAM: Final = "streamGenerateContent"
_SIGNATURES: Final = ("thoughtSignature", "thought_signature")


def build_request(request: Request, model: str) -> Outgoing:
    """The call for `model`.  The client's own body goes as it came, if it is of this dialect (see `Original`).

    Raises `ApiError` where leaving something out would make the answer wrong.
    """
    path = names.path(model, _STREAM) + "?alt=sse" if request.stream else names.path(model, _PLAIN)
    original = request.original
    if original is not None and original.dialect == NAME:
        return Outgoing(path=path, body=_repeat(original, model))
    check_translatable(request)
    built = _Built(request, model)
    return Outgoing(path=path, body=json.encode(built.body), losses=tuple(sorted(built.losses)))


def _repeat(original: Original, model: str) -> bytes:
    """The same body, without signatures that no model of this vendor made; `vouch` says what newer models need."""
    fields = dict(original.fields)
    contents = fields.get("contents", msgspec.Raw(b""))
    data = bytes(contents)
    foreign = holds_sealed(data)
    if foreign or (SIGNED_CALLS.match(model) and (b"functionCall" in data or b"function_call" in data)):
        came = _contents(contents)
        kept = _without_sealed(came) if foreign else came
        kept = vouch(kept) if SIGNED_CALLS.match(model) else kept
        if kept != came:
            fields["contents"] = json.raw(kept)
    if "model" in fields:
        fields["model"] = json.raw(names.resource(model))
    return json.encode(fields)


def _contents(raw: json.Raw) -> list[dict[str, Any]]:
    """The contents as they came (`parse_request` has read them), but that each has a list of parts."""
    contents = _listed(json.decode(raw))
    return [{**content, "parts": _listed(content.get("parts") or [])} for content in contents]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _without_sealed(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A thought goes with its foreign signature; any other part loses only that."""
    kept = []
    for content in contents:
        parts = []
        for part in content["parts"]:
            foreign = [name for name in _SIGNATURES if sealed(str(part.get(name) or ""))]
            if not foreign:
                parts.append(part)
            elif not part.get("thought"):
                parts.append({name: value for name, value in part.items() if name not in foreign})
        if parts:
            kept.append({**content, "parts": parts})
    return kept


class _Built:
    """The body being built; each step owns the fields it names."""

    def __init__(self, request: Request, model: str) -> None:
        self.losses: set[str] = set(request.unmodelled)
        self._request = request
        turns = Turns(request.messages, nested=not BUDGET_ONLY.match(model))
        self.losses |= turns.losses
        self.body: dict[str, Any] = {"contents": vouch(turns.contents) if SIGNED_CALLS.match(model) else turns.contents}
        if request.system:
            texts = [{"text": text.text} for text in request.system if text.text]
            self.body |= {"systemInstruction": {"parts": texts}} if texts else {}
        self._tools()
        config = self._limits(model) | self._sampling() | self._format() | self._thinking(model)
        if config:
            self.body["generationConfig"] = config
        self._rest()

    def _lose(self, name: str, lost: object) -> None:
        """`name` is lost if there was something to lose."""
        if lost:
            self.losses.add(name)

    def _tools(self) -> None:
        request = self._request
        if not request.tools:
            return
        self.body["tools"] = [{"functionDeclarations": [self._tool(t) for t in request.tools]}]
        self._lose("parallel_tools", request.parallel_tools is False)
        choice = request.tool_choice
        if choice is not None:
            calling: dict[str, Any] = {"mode": MODES_OUT[choice.mode]}
            if choice.mode is Choose.NAMED:
                calling["allowedFunctionNames"] = [choice.name]
            self.body["toolConfig"] = {"functionCallingConfig": calling}

    def _tool(self, tool: Tool) -> dict[str, Any]:
        self._lose("tool.strict", tool.strict)
        described = {} if tool.description is None else {"description": tool.description}
        return {"name": tool.name, **described, **to_wire(tool.parameters, PARAMETERS)}

    def _limits(self, model: str) -> dict[str, Any]:
        request = self._request
        room = clamped(request.max_tokens, model)
        self._lose("max_tokens", room != request.max_tokens)
        said = {
            "candidateCount": request.n if request.n > 1 else None,
            "maxOutputTokens": room,
            "stopSequences": list(request.stop) or None,
        }
        return {name: value for name, value in said.items() if value is not None}

    def _sampling(self) -> dict[str, Any]:
        sampling = self._request.sampling
        for name in UNSAMPLED:
            self._lose(name, getattr(sampling, name) is not None)
        said = {member: getattr(sampling, field) for member, field in SAMPLING.items()}
        return {name: value for name, value in said.items() if value is not None}

    def _format(self) -> dict[str, Any]:
        wanted = self._request.response_format
        if wanted is None or wanted.kind is Format.TEXT:
            return {}
        schema = to_wire(wanted.schema, RESPONSE) if wanted.schema is not None else {}
        return {"responseMimeType": JSON_TYPE, **schema}

    def _thinking(self, model: str) -> dict[str, Any]:
        thinking = self._request.thinking
        if thinking is None:
            return {}
        if thinking.enabled:
            return {"thinkingConfig": {**self._amount(thinking, model), "includeThoughts": True}}
        if SIGNED_CALLS.match(model):
            self._lose("thinking", lost=True)  # these models can think less, and not stop thinking
            return {"thinkingConfig": {"thinkingLevel": EFFORTS["minimal"][0]}}
        return {"thinkingConfig": {"thinkingBudget": 0}}

    def _amount(self, thinking: Thinking, model: str) -> dict[str, Any]:
        """How much to think: one of the two ways to say it, since both at once are refused."""
        if thinking.budget_tokens is not None:
            self._lose("thinking.effort", thinking.effort)
            return {"thinkingBudget": thinking.budget_tokens}
        if thinking.effort is None:
            return {}
        known = EFFORTS.get(thinking.effort)
        if known is None:
            self._lose("thinking.effort", lost=True)
            return {}
        level, budget = known
        return {"thinkingBudget": budget} if BUDGET_ONLY.match(model) else {"thinkingLevel": level}

    def _rest(self) -> None:
        request = self._request
        self._lose("user", request.user)
        self._lose("metadata", request.metadata)
        self.losses.update(request.local.wishes())
