"""The OpenAPI document as a page: made here of the document itself, without a script, without anything from elsewhere.

The page's policy allows one style sheet, known by its hash, and nothing else; so what a document holds can be shown as
text and never be anything more.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from litestar import Request
from litestar.openapi.plugins import JsonRenderPlugin, OpenAPIRenderPlugin

from rivermouth.config import Budget, RateLimits
from rivermouth.http.api.platform.erasure import Erasure
from rivermouth.http.api.platform.keys import KeyChangeBody, NewKeyBody, Rotation
from rivermouth.http.api.platform.routing import Question

STRICT: Final = tuple(s.__name__ for s in (Budget, Erasure, KeyChangeBody, NewKeyBody, Question, RateLimits, Rotation))
"""What is only in bodies, or has the same fields everywhere."""
METHODS: Final = ("get", "post", "put", "patch", "delete")
STYLE: Final = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 20%, transparent); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1.5rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); } h3 { margin: 1.75rem 0 0.25rem; font-size: 1rem; }
code { font: 0.93em/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0; } caption { text-align: left; font-weight: 600; }
th, td { text-align: left; vertical-align: top; padding: 0.2rem 0.75rem 0.2rem 0; }
tr { border-bottom: 1px solid var(--line); }
th { font-weight: 600; } nav a { margin-right: 0.75rem; }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class DocumentRenderPlugin(JsonRenderPlugin):
    """The document for programs."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return super().render(request, closed(openapi_schema))


class PageRenderPlugin(OpenAPIRenderPlugin):
    """The document for people."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return page(openapi_schema).encode()


def closed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what the framework leaves out: bodies with a field that they do not have are refused."""
    schemas = dict(document["components"]["schemas"])
    schemas |= {name: {**schemas[name], "additionalProperties": False} for name in STRICT if name in schemas}
    return {**document, "components": {**document["components"], "schemas": schemas}}


def page(document: Mapping[str, Any]) -> str:
    """The whole page.  Pure."""
    title = escape(str(document["info"]["title"]))
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style>"
    )
    return head + "".join(_body(document, title))


def _body(document: Mapping[str, Any], title: str) -> Iterator[str]:
    by_tag = _by_tag(document)
    yield f"<h1>{title} {escape(str(document['info']['version']))}</h1>"
    yield '<p>The same for programs: <a href="openapi.json">openapi.json</a>.</p><nav>'
    yield from (f'<a href="#tag-{escape(tag)}">{escape(tag)}</a>' for tag in (*by_tag, "documents"))
    yield "</nav>"
    for tag, operations in by_tag.items():
        yield f'<h2 id="tag-{escape(tag)}">{escape(tag)}</h2>'
        for method, path, operation in operations:
            yield from _operation(method, path, operation)
    yield '<h2 id="tag-documents">documents</h2>'
    schemas: Mapping[str, Any] = document.get("components", {}).get("schemas", {})
    for name in sorted(schemas):
        yield from _schema(name, schemas[name])


def _by_tag(document: Mapping[str, Any]) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                tag = (item[method].get("tags") or ["others"])[0]
                found.setdefault(tag, []).append((method, path, item[method]))
    return found


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h3><code>{method.upper()} {escape(path)}</code></h3><p>{_prose(operation.get('description'))}</p>"
    rows = [(p["name"], _type(p.get("schema", {})), p.get("description")) for p in operation.get("parameters", ())]
    yield from _table("Parameters", rows)
    body = operation.get("requestBody", {}).get("content", {})
    yield from (f"<p>Takes {_type(content.get('schema', {}))}.</p>" for content in body.values())
    for status, response in operation.get("responses", {}).items():
        if status.startswith("2"):
            kinds = response.get("content", {}).items()
            what = " or ".join(
                f"{_type(content.get('schema', {}))} as <code>{escape(m)}</code>" for m, content in kinds
            )
            yield f"<p>Answers {escape(status)}{' with ' + what if what else ''}.</p>"


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h3 id="{escape(name)}"><code>{escape(name)}</code></h3><p>{_prose(schema.get("description"))}</p>'
    if "enum" in schema:
        yield f"<p>{_type(schema)}</p>"
    needed = frozenset(schema.get("required", ()))
    rows = [
        (field, _type(value), ("" if field in needed else "May be left out. ") + (value.get("description") or ""))
        for field, value in schema.get("properties", {}).items()
    ]
    yield from _table("", rows)


def _table(caption: str, rows: Sequence[tuple[str, str, str | None]]) -> Iterator[str]:
    if rows:
        yield f"<table>{f'<caption>{caption}</caption>' if caption else ''}"
        yield from (f"<tr><th><code>{escape(n)}</code><td>{kind}<td>{_prose(text)}" for n, kind, text in rows)
        yield "</table>"


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a few words, as markup."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}"><code>{name}</code></a>'
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    either = schema.get("oneOf") or schema.get("anyOf")
    if either:
        return " or ".join(map(_type, either))
    if schema.get("type") == "array":
        return f"a list of {_type(schema.get('items', {}))}"
    kind = schema.get("type", "anything")
    words = " or ".join(kind) if isinstance(kind, list) else str(kind)
    limits = [f"{name} {schema[name]}" for name in ("format", "pattern", "minimum", "maximum") if name in schema]
    return f"<code>{escape(words)}</code>" + (f" ({escape(', '.join(limits))})" if limits else "")


def _prose(text: str | None) -> str:
    return escape(" ".join((text or "").split()))
