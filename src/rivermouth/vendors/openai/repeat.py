"""A client's body for an upstream of the same protocol: as it came, but for the model and how it is to stream."""

from __future__ import annotations

from rivermouth.ir.errors import WireError
from rivermouth.ir.request import Original, Request
from rivermouth.vendors.openai.splice import write
from rivermouth.wire import json


def repeated(original: Original, request: Request, model: str) -> bytes:
    """Usage is always asked for, since every call is counted; the relay keeps it from a client that did not ask."""
    fields = dict(original.fields)
    fields["model"] = json.raw(model)
    if request.stream:
        fields["stream"] = json.raw(value=True)
        fields["stream_options"] = _stream_options(fields.get("stream_options"))
    else:
        if "stream" in fields:
            fields["stream"] = json.raw(value=False)
        fields.pop("stream_options", None)
    return write(fields)


def _stream_options(sent: json.Raw | None) -> json.Raw:
    try:
        options = json.fields(sent) if sent is not None else {}
    except WireError:  # null
        options = {}
    return json.Raw(write({**options, "include_usage": json.raw(value=True)}))
