"""What a client asks for, in neutral words.

Neutral rules that every dialect translates to:
* `system` holds the leading instructions; a system message later in the talk stays in `messages`, and so do
  instructions that nothing follows: they are what is to be answered.
* Tool results are messages of their own (`Role.TOOL`, one or more `ToolResult`), whatever the wire merges them into.
* Tool arguments are JSON *text*, as the model wrote it; an absent one is "".
* Images and files are base64 text with a media type, or a URL that is never fetched here.
* `None` means "the client did not say"; a default is the target's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from rivermouth.ir.errors import invalid


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Text(msgspec.Struct, frozen=True, tag="text"):
    text: str


class Image(msgspec.Struct, frozen=True, tag="image"):
    """Either `data` (base64, with `media_type`) or `url`.  `detail` is the client's wish for resolution."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    detail: str | None = None


class File(msgspec.Struct, frozen=True, tag="file"):
    """A document: `data` (base64, with `media_type`), `text`, `url`, or the upstream's own `file_id`."""

    media_type: str | None = None
    data: str | None = None
    text: str | None = None
    url: str | None = None
    file_id: str | None = None
    name: str | None = None


class Audio(msgspec.Struct, frozen=True, tag="audio"):
    data: str
    format: str


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning"):
    """What the model thought.  `signature` proves it to its maker; a redacted part has no text, only the signature."""

    text: str = ""
    signature: str | None = None
    redacted: bool = False


class Refusal(msgspec.Struct, frozen=True, tag="refusal"):
    text: str


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call"):
    """`arguments` is JSON text exactly as the model wrote it; "" means no arguments."""

    id: str
    name: str
    arguments: str = ""


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result"):
    """The answer to one tool call, paired by `id` (never by position)."""

    id: str
    content: tuple[Text | Image | File, ...] = ()
    is_error: bool = False
    name: str | None = None


Part = Text | Image | File | Audio | Reasoning | Refusal | ToolCall | ToolResult


class Message(msgspec.Struct, frozen=True):
    role: Role
    parts: tuple[Part, ...]
    name: str | None = None

    @property
    def text(self) -> str:
        """The joined text parts; what a text-only target would see."""
        return "".join(p.text for p in self.parts if isinstance(p, Text))


def instructions(talk: Sequence[Message]) -> tuple[tuple[Text, ...], tuple[Message, ...]]:
    """`system` and `messages` of a talk whose instructions are messages too."""
    lead = next((i for i, message in enumerate(talk) if message.role is not Role.SYSTEM), 0)
    return tuple([p for m in talk[:lead] for p in m.parts if isinstance(p, Text)]), tuple(talk[lead:])


class FreeForm(msgspec.Struct, frozen=True):
    """What a tool takes that wants text instead of arguments: any, or what a grammar allows."""

    description: str | None = None
    syntax: str | None = None
    definition: str | None = None


class Inside(msgspec.Struct, frozen=True):
    """The two names of a tool that its client keeps in a namespace; here it has one, made of both."""

    namespace: str
    name: str


class Tool(msgspec.Struct, frozen=True):
    """A function the model may call.  `parameters` is a JSON schema of type object.

    free_form: the client's tool takes text.  What stands beside it says the same of a function of one text, `input`,
    grammar included, for every target that has nothing but functions; a call's arguments are those of the function.
    inside: where the client keeps it, if not among its own.
    """

    name: str
    description: str | None = None
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None
    free_form: FreeForm | None = None
    inside: Inside | None = None


class Choose(StrEnum):
    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


class ToolChoice(msgspec.Struct, frozen=True):
    """`name` is set exactly when `mode` is NAMED."""

    mode: Choose
    name: str | None = None


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    JSON_SCHEMA = "json_schema"


class ResponseFormat(msgspec.Struct, frozen=True):
    """`schema` is set exactly when `kind` is JSON_SCHEMA."""

    kind: Format
    schema: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class Sampling(msgspec.Struct, frozen=True):
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class Thinking(msgspec.Struct, frozen=True):
    """How hard to think.  `enabled` False forbids it; `effort` and `budget_tokens` are two ways to say how much.

    summary: how much of it the client wants to read ("auto", "concise", "detailed"), where thoughts are summarised.
    """

    enabled: bool = True
    effort: str | None = None
    budget_tokens: int | None = None
    summary: str | None = None


class Local(msgspec.Struct, frozen=True):
    """Wishes that only an engine on this machine can meet.

    keep_alive_s: seconds the model stays loaded after the call (0 now, negative for ever).
    context_tokens: the context window wanted.  raw: the prompt is a completion, no chat template.
    regex: the whole answer has to match it; no other target may leave that out (`check_translatable`).
    regex_field: the client's name for that.
    """

    keep_alive_s: float | None = None
    context_tokens: int | None = None
    raw: bool = False
    regex: str | None = None
    regex_field: str = "regex"

    def wishes(self) -> tuple[str, ...]:
        """The names of what is wished; 0 is a wish too."""
        names = (name for name in self.__struct_fields__ if name != "regex_field")
        return tuple(name for name in names if getattr(self, name) != getattr(_NO_WISHES, name))


_NO_WISHES = Local()


class Original(msgspec.Struct, frozen=True):
    """The client's body as it came: top-level fields, each as raw JSON.

    A same-dialect upstream gets these bytes back with only the touched fields replaced, so nothing that we do not
    model is lost.  A request that was changed after parsing must drop it (`msgspec.structs.replace(r, original=None)`).
    headers: the client's request headers that the dialect passes on (`Dialect.passed_headers`), in lower case.
    """

    dialect: str
    fields: dict[str, msgspec.Raw]
    headers: dict[str, str] = {}


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants of a server that keeps answers.  Only such a server may serve it; see `unkept`.

    store: the answer is to be kept, or is not; None leaves it to the server.  previous: the id of the kept answer that
    this one goes on from.  background: answer at once with an id, and work on without a connection.
    conversation: the id of the kept talk that this belongs to.  references: ids of kept items that stand in the input,
    each with the field that names it.
    """

    store: bool | None = None
    previous: str | None = None
    background: bool = False
    conversation: str | None = None
    references: tuple[tuple[str, str], ...] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One generation wanted.

    n: how many choices.  max_tokens: of the answer, reasoning included.  stop: strings that end the answer.
    include_usage: the client wants a usage frame in its stream.  original: see `Original`.
    untranslatable: fields of `original` without which the answer would be wrong and which have no neutral form; only
    an upstream of the same dialect, given the original, may take such a request.
    unmodelled: fields of `original` that other targets go without: a loss for each, unless the original is used; made
    by `names.loss_names`.
    kept: what is asked of a server that keeps answers; while it is served, what was granted of that, for the answer to
    say so.  No dialect writes it to an upstream.
    """

    model: str
    messages: tuple[Message, ...]
    system: tuple[Text, ...] = ()
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tools: bool | None = None
    response_format: ResponseFormat | None = None
    sampling: Sampling = Sampling()
    thinking: Thinking | None = None
    local: Local = Local()
    user: str | None = None
    metadata: dict[str, str] | None = None
    original: Original | None = None
    untranslatable: tuple[str, ...] = ()
    unmodelled: tuple[str, ...] = ()
    kept: Keeping | None = None


def unkept(request: Request) -> Request:
    """The request as a server that keeps no answers serves it: to have one stored is a wish that it may leave unmet.

    Raises `ApiError` where the answer would be another one: earlier turns that are only known by an id are not there.
    """
    kept = request.kept
    if kept is None:
        return request
    if kept.previous is not None:
        text = "no answers are kept here: send the whole talk as input"
        raise invalid(text, "previous_response_id", "previous_response_not_found")
    if kept.conversation is not None:
        raise invalid("no conversations are kept here: send the whole talk as input", "conversation")
    if kept.background:
        raise invalid("no answers are kept here, so none can be made in the background", "background")
    if kept.references:
        raise invalid("no items are kept here: send the item itself", kept.references[0][0])
    return msgspec.structs.replace(request, kept=None)


def check_translatable(request: Request) -> None:
    """Raises `ApiError` when only an upstream of the client's own dialect could answer the request rightly."""
    if request.untranslatable:
        field = request.untranslatable[0]
        raise invalid(f"{field} can only be passed to an upstream that speaks the client's own dialect", field)
    if request.local.regex is not None:
        raise invalid("only a local model can be made to match a regular expression", request.local.regex_field)


class EmbedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to turn into vectors.  base64: little-endian float32 as base64.  single: a legacy one-vector reply.

    truncate: an input that is too long may be cut, at its end, or with `keep_end` at its beginning; False asks for an
    error.  unmodelled: as of `Request`.
    """

    model: str
    input: tuple[str, ...]
    base64: bool = False
    single: bool = False
    dimensions: int | None = None
    truncate: bool = True
    keep_end: bool = False
    local: Local = Local()
    original: Original | None = None
    unmodelled: tuple[str, ...] = ()
