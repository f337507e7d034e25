"""A talk that goes from dialect to dialect: how a client keeps a turn and sends it back, and what a hop keeps of it.

Nothing here knows a dialect by its name but `KEEPS`: bodies and replies are told by their members, so that a new
dialect takes part in all of it as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from rivermouth.ir.names import OTHERS
from rivermouth.ir.opaque import SEALED, SEALED_BASE64
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Message, Reasoning, Refusal, Request, Role, Text, ToolCall, ToolResult
from rivermouth.ir.turns import ERROR
from tests.dialects.conformance import answer, canonical
from tests.dialects.forms import FORMS, Form, dialect_of, parsed, sent

TALKING: Final = [name for name, form in FORMS.items() if form.tools]
"""Bodies that hold a talk with tools."""


class Keeps(msgspec.Struct, frozen=True):
    """What a body keeps of a talk that came in another dialect, as an upstream of its own is asked.

    thoughts: "native", the reasoning whose signature is at home, exactly; "text", all that is not hidden, joined, and
    with it signatures that are at home; "none".  mark: how signatures begin that are at home.
    failures: a result that is a failure has a mark for it, else words.
    """

    thoughts: str = "native"
    mark: str = "(nobody)"
    failures: bool = False


KEEPS: Final[dict[str, Keeps]] = {
    "openai_chat": Keeps("text", "openai_chat"),
    "tgi": Keeps("text", "openai_chat"),
    "anthropic": Keeps("native", "anthropic:", failures=True),
    "bedrock_converse": Keeps("native", "anthropic:", failures=True),
    "bedrock_invoke-anthropic": Keeps("native", "anthropic:", failures=True),
    "gemini": Keeps("native", "gemini", failures=True),
    "ollama": Keeps("text"),
    "cohere_v1": Keeps("none"),
    "cohere_v2": Keeps("none"),
}
"""A body that is not here keeps no reasoning that anybody promises; all else holds for it too."""


def keeps(name: str) -> Keeps:
    return KEEPS.get(name, Keeps())


# -- what a client keeps ----------------------------------------------------------------------------------------------

_LISTS: Final = ("messages", "contents", "chat_history", "input")
_SPEAKERS: Final = frozenset({"assistant", "model", "CHATBOT"})
_ITEMS: Final = frozenset({"function_call", "custom_tool_call", "reasoning"})


def kept_turn(form: Form, reply: Reply) -> list[Any]:
    """What a client of the dialect keeps of an answer, to send it back as it is."""
    dialect = dialect_of(form)
    request = parsed(form, sent(form, Request(model="m", messages=(Message(Role.USER, (Text("Hi"),)),), max_tokens=9)))
    return _turn(json.loads(dialect.encode_reply(reply, answer(dialect, request=request, model=form.model))))


def _turn(reply: dict[str, Any]) -> list[Any]:
    match reply:
        case {"choices": [{"message": message}, *_]}:
            return [message]
        case {"candidates": [{"content": content}, *_]}:
            return [content]
        case {"output": {"message": message}}:
            return [message]
        case {"output": list() as items}:
            return items
        case {"type": "message", "content": content}:
            return [{"role": "assistant", "content": content}]
        case {"text": text, "generation_id": _}:
            calls = {"tool_calls": reply["tool_calls"]} if "tool_calls" in reply else {}
            return [{"role": "CHATBOT", "message": text, **calls}]
        case {"message": message}:
            return [message]
    raise AssertionError(f"a reply of another shape: {sorted(reply)}")


def asked_again(form: Form, before: Message, turn: list[Any], said: Iterable[Any], after: Iterable[Message]) -> Request:
    """The request that a client of the dialect makes next: the kept turn between the user's words and what follows.

    said: the parts of that turn, whose calls the results in `after` answer.
    """
    calls = tuple(p for p in said if isinstance(p, ToolCall)) or (Text("(here)"),)
    stand_in = Request(model="m", messages=(before, Message(Role.ASSISTANT, calls), *after), max_tokens=99)
    outgoing = sent(form, stand_in)
    body = json.loads(outgoing.body)
    name = next(n for n in _LISTS if isinstance(body.get(n), list))
    at = next(i for i, entry in enumerate(body[name]) if _spoken(entry))
    # The client answers with the ids that it heard; its dialect may spell others in a way of its own.
    heard = dict(zip(_ids(filter(_spoken, body[name])), _ids(turn), strict=False))
    rest = [_renamed(entry, heard) for entry in body[name][at:] if not _spoken(entry)]
    body[name] = [*body[name][:at], *turn, *rest]
    return parsed(form, outgoing, json.dumps(body).encode())


def _ids(entries: Iterable[Any]) -> list[str]:
    """The ids of all calls, in order: those objects that have a name, or a function, beside an id."""
    found: list[str] = []
    for entry in entries:
        if isinstance(entry, dict):
            identity = next((entry[n] for n in ("call_id", "toolUseId", "id") if isinstance(entry.get(n), str)), None)
            if identity is not None and ("name" in entry or "function" in entry):
                found.append(identity)
            found += _ids(entry.values())
        elif isinstance(entry, list):
            found += _ids(entry)
    return found


def _renamed(value: Any, names: dict[str, str]) -> Any:
    match value:
        case str():
            return names.get(value, value)
        case dict():
            return {name: _renamed(member, names) for name, member in value.items()}
        case list():
            return [_renamed(member, names) for member in value]
    return value


def _spoken(entry: dict[str, Any]) -> bool:
    return entry.get("role") in _SPEAKERS or entry.get("type") in _ITEMS


# -- what is on a wire ------------------------------------------------------------------------------------------------


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON document."""
    match value:
        case str():
            yield value
        case dict():
            for member in value.values():
                yield from strings(member)
        case list():
            for member in value:
                yield from strings(member)


def envelopes(body: bytes) -> list[str]:
    return [s for s in strings(json.loads(body)) if SEALED in s or SEALED_BASE64 in s]


# -- what a talk says -------------------------------------------------------------------------------------------------


def outline(messages: Iterable[Message]) -> list[tuple[Any, ...]]:
    """Who said what, called what and got which results; without reasoning, ids, and borders that protocols move."""
    lines: list[tuple[Any, ...]] = []
    for message in messages:
        results = [p for p in message.parts if isinstance(p, ToolResult)]
        text = "".join(p.text for p in message.parts if isinstance(p, Text | Refusal))
        calls = [(p.name, json.dumps(canonical(p.arguments))) for p in message.parts if isinstance(p, ToolCall)]
        if results and lines and lines[-1][0] == "results":
            lines[-1][1].extend(map(_result, results))
        elif results:
            lines.append(("results", [_result(r) for r in results]))
        who = "assistant" if message.role is Role.ASSISTANT else "user"
        if not text and not calls:
            continue
        if lines and lines[-1][0] == who and not (calls and lines[-1][2]):
            lines[-1] = (who, lines[-1][1] + text, lines[-1][2] + calls)
        else:
            lines.append((who, text, calls))
    return lines


def _result(result: ToolResult) -> str:
    """A failure reads the same whether it has a mark or says so in words."""
    text = "".join(p.text for p in result.content if isinstance(p, Text))
    return ERROR + text if result.is_error and not text.startswith(ERROR) else text


def thoughts(messages: Iterable[Message]) -> list[Reasoning]:
    return [p for m in messages for p in m.parts if isinstance(p, Reasoning)]


def lost(losses: Iterable[str], name: str) -> bool:
    return name in losses or OTHERS in losses
