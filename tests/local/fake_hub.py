"""A model hub on loopback: its listing, its small files, and a redirect to another origin for the large ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from rivermouth.wire import json
from tests.local.fake_web import Asked, FakeWeb, Served

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "org/model"


class FakeHub:
    """One repository.  `large` are the names that the hub keeps apart and knows the sha256 of.

    `hub` answers for itself, `cdn` for the large files: their requests are in `asked` of each.
    """

    def __init__(self, files: Mapping[str, bytes], *, licence: str | None = "apache-2.0", gated: Any = False) -> None:
        self.files = dict(files)
        self.license = licence
        self.gated = gated
        self.listed: dict[str, Any] = {}
        self.hub = FakeWeb()
        self.cdn = FakeWeb()

    async def start(self) -> FakeHub:
        await self.hub.start()
        await self.cdn.start()
        self.hub.pages[f"/api/models/{REPOSITORY}/revision/main"] = self._listing
        self.hub.pages[f"/api/models/{REPOSITORY}/revision/{COMMIT}"] = self._listing
        for name, data in self.files.items():
            path = f"/{REPOSITORY}/resolve/{COMMIT}/{name}"
            if is_large(name):
                self.hub.pages[path] = Served(status=302, extra={"Location": f"{self.cdn.url}/blob/{name}?sig=secret"})
                self.cdn.pages[f"/blob/{name}"] = Served(data)
            else:
                self.hub.pages[path] = Served(data)
        return self

    async def stop(self) -> None:
        await self.hub.stop()
        await self.cdn.stop()

    def _listing(self, asked: Asked) -> Served:
        siblings = []
        for name, data in self.files.items():
            sibling: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": git_hash(data)}
            if is_large(name):
                sibling["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            siblings.append({**sibling, **self.listed.get(name, {})})
        card = {"license": self.license} if self.license is not None else {}
        found = {"id": REPOSITORY, "sha": COMMIT, "gated": self.gated, "siblings": siblings, "cardData": card}
        return Served(json.encode({**found, **self.listed.get("", {})}), extra={"Content-Type": "application/json"})


def is_large(name: str) -> bool:
    return name.endswith((".bin", ".gguf"))


def git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
