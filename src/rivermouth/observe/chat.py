"""What the chat counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from rivermouth.observe.labelled import FIRST_TOKEN_S, Labelled

LAG_FRAMES: Final = (0, 1, 4, 16, 64, 256, 1024, 4096)


class ChatMetrics:
    """What the chat counts.  States are the machine's words, so the labels are bounded."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        new: dict[str, Any] = {"namespace": "rivermouth", "registry": registry or CollectorRegistry(auto_describe=True)}
        self._ended = Labelled(Counter("turns", "Turns of chats that ended.", ("state",), **new))
        self._fenced = Counter("turns_fenced", "Writers that found another in their place.", **new)
        self._reaped = Counter("turns_reaped", "Turns that were taken over from a writer that died.", **new)
        self._log_lost = Counter("chat_log_lost", "Logs that were gone while their turn was running.", **new)
        self._stopping = Histogram(
            "stop_to_terminal_seconds", "From a stop to the end of the turn.", buckets=FIRST_TOKEN_S, **new
        )
        self._misses = Counter("doorbell_misses", "Entries that were found without a ring.", **new)
        self._lag = Histogram(
            "follower_lag_frames", "How many frames a reader is behind when it reads.", buckets=LAG_FRAMES, **new
        )
        self._live = Gauge("turns_live", "Turns that this process is writing.", **new)
        self._followers = Gauge("chat_followers", "Clients that follow a chat.", **new)

    def ended(self, state: str) -> None:
        self._ended(state).inc()

    def fenced(self) -> None:
        self._fenced.inc()

    def reaped(self) -> None:
        self._reaped.inc()

    def log_lost(self) -> None:
        self._log_lost.inc()

    def stopped(self, seconds: float) -> None:
        self._stopping.observe(seconds)

    def missed_ring(self) -> None:
        self._misses.inc()

    def lag(self, frames: int) -> None:
        self._lag.observe(frames)

    def ask(self, live: Callable[[], int], followers: Callable[[], int]) -> None:
        """Ask these whenever someone scrapes."""
        self._live.set_function(live)
        self._followers.set_function(followers)
