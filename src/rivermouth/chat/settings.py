"""What the chat takes from the configuration, and every interval it lives by.

The intervals belong together: a worker beats every `beat_s`, stops writing by itself after `fence_s` without a beat,
and is thought dead after `dead_s`; so it has stopped before anybody takes its turns over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rivermouth.engine.deadlines import Limits

NS: Final = 1_000_000_000

SYSTEM_PROMPT: Final = "You are a helpful assistant."

CHAT_LIMITS: Final = Limits(first_token_s=30.0, idle_s=30.0, total_s=120.0, hold_s=15.0)


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, bytes and counts.

    limits: the clocks of the chat's calls.  models: provider -> the model that is meant by its name.
    prefer_local: the local model comes first in `auto`.  stop_on_disconnect: a client that leaves its /stream stops
    the answer.  max_content_chars: of a user's message.
    """

    limits: Limits = CHAT_LIMITS
    system_prompt: str = SYSTEM_PROMPT
    models: Mapping[str, str] = {}
    prefer_local: bool = False
    stop_on_disconnect: bool = False
    offer: Mapping[str, Any] | None = None
    """What a page may offer to pull where nothing is configured."""

    max_content_chars: int = 32_000
    max_attachments: int = 8
    max_title_chars: int = 200
    max_instructions_chars: int = 8_000

    coalesce_s: float = 0.025
    coalesce_chars: int = 1_000
    buffer_chars: int = 256 * 1024
    checkpoint_s: float = 1.0
    snapshot_bytes: int = 4 * 1024 * 1024
    turn_chars: int = 16 * 1024 * 1024
    close_s: float = 0.15
    """How long an end waits for the upstream to confirm that it has stopped."""

    stop_s: float = 2.0
    hard_extra_s: float = 30.0
    beat_s: float = 3.0
    fence_s: float = 10.0
    dead_s: float = 15.0
    reap_least_s: float = 2.0
    reap_most_s: float = 5.0
    look_s: float = 1.0
    """How often whoever waits for a ring looks by itself."""

    lag_frames: int = 256
    drain_bytes: int = 16 * 1024
    send_s: float = 30.0
    keep_alive_s: float = 15.0
    retry_ms: int = 1_000
    recycle_s: float = 600.0

    followers_per_chat: int = 2_000
    followers_per_owner: int = 4_000
    live_per_owner: int = 64
    queued_per_chat: int = 16

    def hard_deadline_ns(self, now_ns: int) -> int:
        """When a turn that is claimed now must have ended, whatever happens."""
        return now_ns + int(self.hard_deadline_s * NS)

    @property
    def hard_deadline_s(self) -> float:
        """How long no answer is written, whatever the clocks of its call do."""
        return self.limits.total_s + self.hard_extra_s
