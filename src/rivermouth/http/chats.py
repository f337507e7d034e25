"""The chat's streams over raw ASGI: `/api/chats/{id}/stream`, `/events` and `/cancel`.

A stream here is a reader of a log: a client that leaves stops reading and nothing else, unless `chat.on_disconnect`
says that leaving is a stop.  The chat's other routes are single documents, and Litestar's.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs

import msgspec
import structlog

from rivermouth.chat import wire
from rivermouth.chat.documents import live_view
from rivermouth.chat.follow_chat import ChatFollower
from rivermouth.chat.follow_turn import TurnFollower
from rivermouth.chat.identity import Identity
from rivermouth.chat.machine import OnBusy
from rivermouth.chat.moves import Busy, Submission
from rivermouth.chat.service import ChatService
from rivermouth.chat.settings import ChatSettings
from rivermouth.http.body import ClientLeft, Receive, read_body
from rivermouth.http.disconnect import Leave, Watched
from rivermouth.http.headers import JSON, POLICY, STREAM, Header, get, retry_after
from rivermouth.http.lifecycle import Lifecycle
from rivermouth.http.protocol import HANG_UP, LEAVE, WRITE
from rivermouth.http.sink import Send
from rivermouth.ir.errors import ApiError, Kind, WireError, invalid
from rivermouth.ir.request import File, Image
from rivermouth.log.port import FrameId
from rivermouth.store.chats.port import Turn
from rivermouth.wire import json

log = structlog.get_logger()

PATH: Final = re.compile(r"/api/chats/(\d{1,18})/(stream|events|cancel)/?")
METHODS: Final[Mapping[str, str]] = {"stream": "POST", "events": "GET", "cancel": "POST"}
KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,60}/[A-Za-z0-9.+-]{1,100}(;[ -~]{1,100})?")
BODY_S: Final = 60.0
SMALL_BODY_BYTES: Final = 64 * 1024
MEDIA: Final[Header] = (b"content-type", b"text/event-stream")


RowId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""What a store can hold."""


class Upload(msgspec.Struct, frozen=True, rename={"media_type": "mediaType"}):
    """An image or a file of a message; `data` is base64."""

    media_type: str
    data: str
    name: str | None = None


class StreamBody(msgspec.Struct, frozen=True):
    """content: may be left out where `redo` names a message to be asked again.  pieces: reasoning and tool calls are
    wanted in this stream too.  detach: to leave this stream stops nothing, whatever `chat.on_disconnect` says."""

    content: str | None = None
    model: str | None = None
    on_busy: Literal["interrupt", "reject", "enqueue", "rollback"] = "interrupt"
    redo: RowId | None = None
    pieces: bool = False
    detach: bool = False
    attachments: list[Upload] | None = None


class CancelBody(msgspec.Struct, frozen=True):
    generation: RowId | None = None
    message_id: RowId | None = None


_stream: Final = json.typed(StreamBody)
_cancel: Final = json.typed(CancelBody)


class ChatStreams:
    """`await streams(scope, receive, send)` for every path that it `owns`."""

    def __init__(
        self,
        service: ChatService,
        *,
        identity: Identity,
        settings: ChatSettings,
        lifecycle: Lifecycle,
        new_id: Any,
        base_path: str,
        body_limit_bytes: int,
    ) -> None:
        self._service = service
        self._identity = identity
        self._settings = settings
        self._lifecycle = lifecycle
        self._new_id = new_id
        self._base_path = base_path.rstrip("/")
        self._body_limit_bytes = body_limit_bytes

    @staticmethod
    def owns(path: str) -> bool:
        return PATH.fullmatch(path) is not None

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        headers: list[Header] = list(scope["headers"])
        found = PATH.fullmatch(scope["path"])
        if found is None:
            raise TypeError("the front switch sends only what is owned")
        chat_id, what = int(found[1]), found[2]
        handler = {"stream": self._stream, "events": self._events, "cancel": self._cancel}[what]
        try:
            if scope["method"] != METHODS[what]:
                raise ApiError(Kind.INVALID_REQUEST, f"this route takes {METHODS[what]}", status=405)
            owner = await self._identity.identify(headers)
            extensions = scope.get("extensions", {})
            write, hang_up = extensions.get(WRITE, _cannot), extensions.get(HANG_UP, _nothing)
            query, leave = scope["query_string"], extensions.get(LEAVE)
            await handler(_Request(owner, chat_id, headers, query, receive, send, write, hang_up, leave))
        except ClientLeft:
            log.debug("request.abandoned", path=scope["path"])
        except Busy as busy:
            await _refuse(send, busy)
        except ApiError as error:
            await answer_error(send, error)
        except WireError as error:
            fault = json.misfit(error)
            await answer_error(send, invalid(fault.words, fault.param))

    async def _stream(self, asked: _Request) -> None:
        if self._lifecycle.draining:
            raise ApiError(Kind.OVERLOADED, "the server is shutting down", retry_after_s=self._lifecycle.retry_after_s)
        if get(asked.headers, POLICY) is not None:
            raise invalid("a chat takes no policy by header; ask a model's own route", POLICY.decode())
        key = get(asked.headers, b"idempotency-key")
        if key is not None and not KEY.fullmatch(key):
            raise invalid("an Idempotency-Key is 1 to 200 printable characters", "Idempotency-Key")
        body = json.decode_as(_stream, await self._body(asked, self._body_limit_bytes))
        wanted = Submission(
            owner=asked.owner,
            chat_id=asked.chat_id,
            request_id=key or self._new_id(),
            content=body.content,
            on_busy=OnBusy(body.on_busy),
            asked=body.model,
            redo=body.redo,
            attachments=_attached(body.attachments, self._settings.max_attachments),
        )
        view = wire.STREAM_PIECES if body.pieces else wire.STREAM
        after = FrameId.parse(get(asked.headers, b"last-event-id") or "")
        submitted, follower = await self._service.ask(wanted, view, after)
        location = f"{self._base_path}/api/chats/{asked.chat_id}/events"
        left = await self._pump(asked, follower, [(b"location", location.encode())])
        if left and self._settings.stop_on_disconnect and not body.detach:
            await self._service.stop(asked.owner, asked.chat_id, message_id=submitted.turn.assistant_message_id)

    async def _events(self, asked: _Request) -> None:
        query = parse_qs(asked.query.decode("latin-1"))
        given = (get(asked.headers, b"last-event-id"), *query.get("after", ()))
        cursors = [cursor for text in given if text is not None and (cursor := FrameId.parse(text)) is not None]
        turn = query.get("turn", [""])[0]
        if turn and not (turn.isascii() and turn.isdigit() and len(turn) < 19):
            raise invalid("turn is the number of a turn", "turn")
        follower = await self._service.follow_chat(
            asked.owner, asked.chat_id, max(cursors, default=None), int(turn) if turn else None
        )
        if follower is None:
            await asked.send({"type": "http.response.start", "status": 204, "headers": []})
            await asked.send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        await self._pump(asked, follower, [], again=True)

    async def _cancel(self, asked: _Request) -> None:
        raw = await self._body(asked, SMALL_BODY_BYTES)
        body = json.decode_as(_cancel, raw) if raw.strip() else CancelBody()
        stopped = await self._service.stop(
            asked.owner, asked.chat_id, generation=body.generation, message_id=body.message_id
        )
        await answer_json(asked.send, 200, {"cancelled": stopped})

    async def _body(self, asked: _Request, limit_bytes: int) -> bytes:
        return await read_body(asked.receive, asked.headers, limit_bytes, BODY_S)

    async def _pump(
        self, asked: _Request, follower: TurnFollower | ChatFollower, extra: list[Header], *, again: bool = False
    ) -> bool:
        """The follower's frames to the client; True when the client left first.

        again: whoever reads is asked now and then who they are; a stream outlives many a session.
        """
        try:
            task = asyncio.create_task(self._pass_on(asked, follower, extra, again=again))
            with Watched(asked.receive, lambda: _cancelled(task), asked.leave):
                try:
                    await asyncio.wait({task})
                finally:
                    task.cancel()
            if task.cancelled():
                return True
            return not task.result()
        finally:
            self._service.leave(follower)

    async def _pass_on(
        self, asked: _Request, follower: TurnFollower | ChatFollower, extra: list[Header], *, again: bool
    ) -> bool:
        """False when the client did not take what there was for it.

        A slow client costs what its connection holds and nothing else: the next piece is made when there is room.
        """
        await asked.send({"type": "http.response.start", "status": 200, "headers": [MEDIA, *STREAM, *extra]})
        now_s = asyncio.get_running_loop().time
        more, known_s = True, now_s()
        while more:
            if not await self._sent(asked, b"", more=True):
                return False
            data = await follower.next(self._settings.keep_alive_s)
            more = not follower.ended
            if again and now_s() - known_s >= self._settings.keep_alive_s:
                known_s = now_s()
                if not await self._still(asked):
                    more = False
                    data = b""
            if not await self._sent(asked, data or (wire.KEEP_ALIVE if more else b""), more=more):
                return False
            await asyncio.sleep(0)  # whoever has much to catch up with lets others go on
        return True

    async def _sent(self, asked: _Request, data: bytes, *, more: bool) -> bool:
        """Handed to the connection once that has room.  A client that makes none is cut off; it can come again."""
        if more and asked.write(data):
            return True
        try:
            async with asyncio.timeout(self._settings.send_s):
                await asked.send({"type": "http.response.body", "body": data, "more_body": more})
        except TimeoutError:
            asked.hang_up()
            return False
        return True

    async def _still(self, asked: _Request) -> bool:
        """The request's credentials are still those of the person it was let in as."""
        try:
            return await self._identity.identify(asked.headers) == asked.owner
        except ApiError as error:
            # a store that cannot be asked now sends nobody away
            return error.kind not in (Kind.AUTHENTICATION, Kind.PERMISSION)


def _cancelled(task: asyncio.Task[bool]) -> None:
    task.cancel()


def _cannot(data: bytes) -> bool:
    """A server without the extension: everything is sent."""
    return False


def _nothing() -> None:
    """A server without the extension: it closes the connection itself."""


class _Request(msgspec.Struct, frozen=True):
    """One request, and whose it is."""

    owner: str
    chat_id: int
    headers: list[Header]
    query: bytes
    receive: Receive
    send: Send
    write: Callable[[bytes], bool]
    hang_up: Callable[[], None]
    leave: Leave | None


def _attached(uploads: list[Upload] | None, most: int) -> tuple[Image | File, ...] | None:
    """Raises `ApiError` for what no model could read."""
    if uploads is None:
        return None
    if len(uploads) > most:
        raise invalid(f"a message has at most {most} attachments", "attachments")
    for number, upload in enumerate(uploads):
        if not MEDIA_TYPE.fullmatch(upload.media_type):
            raise invalid("a media type is one as in image/png", f"attachments[{number}].mediaType")
        if not upload.data or not _is_base64(upload.data):
            raise invalid("data is base64", f"attachments[{number}].data")
    return tuple(
        Image(media_type=upload.media_type, data=upload.data)
        if upload.media_type.startswith("image/")
        else File(media_type=upload.media_type, data=upload.data, name=upload.name)
        for upload in uploads
    )


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def error_body(error: ApiError) -> dict[str, Any]:
    """The error of every route under /api/chats, /api/ai and /api/auth."""
    return {"error": {"type": error.kind.value, "message": error.message, "param": error.param, "code": error.code}}


async def answer_error(send: Send, error: ApiError, more: Sequence[Header] = ()) -> None:
    extra = [retry_after(error.retry_after_s)] if error.retry_after_s is not None else []
    await answer_json(send, error.status, error_body(error), [*extra, *more])


async def answer_json(send: Send, status: int, value: Any, extra: Sequence[Header] = ()) -> None:
    body = json.encode(value)
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [JSON, length, *extra]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _refuse(send: Send, busy: Busy) -> None:
    """409: which turn is in the way, and from where it can be followed."""
    error = ApiError(Kind.INVALID_REQUEST, "an answer of this chat has not ended", status=409, code="chat_busy")
    turn: Turn = busy.turn
    await answer_json(send, 409, {**error_body(error), **live_view(turn), "cursor": str(busy.cursor)})
