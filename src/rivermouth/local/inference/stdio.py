"""How an engine process is tied to its server: stdout is the protocol's alone, and neither outlives the other.

* fd 1 is moved away and pointed at fd 2 before anything native loads: what native code prints cannot break the
  protocol.
* The process ends when its stdin does, and on Linux with its parent, however that died.  Ctrl-C is the server's.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from typing import Final, NoReturn

from rivermouth.local.words.protocol import Word
from rivermouth.wire import json
from rivermouth.wire.ndjson import line

PR_SET_PDEATHSIG: Final = 1
REASON_CAP: Final = 300
SOURCE_PLACE: Final = re.compile(r"^.*\.(?:cpp|cc|hpp|h):\d+:?\s*")


def own_stdout() -> int:
    """The protocol's descriptor; what anyone else writes to stdout goes to stderr."""
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)
    return out


def die_with_parent(parent: int) -> None:
    """From here on, on Linux, the kernel ends this process when its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            raise SystemExit(0)


def write_words(descriptor: int, words: list[Word]) -> None:
    """Ends the process when nobody reads any more."""
    data = b"".join(line(json.encode(word)) for word in words)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        leave(0)


def leave(status: int) -> NoReturn:
    """Ends at once: the system takes the memory back sooner than the engine would, and without its complaints."""
    sys.stderr.flush()
    os._exit(status)


def without_telemetry() -> None:
    """The telemetry package phones home when its user once agreed to that for other tools; here it does not exist, and
    the engine falls back to a stub of its own."""
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]


def native_reason(error: BaseException) -> str:
    """The last line of a native error, without the place in the native source."""
    lines = [text.strip() for text in str(error).splitlines() if text.strip()]
    last = lines[-1] if lines else type(error).__name__
    return (SOURCE_PLACE.sub("", last) or last)[:REASON_CAP]
