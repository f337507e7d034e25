"""One request on its way through the data plane."""

from __future__ import annotations

from rivermouth.dialects.dialect import Answer
from rivermouth.engine.call import Call
from rivermouth.engine.interrupt import By
from rivermouth.http.disconnect import Watched
from rivermouth.http.headers import JSON, Header
from rivermouth.http.keys import ANYBODY
from rivermouth.http.resume import Connection
from rivermouth.http.routes import Match
from rivermouth.http.sink import AsgiSink


class Exchange:
    """One request on its way: where it belongs, what it carries, and where its answer goes."""

    __slots__ = (
        "body",
        "call_id",
        "caller",
        "client_id",
        "connection",
        "headers",
        "match",
        "now_ns",
        "query",
        "receive",
        "sink",
    )

    def __init__(
        self,
        match: Match,
        call_id: str,
        now_ns: int,
        headers: list[Header],
        query: bytes,
        connection: Connection,
        client_id: str | None,
    ) -> None:
        self.match = match
        self.query = query
        self.call_id = call_id
        self.now_ns = now_ns
        self.headers = headers
        self.connection = connection
        self.receive = connection.receive
        self.client_id = client_id
        self.caller = ANYBODY
        self.body = b""
        self.sink: AsgiSink

    def answer(self, model: str = "") -> Answer:
        return Answer(
            id=self.call_id,
            model=model,
            created_ns=self.now_ns,
            surface=self.match.surface,
            kind=self.match.route.kind,
        )

    async def json(self, body: bytes, status: int = 200) -> None:
        await self.sink.answer(status, body, [JSON])

    def watched(self, call: Call) -> Watched:
        """While inside, the call is cancelled when its client leaves."""
        return Watched(self.receive, lambda: call.interrupt.cancel(By.CLIENT), self.connection.leave)
