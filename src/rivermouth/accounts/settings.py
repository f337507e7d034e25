"""What the accounts take from the configuration."""

from __future__ import annotations

import msgspec


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds and counts.

    access_s, refresh_s: for how long an access token, and a session that is not used, is good.
    login_tries, address_tries: for one name, from one address, within `window_s`.
    grace_s: for how long the secret before is a repeat, as of a second tab, and no theft.
    """

    access_s: float = 900.0
    refresh_s: float = 30 * 86_400.0
    password_min_chars: int = 8
    login_tries: int = 10
    address_tries: int = 50
    window_s: float = 300.0
    grace_s: float = 30.0
    sessions_per_user: int = 50
    sweep_s: float = 3_600.0
    reload_s: float = 5.0
    """How often the file of the secrets is looked at."""
