"""One call for vectors, from the server's side: what may be asked, and the texts handed out piece by piece.

A call's texts go to the engine process a handful at a time, each handful when the one before is done.  So a cancel
waits for one step at most, whatever the call's size, and no line between the two is long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rivermouth.ir.errors import ApiError, invalid
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest
from rivermouth.local.embedding.tokens import Cut
from rivermouth.local.inference.generation import Vector
from rivermouth.local.inference.process import EngineProcess
from rivermouth.local.models.registry import Manifest
from rivermouth.local.words.protocol import Embed

# Where a network of any length of text runs.  The first is where it runs if another one was asked for.
DEVICES: Final = ("CPU", "GPU")

INPUTS_CAP: Final = 2048
HANDFUL_TEXTS: Final = 256
HANDFUL_BYTES: Final = 128 * 1024

# What is named as ignored when the end, or the beginning, of an input was not read.
LEFT_OUT: Final[dict[Cut, str]] = {Cut.END: "input.end", Cut.START: "input.start"}


def check(request: EmbedRequest, model: str, manifest: Manifest) -> None:
    """Refuses what would give another vector than was asked for, or none.  Raises `ApiError` with the field's name."""
    if manifest.kind != "embedding":
        raise no_embeddings(model)
    dimensions = request.dimensions
    if dimensions is not None and dimensions != manifest.dimensions:
        raise invalid(
            f"this model's vectors have {manifest.dimensions} dimensions and cannot be shortened", param="dimensions"
        )
    if len(request.input) > INPUTS_CAP:
        raise invalid(f"there may be {INPUTS_CAP} inputs in one call, not {len(request.input)}", param="input")


async def embed(
    engine: EngineProcess, request: EmbedRequest, model: str, context_tokens: int, warn: Callable[[str], None]
) -> EmbedReply:
    """The vectors of all inputs, in their order.  When it is cancelled, it returns when the engine has stopped.

    context_tokens: how many the model reads of a text.  Raises `ApiError`.
    """
    asked = request.local.context_tokens
    if asked is not None and asked > context_tokens:
        warn("context_tokens")
    limit = context_tokens if asked is None else min(asked, context_tokens)
    way = cut_of(request)
    vectors: list[Vector] = []
    tokens = cut = 0
    for texts in handfuls(request.input):
        wanted = Embed(id=0, texts=texts, context_tokens=limit, cut=way, offset=len(vectors))
        embedding = engine.embed(wanted)
        try:
            outcome = await embedding.outcome
        finally:
            await engine.confirm(embedding)
        vectors += embedding.vectors
        tokens += outcome.prompt_tokens
        cut += outcome.cut
    if cut:
        warn(LEFT_OUT[way])
    return EmbedReply(model=model, vectors=tuple(vectors), input_tokens=tokens, cut=cut)


def cut_of(request: EmbedRequest) -> Cut:
    """What the client lets be left out of a text that is too long."""
    if not request.truncate:
        return Cut.NONE
    return Cut.START if request.keep_end else Cut.END


def handfuls(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The texts in order, not many at a time and not many bytes, unless one alone has more."""
    taken: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode(errors="replace"))
        if taken and (len(taken) == HANDFUL_TEXTS or size + length > HANDFUL_BYTES):
            yield tuple(taken)
            taken, size = [], 0
        taken.append(text)
        size += length
    if taken:
        yield tuple(taken)


def no_embeddings(model: str) -> ApiError:
    """For a model that answers and makes no vectors."""
    return invalid(f"the local model {model!r} answers, and makes no embeddings", param="model", code="no_embeddings")


def embeddings_only(model: str) -> ApiError:
    """For a model that makes vectors and does not answer."""
    return invalid(
        f"the local model {model!r} makes embeddings, and cannot answer", param="model", code="embeddings_only"
    )
