"""What a gate keeps for a call that it has let in."""

from __future__ import annotations

from typing import Any

import msgspec

from rivermouth.routing.policy import Selection


class Reservation(msgspec.Struct, frozen=True):
    """selection: what is left of the one that was offered.  held: the gate's own business."""

    selection: Selection
    held: Any = None
