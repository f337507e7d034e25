"""`rivermouth list`, `show`, `rm`, `cp`: the models on this machine, whether or not a server runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from rivermouth.cli.places import config_path, configured, data_of
from rivermouth.cli.term import emit, one_line, say, show, table
from rivermouth.cli.words import UNKNOWN, ago, moment, size
from rivermouth.local.models.registry import Model, Registry
from rivermouth.local.models.support import parameters_label

NS = 1_000_000_000


def registry_of(data_dir: Path | None, config_file: Path | None) -> Registry:
    """The models of the data directory."""
    return Registry(data_of(data_dir, config_file).path / "models")


def listed(data_dir: Path | None, config_file: Path | None, *, as_json: bool) -> None:
    """All models, one line each; below them, for a person, whom a model's licence asks to name."""
    found = registry_of(data_dir, config_file).scan()
    for problem in found.problems:
        say(f"passed over {problem}")
    if as_json:
        emit([document(model) for model in found.models])
        return
    if not found.models:
        say("There is no local model.  To get a small one: rivermouth pull smollm2:135m")
        return
    now_s = time.time()
    titles = ("NAME", "KIND", "SIZE", "PARAMETERS", "QUANTIZATION", "ID", "PULLED")
    show(table(titles, (_row(model, now_s) for model in found.models)))
    for model in found.models:
        if model.manifest.attribution:
            say(f"{model.name}: {model.manifest.attribution} ({model.manifest.license or 'licence not said'})")


def pullable(data_dir: Path | None, config_file: Path | None, *, as_json: bool) -> None:
    """The catalogue, the operator's own entries included.  Raises `ConfigError`."""
    from rivermouth.config import Config
    from rivermouth.local.models.catalog import load_catalog

    config = configured(config_file) if config_path(config_file) is not None else Config()
    here = {model.name for model in Registry(data_of(data_dir, config_file, config).path / "models").models()}
    entries = [entry for _, entry in sorted(load_catalog(config.local.catalog).items())]
    if as_json:
        known = [(entry, msgspec.to_builtins(entry, enc_hook=str)) for entry in entries]
        emit([{**said, "name": str(entry.name), "here": entry.name in here} for entry, said in known])
        return
    titles = ("NAME", "KIND", "SIZE", "DEVICE", "LICENCE", "HERE", "")
    show(
        table(
            titles,
            (
                (
                    str(entry.name),
                    entry.kind,
                    size(entry.size_bytes),
                    entry.device or UNKNOWN,
                    entry.license or UNKNOWN,
                    "yes" if entry.name in here else "",
                    entry.summary or "",
                )
                for entry in entries
            ),
        )
    )


def shown(name: str, data_dir: Path | None, config_file: Path | None, *, as_json: bool) -> None:
    """Everything that is known of one model.  Raises `ApiError` (not_found)."""
    model = registry_of(data_dir, config_file).get(name)
    if as_json:
        emit(document(model))
        return
    of = model.manifest
    facts = {
        "name": str(model.name),
        "kind": of.kind,
        "format": of.format,
        "architecture": of.architecture,
        "parameters": parameters_label(of.parameters),
        "quantization": of.quantization,
        "context": f"{of.context_tokens} tokens",
        "size": size(of.size_bytes),
        "dimensions": str(of.dimensions or ""),
        "template": _template(model),
        "device": of.device or "",
        "licence": of.license or "not said",
        "attribution": of.attribution or "",
        "source": of.source or "",
        "pulled": moment(of.created * NS),
        "digest": of.digest,
        "file" if of.format == "gguf" else "folder": str(model.path),
    }
    lines = [f"{key:<13} {one_line(text)}" for key, text in facts.items() if text]
    if of.format != "gguf":
        lines += [f"{'':<13} {file.name}  {size(file.size_bytes)}  {file.sha256}" for file in model.files]
    show("\n".join(lines))


def removed(names: list[str], data_dir: Path | None, config_file: Path | None) -> None:
    """Takes the names away, and each file that no other name needs.  Raises `ApiError` (not_found)."""
    registry = registry_of(data_dir, config_file)
    for name in names:
        gone = registry.delete(name)
        kept = " (another name still uses its file)" if gone.path.exists() else ""
        say(f"removed {gone.name}{kept}")


def copied(source: str, target: str, data_dir: Path | None, config_file: Path | None) -> None:
    """A second name for the same file.  Raises `ApiError` (not_found)."""
    model = registry_of(data_dir, config_file).copy(source, target)
    say(f"{model.name} is {source}")


def document(model: Model) -> dict[str, Any]:
    """A model for a program: its manifest, its name, and where its file is."""
    return {"name": str(model.name), "path": str(model.path), **msgspec.structs.asdict(model.manifest)}


def _template(model: Model) -> str:
    if model.manifest.kind == "embedding":
        return ""
    return "yes" if model.manifest.template else "none: prompts get role prefixes"


def _row(model: Model, now_s: float) -> tuple[str, ...]:
    of = model.manifest
    digest = of.digest.removeprefix("sha256:")[:12]
    label = parameters_label(of.parameters)
    return (str(model.name), of.kind, size(of.size_bytes), label, of.quantization, digest, ago(of.created, now_s))
