"""What keeping responses needs of this protocol's words, gathered: `Keeps`."""

from __future__ import annotations

from rivermouth.dialects.openai_responses import kept_items, lifecycle
from rivermouth.dialects.openai_responses.replay import replay


class ResponsesKept:
    """Implements `Keeps`."""

    answer_id = staticmethod(kept_items.answer_id)
    call_id = staticmethod(kept_items.call_id)
    begun = staticmethod(lifecycle.begun)
    headless = staticmethod(lifecycle.headless)
    ended = staticmethod(lifecycle.ended)
    cancelled = staticmethod(lifecycle.cancelled)
    interrupted = staticmethod(lifecycle.interrupted)
    replay = staticmethod(replay)
    seek = staticmethod(lifecycle.seek)
    own = staticmethod(kept_items.own)
    item = staticmethod(kept_items.item)
    joined = staticmethod(kept_items.joined)
    input_items = staticmethod(kept_items.input_items)
    deleted = staticmethod(kept_items.deleted)


KEEPS = ResponsesKept()
