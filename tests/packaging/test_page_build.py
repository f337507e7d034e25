"""Building the page where the packages cannot be had: it fails soon, says so, and nobody waits for it twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]


@contextmanager
def fake_registry() -> Iterator[tuple[str, Counter[str]]]:
    """A registry that answers every request with 503, and counts them by path."""
    asked: Counter[str] = Counter()

    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[self.path] += 1
            self.send_response(503)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """The test says what matters."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As a newcomer has it: nothing built, no packages."""
    place = tmp_path / "checkout"
    shutil.copytree(ROOT / "web", place / "web", ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(ROOT / "hatch_build.py", place)
    return place


def packages(checkout: Path) -> list[str]:
    """Where each package of the lock would lie; several versions of one lie in several places."""
    lock = json.loads((checkout / "web" / "package-lock.json").read_text(encoding="utf-8"))
    return [place for place in lock["packages"] if place]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("verb", "code"), [("if-possible", 0), ("build", 1)])
def test_a_registry_that_does_not_answer_is_asked_twice_at_most(
    verb: str, code: int, checkout: Path, tmp_path: Path
) -> None:
    with fake_registry() as (url, asked):
        env = {**os.environ, "npm_config_registry": url, "npm_config_cache": str(tmp_path / "cache")}
        command = [sys.executable, checkout / "hatch_build.py", verb]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert asked, done.stderr
    wanted = Counter(name.rpartition("node_modules/")[2] for name in packages(checkout))
    assert all(times <= 2 * wanted[unquote(path).strip("/")] for path, times in asked.items())
    assert done.returncode == code, done.stderr
    assert ("the chat page was not built" in done.stderr) == (verb == "if-possible")
    assert not (checkout / "src" / "rivermouth" / "http" / "site" / ".built").exists()


def test_the_page_is_tried_once_in_a_demo() -> None:
    """An installation leaves the page to the Makefile, whose words about a failure are seen."""
    install = (ROOT / "requirements" / "install").read_text(encoding="utf-8")
    editable = [line for line in install.splitlines() if "pip install" in line and "-r " not in line]
    assert editable
    assert all(line.startswith("RIVERMOUTH_NO_PAGE=1 ") for line in editable)
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndemo:")[2].partition("\n\n")[0]
    assert recipe.count("hatch_build.py if-possible") == recipe.count("hatch_build.py") == 1
