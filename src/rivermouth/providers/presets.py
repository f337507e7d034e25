"""The providers that need only a key, as the rest of this package sees them.

The table itself stands in `rivermouth.config.presets`: loading a configuration needs it, and configuration is below
every layer that calls someone.
"""

from __future__ import annotations

from rivermouth.config.presets import PRESETS, Preset

__all__ = ["PRESETS", "Preset"]
