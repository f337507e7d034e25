"""An OpenVINO folder, made by the real engine, pulled, asked, and deleted while it answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from rivermouth.ir.errors import ApiError
from rivermouth.local.models.references import file_entry
from rivermouth.local.provider import LocalProvider
from rivermouth.wire import json
from tests.local.asking import ask, asking, begin, some_text, text_of, whole
from tests.local.pulling import rest_of
from tests.tiny_gguf import TEXT

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(find_spec("openvino_genai") is None, reason="the extra [openvino] is not installed"),
]

# In a process of its own: the native library is not loaded into this one.
SAVE = """
import sys, openvino_genai
openvino_genai.LLMPipeline(sys.argv[1], "CPU", enable_save_ov_model=True, INFERENCE_PRECISION_HINT="f32")
"""


@pytest.fixture
async def provider(data_dir: Path, anyio_backend: str) -> AsyncIterator[LocalProvider]:
    made = LocalProvider(data_dir / "models")
    yield made
    await made.close()


def saved(folder: Path, model: Path) -> Path:
    """The GGUF file as the engine writes it down, with the config that every repository has."""
    folder.mkdir()
    own = folder / "model.gguf"
    own.symlink_to(model)
    subprocess.run([sys.executable, "-c", SAVE, str(own)], check=True, capture_output=True, timeout=25)
    own.unlink()
    config = {"model_type": "llama", "max_position_embeddings": 2048}
    (folder / "config.json").write_bytes(json.encode(config))
    return folder


async def test_it_is_pulled_and_answers(provider: LocalProvider, files: dict[str, Path], tmp_path: Path) -> None:
    folder = saved(tmp_path / "ir", files["tiny"])
    await rest_of(provider.puller.pull_entry(file_entry("folder", folder)))
    (info,) = await provider.models()
    assert (info.format, info.family, info.quantization) == ("openvino", "llama", "INT8")
    assert text_of(await ask(provider, "folder", asking())) == TEXT


async def test_it_is_deleted_while_it_answers(provider: LocalProvider, files: dict[str, Path], tmp_path: Path) -> None:
    folder = saved(tmp_path / "ir", files["loop"])
    await rest_of(provider.puller.pull_entry(file_entry("folder", folder)))
    place = provider.registry.get("folder").path
    upstream = await begin(provider, "folder", asking())
    await some_text(upstream)
    await provider.delete("folder")
    with pytest.raises(ApiError) as ended:
        await whole(upstream)
    assert ended.value.code == "model_unloaded"
    assert not place.exists()
    assert provider.running() == []
    with pytest.raises(ApiError, match="is not on this machine"):
        await begin(provider, "folder", asking())
