"""A request, and what is counted of it: each count once, since a long request is dear to walk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.ir.tokens import estimate_prompt, estimate_tokens
from rivermouth.routing.needs import capabilities
from rivermouth.routing.policy import Needs

T = TypeVar("T")


class Asked:
    """`of(count)` is `count(request)`.  Counts are pure, so it does not matter in which thread one is made first."""

    __slots__ = ("_known", "request")

    def __init__(self, request: Request | EmbedRequest) -> None:
        self.request = request
        self._known: dict[Callable[[Any], Any], Any] = {}

    def of(self, count: Callable[[Request | EmbedRequest], T]) -> T:
        known = self._known
        if count not in known:
            known[count] = count(self.request)
        found: T = known[count]
        return found

    def tokens(self) -> int:
        """Of the prompt, as counted here."""
        return self.of(prompt_tokens)

    def needs(self) -> Needs:
        """What an endpoint must be able to do for it."""
        return Needs(self.of(capabilities), self.tokens())

    def all(self, counts: Iterable[Callable[[Request | EmbedRequest], Any]]) -> None:
        """Each of them.  Takes its time for a long request, so it is for a thread."""
        for count in (prompt_tokens, *counts):
            self.of(count)


def prompt_tokens(request: Request | EmbedRequest) -> int:
    """Tokens of all that there is to read."""
    if isinstance(request, Request):
        return estimate_prompt(request)
    return sum(estimate_tokens(len(text)) for text in request.input)
