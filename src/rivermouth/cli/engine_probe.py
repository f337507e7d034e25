"""Asks the native engine what it is and which devices it sees: `python -m rivermouth.cli.engine_probe`.

A process of its own, because native code may crash while it looks.  The answer is one JSON line on the stdout that
this process began with; whatever native code prints goes to stderr.
"""

from __future__ import annotations

import importlib
import os
import sys

import msgspec

from rivermouth.wire import json


class Probe(msgspec.Struct, frozen=True):
    """`devices` maps a device's name to what it is.  `failure` is set when the engine cannot be used, and says why."""

    version: str = ""
    devices: dict[str, str] = {}
    failure: str = ""


def probe() -> Probe:
    """Imports the engine and asks it."""
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # as the engine process does: nothing is sent
    try:
        genai = importlib.import_module("openvino_genai")
        core = importlib.import_module("openvino").Core()
        names = [str(name) for name in core.available_devices]
        devices = {name: str(core.get_property(name, "FULL_DEVICE_NAME")) for name in names}
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        return Probe(failure=f"{type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error) else ''}")
    return Probe(version=str(genai.__version__), devices=devices)


if __name__ == "__main__":
    out = os.dup(1)
    os.dup2(2, 1)
    os.write(out, json.encode(probe()) + b"\n")
