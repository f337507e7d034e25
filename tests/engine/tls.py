"""A certificate for loopback that no authority but itself has signed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed(place: Path) -> tuple[Path, Path]:
    """The certificate and its key, for 127.0.0.1; skips the test where openssl is not installed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    cert, key = place / "cert.pem", place / "key.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    whose = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [openssl, "req", *kind, *whose, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True, timeout=20)
    return cert, key
