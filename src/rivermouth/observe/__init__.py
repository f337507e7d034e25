"""What the server says of itself: structured logs on stderr, Prometheus metrics, OpenTelemetry traces.

Nothing here is on the way of a token: what a call has to say is said once, from its final record, at its end.  None of
the three holds a prompt, an answer or a secret, and none grows with what clients invent.

    call ended -> Metrics.ended   counted at once: a few additions
               -> tell            a line of the log   } each by a `Backlog`: bounded, written by a thread of its own;
               -> Traces.ended    spans, over OTLP    } what does not fit is dropped, and counted
"""

from rivermouth.observe.chat import ChatMetrics
from rivermouth.observe.logs import MASKED_FIELDS, configure_logging
from rivermouth.observe.metrics import CONTENT_TYPE, OTHER, Metrics, watch_loop
from rivermouth.observe.observers import Observers

__all__ = [
    "CONTENT_TYPE",
    "MASKED_FIELDS",
    "OTHER",
    "ChatMetrics",
    "Metrics",
    "Observers",
    "configure_logging",
    "watch_loop",
]
