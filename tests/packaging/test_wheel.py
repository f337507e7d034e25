"""The wheel, installed where nothing of the checkout is: it serves, with its page and its migrations."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from hatch_build import fresh

from tests.promises import ROOT
from tests.running import running

BUILT = fresh()
"""The page is there, as `make test` builds it first."""


def run(*command: str | Path, **more: str) -> str:
    env = {**os.environ, "PYTHONPATH": "", **more}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=env, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    more = {} if BUILT else {"RIVERMOUTH_NO_PAGE": "1"}
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place, **more)
    (made,) = place.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel.  What it depends on is seen where it is installed already; the checkout is not."""
    place = tmp_path_factory.mktemp("fresh") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", place)
    python = place / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel)
    (packages,) = place.glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return place / "bin"


def test_it_holds_what_is_no_module(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    for path in (ROOT / "src").rglob("*"):
        name = path.relative_to(ROOT / "src").as_posix()
        site = name.startswith("rivermouth/http/site/")
        if path.is_file() and "__pycache__" not in name and (BUILT or not site) and not name.endswith(".built"):
            assert name in names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "web/"))]


@pytest.mark.timeout(90)
def test_it_serves_where_nothing_of_the_checkout_is(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import rivermouth; print(rivermouth.__file__)").strip()
    assert Path(where).is_relative_to(installed.parent)
    with running(tmp_path, env={"PYTHONPATH": ""}, program=installed / "rivermouth") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=15)
        body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "hello"}]})
        connection.request("POST", "/v1/chat/completions", body)
        assert "hello" in json.load(connection.getresponse())["choices"][0]["message"]["content"]
        connection.request("GET", "/", headers={"accept": "text/html"})
        page = connection.getresponse().read()
        assert (b"<html" in page) is BUILT
        connection.close()
        assert server.stop() == 0
