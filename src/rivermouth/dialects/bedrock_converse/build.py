"""A neutral request to the call of a model behind Converse."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from rivermouth.dialects.bedrock_converse.parse import MORE, RETIRED
from rivermouth.dialects.bedrock_converse.tables import (
    CHOICES,
    NAME,
    NOVA_EFFORTS,
    OPENAI_EFFORTS,
    Family,
    family_of,
)
from rivermouth.dialects.bedrock_converse.turns import Turns, reasoned_first
from rivermouth.dialects.dialect import Outgoing
from rivermouth.ir.errors import invalid
from rivermouth.ir.opaque import holds_sealed, sealed
from rivermouth.ir.request import Choose, Format, Original, Request, Thinking, Tool, check_translatable
from rivermouth.vendors.anthropic.signatures import without
from rivermouth.vendors.anthropic.thinking import EFFORTS, MIN_BUDGET_TOKENS, budget_of, only_budgets
from rivermouth.vendors.output_caps import clamped, output_cap
from rivermouth.wire import json
from rivermouth.wire.aws_eventstream import MEDIA_TYPE

JSON_ONLY: Final = "Answer with one JSON object and nothing else: no code fence, no other text."
ANSWER_FIELDS: Final = "additionalModelResponseFieldPaths"
STOPPED_BY: Final = "/stop_sequence"
"""The member of the model's own answer that says which sequence it was; a model without it says nothing."""

_VERBS: Final = {False: "converse", True: "converse-stream"}
_ACCEPTS: Final = {False: "application/json", True: MEDIA_TYPE}
_FORCED: Final = frozenset({Choose.REQUIRED, Choose.NAMED})
_METADATA_PAIRS: Final = 16
_METADATA: Final = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,.-]{1,256}")
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


def build_request(request: Request, model: str) -> Outgoing:
    """The call for `model`.  The client's own body goes as it came, if it is of this dialect (see `Original`).

    Raises `ApiError` where leaving something out would make the answer wrong.
    """
    original = request.original
    if original is not None and original.dialect == NAME:
        body, losses = _repeat(original, model)
        return _outgoing(request, model, body, losses)
    check_translatable(request)
    if request.n > 1:
        raise invalid("the Converse protocol gives one answer for each request", "n")
    built = _Built(request, model)
    return _outgoing(request, model, built.body, built.losses)


def _outgoing(request: Request, model: str, body: dict[str, Any], losses: set[str]) -> Outgoing:
    return Outgoing(
        path=f"/model/{quote(model, safe='')}/{_VERBS[request.stream]}",
        body=json.encode(body),
        headers={"accept": _ACCEPTS[request.stream]},
        losses=tuple(sorted(losses)),
    )


def _repeat(original: Original, model: str) -> tuple[dict[str, Any], set[str]]:
    """The same body, without reasoning that no model of the vendor signed."""
    fields: dict[str, Any] = {name: raw for name, raw in original.fields.items() if name != "model"}
    told = bytes(original.fields.get("messages", b""))
    if not holds_sealed(told):
        return fields, set()
    turns = fields["messages"] = without(original.fields["messages"], _sealed)
    more = json.fields(original.fields[MORE]) if b"{" in bytes(original.fields.get(MORE, b"")) else {}
    if "thinking" not in more or reasoned_first(turns):
        return fields, set()
    del more["thinking"]
    fields[MORE] = more
    return fields, {"thinking"}


def _sealed(block: Any) -> bool:
    reasoning = block.get("reasoningContent") if isinstance(block, dict) else None
    if not isinstance(reasoning, dict):
        return False
    told, hidden = reasoning.get("reasoningText"), reasoning.get("redactedContent")
    signature = told.get("signature") if isinstance(told, dict) else None
    return any(isinstance(proof, str) and sealed(proof) for proof in (signature, hidden))


class _Built:
    """The body being built; each step owns the fields it names."""

    def __init__(self, request: Request, model: str) -> None:
        self.losses: set[str] = set(request.unmodelled)
        self._request = request
        self._family = family_of(model)
        self._more: dict[str, Any] = {}
        turns = Turns(request.messages, reasons=self._family is Family.CLAUDE)
        self.losses |= turns.losses
        self.body: dict[str, Any] = {"messages": turns.wire}
        self._system()
        self._tools(turns)
        self._thinking(model, turns)
        self._sampling(model)
        self._format()
        self._rest()
        if self._more:
            self.body[MORE] = self._more

    def _lose(self, name: str) -> None:
        self.losses.add(name)

    def _system(self) -> None:
        texts = [t.text for t in self._request.system if t.text.strip()]
        wanted = self._request.response_format
        if wanted is not None and wanted.kind is Format.JSON:
            texts.append(JSON_ONLY)
            self._lose("response_format")  # asked for in words; nothing enforces it
        if texts:
            self.body["system"] = [{"text": text} for text in texts]

    def _tools(self, turns: Turns) -> None:
        """A talk with calls needs tools; what they were is said, and that they are none to be called now."""
        request, choice = self._request, self._request.tool_choice
        forbidden = choice is not None and choice.mode is Choose.NONE
        offered = () if forbidden else request.tools
        known = {tool.name for tool in offered}
        specs = [_tool(tool) for tool in offered]
        specs += [_tool(Tool(name, RETIRED)) for name in turns.called if name not in known]
        if not specs:
            return
        config: dict[str, Any] = {"tools": specs}
        word = CHOICES[choice.mode] if choice is not None and offered else None
        if word is not None and choice is not None:
            config["toolChoice"] = {word: {} if choice.name is None else {"name": choice.name}}
        if request.parallel_tools is False and offered:
            self._lose("parallel_tools")
        self.body["toolConfig"] = config

    def _thinking(self, model: str, turns: Turns) -> None:
        thinking = self._request.thinking
        if thinking is None:
            return
        match self._family:
            case Family.CLAUDE:
                self._claude(thinking, model, turns)
            case Family.NOVA:
                self._nova(thinking)
            case Family.OPENAI:
                if thinking.budget_tokens is not None:
                    self._lose("thinking.budget_tokens")
                self._more["reasoning_effort"] = (
                    OPENAI_EFFORTS.get(thinking.effort or "medium", "medium") if thinking.enabled else "none"
                )
            case Family.OTHER:
                if thinking.enabled:
                    self._lose("thinking")

    def _claude(self, thinking: Thinking, model: str, turns: Turns) -> None:
        """Thinking yields where the model refuses it: under a forced tool, and when calls lost their reasoning."""
        choice, room = self._request.tool_choice, clamped(self._request.max_tokens, model) or output_cap(model)
        forced = choice is not None and choice.mode in _FORCED and bool(self._request.tools)
        budget = thinking.budget_tokens
        if budget is None and only_budgets(model):
            budget = budget_of(thinking.effort)
        if not thinking.enabled:
            self._more["thinking"] = {"type": "disabled"}
            return
        if forced or not reasoned_first(turns.wire):
            self._lose("thinking")
        elif budget is None:
            self._more["thinking"] = {"type": "adaptive"}
        else:
            budget = max(budget, MIN_BUDGET_TOKENS)
            if room is not None and budget >= room:
                self._lose("thinking.budget_tokens")
                budget = room - 1
            if budget >= MIN_BUDGET_TOKENS:
                self._more["thinking"] = {"type": "enabled", "budget_tokens": budget}
        effort = thinking.effort
        if effort is not None and not only_budgets(model):
            if effort in EFFORTS:
                self.body.setdefault("outputConfig", {})["effort"] = EFFORTS[effort][0]
            else:
                self._lose("thinking.effort")

    def _nova(self, thinking: Thinking) -> None:
        if not thinking.enabled:
            self._more["reasoningConfig"] = {"type": "disabled"}
            return
        if thinking.budget_tokens is not None:
            self._lose("thinking.budget_tokens")
        effort = NOVA_EFFORTS.get(thinking.effort or "medium", "medium")
        self._more["reasoningConfig"] = {"type": "enabled", "maxReasoningEffort": effort}

    def _sampling(self, model: str) -> None:
        request, sampling = self._request, self._request.sampling
        for name in _UNSAMPLED:
            if getattr(sampling, name) not in (None, False):
                self._lose(name)
        thinks = self._family is Family.CLAUDE and self._more.get("thinking", {}).get("type", "disabled") != "disabled"
        temperature, top_p = sampling.temperature, sampling.top_p
        config: dict[str, Any] = {}
        room = clamped(request.max_tokens, model)
        if room is not None:
            config["maxTokens"] = max(room, 1)
        if room != request.max_tokens:
            self._lose("max_tokens")
        if temperature is not None and thinks and temperature != 1:
            self._lose("temperature")
        elif temperature is not None:
            config["temperature"] = min(temperature, 1.0)
            if temperature > 1:
                self._lose("temperature")
        # Claude's newer models take one of the two, and thinking ones neither.
        if top_p is not None and self._family is Family.CLAUDE and ("temperature" in config or thinks):
            self._lose("top_p")
        elif top_p is not None:
            config["topP"] = top_p
        stops = [s for s in request.stop if s.strip()]
        if len(stops) < len(request.stop):
            self._lose("stop")  # a sequence of blanks is refused
        if stops:
            config["stopSequences"] = stops
            self.body[ANSWER_FIELDS] = [STOPPED_BY]
        if config:
            self.body["inferenceConfig"] = config
        self._top_k(sampling.top_k, thinks=thinks)

    def _top_k(self, top_k: int | None, *, thinks: bool) -> None:
        if top_k is None:
            return
        if top_k < 1 or thinks or self._family in (Family.OPENAI, Family.OTHER):
            self._lose("top_k")
        elif self._family is Family.NOVA:
            self._more["inferenceConfig"] = {"topK": top_k}
        else:
            self._more["top_k"] = top_k

    def _format(self) -> None:
        wanted = self._request.response_format
        if wanted is None or wanted.kind is not Format.JSON_SCHEMA:
            return
        schema = {"schema": json.encode(wanted.schema or {"type": "object"}).decode()}
        said = {"name": wanted.name, "description": wanted.description}
        schema |= {name: value for name, value in said.items() if value}
        config = self.body.setdefault("outputConfig", {})
        config["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": schema}}

    def _rest(self) -> None:
        request = self._request
        labels = request.metadata or {}
        fits = len(labels) <= _METADATA_PAIRS and all(_METADATA.fullmatch(t) for pair in labels.items() for t in pair)
        if labels and fits:
            self.body["requestMetadata"] = labels
        elif labels:
            self._lose("metadata")
        if request.user is not None:
            self._lose("user")
        for name in request.local.wishes():
            self._lose(name)


def _tool(tool: Tool) -> dict[str, Any]:
    schema = tool.parameters if tool.parameters.get("type") == "object" else {**tool.parameters, "type": "object"}
    spec: dict[str, Any] = {"name": tool.name, "inputSchema": {"json": schema}}
    if tool.description:
        spec["description"] = tool.description
    if tool.strict is not None:
        spec["strict"] = tool.strict
    return {"toolSpec": spec}
