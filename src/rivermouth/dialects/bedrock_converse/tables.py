"""What the words of the protocol mean, as data.  Every table that maps from an enum is total; a test walks it."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Reason
from rivermouth.ir.request import Choose
from rivermouth.vendors.bedrock.words import WORDINGS

NAME: Final = "bedrock_converse"

# The kinds of routes.
CONVERSE: Final = "converse"
CONVERSE_STREAM: Final = "converse_stream"

STOP_SEQUENCE: Final = "stop_sequence"
STOP_REASONS: Final[dict[Reason, str]] = {
    Reason.STOP: "end_turn",
    Reason.LENGTH: "max_tokens",
    Reason.TOOL_CALLS: "tool_use",
    Reason.CONTENT_FILTER: "content_filtered",
}
REASONS: Final[dict[str, Reason]] = {
    "end_turn": Reason.STOP,
    STOP_SEQUENCE: Reason.STOP,
    "tool_use": Reason.TOOL_CALLS,
    "max_tokens": Reason.LENGTH,
    "model_context_window_exceeded": Reason.LENGTH,
    "content_filtered": Reason.CONTENT_FILTER,
    "guardrail_intervened": Reason.CONTENT_FILTER,
}
# Ends that are failures: what the model wrote is no answer.
FAILED_REASONS: Final[dict[str, str]] = {
    "malformed_model_output": "the model wrote an answer that is not valid",
    "malformed_tool_use": "the model wrote a tool call that is not valid",
}
# The members of the stream's union; it has fewer than that of InvokeModel.
MEMBERS: Final[dict[Kind, str]] = {
    kind: "modelStreamErrorException" if kind is Kind.TIMEOUT else wording.member for kind, wording in WORDINGS.items()
}

# None: the protocol has no word for it.
CHOICES: Final[dict[Choose, str | None]] = {
    Choose.AUTO: "auto",
    Choose.NONE: None,
    Choose.REQUIRED: "any",
    Choose.NAMED: "tool",
}

# Formats, and the media types that they are.  The first of a type is the one that is written.
IMAGES: Final[dict[str, str]] = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}
DOCUMENTS: Final[dict[str, str]] = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
IMAGE_FORMATS: Final = {media_type: name for name, media_type in IMAGES.items()}
DOCUMENT_FORMATS: Final = {media_type: name for name, media_type in DOCUMENTS.items()}
SOUNDS: Final = frozenset({"aac", "flac", "m4a", "mp3", "ogg", "opus", "wav", "webm"})


class Family(Enum):
    """Who made a model, as far as its own request fields differ."""

    CLAUDE = "claude"
    NOVA = "nova"
    OPENAI = "openai"
    OTHER = "other"


# Model ids -> families.  What names nobody (a profile, a gateway's own name) is asked as Claude, which has the most to
# say.
_FAMILIES: Final[tuple[tuple[re.Pattern[str], Family], ...]] = (
    (re.compile(r"(?:^|[./])anthropic\.|claude"), Family.CLAUDE),
    (re.compile(r"(?:^|[./])amazon\.nova|(?:^|[./])nova"), Family.NOVA),
    (re.compile(r"(?:^|[./])openai\."), Family.OPENAI),
    (re.compile(r"(?:^|[./])(?:ai21|amazon|cohere|deepseek|google|meta|minimax|mistral|moonshot|moonshotai|nvidia"
                r"|qwen|stability|writer|zai)\."), Family.OTHER),
)  # fmt: skip

# How hard to reason, in the words of the others; what they do not know is the nearest.
NOVA_EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high",
                       "max": "high"}  # fmt: skip
OPENAI_EFFORTS: Final = NOVA_EFFORTS

# Request fields that the protocol cannot carry, or not always, as `build_request` names them.
LOSSES: Final = frozenset(
    {
        "context_tokens",
        "file.name",
        "frequency_penalty",
        "keep_alive_s",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "messages.image",
        "messages.reasoning",
        "messages.tool_result",
        "metadata",
        "min_p",
        "parallel_tools",
        "presence_penalty",
        "raw",
        "repetition_penalty",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "thinking",
        "thinking.budget_tokens",
        "thinking.effort",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
    }
)


def family_of(model: str) -> Family:
    """Whose request fields the model takes."""
    return next((family for pattern, family in _FAMILIES if pattern.search(model)), Family.CLAUDE)


def reason_of(word: str, *, called: bool) -> Reason:
    """Why the model stopped; whether there were calls is seen, not believed (F24)."""
    reason = REASONS.get(word, Reason.STOP)
    if called and reason is Reason.STOP:
        return Reason.TOOL_CALLS
    return Reason.STOP if reason is Reason.TOOL_CALLS and not called else reason


def stop_reason_of(reason: Reason, stop_sequence: str | None, *, called: bool, refused: bool) -> str:
    """The `stopReason`.  A plain stop is named after what was emitted."""
    if reason is not Reason.STOP:
        return STOP_REASONS[reason]
    if called:
        return STOP_REASONS[Reason.TOOL_CALLS]
    if refused:
        return STOP_REASONS[Reason.CONTENT_FILTER]
    return STOP_REASONS[Reason.STOP] if stop_sequence is None else STOP_SEQUENCE
