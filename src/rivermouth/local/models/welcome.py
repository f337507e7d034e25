"""Which model a page may offer to somebody who has none yet.  Pure."""

from __future__ import annotations

from rivermouth.local.models.catalog import CATALOG, Catalog, Entry
from rivermouth.local.models.licenses import Terms
from rivermouth.local.models.references import Pulls


def first_offer(catalog: Catalog, pulls: Pulls, packaged: Catalog = CATALOG) -> Entry | None:
    """The smallest chat model that a client may pull by its name and without accepting a licence; one of the operator's
    own before a packaged one.  None where there is none.  Its size is known, because it is told before the pull.
    """
    if pulls is Pulls.NONE:
        return None
    fit = [entry for entry in catalog.values() if _fits(entry)]
    return min(fit, key=lambda e: (packaged.get(e.name) == e, e.size_bytes, str(e.name)), default=None)


def _fits(entry: Entry) -> bool:
    terms = Terms(license=entry.license, model=str(entry.name))
    return entry.kind == "chat" and bool(entry.size_bytes) and not terms.restricted
