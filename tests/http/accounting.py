"""A browser, as far as accounts go: one cookie jar and one access token, over real sockets."""

from __future__ import annotations

import http.client
import json
from typing import Any, NamedTuple

from tests.engine.lab import Lab

DEADLINE_S = 15.0
PASSWORD = "correct horse"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str | None]:
        """Status, type and code."""
        error = self.json["error"]
        return self.status, error["type"], error["code"]


class Browser:
    """token: sent as a Bearer, if there is one.  cookie: "name=value", as the server set it last."""

    def __init__(self, server: Lab, *, origin: str | None = None, **headers: str) -> None:
        self.server = server
        self.token: str | None = None
        self.cookie: str | None = None
        self.set_cookie = ""
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.headers |= {"Origin": origin} if origin is not None else {}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        with_cookie = self.cookie is not None and path.startswith("/api/auth")
        given = {
            **self.headers,
            **({"Authorization": f"Bearer {self.token}"} if self.token is not None else {}),
            **({"Cookie": f"theme=dark; {self.cookie}"} if with_cookie else {}),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=DEADLINE_S)
        try:
            raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, raw, given)
            answer = connection.getresponse()
            found = Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()
        self.set_cookie = found.headers.get("set-cookie", "")
        if self.set_cookie:
            pair = self.set_cookie.partition(";")[0]
            self.cookie = pair if pair.partition("=")[2] else None
        return found

    def enter(self, how: str, name: str = "", password: str = PASSWORD, status: int | None = None) -> Any:
        """Signs in in one of the ways, and keeps the token."""
        body = {"name": name, "password": password} if name else {}
        answer = self.ask("POST", f"/api/auth/{how}", body)
        assert answer.status == (status or (201 if how == "signup" else 200)), answer
        self.token = answer.json["access_token"]
        return answer.json

    def get(self, path: str, status: int = 200) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == status, answer
        return answer.json

    def chat(self, title: str = "") -> int:
        answer = self.ask("POST", "/api/chats", {"title": title})
        assert answer.status == 201, answer
        return int(answer.json["chatId"])

    def open(self, method: str, path: str, body: Any = None) -> tuple[http.client.HTTPConnection, Any]:
        """A stream that the test reads by itself."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=DEADLINE_S)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}
        connection.request(method, path, json.dumps(body).encode() if body is not None else None, headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return connection, answer
