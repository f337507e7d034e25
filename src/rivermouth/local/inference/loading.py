"""How a model becomes a pipeline, in the engine process: from which files, with what is kept, and as which kind.

    an OpenVINO folder      is opened as it is
    a GGUF file             is opened from what an earlier load kept of it; else it is converted, and that is kept

What the engine compiles is kept too where that pays: for an accelerator, and for the stateful pipeline.  Continuous
batching on a CPU gains nothing from it (measured), and would write as much again as the model has.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from rivermouth.local.inference import converted
from rivermouth.local.inference.batching import BatchingPipeline, block_of, blocks_for
from rivermouth.local.inference.stateful import StatefulPipeline
from rivermouth.local.inference.stdio import native_reason
from rivermouth.local.words.protocol import Load

STEP_TOKENS: Final = 256
SPARE_BLOCKS: Final = 2
"""More than is given to requests: the engine takes a block before it knows that the answer ends within the last."""
KEEP: Final = "enable_save_ov_model"
NATIVE_ERRORS: Final = (RuntimeError, ValueError, TypeError, IndexError)
GGUF: Final = ".gguf"


class Opened(NamedTuple):
    """cached: the model came from what an earlier load had kept."""

    pipeline: Any
    cached: bool


def opened(genai: ModuleType, load: Load) -> Opened:
    """The pipeline.  Raises what the engine raises for a model that it cannot load."""
    path = Path(load.path)
    if path.suffix != GGUF:
        compiled_before = _has_compiled(load)
        return Opened(_open(genai, load, path, load.properties | _compiled(load)), compiled_before)
    if load.cache is None:
        return Opened(_open(genai, load, path, load.properties), cached=False)
    cache, form = Path(load.cache), converted.form_of(genai.__version__)
    kept = converted.found(cache, form)
    if kept is not None:
        return Opened(_open(genai, load, kept, load.properties | _compiled(load)), cached=True)
    return Opened(_convert(genai, load, cache, form), cached=False)


def _convert(genai: ModuleType, load: Load, cache: Path, form: str) -> Any:
    """The pipeline of a GGUF file that is opened for the first time, and is kept where that can be."""
    file = Path(load.path)
    place = converted.stage(cache, file)
    if place is None:
        sys.stderr.write("nothing of the model is kept: there is no room on the disk\n")
        return _open(genai, load, file, load.properties)
    try:
        genai.Tokenizer(str(place / converted.LINK), **{KEEP: True})
        pipeline = _open(genai, load, place / converted.LINK, load.properties | {KEEP: True})
    except NATIVE_ERRORS as error:  # a disk that filled up, or a model that does not load: the file itself tells
        sys.stderr.write(f"nothing of the model is kept: {native_reason(error)}\n")
        converted.discard(place)
        return _open(genai, load, file, load.properties)
    kept = converted.publish(cache, form, place)
    if kept is None or not _compiled(load):
        return pipeline
    del pipeline  # compiled once more, from what was kept: that is what the next load finds
    return _open(genai, load, kept, load.properties | _compiled(load))


def _open(genai: ModuleType, load: Load, path: Path, properties: dict[str, Any]) -> Any:
    if load.stateful:
        # An NPU has one kind of attention, and takes no choice.
        backend = {} if load.device.startswith("NPU") else {"ATTENTION_BACKEND": "SDPA"}
        return StatefulPipeline(genai, genai.LLMPipeline(str(path), load.device, **(properties | backend)))
    native = genai.ContinuousBatchingPipeline(str(path), _scheduler(genai, load), load.device, properties)
    if not load.kv_tokens:
        return native
    block = block_of(load.device)
    return BatchingPipeline(native, blocks_for(load.kv_tokens, block), block)


def _scheduler(genai: ModuleType, load: Load) -> Any:
    scheduler = genai.SchedulerConfig()
    if load.kv_tokens:
        scheduler.num_kv_blocks = blocks_for(load.kv_tokens, block_of(load.device)) + SPARE_BLOCKS
    else:
        scheduler.cache_size = 0  # grows on demand; what bounds it is max_num_seqs times the context
    scheduler.max_num_seqs = load.max_active
    scheduler.max_num_batched_tokens = STEP_TOKENS
    scheduler.enable_prefix_caching = load.prefix_cache and load.kv_tokens > 0
    return scheduler


def _compiled(load: Load) -> dict[str, Any]:
    """The property that keeps what is compiled, where it pays."""
    if load.cache is None or (load.device == "CPU" and not load.stateful):
        return {}
    return {"CACHE_DIR": str(Path(load.cache) / converted.COMPILED)}


def _has_compiled(load: Load) -> bool:
    return bool(_compiled(load)) and any((Path(load.cache or "") / converted.COMPILED).glob("*.blob"))
