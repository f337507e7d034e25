"""The page for browsers: what `web/` was built into, held in memory and answered as it is.

Files under `assets/` carry a hash of their bytes in their name, so a browser may keep them for ever; `index.html` names
them and is asked for again each time.  The policy (`POLICY`) lets the page run its own scripts, speak to its own server
and show pictures it holds itself: nothing inline, nothing from elsewhere, and markup from strings only by DOMPurify.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rivermouth.http.headers import TEXT, Header, get
from rivermouth.http.sink import Send

SITE: Final = Path(__file__).parent / "site"
INDEX: Final = "/index.html"
ASSETS: Final = "/assets/"

SOURCES: Final[Mapping[str, str]] = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "base-uri": "'self'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "dompurify",
}
POLICY: Final = "; ".join(f"{name} {sources}" for name, sources in SOURCES.items())
SECURITY: Final[tuple[Header, ...]] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=()"),
)
FOR_EVER: Final[Header] = (b"cache-control", b"public, max-age=31536000, immutable")
ASK_AGAIN: Final[Header] = (b"cache-control", b"no-cache")

TYPES: Final[Mapping[str, bytes]] = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".woff2": b"font/woff2",
    ".png": b"image/png",
}
"""Every kind of file that the build makes; one of another kind is not served."""

UNBUILT: Final = (
    "Rivermouth is running.  Its page was not built: run `make web` in a checkout.  /health tells how it is.\n"
)


class File(msgspec.Struct, frozen=True):
    """zipped: None where compressing would gain nothing."""

    body: bytes
    zipped: bytes | None
    headers: tuple[Header, ...]
    etag: bytes


class Page:
    """Answers `GET` and `HEAD` for the page's own paths.  base_path: where the server is mounted, "" at the root."""

    def __init__(self, base_path: str = "", site: Path = SITE) -> None:
        self._files = _read(site, base_path.rstrip("/") + "/")

    @property
    def built(self) -> bool:
        return INDEX in self._files

    def owns(self, method: str, path: str, headers: list[Header]) -> bool:
        """`/` is the page's only for who wants HTML: everybody else probes for words that are the framework's (R22)."""
        if method not in ("GET", "HEAD"):
            return False
        return path.startswith(ASSETS) or (path == "/" and "text/html" in (get(headers, b"accept") or ""))

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Send) -> None:
        path, headers = scope["path"], list(scope["headers"])
        found = self._files.get(INDEX if path == "/" else path)
        if found is None:
            body = (UNBUILT if path == "/" else "no such file\n").encode()
            await _send(send, scope["method"], 200 if path == "/" else 404, body, [TEXT, *SECURITY])
        elif get(headers, b"if-none-match") == found.etag.decode():
            await _send(send, scope["method"], 304, b"", [*found.headers, *SECURITY])
        elif found.zipped is not None and "gzip" in (get(headers, b"accept-encoding") or ""):
            zipped = [*found.headers, *SECURITY, (b"content-encoding", b"gzip")]
            await _send(send, scope["method"], 200, found.zipped, zipped)
        else:
            await _send(send, scope["method"], 200, found.body, [*found.headers, *SECURITY])


async def _send(send: Send, method: str, status: int, body: bytes, headers: list[Header]) -> None:
    length = [] if status == 304 else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body, "more_body": False})


def _read(site: Path, base: str) -> dict[str, File]:
    files: dict[str, File] = {}
    for path in sorted(site.rglob("*")):
        kind = TYPES.get(path.suffix)
        if kind is None or not path.is_file():
            continue
        name = "/" + path.relative_to(site).as_posix()
        body = path.read_bytes()
        if name == INDEX:
            body = body.replace(b'<base href="/"', b'<base href="%s"' % base.encode())
        cache = FOR_EVER if name.startswith(ASSETS) else ASK_AGAIN
        files[name] = _file(body, kind, cache)
    return files


def _file(body: bytes, kind: bytes, cache: Header) -> File:
    zipped = gzip.compress(body, mtime=0)
    etag = b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'
    headers = ((b"content-type", kind), cache, (b"etag", etag), (b"vary", b"accept, accept-encoding"))
    return File(body, zipped if len(zipped) < len(body) else None, headers, etag)
