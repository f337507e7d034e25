"""Whether traces are on, by the file or by OpenTelemetry's own variables, and whether they can be.

The file's word is a demand: what stands in its way is a fault.  The variables are a wish, which whoever runs many
programs sets for all of them: what stands in its way is said in the log, and the server starts without traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Final

import msgspec

from rivermouth.config.schema import TelemetryConfig
from rivermouth.config.shape import Fault

OTLP: Final = "otlp"
PROTOCOL: Final = "http/protobuf"
NEEDED: Final = "opentelemetry.exporter.otlp.proto.http"


def as_wanted(telemetry: TelemetryConfig, environ: Mapping[str, str]) -> TelemetryConfig:
    """The table with `traces` decided.  OTEL_SDK_DISABLED wins over the file, as it does over every program."""
    if telemetry.traces is None:
        wanted = wished_for(environ) and obstacle(environ) is None
        telemetry = msgspec.structs.replace(telemetry, traces=OTLP if wanted else "off")
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return msgspec.structs.replace(telemetry, traces="off") if disabled else telemetry


def faults_of(telemetry: TelemetryConfig, environ: Mapping[str, str]) -> Iterator[Fault]:
    """Why traces that the file demands would go nowhere.  `telemetry` is as wanted."""
    why = obstacle(environ) if telemetry.traces == OTLP else None
    if why is not None:
        yield Fault(("telemetry", "traces"), why)


def wished_for(environ: Mapping[str, str]) -> bool:
    """OTEL_TRACES_EXPORTER names ours."""
    return OTLP in (name.strip() for name in environ.get("OTEL_TRACES_EXPORTER", "").split(","))


def obstacle(environ: Mapping[str, str]) -> str | None:
    """What stands in the way of traces; None if nothing does."""
    spoken = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if spoken and spoken != PROTOCOL:
        return f"the environment asks for OTLP over {spoken}, and only {PROTOCOL} is spoken here"
    return None if _installed() else "needs: pip install 'rivermouth[otel]'"


def _installed() -> bool:
    try:
        return find_spec(NEEDED) is not None
    except ModuleNotFoundError:  # not even the package around it is here
        return False
