"""How tests install an encoder of texts and ask it for vectors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest
from rivermouth.local.models.names import parse_name
from rivermouth.local.models.registry import Manifest, Model, ModelFile, Registry, digest_of, sha256_of
from rivermouth.local.models.safetensors import inspect_embedding
from rivermouth.local.provider import LocalProvider
from tests.tiny_bert import ids_of, vector_of


def install_encoder(registry: Registry, name: str, folder: Path) -> Model:
    """The files of `folder` in the registry, without a pull."""
    found = inspect_embedding(folder)
    stage = registry.open_stage()
    copy = Path(shutil.copytree(folder, stage / "files"))
    files = tuple(
        ModelFile(name=path.name, sha256=sha256_of(path) or "", size_bytes=path.stat().st_size)
        for path in sorted(copy.iterdir())
    )
    manifest = Manifest(
        digest=digest_of(files),
        size_bytes=sum(file.size_bytes for file in files),
        file="model.safetensors",
        created=1_700_000_000,
        architecture=found.facts.architecture,
        context_tokens=found.facts.context_tokens,
        parameters=found.facts.parameters,
        quantization=found.facts.quantization,
        kind="embedding",
        format="safetensors",
        files=files,
        dimensions=found.dimensions,
    )
    model = registry.publish(parse_name(name), manifest, copy)
    registry.close_stage(stage)
    return model


def embedding(*texts: str, **fields: Any) -> EmbedRequest:
    """A request for the vectors of some texts."""
    return EmbedRequest(**{"model": "tiny-encoder", "input": texts} | fields)


async def embed(
    local: LocalProvider, request: EmbedRequest, model: str = "tiny-encoder", warned: list[str] | None = None
) -> EmbedReply:
    """One call, from its beginning to its end."""
    with await local.prepare(request, model) as lease:
        return await local.embed(request, model, lease, warn=([] if warned is None else warned).append)


def assert_vectors(reply: EmbedReply, *texts: str) -> None:
    """The reply's vectors are those of these texts of lower-case words."""
    assert len(reply.vectors) == len(texts)
    wanted = {text: vector_of(ids_of(text)) for text in set(texts)}
    np.testing.assert_allclose(reply.vectors, [wanted[text] for text in texts], atol=2e-6)
