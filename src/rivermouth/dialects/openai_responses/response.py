"""The `response` object: what stands around an output, the same in every event of a stream and in a whole reply.

Most of it repeats what the client asked for; a client of another dialect (whose events are only kept in this one) is
repeated in the words that an upstream would have got.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_responses.tables import FAILED_CODES, NAME, TOLD_CODES
from rivermouth.dialects.openai_responses.tools import write_tools
from rivermouth.dialects.openai_responses.usage import write_usage
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Usage
from rivermouth.ir.request import Request
from rivermouth.vendors.openai.failures import WORDS
from rivermouth.wire import json

# Fields of the request that a response repeats, with what stands there where nothing was said.
REPEATED: Final[dict[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
    "metadata": {},
}


class Template:
    """The constant bytes of one response."""

    __slots__ = ("_head", "_tail", "_times")

    def __init__(self, answer: Answer) -> None:
        self._times = answer
        created = answer.created_ns // 1_000_000_000
        self._head = json.encode({"id": response_id(answer), "object": "response", "created_at": created})[:-1]
        mine = {"model": answer.model, **kept(answer.request), **_repeated(answer.request)}
        self._tail = b"," + json.encode(mine)[1:]

    def fill(
        self,
        status: str,
        output: Iterable[bytes],
        *,
        usage: Usage | None = None,
        error: ApiError | None = None,
        why: str | None = None,
    ) -> bytes:
        """The response as it is now.  `why` it is incomplete; it has an error exactly when it failed."""
        now: dict[str, Any] = {"status": status}
        if status == "completed":
            now["completed_at"] = (self._times.created_ns + self._times.total_ns) // 1_000_000_000
        now["error"] = failure(error) if error is not None else None
        now["incomplete_details"] = {"reason": why} if why is not None else None
        now["usage"] = write_usage(usage)
        output_member = b',"output":[' + b",".join(output) + b"]"
        return self._head + b"," + json.encode(now)[1:-1] + output_member + self._tail


def response_id(answer: Answer) -> str:
    return f"resp_{answer.id}"


def failure(error: ApiError) -> dict[str, Any]:
    """`error` of a response that failed."""
    code = error.code if error.code in TOLD_CODES else FAILED_CODES[error.kind]
    return {"code": code, "message": error.message, "type": WORDS[error.kind].type, "param": error.param}


def kept(request: Request | None) -> dict[str, Any]:
    """What the server that keeps answers says of this one; without such a server nothing is kept."""
    wish = request.kept if request is not None else None
    said: dict[str, Any] = {
        "background": wish.background if wish is not None else False,
        "previous_response_id": wish.previous if wish is not None else None,
        "store": wish.store is not False if wish is not None else False,
    }
    if wish is not None and wish.conversation is not None:
        said["conversation"] = {"id": wish.conversation}
    return said


def _repeated(request: Request | None) -> dict[str, Any]:
    if request is None:
        return REPEATED
    original = request.original
    if original is None or original.dialect != NAME:
        return {**REPEATED, **write_tools(request)}
    said = {name: json.decode(original.fields[name]) for name in REPEATED if name in original.fields}
    return {name: default if said.get(name) is None else said[name] for name, default in REPEATED.items()}
