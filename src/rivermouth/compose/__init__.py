"""The composition root: from a configuration to a running set of services.  For a server, the only place that names
adapters.

opening: all of them, opened and closed.  maker: what is made anew when the configuration changes.  providers,
observing: where calls go, and who is told of them.  settings: what each part takes of the configuration.
routes: endpoints, policies and names of models.  ids: where ids come from.

An adapter that drags a large library along (a database, an HTTP client) is imported where it is made: who does without
it starts without it, and a local model can be loading while the rest is still being imported.
"""

from __future__ import annotations

from rivermouth.compose.ids import Ids
from rivermouth.compose.maker import Maker
from rivermouth.compose.opening import Services, services
from rivermouth.compose.providers import catalogue, local_provider
from rivermouth.compose.routes import policies_of
from rivermouth.compose.settings import account_settings, chat_settings

__all__ = [
    "Ids",
    "Maker",
    "Services",
    "account_settings",
    "catalogue",
    "chat_settings",
    "local_provider",
    "policies_of",
    "services",
]
