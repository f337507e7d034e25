"""A repository of a model hub, at one commit: an OpenVINO model, or one GGUF file.

    listing      huggingface_hub says which commit a name means, and for each file its size and hash there
    licence      open, or accepted by name; gated repositories need an account that accepted it, by HF_TOKEN
    small files  those that the hub has only a git hash of: fetched whole, so that their sha256 can be told
    large files  as from the web: resumed, hashed, compared with the sha256 of the commit

Everything after the listing names the commit, so a branch that moves meanwhile changes nothing.  The token is read in
`token` and nowhere else; it is shown to the hub, and to no address that it redirects to.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.local.models.catalog import Entry, HubSource, WantedFile
from rivermouth.local.models.licenses import Licenses, Terms
from rivermouth.local.models.names import is_commit
from rivermouth.local.models.openvino_ir import IrError, check_texts
from rivermouth.local.models.registry import ModelFile, Registry
from rivermouth.local.sources.gathered import Gathered, Orders, Telling, check_cap
from rivermouth.local.sources.layout import Unclear, one_file, whole_repository
from rivermouth.local.sources.partials import Partials
from rivermouth.local.sources.present import find, verify
from rivermouth.local.sources.transfer import Remote, collect
from rivermouth.local.sources.web import download
from rivermouth.providers.client import trust
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound, proxy_for
from rivermouth.secrets import Secret

LISTING_S: Final = 10.0
LISTED_CAP: Final = 10_000
_library_alone: Final = threading.Lock()
"""The library has one client for all, and here it is closed after each request."""
SMALL_CAP_BYTES: Final = 128 << 20
"""All files together that the hub has no sha256 of."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the commit.  `sha256` of a large one, `git` (the hash of a git blob) of every one."""

    path: str
    size_bytes: int
    sha256: str | None
    git: str | None


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A repository at one commit."""

    commit: str
    files: dict[str, Listed]
    license: str | None
    gated: bool
    endpoint: str


def token() -> Secret | None:
    """The hub's token of this environment."""
    value = os.environ.get("HF_TOKEN", "").strip()
    return Secret(value, "HF_TOKEN") if value else None


async def from_hub(
    entry: Entry, source: HubSource, place: Path, registry: Registry, telling: Telling, orders: Orders
) -> Gathered | None:
    """The files of the model in the repository, each compared with what the commit has; None if they are here."""
    secret = token()
    listing = await asyncio.to_thread(list_repository, source, secret, orders.outbound)
    wanted = _wanted(source, listing)
    check_cap(sum(file.size_bytes for file in wanted), len(wanted), orders)
    license_name = listing.license or entry.license
    page = f"{listing.endpoint}/{source.repository}"
    terms = Terms(license=license_name, model=source.repository, url=page, gated=listing.gated)
    await asyncio.to_thread(Licenses(registry.root).check, terms, orders.accept, time.time())
    pinned = str(msgspec.structs.replace(source, revision=listing.commit))
    present = await asyncio.to_thread(find, registry, entry)
    if present is not None and present.manifest.source == pinned and await verify(present, telling):
        return None
    fetching = _Fetching(source.repository, listing, place, secret, orders)
    files = await fetching.all(wanted, Partials(registry.root), telling)
    telling.verifying()
    completed = msgspec.structs.replace(
        entry,
        format="gguf" if len(files) == 1 else "openvino",
        license=license_name,
        attribution=entry.attribution or f"{source.repository} ({page})",
    )
    return Gathered(completed, files, pinned)


class _Fetching:
    """The files of one commit on their way."""

    def __init__(self, repository: str, listing: Listing, place: Path, secret: Secret | None, orders: Orders) -> None:
        self._repository = repository
        self._listing = listing
        self._place = place
        self._secret = secret
        self._orders = orders

    async def all(self, wanted: list[Listed], partials: Partials, telling: Telling) -> tuple[ModelFile, ...]:
        """Small ones first, before anything is told, because what is told has a sha256; then each in its turn."""
        small = {file.path: await self._small(file) for file in wanted if file.sha256 is None}
        if len(wanted) > 1:
            try:
                await asyncio.to_thread(check_texts, self._place)
            except IrError as error:
                text = f"{self._repository} cannot be run here: {error}"
                raise invalid(text, param="model", code="unsupported_model") from error
        files = []
        for file in wanted:
            known = small.get(file.path)
            if known is None:
                whole = WantedFile(name=_flat(file.path), sha256=file.sha256, size_bytes=file.size_bytes)
                clocks = self._orders.clocks
                known = await download(whole, self._remote(file), self._place, partials, telling, clocks)
            else:
                telling.begin(known.name, f"sha256:{known.sha256}", known.size_bytes)
                telling.advance(known.size_bytes)
            files.append(known)
        return tuple(files)

    async def _small(self, file: Listed) -> ModelFile:
        data = await collect(self._remote(file), self._orders.clocks)
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        if file.git is not None and blob != file.git:
            raise ApiError(
                Kind.UPSTREAM,
                f"the git hash of {file.path} is {blob}, not {file.git}; nothing was kept",
                code="digest_mismatch",
            )
        await asyncio.to_thread((self._place / _flat(file.path)).write_bytes, data)
        return ModelFile(name=_flat(file.path), sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))

    def _remote(self, file: Listed) -> Remote:
        from huggingface_hub import hf_hub_url

        listing = self._listing
        url = hf_hub_url(self._repository, file.path, revision=listing.commit, endpoint=listing.endpoint)
        return Remote(
            url=url,
            cap_bytes=file.size_bytes,
            size_bytes=file.size_bytes,
            token=self._secret,
            outbound=self._orders.outbound,
        )


def list_repository(source: HubSource, secret: Secret | None, outbound: Outbound = FROM_ENVIRONMENT) -> Listing:
    """What the hub says of the repository.  Blocks.  Raises `ApiError`."""
    try:
        from huggingface_hub import HfApi, close_session, constants
    except ImportError:
        raise ApiError(
            Kind.INTERNAL, "hf: needs huggingface_hub (pip install 'rivermouth[hub]')", code="hub_not_installed"
        ) from None
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or constants.ENDPOINT
    # Or the library tells its maker what runs here, and asks it for a list to tell it by.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    # token=False, or the library would look for one in places of its own.
    api = HfApi(endpoint=endpoint, token=secret.reveal() if secret is not None else False)
    with _library_alone, _way_out(endpoint, outbound):
        try:
            found = api.model_info(source.repository, revision=source.revision, files_metadata=True, timeout=LISTING_S)
        except _failures() as error:
            _refused(source, error)
        finally:
            close_session()  # one request in the life of most servers: nothing is kept open for the next
    return listing_of(found, endpoint)


@contextmanager
def _way_out(endpoint: str, outbound: Outbound) -> Iterator[None]:
    """The library's client, whichever that is, as the configuration has the way out."""
    from huggingface_hub import get_session, set_client_factory

    usual = get_session()
    client: Any = type(usual)
    hooks = {"event_hooks": usual.event_hooks, "follow_redirects": True, "timeout": None}
    proxy, credentials = proxy_for(endpoint, outbound)
    ours: dict[str, Any] = {"verify": trust(outbound.ca_file), "trust_env": False}
    if proxy is not None:
        ours["proxy"] = sys.modules[client.__module__.partition(".")[0]].Proxy(str(proxy), headers=credentials)
    if outbound != FROM_ENVIRONMENT:
        set_client_factory(lambda: client(**hooks, **ours))
    try:
        yield
    finally:
        if outbound != FROM_ENVIRONMENT:
            set_client_factory(lambda: client(**hooks))


def listing_of(found: Any, endpoint: str) -> Listing:
    """The hub's answer as far as it is used, with nothing taken on trust."""
    commit = getattr(found, "sha", None)
    siblings = getattr(found, "siblings", None) or []
    if not isinstance(commit, str) or not is_commit(commit):
        raise ApiError(Kind.UPSTREAM, "the hub does not say which commit this is", code="bad_source")
    if len(siblings) > LISTED_CAP:
        raise invalid(f"the repository has more than {LISTED_CAP} files", param="model", code="unsupported_model")
    files = {}
    for sibling in siblings:
        lfs = sibling.lfs
        size = lfs.size if lfs is not None else sibling.size
        if isinstance(size, int) and size >= 0:
            sha256 = lfs.sha256 if lfs is not None else None
            files[sibling.rfilename] = Listed(
                path=sibling.rfilename, size_bytes=size, sha256=sha256, git=None if lfs else sibling.blob_id
            )
    card = getattr(found, "card_data", None)
    said = card.get("license") if card is not None else None
    return Listing(
        commit=commit,
        files=files,
        license=said[:80] if isinstance(said, str) and said else None,
        gated=bool(getattr(found, "gated", False)),
        endpoint=endpoint,
    )


def _wanted(source: HubSource, listing: Listing) -> list[Listed]:
    try:
        paths = one_file(source.file, listing.files) if source.file else whole_repository(listing.files)
    except Unclear as error:
        raise invalid(f"{source.repository}: {error}", param="model", code="unsupported_model") from None
    wanted = [listing.files[path] for path in paths]
    unknown = [file.path for file in wanted if file.sha256 is None and file.git is None]
    if unknown or sum(file.size_bytes for file in wanted if file.sha256 is None) > SMALL_CAP_BYTES:
        raise invalid(f"{source.repository}: the hub has no sha256 of its large files", code="unsupported_model")
    return wanted


def _flat(path: str) -> str:
    return path.rpartition("/")[2]


def _failures() -> tuple[type[Exception], ...]:
    """What the library raises for an answer, and what the HTTP client beneath it, whichever that is, for none."""
    from huggingface_hub import get_session
    from huggingface_hub.errors import HfHubHTTPError

    beneath: type[Exception] = sys.modules[type(get_session()).__module__.partition(".")[0]].HTTPError
    return HfHubHTTPError, beneath, OSError, ValueError


def _refused(source: HubSource, error: Exception) -> NoReturn:
    """The library's exceptions in our words, which hold no address and no token."""
    from huggingface_hub import errors

    what = f"{source.repository} at {source.revision}"
    match error:
        case errors.GatedRepoError():
            words = "is gated: accept its terms on the hub, and set HF_TOKEN to a token of the account that did"
            raise ApiError(Kind.PERMISSION, f"{source.repository} {words}", code="hub_refused") from None
        case errors.RepositoryNotFoundError():
            words = "is not on the hub, or is private and HF_TOKEN may not see it"
            raise ApiError(
                Kind.NOT_FOUND, f"{source.repository} {words}", param="model", code="not_at_source"
            ) from None
        case errors.RevisionNotFoundError():
            raise ApiError(Kind.NOT_FOUND, f"{what} is not on the hub", param="model", code="not_at_source") from None
        case errors.OfflineModeIsEnabled():
            raise ApiError(Kind.NETWORK, "the hub is switched off (HF_HUB_OFFLINE)", code="hub_unreachable") from None
        case errors.HfHubHTTPError() if error.response is not None and error.response.status_code in (401, 403):
            raise ApiError(Kind.PERMISSION, f"the hub refused access to {what}", code="hub_refused") from None
        case errors.HfHubHTTPError():
            raise ApiError(Kind.UPSTREAM, f"the hub failed to list {what}", code="hub_failed") from None
        case ValueError():
            raise ApiError(Kind.UPSTREAM, f"the hub's answer about {what} cannot be read", code="hub_failed") from None
        case _:
            raise ApiError(Kind.NETWORK, "the hub could not be reached", code="hub_unreachable") from None
