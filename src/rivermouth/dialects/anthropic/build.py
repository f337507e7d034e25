"""A neutral request to the body for an Anthropic upstream."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.anthropic.parse import NAME
from rivermouth.dialects.anthropic.tables import DEFAULT_MAX_TOKENS, VERSION
from rivermouth.dialects.anthropic.turns import Turns, thinking_allowed
from rivermouth.dialects.dialect import Outgoing
from rivermouth.ir.errors import invalid
from rivermouth.ir.opaque import holds_sealed, sealed
from rivermouth.ir.request import Choose, Format, Original, Request, Thinking, Tool, check_translatable
from rivermouth.vendors.anthropic.signatures import without
from rivermouth.vendors.anthropic.thinking import EFFORTS, MIN_BUDGET_TOKENS, budget_of, only_budgets
from rivermouth.vendors.output_caps import clamped, filled, output_cap
from rivermouth.wire import json

PATH: Final = "/messages"
JSON_ONLY: Final = "Answer with one JSON object and nothing else: no code fence, no other text."

_CHOICES: Final[dict[Choose, str]] = {
    Choose.AUTO: "auto",
    Choose.NONE: "none",
    Choose.REQUIRED: "any",
    Choose.NAMED: "tool",
}
_FORCED: Final = frozenset({Choose.REQUIRED, Choose.NAMED})
# Sampling fields that have no place here.
_UNSAMPLED: Final = (
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "min_p",
    "presence_penalty",
    "repetition_penalty",
    "seed",
    "top_logprobs",
)
_TOP_P_THINKING: Final = 0.95


def build_request(request: Request, model: str) -> Outgoing:
    """The call for `model`.  The client's own body goes as it came, if it is of this dialect (see `Original`).

    Raises `ApiError` where leaving something out would make the answer wrong.
    """
    original = request.original
    if original is not None and original.dialect == NAME:
        return _repeat(request, original, model)
    if request.untranslatable:
        raise invalid("this needs an upstream that speaks the client's own dialect", request.untranslatable[0])
    check_translatable(request)
    if request.n > 1:
        raise invalid("the Messages protocol gives one answer for each request", "n")
    built = _Built(request, model)
    return Outgoing(
        path=PATH,
        body=json.encode(built.body),
        headers={"anthropic-version": VERSION},
        losses=tuple(sorted(built.losses)),
    )


def _repeat(request: Request, original: Original, model: str) -> Outgoing:
    """The same body with the model replaced, and without reasoning that no Anthropic model signed."""
    losses: tuple[str, ...] = ()
    fields = dict(original.fields)
    fields["model"] = json.raw(model)
    said = "stream" in fields and bytes(fields["stream"]) == b"true"
    if said is not request.stream:
        fields["stream"] = json.raw(request.stream)
    if holds_sealed(bytes(fields["messages"])):
        turns = without(fields["messages"], _sealed)
        fields["messages"] = json.raw(turns)
        if request.thinking is not None and request.thinking.enabled and not thinking_allowed(turns):
            fields.pop("thinking", None)
            losses = ("thinking",)
    headers = {"anthropic-version": VERSION, **original.headers}
    return Outgoing(path=PATH, body=json.encode(fields), headers=headers, losses=losses)


def _sealed(block: Any) -> bool:
    if not isinstance(block, dict) or block.get("type") not in ("thinking", "redacted_thinking"):
        return False
    proof = block.get("signature" if block["type"] == "thinking" else "data")
    return isinstance(proof, str) and sealed(proof)


class _Built:
    """The body being built; each step owns the fields it names."""

    def __init__(self, request: Request, model: str) -> None:
        self.losses: set[str] = set(request.unmodelled)
        self._request = request
        turns = Turns(request.messages)
        self.losses |= turns.losses
        self.body: dict[str, Any] = {"model": model, "messages": turns.wire, "max_tokens": self._room(model)}
        self._thinking(model, turns)
        self._system()
        self._tools()
        self._sampling()
        self._format()
        self._rest()

    def _lose(self, name: str) -> None:
        self.losses.add(name)

    def _room(self, model: str) -> int | None:
        """The answer's limit, no higher than this model takes; None where the client has set none."""
        room = clamped(self._request.max_tokens, model)
        if room != self._request.max_tokens:
            self._lose("max_tokens")
        return room

    def _thinking(self, model: str, turns: Turns) -> None:
        """Thinking yields where the protocol refuses it: under a forced tool, and when calls lost their reasoning."""
        thinking, room = self._request.thinking, self.body["max_tokens"] or output_cap(model)
        choice = self._request.tool_choice
        forced = choice is not None and choice.mode in _FORCED and bool(self._request.tools)
        wanted = None if thinking is None else _wire_thinking(thinking, model)
        if wanted is not None and wanted["type"] != "disabled" and (forced or not thinking_allowed(turns.wire)):
            self._lose("thinking")
            wanted = None
        if wanted is not None and wanted["type"] == "enabled" and room is not None and wanted["budget_tokens"] >= room:
            self._lose("thinking.budget_tokens")
            wanted = {**wanted, "budget_tokens": room - 1} if room > MIN_BUDGET_TOKENS else None
        if self.body["max_tokens"] is None:
            self.body["max_tokens"] = filled(model, DEFAULT_MAX_TOKENS + (wanted or {}).get("budget_tokens", 0))
        if wanted is not None:
            self.body["thinking"] = wanted
        self._effort(thinking.effort if thinking is not None and thinking.enabled else None, model)

    def _effort(self, effort: str | None, model: str) -> None:
        if effort is None:
            return
        if effort not in EFFORTS:
            self._lose("thinking.effort")
        elif not only_budgets(model):
            self.body["output_config"] = {"effort": EFFORTS[effort][0]}

    def _system(self) -> None:
        texts = [t.text for t in self._request.system if t.text.strip()]
        wanted = self._request.response_format
        if wanted is not None and wanted.kind is Format.JSON:
            texts.append(JSON_ONLY)
            self._lose("response_format")  # asked for in words; nothing enforces it
        if texts:
            self.body["system"] = [{"type": "text", "text": text} for text in texts]

    def _tools(self) -> None:
        request = self._request
        if not request.tools:
            return
        self.body["tools"] = [_tool(t) for t in request.tools]
        choice = request.tool_choice
        mode = choice.mode if choice is not None else Choose.AUTO
        wire: dict[str, Any] = {"type": _CHOICES[mode]}
        if choice is not None and choice.name is not None:
            wire["name"] = choice.name
        if request.parallel_tools is False and mode is not Choose.NONE:
            wire["disable_parallel_tool_use"] = True
        if choice is not None or len(wire) > 1:
            self.body["tool_choice"] = wire

    def _sampling(self) -> None:
        sampling = self._request.sampling
        for name in _UNSAMPLED:
            if getattr(sampling, name) not in (None, False):
                self._lose(name)
        thinks = self.body.get("thinking", {}).get("type", "disabled") != "disabled"
        temperature_of, top_p, top_k = sampling.temperature, sampling.top_p, sampling.top_k
        if temperature_of is not None and thinks and temperature_of != 1:
            self._lose("temperature")
        elif temperature_of is not None:
            self.body["temperature"] = min(temperature_of, 1.0)
            if temperature_of > 1:
                self._lose("temperature")
        if top_p is not None and ("temperature" in self.body or (thinks and top_p < _TOP_P_THINKING)):
            self._lose("top_p")  # newer models take one of the two, thinking ones only a high top_p
        elif top_p is not None:
            self.body["top_p"] = top_p
        if top_k is not None and (thinks or top_k < 1):
            self._lose("top_k")
        elif top_k is not None:
            self.body["top_k"] = top_k

    def _format(self) -> None:
        wanted = self._request.response_format
        if wanted is None or wanted.kind is not Format.JSON_SCHEMA:
            return
        config = self.body.setdefault("output_config", {})
        config["format"] = {"type": "json_schema", "schema": wanted.schema or {"type": "object"}}

    def _rest(self) -> None:
        request = self._request
        stops = [s for s in request.stop if s.strip()]
        if len(stops) < len(request.stop):
            self._lose("stop")  # a sequence of blanks is refused
        if stops:
            self.body["stop_sequences"] = stops
        if request.user is not None:
            self.body["metadata"] = {"user_id": request.user}
        if request.metadata:
            self._lose("metadata")
        for name in request.local.wishes():
            self._lose(name)
        if request.stream:
            self.body["stream"] = True


def _wire_thinking(thinking: Thinking, model: str) -> dict[str, Any] | None:
    """The `thinking` object: a budget where one was given or nothing else is understood, else adaptive."""
    if not thinking.enabled:
        return {"type": "disabled"}
    budget = thinking.budget_tokens
    if budget is None and only_budgets(model):
        budget = budget_of(thinking.effort)
    if budget is None:
        return {"type": "adaptive"}
    return {"type": "enabled", "budget_tokens": max(budget, MIN_BUDGET_TOKENS)}


def _tool(tool: Tool) -> dict[str, Any]:
    schema = tool.parameters if tool.parameters.get("type") == "object" else {**tool.parameters, "type": "object"}
    wire: dict[str, Any] = {"name": tool.name, "input_schema": schema}
    if tool.description:
        wire["description"] = tool.description
    if tool.strict is not None:
        wire["strict"] = tool.strict
    return wire
