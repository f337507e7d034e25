"""The OpenAPI document and its page: everything is described, and nothing comes from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from rivermouth.http.api.platform.pages import page
from tests.platform_api.office import Office
from tests.platform_api.test_roles import LEAST

pytestmark = pytest.mark.anyio


class Reader(HTMLParser):
    """What a page loads, links to, and has anchors for."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: set[str] = set()
        self.ids: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src"):
                self.links.add(value or "")
            elif name.startswith("on") or name == "style":
                self.handlers.append(name)


async def described(place: Office) -> Any:
    status, headers, data = await place.raw("GET", "/platform/openapi.json", None)
    assert (status, headers["content-type"]) == (200, "application/vnd.oai.openapi+json")
    return json.loads(data)


async def test_every_route_is_described(place: Office):
    document = await described(place)
    told = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    assert told == {re.sub(r"\{(\w+):str\}", r"{\1}", route) for route in LEAST}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            where = f"{method} {path}"
            assert operation["description"], where
            assert set(operation["responses"]) >= {"400", "401", "403", "404"}, where
            for parameter in operation.get("parameters", ()):
                assert parameter["in"] == "path" or parameter["name"] == "revoked" or parameter["description"], where
    assert document["security"] == [{"key": []}]


async def test_every_document_is_described(place: Office):
    schemas = (await described(place))["components"]["schemas"]
    assert {"CallDocument", "UsageList", "KeyDocument", "Explanation", "Problem"} <= set(schemas)
    assert not [name for name, schema in schemas.items() if "." in name or not schema]


async def test_the_page_shows_all_of_it_and_loads_nothing(place: Office):
    document = await described(place)
    status, headers, data = await place.raw("GET", "/platform/docs", None)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    html = data.decode()
    read = Reader()
    read.feed(html)
    assert not read.tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert not read.handlers
    assert {link for link in read.links if not link.startswith("#")} == {"openapi.json"}
    assert {link[1:] for link in read.links if link.startswith("#")} <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))
    for path in document["paths"]:
        assert f"{path}</code>" in html
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "script-src" not in policy


def test_what_a_document_holds_is_text_on_the_page():
    evil = "<script>alert(1)</script>"
    html = page(
        {
            "info": {"title": evil, "version": evil},
            "paths": {f"/{evil}": {"get": {"tags": ["t"], "description": evil, "responses": {"200": {}}}}},
            "components": {"schemas": {evil: {"description": evil, "properties": {evil: {"enum": [evil]}}}}},
        }
    )
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") >= 6
