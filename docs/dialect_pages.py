"""The tables in docs/dialects/: what each dialect serves, carries, loses and says, asked of the code itself.

A page is written by hand around blocks that this module fills:

    <!-- generated: served -->
    ...
    <!-- end -->

What a protocol has a place for is not listed anywhere: it is tried, by building a request or encoding an answer and
reading it back, so a page cannot promise what the code does not do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import (
    ALWAYS,
    FINISH_EVERY,
    ROLE_EVERY,
    ROLE_WITH_CONTENT,
    Answer,
    Dialect,
    Key,
    Operation,
    Surface,
)
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    Start,
    TextDelta,
    Usage,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import (
    Audio,
    Choose,
    File,
    Format,
    Image,
    Message,
    Reasoning,
    Refusal,
    Request,
    ResponseFormat,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from rivermouth.wire import json

FOLDER: Final = Path(__file__).parent / "dialects"
BLOCK: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

OPTIONS: Final[dict[str, str]] = {
    ALWAYS: "its routes need no telling header",
    "array": "streams are one JSON array, unless `alt=sse` is asked for",
    "binary": "streams are AWS event streams, unless a client takes SSE",
    ROLE_WITH_CONTENT: 'the first delta is `{"role":"assistant","content":""}`',
    ROLE_EVERY: "every delta has the role",
    FINISH_EVERY: "every frame has the finish reason",
}
"""What the options of a surface mean to a client.  One that is not here stops the pages from being written."""

LOSSES: Final[dict[str, str]] = {
    "context_tokens": "the wanted size of the context, a wish for a local engine",
    "dimensions": "the wanted length of an embedding",
    "file.name": "the name of a file",
    "frequency_penalty": "sampling",
    "image.detail": "how closely to look at an image",
    "keep_alive_s": "how long to keep the model loaded, a wish for a local engine",
    "logit_bias": "sampling",
    "logprobs": "probabilities of the tokens",
    "message.name": "the name of who speaks",
    "max_tokens": "what a limit of tokens is above the most that this model may be asked for",
    "messages.control_tokens": "a model's control tokens in a text as such; they are written apart",
    "messages.image": "an image where the protocol takes none: in a tool's result, or in the model's own words",
    "messages.reasoning": "earlier reasoning, where it was not signed by this vendor or has no place",
    "messages.system": "instructions in the middle of the talk as such; they are said otherwise",
    "messages.tool_result": "a tool's result that answers no call, or comes twice",
    "metadata": "labels of the call",
    "min_p": "sampling",
    "parallel_tools": "whether several tools may be called at once",
    "presence_penalty": "sampling",
    "raw": "that no chat template is to be used, a wish for a local engine",
    "repetition_penalty": "sampling",
    "response_format": "the name and description of a schema, or JSON without one",
    "seed": "sampling",
    "stop": "stop sequences, or those above the protocol's number",
    "temperature": "sampling",
    "thinking": "whether to reason",
    "thinking.budget_tokens": "how many tokens to reason for; the nearest word is sent",
    "thinking.effort": "how hard to reason; the nearest word or number is sent",
    "tool.parameters": "what the protocol's types of parameters cannot say",
    "tool.strict": "that a tool's schema is to be kept strictly",
    "top_k": "sampling",
    "top_logprobs": "probabilities of the tokens",
    "top_p": "sampling",
    "keep_end": "that the end of an input of embeddings is to be kept where it is cut",
    "truncate": "whether an input of embeddings that is too long may be cut",
    "user": "the end user's name",
}
"""What each loss is.  One that is not here stops the pages from being written."""

BODIES: Final[dict[str, dict[str, str]]] = {
    "bedrock_invoke": {
        "Claude": "anthropic.claude",
        "Nova": "amazon.nova",
        "Cohere": "cohere.command-r",
        "Titan": "amazon.titan",
        "Llama": "meta.llama",
        "Mistral": "mistral.mixtral",
    }
}
"""Dialects whose upstreams take more than one body: each body with a model that takes it."""


def rows(titles: Iterable[str], cells: Iterable[Iterable[object]]) -> list[str]:
    """A Markdown table."""
    titles = list(titles)
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    lines += [
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in cells
    ]
    return [*lines, ""]


def code(value: object) -> str:
    return f"`{value}`" if str(value) else ""


# -- served


def served(dialect: Dialect) -> list[str]:
    """Where it is mounted, its routes, where a key may stand, what is sent while waiting."""
    waiting = repr(dialect.keep_alive.decode("ascii"))[1:-1] if dialect.keep_alive else None
    lines = rows(
        ("Mounted at", "Media type of streams", "Special"),
        ((code(s.prefix or "/"), code(s.stream_type), options_of(s)) for s in dialect.surfaces),
    )
    lines += rows(
        ("Route", "What it does", "Streams"),
        (
            (
                code(f"{route.method} {route.path}") + (f" with `{route.when_header}`" if route.when_header else ""),
                route.operation.value,
                "yes" if route.streams else "",
            )
            for route in dialect.routes
        ),
    )
    lines += ["A client's key: " + ", ".join(map(key_place, dialect.keys)) + ".", ""]
    return [*lines, f"While a client waits: {code(waiting)}." if waiting else "While a client waits: nothing is sent."]


def options_of(surface: Surface) -> str:
    said = [OPTIONS[option] for option in sorted(surface.options)]
    if surface.lacks:
        said.append("without " + ", ".join(map(code, sorted(surface.lacks))))
    return "; ".join(said)


def key_place(key: Key) -> str:
    if key.query:
        return f"`?{key.query}=`"
    if key.between is not None:
        return code(f"{key.header}: ... {key.between[0]}KEY{key.between[1]}...")
    return code(f"{key.header}: {key.scheme} ...".replace(":  ", ": "))


# -- carried, as it turns out


class Tried(NamedTuple):
    """An answer with something special in it, and how to find that again."""

    what: str
    events: list[Event]
    found: Callable[[Reply], object]


_ASK: Final = Text("Look.")
_TOOL: Final = Tool("f", "does it", {"type": "object", "properties": {"a": {"type": "string"}}})
_PIXEL: Final = "iVBORw0KGgo="
_SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
_CALLED: Final = (
    Message(Role.USER, (_ASK,)),
    Message(Role.ASSISTANT, (ToolCall("c1", "f", '{"a":"x"}'), ToolCall("c2", "f", "{}"))),
)


def _said(*parts: Any) -> dict[str, Any]:
    return {"messages": (Message(Role.USER, (_ASK, *parts)),)}


def _results(*, is_error: bool) -> dict[str, Any]:
    results = tuple(ToolResult(i, (Text("done"),), is_error=is_error) for i in ("c1", "c2"))
    return {"messages": (*_CALLED, Message(Role.TOOL, results)), "tools": (_TOOL,)}


WISHES: Final[dict[str, dict[str, Any]]] = {
    "instructions (system)": {"system": (Text("Be brief."),)},
    "an image, its data": _said(Image("image/png", _PIXEL)),
    "an image, its URL": _said(Image(url="https://example.org/x.png")),
    "a PDF file, its data": _said(File("application/pdf", "JVBERi0=", name="x.pdf")),
    "a sound": _said(Audio("AAAA", "wav")),
    "tools": {"tools": (_TOOL,), "tool_choice": ToolChoice(Choose.AUTO)},
    "some tool must be called": {"tools": (_TOOL,), "tool_choice": ToolChoice(Choose.REQUIRED)},
    "a named tool must be called": {"tools": (_TOOL,), "tool_choice": ToolChoice(Choose.NAMED, "f")},
    "one call at a time": {"tools": (_TOOL,), "parallel_tools": False},
    "calls and their results": _results(is_error=False),
    "results that are failures": _results(is_error=True),
    "an answer in JSON": {"response_format": ResponseFormat(Format.JSON)},
    "an answer to a schema": {"response_format": ResponseFormat(Format.JSON_SCHEMA, _SCHEMA, "place")},
    "reason hard": {"thinking": Thinking(effort="high"), "max_tokens": 32_000},
    "do not reason": {"thinking": Thinking(enabled=False)},
    "stop sequences": {"stop": ("END",)},
    "a limit of tokens": {"max_tokens": 99},
    "two choices": {"n": 2},
}
"""What a client may want, as a change of a plain request."""


def wish(dialect: Dialect, model: str, changes: dict[str, Any]) -> str:
    """What becomes of a wish when an upstream of the dialect is asked."""
    request = Request(**{"model": "m", **_said(), "max_tokens": 99, **changes})
    try:
        losses = dialect.build_request(request, model).losses
    except ApiError as refused:
        return f"refused ({code(refused.param)})" if refused.param else "refused"
    return "without " + ", ".join(map(code, losses)) if losses else "yes"


def _part(kind: PartKind, *deltas: Event, part: int = 0, choice: int = 0) -> list[Event]:
    named = {"id": f"c{part}", "name": "f"} if kind is PartKind.TOOL else {}
    return [PartStart(part, kind, choice, **named), *deltas, PartEnd(part)]


def _text(part: int, choice: int = 0) -> list[Event]:
    return _part(PartKind.TEXT, TextDelta(part, "x"), part=part, choice=choice)


def _of(kind: type) -> Callable[[Reply], object]:
    return lambda reply: [p for p in reply.choices[0].parts if isinstance(p, kind)]


def _signed(reply: Reply) -> object:
    return [p for p in reply.choices[0].parts if isinstance(p, Reasoning) and p.signature]


def _hidden(reply: Reply) -> object:
    return [p for p in reply.choices[0].parts if isinstance(p, Reasoning) and p.redacted]


def _counted(name: str) -> Callable[[Reply], object]:
    return lambda reply: reply.usage is not None and getattr(reply.usage, name)


_THOUGHT: Final = ReasoningDelta(0, "hm")
_MEDIA: Final = MediaDelta(0, "image/png", _PIXEL)
_FINISHED: Final = Finish(Reason.STOP)
_COUNTS: Final = Usage(120, 70, 100, 10, 30)

TRIED: Final[tuple[Tried, ...]] = (
    Tried("text", [*_text(0), _FINISHED], _of(Text)),
    Tried("a refusal", [*_part(PartKind.REFUSAL, TextDelta(0, "no")), _FINISHED], _of(Refusal)),
    Tried("reasoning", [*_part(PartKind.REASONING, _THOUGHT), *_text(1), _FINISHED], _of(Reasoning)),
    Tried(
        "its signature",
        [*_part(PartKind.REASONING, _THOUGHT, Signature(0, "c2ln")), *_text(1), _FINISHED],
        _signed,
    ),
    Tried(
        "hidden reasoning",
        [PartStart(0, PartKind.REASONING, redacted=True), Signature(0, "aGlk"), PartEnd(0), *_text(1), _FINISHED],
        _hidden,
    ),
    Tried(
        "calls of tools",
        [*_part(PartKind.TOOL, ArgsDelta(0, "{}")), Finish(Reason.TOOL_CALLS)],
        _of(ToolCall),
    ),
    Tried("images", [*_part(PartKind.IMAGE, _MEDIA), *_text(1), _FINISHED], _of(Image)),
    Tried(
        "several choices",
        [*_text(0), *_text(1, choice=1), Finish(Reason.STOP, reasons=(Reason.STOP, Reason.STOP))],
        lambda reply: len(reply.choices) == 2,
    ),
    Tried(
        "which stop sequence it was",
        [*_text(0), Finish(Reason.STOP, "END")],
        lambda reply: reply.choices[0].stop_sequence == "END",
    ),
    Tried("tokens in and out", [*_text(0), _COUNTS, _FINISHED], _counted("output_tokens")),
    Tried("tokens from a cache", [*_text(0), _COUNTS, _FINISHED], _counted("cached_tokens")),
    Tried("tokens written to a cache", [*_text(0), _COUNTS, _FINISHED], _counted("cache_write_tokens")),
    Tried("tokens of reasoning", [*_text(0), _COUNTS, _FINISHED], _counted("reasoning_tokens")),
)


def told(dialect: Dialect, model: str, tried: Tried) -> str:
    """What becomes of it on the way to a client of the dialect."""
    events = [Start("u", "m", 7), *tried.events]
    back = _read_back(dialect, model, events)
    if tried.found(back):
        return "yes"
    other = next((p for p in events if isinstance(p, PartStart) and p.kind is not PartKind.TEXT), None)
    plain = fold(events).choices[0].text
    return "as text" if other is not None and len(back.choices[0].text) > len(plain) else "left out"


def _read_back(dialect: Dialect, model: str, events: list[Event]) -> Reply:
    """The answer as the dialect's own decoder reads what its encoder wrote."""
    request = asked_of(dialect, model)
    kind = chat_kind(dialect)
    answer = Answer(id="c1", model=model, created_ns=0, surface=dialect.surfaces[0], kind=kind, request=request)
    frames = dialect.reader().feed(dialect.encoder(answer).feed(events))
    decoder = dialect.decoder(request)
    return fold([event for frame in frames for event in decoder.feed(frame)])


def asked_of(dialect: Dialect, model: str) -> Request:
    """A streaming request as a server of the dialect reads it from the body that this model takes."""
    request = Request(model=model, messages=(Message(Role.USER, (_ASK,)),), stream=True, include_usage=True)
    body = dialect.build_request(request, model).body
    route = next(r for r in dialect.routes if r.operation is Operation.GENERATE and r.kind == chat_kind(dialect))
    return dialect.parse_request(body, route, model)


def chat_kind(dialect: Dialect) -> str:
    kinds = [r.kind for r in dialect.routes if r.operation is Operation.GENERATE and r.streams]
    return "chat" if "chat" in kinds else kinds[0]


def carried(dialect: Dialect) -> list[str]:
    """What its clients are told of an answer, and what its upstreams of a request."""
    bodies = BODIES.get(dialect.name, {"": "m"})
    titles = [f"with {body}'s body" if body else "is carried" for body in bodies]
    lines = rows(
        ("An answer with ...", *(f"{title}, to a client" if title else title for title in titles)),
        ((tried.what, *(told(dialect, model, tried) for model in bodies.values())) for tried in TRIED),
    )
    return lines + rows(
        ("A request with ...", *(f"{title}, to an upstream" for title in titles)),
        ((what, *(wish(dialect, model, changes) for model in bodies.values())) for what, changes in WISHES.items()),
    )


def lost(dialect: Dialect) -> list[str]:
    """The names that `x-rivermouth-ignored` may have."""
    if not dialect.losses:
        return ["Nothing is lost."]
    return rows(("Name", "What is lost"), ((code(name), LOSSES[name]) for name in sorted(dialect.losses)))


# -- ends and errors


def ends(dialect: Dialect) -> list[str]:
    """The words for an end, both ways, from the dialect's own tables."""
    out: dict[Reason, dict[str, None]] = {}
    known, failed = {}, []
    for name, value in vars(tables_of(dialect)).items():
        if not isinstance(value, dict) or not value:
            continue
        keys, values = {type(k) for k in value}, {type(v) for v in value.values()}
        if keys == {Reason} and values == {str}:
            for reason, word in value.items():
                out.setdefault(reason, {})[word] = None
        elif keys == {str} and values == {Reason}:
            known.update(value)
        elif keys == {str} and "FAILED" in name:
            failed += value
    said = ((reason.value, " or ".join(map(code, words))) for reason, words in out.items())
    lines = rows(("It ended by", "A client reads"), said)
    words = [(code(word), reason.value) for word, reason in known.items()]
    words += [(code(word), "an error") for word in failed]
    return lines + rows(("An upstream's word", "What it is taken for"), words)


def tables_of(dialect: Dialect) -> ModuleType:
    """Where its words are: `tables` of a package, or the one module that it is."""
    module = import_module(f"rivermouth.dialects.{dialect.name}")
    return import_module(f"{module.__name__}.tables") if hasattr(module, "__path__") else module


def errors(dialect: Dialect) -> list[str]:
    """Each kind of error as an HTTP answer: its status, and every word that tells it from another kind."""
    told = {kind: dialect.encode_error(ApiError(kind, "..."), "id") for kind in Kind}
    leaves = {kind: {**dict(_leaves(json.decode(f.body))), **f.headers} for kind, f in told.items()}
    paths = dict.fromkeys(path for said in leaves.values() for path in said)
    telling = [p for p in paths if len({str(said.get(p)) for said in leaves.values()}) > 1 and p != "x-should-retry"]
    cells = (
        (code(kind.value), failure.status, *(code(leaves[kind].get(path, "")) for path in telling))
        for kind, failure in told.items()
    )
    example = told[Kind.RATE_LIMITED]
    return [*rows(("Kind", "Status", *map(code, telling)), cells), "```json", example.body.decode(), "```"]


def _leaves(value: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    """Every plain value in a document, by its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}".lstrip("."))
    elif not isinstance(value, list) and value is not None:
        yield path, value


BLOCKS: Final[dict[str, Callable[[Dialect], list[str]]]] = {
    "served": served,
    "carried": carried,
    "lost": lost,
    "ends": ends,
    "errors": errors,
}


def page_of(dialect: Dialect) -> Path:
    return FOLDER / f"{dialect.name}.md"


def generate_page(dialect: Dialect) -> str:
    """The page as it is, with its blocks filled."""

    def fill(match: re.Match[str]) -> str:
        return match[1] + "\n".join(BLOCKS[match[2]](dialect)).rstrip() + "\n" + match[3]

    return BLOCK.sub(fill, page_of(dialect).read_text(encoding="utf-8"))


def generate_pages() -> dict[Path, str]:
    """Every dialect's page."""
    return {page_of(dialect): generate_page(dialect) for dialect in discover().values()}
