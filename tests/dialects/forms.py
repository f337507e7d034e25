"""How the bodies of each protocol look, as far as the suite has to change them: one table, one entry for each body.

Most protocols have one body, and most of those look like the default; what a new one says differently is its entry.
"""

from __future__ import annotations

import json as reference
import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

import msgspec

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect, Operation, Outgoing, Route
from rivermouth.ir.names import MODEL_CHARS
from rivermouth.ir.request import EmbedRequest, Request
from tests.dialects.conformance import DIALECTS, MODEL, arrived


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """One body of a dialect.

    body: whose it is; dialects that share one pass each other's bodies on as they came.
    model: a name for which this body is built.  model_param: what an error calls it, where it stands in the path.
    silence: put over a body, leaves nothing to answer, which an error says of `silence_param`.
    ids: matches each id of a call in a body, for those protocols whose clients may leave them out.
    tools: the body has a place for them; else a talk with tools is refused.
    holds_arguments: a call's arguments are kept back, whatever they are, or may have to be; else they are text as any.
    wrapped: routes, by kind, that take the body inside another.
    nameless: routes, by kind, whose requests name no model.
    """

    dialect: str
    body: str
    model: str = MODEL
    model_param: str = "model"
    silence: dict[str, Any] = msgspec.field(default_factory=lambda: {"messages": []})
    silence_param: str = "messages"
    ids: str = r', "(?:tool_call_)?id": "c\d+"'
    tools: bool = True
    holds_arguments: bool = True
    wrapped: dict[str, Callable[[bytes], bytes]] = {}
    nameless: frozenset[str] = frozenset()

    def name(self, char: str, length: int = MODEL_CHARS) -> str:
        """A model's name of that length for which this body is built."""
        return self.model + char * (length - len(self.model))

    def sibling(self, route: Route, body: bytes) -> bytes:
        """The body as that route of the dialect takes it."""
        return self.wrapped.get(route.kind, bytes)(body)


def _counted(body: bytes) -> bytes:
    return reference.dumps({"input": {"invokeModel": {"body": b64encode(body).decode()}}}).encode()


_INVOKED: Final[dict[str, Any]] = {
    "dialect": "bedrock_invoke",
    "model_param": "modelId",
    "wrapped": {"count": _counted},
}
_OTHERWISE: Final[tuple[Form, ...]] = (
    Form(
        dialect="gemini",
        body="gemini",
        silence={"contents": []},
        silence_param="contents",
        ids=r'"id": "c\d+", ',
    ),
    Form(dialect="openai_responses", body="openai_responses", silence={"input": []}, silence_param="input"),
    Form(
        dialect="openai_completions",
        body="openai_completions",
        silence={"prompt": ""},
        silence_param="prompt",
        tools=False,
    ),
    Form(dialect="cohere_v1", body="cohere_v1", silence={"message": "", "chat_history": []}, silence_param="message"),
    Form(dialect="cohere_v2", body="cohere_v2", holds_arguments=False),
    Form(dialect="tgi", body="tgi", nameless=frozenset({"compat", "generate", "generate_stream"})),
    Form(**_INVOKED, body="anthropic", model="anthropic.asked"),
    Form(
        **_INVOKED,
        body="titan",
        model="amazon.titan-asked",
        silence={"inputText": ""},
        silence_param="inputText",
        tools=False,
    ),
)


def _forms() -> list[Form]:
    said = {name: [form for form in _OTHERWISE if form.dialect == name] for name in DIALECTS}
    return [form for name, own in said.items() for form in own or [Form(dialect=name, body=name)]]


FORMS: Final = {f.dialect if f.body == f.dialect else f"{f.dialect}-{f.body}": f for f in _forms()}


def dialect_of(form: Form) -> Dialect:
    return discover()[form.dialect]


def sent(form: Form, request: Request) -> Outgoing:
    return dialect_of(form).build_request(request, form.model)


def parsed(form: Form, outgoing: Outgoing, body: bytes | None = None) -> Request:
    """That body, at the path of the built call, as a server of the dialect reads it."""
    dialect = dialect_of(form)
    return dialect.parse_request(outgoing.body if body is None else body, *arrived(dialect, outgoing.path))


def parsed_embed(dialect: Dialect, outgoing: Outgoing, body: bytes | None = None) -> EmbedRequest:
    assert dialect.parse_embed is not None
    where = arrived(dialect, outgoing.path, Operation.EMBED)
    return dialect.parse_embed(outgoing.body if body is None else body, *where)


def with_fields(body: bytes, fields: dict[str, Any]) -> bytes:
    return reference.dumps(reference.loads(body) | fields).encode()


def without_ids(form: Form, body: bytes) -> bytes:
    return re.sub(form.ids, "", reference.dumps(reference.loads(body))).encode()
