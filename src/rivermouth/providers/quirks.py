"""What single upstreams do differently from the dialect they speak, as words that a configuration may use.

A quirk edits the built request body; what it takes away is a loss like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from rivermouth.dialects.dialect import Outgoing
from rivermouth.wire import json


class Quirk(msgspec.Struct, frozen=True, kw_only=True):
    """drop: top-level body fields it does not take.  rename: fields it knows by another name.  lists: it has a list of
    its models that can be believed.
    """

    says: str
    drop: tuple[str, ...] = ()
    rename: dict[str, str] = {}
    lists: bool = True
    silent: bool = False
    """Dropping it changes nothing that the client asked for."""


QUIRKS: Final[dict[str, Quirk]] = {
    "max_tokens": Quirk(
        says="limits the answer by max_tokens, the older name of max_completion_tokens",
        rename={"max_completion_tokens": "max_tokens"},
    ),
    "max_completion_tokens": Quirk(
        says="limits the answer by max_completion_tokens only", rename={"max_tokens": "max_completion_tokens"}
    ),
    "no_list": Quirk(says="is not asked which models it has", lists=False),
    "no_stream_options": Quirk(
        says="refuses stream_options, so it reports no usage in a stream", drop=("stream_options",), silent=True
    ),
    "no_parallel_tool_calls": Quirk(says="refuses parallel_tool_calls", drop=("parallel_tool_calls",)),
    "no_seed": Quirk(says="refuses seed", drop=("seed",)),
    "no_penalties": Quirk(
        says="refuses frequency_penalty and presence_penalty", drop=("frequency_penalty", "presence_penalty")
    ),
    "no_logit_bias": Quirk(says="refuses logit_bias", drop=("logit_bias",)),
    "no_logprobs": Quirk(says="refuses logprobs and top_logprobs", drop=("logprobs", "top_logprobs")),
    "no_user": Quirk(says="refuses user", drop=("user",)),
    "random_seed": Quirk(says="knows seed as random_seed", rename={"seed": "random_seed"}),
    "no_metadata": Quirk(says="refuses metadata and store", drop=("metadata", "store"), silent=True),
}


def lists(words: Iterable[str]) -> bool:
    """An upstream with these quirks has a list of models."""
    return all(QUIRKS[word].lists for word in words)


def bend(outgoing: Outgoing, words: Iterable[str]) -> Outgoing:
    """The request as an upstream with these quirks takes it.  Raises `KeyError` for a word that is no quirk."""
    quirks = [QUIRKS[word] for word in words]
    if not quirks or not any(_key(name) in outgoing.body for quirk in quirks for name in (*quirk.drop, *quirk.rename)):
        return outgoing
    fields = json.fields(outgoing.body)
    losses = list(outgoing.losses)
    touched = False
    for quirk in quirks:
        for name in quirk.drop:
            if fields.pop(name, None) is not None:
                touched = True
                if not quirk.silent:
                    losses.append(name)
        for old, new in quirk.rename.items():
            value = fields.pop(old, None)
            if value is not None:
                touched = True
                fields.setdefault(new, value)
    if not touched:
        return outgoing
    return msgspec.structs.replace(outgoing, body=json.encode(fields), losses=tuple(dict.fromkeys(losses)))


def _key(name: str) -> bytes:
    return b'"' + name.encode() + b'"'
