"""What led to a person, taken out of the records.

Gone are texts, kept answers, error messages, the client's own ids, the pseudonym of the end user, the key's name.  What
is left of a call is what was used, when, and what it cost, so that every sum is what it was.  Calls that still run are
not touched; the answer counts them, and whoever asks again later finds them ended.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from litestar import delete, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from rivermouth.http.api.platform.asking import Asked, least, visitor
from rivermouth.http.api.platform.desk import Desk
from rivermouth.store.port import CallFilter


class ErasedDocument(msgspec.Struct, frozen=True):
    """calls: so many records lead nowhere now.  texts, answers: so many texts and kept answers are gone.  running: so
    many were left alone.
    """

    calls: int
    texts: int
    answers: int
    running: int


class Erasure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose data it is, as clients say it."""

    user: Annotated[str, Meta(min_length=1, max_length=1000)]


def routes(desk: Desk) -> list[HTTPRouteHandler]:
    async def erased(request: Asked, action: str, wheres: list[CallFilter]) -> ErasedDocument:
        gone = [await asyncio.to_thread(desk.archive.erase, where) for where in wheres]
        told = ErasedDocument(
            *(sum(getattr(e, name) for e in gone) for name in ("calls", "texts", "answers", "running"))
        )
        # Not whose data it was: the log of changes is kept, and would be the last place that knows.
        after = {"calls": told.calls, "texts": told.texts, "answers": told.answers}
        await desk.platform.note(action, visitor(request).who, target="records", name="records", after=after)
        return told

    def those_of(user: str) -> list[CallFilter]:
        every = desk.platform.keys()
        keys = (view.name for view in every if view.user == user)
        return [CallFilter(end_user=desk.pseudonyms.of(user)), *(CallFilter(key_name=name) for name in keys)]

    @delete("/platform/v1/users/{user:str}/data", guards=[least("admin")], status_code=200, tags=["erasure"])
    async def of_user(request: Asked, user: FromPath[str]) -> ErasedDocument:
        """One user's data: the calls that a client made for it (`user` of OpenAI, `metadata.user_id` of Anthropic), and
        those of every key that is marked as that user's.
        """
        return await erased(request, "data.erased_of_user", those_of(user))

    @post("/platform/v1/erasures", guards=[least("admin")], status_code=200, tags=["erasure"])
    async def erasure(request: Asked, data: JSONBody[Erasure]) -> ErasedDocument:
        """The same, with the user's name where no proxy logs it, and with any characters in it."""
        return await erased(request, "data.erased_of_user", those_of(data.user))

    @delete("/platform/v1/keys/{key_id:str}/data", guards=[least("admin")], status_code=200, tags=["erasure"])
    async def of_key(request: Asked, key_id: FromPath[str]) -> ErasedDocument:
        """The data of one key's calls."""
        return await erased(request, "data.erased_of_key", [CallFilter(key_name=desk.platform.key(key_id).name)])

    return [of_user, erasure, of_key]
