"""What becomes of a request's tools: shown to the template, forced by a grammar, or lost by name.

    asked                               the model gets                     its calls are read
    no tools, or `none`                 nothing                            not
    `required`, `named`                 the tools, and a grammar           as the grammar writes them
    `auto`, a template that shows them  the tools                          as its family writes them
    `auto`, with a forced answer        nothing, `tools` is a loss         not: a grammar allows only that answer
    `auto`, any other template          nothing, `tools` is a loss         not

A forced call is made by any model.  Where the template does not show tools, the instructions describe them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from rivermouth.ir.errors import invalid
from rivermouth.ir.names import quoted
from rivermouth.ir.request import Choose, Format, Request, Tool
from rivermouth.local.words.families import HERMES_CLOSE, MARKS, Calls, Family
from rivermouth.local.words.protocol import CallSchema
from rivermouth.local.words.schema import call_schemas

FORCED: Final = frozenset({Choose.REQUIRED, Choose.NAMED})


class Offer(msgspec.Struct, frozen=True):
    """tools: what the model is shown.  calls: how it writes calls of them.  schemas: what is forced, if anything.

    most_calls: None is as many as it likes.
    """

    tools: tuple[Tool, ...] = ()
    calls: Calls = Calls.NONE
    schemas: tuple[CallSchema, ...] = ()
    most_calls: int | None = None

    @property
    def names(self) -> frozenset[str]:
        """The tools that may be called."""
        if self.schemas:
            return frozenset(call.name for call in self.schemas)
        return frozenset(tool.name for tool in self.tools)

    @property
    def marks(self) -> tuple[str, ...]:
        """What the tokenizer must not leave out."""
        return MARKS[self.calls]

    @property
    def stops(self) -> tuple[str, ...]:
        """What ends the answer because no more calls are wanted; it is part of the call."""
        return (HERMES_CLOSE,) if self.calls is Calls.HERMES and self.most_calls == 1 else ()


def offer_of(request: Request, family: Family, warn: Callable[[str], None]) -> Offer:
    """What becomes of the tools; `family` is that of the template in use.  Raises `ApiError`."""
    choice = request.tool_choice
    mode = Choose.AUTO if choice is None else choice.mode
    if mode in FORCED and not request.tools:
        raise invalid("there is no tool to call", param="tool_choice")
    if mode is Choose.NONE or not request.tools:
        return Offer()
    if request.local.raw:
        raise invalid("a raw prompt cannot have tools", param="tools")
    most = 1 if request.parallel_tools is False else None
    if mode in FORCED:
        name = choice.name if choice is not None else None
        forced = [tool for tool in request.tools if mode is Choose.REQUIRED or tool.name == name]
        if not forced:
            raise invalid(f"there is no tool {quoted(name or '')} to call", param="tool_choice")
        return Offer(request.tools, Calls.FORCED, call_schemas(forced), most_calls=1)
    if family.calls is Calls.NONE or _is_forced(request):
        warn("tools")
        return Offer()
    return Offer(request.tools, family.calls, most_calls=most)


def _is_forced(request: Request) -> bool:
    wanted = request.response_format
    return request.local.regex is not None or (wanted is not None and wanted.kind is not Format.TEXT)


def tool_shapes(tools: tuple[Tool, ...]) -> tuple[dict[str, object], ...]:
    """The tools as chat templates know them.  Some cannot do without a description, though it be empty."""
    shapes: list[dict[str, object]] = []
    for tool in tools:
        function = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters}
        shapes.append({"type": "function", "function": function})
    return tuple(shapes)
