"""Writes docs/reference.md, and the tables in docs/dialects/, from the code: `python -m docs.generate`.

A test compares, so the pages cannot drift.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
import typer
from docs.chat_page import PAGE as CHAT_PAGE
from docs.chat_page import generate_chat
from docs.dialect_pages import code, generate_pages, key_place, page_of, rows

from rivermouth.cli.app import app
from rivermouth.cli.term import MEANINGS
from rivermouth.config.presets import PRESETS
from rivermouth.config.schema import ConfigFile, Table
from rivermouth.dialects import discover
from rivermouth.http.api.health import platform
from rivermouth.http.api.platform.app import OPEN, SUBJECTS
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.app import OPEN_PATHS
from rivermouth.http.lifecycle import Lifecycle
from rivermouth.ir.errors import ADVICE, Kind
from rivermouth.ir.grammar import DELTAS, STREAM
from rivermouth.local.machine.places import Queue
from rivermouth.observe import Metrics
from rivermouth.observe.backlog import BacklogStatistics
from rivermouth.observe.call_lines import FIELDS
from rivermouth.observe.span_attributes import ATTEMPT, CALL
from rivermouth.providers.quirks import QUIRKS
from rivermouth.providers.scripted import PERSONAS
from rivermouth.providers.scripted.embedding import DIMENSIONS
from rivermouth.providers.scripted.script import Persona
from rivermouth.secrets import Secret
from rivermouth.store.port import AttemptRecord, CallRecord, Outcome, Status

PAGE = Path(__file__).parent / "reference.md"

HEAD = """# Reference

This page is written by `make docs` from the code. [configuration.md](configuration.md) shows how to use the settings,
[troubleshooting.md](troubleshooting.md) what to do about an error.
"""

HEADERS: Final[dict[str, tuple[str, str]]] = {
    "x-request-id": ("all", "The id of the call, made here. `rivermouth calls show ID` tells what happened."),
    "request-id": ("all", "The same, for SDKs that look for this name."),
    "x-amzn-requestid": ("all", "The same again."),
    "x-client-request-id": ("all", "The `X-Request-ID` that the client sent, if it was short and printable."),
    "content-type": ("all", "As the dialect has it; neither the upstream nor `Accept` has a say."),
    "content-length": ("whole answers", "Bytes of the body."),
    "x-amzn-bedrock-content-type": ("streams of Bedrock", "`application/json`: what its frames hold."),
    "cache-control": (
        "streams, files of the page",
        "`no-cache, no-transform`; a file whose name has its digest is kept for ever, any other asked for again.",
    ),
    "x-accel-buffering": ("streams", "`no`: reverse proxies are asked not to hold frames back."),
    "connection": ("streams", "`keep-alive`; `close` on refusals while the server stops."),
    "x-rivermouth-ignored": ("answers", "Fields of the request that the model could not be given."),
    "x-rivermouth-resume": ("resumable calls", "The address of the call's answer. See [resume.md](resume.md)."),
    "x-rivermouth-resume-length": ("HEAD of that address", "How many bytes of the answer there are so far."),
    "x-rivermouth-resume-complete": ("HEAD of that address", "`true`: these are all; else `false`."),
    "x-npu-proxy-device": ("the local engine", "The device that made the answer, as in `CPU` or `GPU.1`."),
    "x-npu-proxy-execution-device": ("the local engine", "The same."),
    "x-npu-proxy-routed-device": (
        "the local engine",
        "The class that the router chose: `NPU`, `GPU`, `CPU`.",
    ),
    "x-npu-proxy-fallback-reason": (
        "the local engine",
        "Only where another one made it: `busy`, or `device_fallback` (not here, cannot load it, or too long for it).",
    ),
    "x-npu-proxy-route-reason": ("the local engine", "`single_engine_runtime`."),
    "x-npu-proxy-context-reason": (
        "the local engine",
        "`within_npu_limit` or `prompt_exceeds_npu_limit`, by `local.npu_prompt_tokens`.",
    ),
    "x-npu-proxy-token-count": ("the local engine", "Tokens of the prompt, as the engine counted them."),
    "retry-after": ("errors", "Whole seconds until another try makes sense, where that is known."),
    "x-ratelimit-limit-requests": ("OpenAI, a key with limits", "Calls that the key may begin in a minute."),
    "x-ratelimit-remaining-requests": ("OpenAI, a key with limits", "How many of them are left."),
    "x-ratelimit-reset-requests": ("OpenAI, a key with limits", "When all of them are there again, as in `17s`."),
    "x-ratelimit-limit-tokens": ("OpenAI, a key with limits", "Tokens that the key may have in a minute."),
    "x-ratelimit-remaining-tokens": ("OpenAI, a key with limits", "How many of them are left."),
    "x-ratelimit-reset-tokens": ("OpenAI, a key with limits", "When all of them are there again, as in `1m1s`."),
    "anthropic-ratelimit-requests-limit": ("Anthropic, a key with limits", "Calls that the key may begin in a minute."),
    "anthropic-ratelimit-requests-remaining": ("Anthropic, a key with limits", "How many of them are left."),
    "anthropic-ratelimit-requests-reset": (
        "Anthropic, a key with limits",
        "The moment at which all of them are there again, in RFC 3339.",
    ),
    "anthropic-ratelimit-tokens-limit": ("Anthropic, a key with limits", "Tokens that the key may have in a minute."),
    "anthropic-ratelimit-tokens-remaining": ("Anthropic, a key with limits", "How many of them are left."),
    "anthropic-ratelimit-tokens-reset": (
        "Anthropic, a key with limits",
        "The moment at which all of them are there again, in RFC 3339.",
    ),
    "x-should-retry": ("errors of OpenAI and Anthropic", "`true` or `false`, for their SDKs."),
    "x-amzn-errortype": ("errors of Bedrock", "The name of the exception that its SDK raises."),
    "location": ("`/stream` of a chat", "Where the chat can be followed."),
    "content-encoding": ("files of the page", "`gzip`, where the browser takes it and it is smaller."),
    "etag": ("files of the page", "What a browser asks with whether it has changed."),
    "content-security-policy": (
        "files of the page",
        "Scripts, styles and connections of this server alone, nothing inline.",
    ),
    "x-content-type-options": ("files of the page", "`nosniff`."),
    "x-frame-options": ("files of the page", "`DENY`, for browsers that do not know the policy."),
    "referrer-policy": ("files of the page", "`no-referrer`."),
    "cross-origin-opener-policy": ("files of the page", "`same-origin`."),
    "cross-origin-resource-policy": ("files of the page", "`same-origin`."),
    "permissions-policy": ("files of the page", "No camera, microphone, location or payment."),
    "allow": ("405", "The methods that the path has."),
    "vary": ("allowed origins, files of the page", "`origin`; `accept, accept-encoding`."),
    "access-control-allow-origin": ("allowed origins", "The origin that asked."),
    "access-control-allow-methods": ("allowed origins", "The methods that are served."),
    "access-control-allow-headers": ("allowed origins", "Those that the preflight asked for."),
    "access-control-expose-headers": ("allowed origins", "The headers of this table that a page may read."),
    "access-control-max-age": ("allowed origins", "Seconds for which a preflight holds."),
}
"""Header -> on which answers, and what it says."""

ENVIRONMENT: Final[dict[str, str]] = {
    "RIVERMOUTH_DATA": "Where models and records are kept. `--data-dir` wins over it, it wins over `data_dir`.",
    "RIVERMOUTH_API_KEY": "The key with which `chat` and `ps` call a server.",
    "XDG_DATA_HOME": "Where the data directory is, on Linux, when nothing else says so.",
    "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY": (
        "The proxy on the way to providers, in either case. One on this machine is always called directly."
    ),
    "SSL_CERT_FILE, SSL_CERT_DIR": "The authorities that are trusted, in place of the system's.",
    "HF_TOKEN": "The token for gated and private repositories of the hub; shown to the hub and to nobody else.",
    "HF_ENDPOINT": "Another hub than huggingface.co, as in `https://hub.example`.",
    "AI_STREAM_TIMEOUT": "Seconds for the whole of a chat's answer, where `chat.total_s` does not say.",
    "AI_STREAM_IDLE_TIMEOUT": "Seconds for each piece of it, where `chat.idle_s` does not say.",
    "OTEL_TRACES_EXPORTER": "`otlp`: traces are on, where the file does not say and the extra `otel` is installed.",
    "OTEL_SDK_DISABLED": "`true`: traces are off, whatever the file says.",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL": "`http/protobuf`; no other is spoken.",
    "OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS": (
        "Where the collector of traces is, and what else it is sent; as all variables of OpenTelemetry's SDK and of its"
        " exporter over HTTP."
    ),
    "OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG": "Which calls are traced: all, unless their client's trace is not.",
    "OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES": "What spans say of this service; `rivermouth` is its name.",
    "OTEL_BSP_MAX_QUEUE_SIZE": "How many ended calls may wait to be exported, 2048; the next one is dropped.",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "How many of them are exported at once, 512.",
    "OTEL_BSP_SCHEDULE_DELAY": "How long the first of them waits for others, 5000 ms.",
    "NOTIFY_SOCKET": "Where a supervisor wants to be told of start, reload and stop, as systemd has it.",
    "NO_COLOR": "Set: the terminal gets no faint text.",
    "TERM": "`dumb`: the same.",
}
"""Variables that mean something, beside those of the presets and those that a file names as `env:NAME`."""


TRAITS: Final[dict[str, Callable[[Any], str]]] = {
    "thinks": lambda _: "reasons first, also without being asked to",
    "text_tokens": lambda count: f"says {count} tokens",
    "pause_s": lambda pause_s: f"waits {pause_s * 1000:.0f} ms before each token",
    "fails_after": lambda count: f"fails after {count} tokens, as an upstream would",
    "silent": lambda _: "ends cleanly without having said anything, which makes the call an error",
    "embeds": lambda _: f"gives vectors of {DIMENSIONS} dimensions, nearer each other when texts share words",
}
"""Field of `Persona` -> what a scripted model does where it is set.  One that is not here stops the page."""

PLAIN_PERSONA: Final = "quotes the last message"

CUES: Final[dict[str, str]] = {
    "tools are offered": "The first of them is called, with the smallest arguments that its schema allows.",
    "`tool_choice` names one": "That one is called. With `none`, none is.",
    'the last message has the word "both"': "The tool is called twice, unless parallel calls are switched off.",
    "tool results came last": "They are quoted, and nothing is called.",
    "reasoning is asked for": "It comes first, within its budget; where it is switched off, none comes.",
    "an answer in JSON is asked for": "With a schema the smallest document that it allows, else an object.",
    "stop sequences or a token limit": "The answer is cut there, and says so.",
    "several choices": "They take turns, token by token.",
    "images, files or sounds": "Their number is told.",
}
"""What in a request makes a scripted model do something, and what."""

# -- dialects


def dialects_page() -> list[str]:
    """One line for each, and the way to its own page."""
    says = "Each has a [page](dialects/index.md): its routes, what it carries, what it loses, how it fails."
    lines = ["## Dialects", "", says, ""]
    cells = (
        (
            f"[{name}]({page_of(dialect).relative_to(PAGE.parent).as_posix()})",
            ", ".join(code(surface.prefix) for surface in dialect.surfaces),
            ", ".join(code(kind) for kind in dict.fromkeys(surface.stream_type for surface in dialect.surfaces)),
            ", ".join(map(key_place, dialect.keys)),
        )
        for name, dialect in sorted(discover().items())
    )
    return lines + rows(("Dialect", "Mounted at", "Its streams", "A client's key"), cells)


def own_routes_page() -> list[str]:
    """The routes that belong to no dialect."""
    rest = platform(lifecycle=Lifecycle(), inflight=lambda: 0, metrics=bytes, version="")
    found = [h for route in rest.routes for h in getattr(route, "route_handlers", ())]
    handlers = [h for h in found if h.fn.__module__ == platform.__module__]
    desk = Desk(**dict.fromkeys(Desk.__struct_fields__))  # nobody is asked: only what they say of themselves counts
    handlers += [handler for subject in SUBJECTS for handler in subject.routes(desk)]
    lines = [
        "## Routes of the server itself",
        "",
        "What those under `/platform` answer is in [platform.md](platform.md).",
        "",
    ]
    cells = [
        (code(f"{method} {path.replace(':str}', '}')}"), " ".join((h.fn.__doc__ or "").split()), _asks_for_key(path))
        for h in handlers
        for path in sorted(h.paths)
        for method in [", ".join(sorted(h.http_methods - {"OPTIONS"}))]
    ]
    cells.append((code("GET /schema"), "The OpenAPI document of the routes outside `/platform`.", "yes"))
    cells.append(
        (code("GET, HEAD /resume/{call_id}"), "A call's answer from a byte on: [resume.md](resume.md).", "yes")
    )
    cells += [(code(f"GET {path}"), "The description of the routes under `/platform`.", "") for path in sorted(OPEN)]
    return lines + rows(("Route", "What it answers", "Asks for a key, if there are any"), sorted(cells))


def _asks_for_key(path: str) -> str:
    return "" if path in OPEN_PATHS else "yes"


def headers_page() -> list[str]:
    lines = [
        "## Headers of answers",
        "",
        "Of the dialects' routes, the chat's and the page's. They are made here: none of an upstream's passes.",
        "",
    ]
    return lines + rows(("Header", "On", "What it says"), ((code(name), *says) for name, says in HEADERS.items()))


# -- events and errors


def grammar_page() -> list[str]:
    lines = ["## The order of events", "", "A stream is one machine, and each of its parts another.", ""]
    lines += rows(
        ("State", "Event", "Next state"),
        ((before.value, code(event.__name__), after.value) for (before, event), after in STREAM.items()),
    )
    lines += rows(
        ("Part", "Its deltas"),
        (
            (kind.value, ", ".join(code(n) for n in sorted(d.__name__ for d in deltas)))
            for kind, deltas in DELTAS.items()
        ),
    )
    return lines


def errors_page() -> list[str]:
    lines = [
        "## Kinds of errors",
        "",
        "Each dialect has its own word for a kind; records, metrics and the CLI use these.",
        "",
    ]
    cells = ((code(kind.value), advice.status, "yes" if advice.retryable else "no") for kind, advice in ADVICE.items())
    return lines + rows(("Kind", "Status", "Can another try help?"), cells)


# -- settings


def type_name(of: Any) -> str:
    """How a setting's type is called on the page."""
    origin, arguments = get_origin(of), get_args(of)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is Literal:
        return " or ".join(f'`"{choice}"`' for choice in arguments)
    if origin in (tuple, list, frozenset):
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return f"table of {type_name(arguments[1])}"
    if arguments:
        return " or ".join(type_name(each) for each in arguments if each is not NoneType)
    plain = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        Secret: "secret, as in `env:NAME`",
    }
    return plain.get(of, getattr(of, "__name__", str(of)).lower())


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if value is None or value in ((), {}):
        return ""
    if isinstance(value, tuple | frozenset):
        return ", ".join(code(each) for each in value)
    words = {True: "true", False: "false"}
    return code(
        words[value]
        if isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else str(int(value) if value == int(value) else value)
    )


def inner_table(of: Any) -> tuple[type[Table], bool] | None:
    """The struct behind a field, and whether it is a table of named ones."""
    if isinstance(of, type) and issubclass(of, Table):
        return of, False
    for each in get_args(of):
        found = inner_table(each)
        if found:
            return found[0], get_origin(of) is dict or found[1]
    return None


def meanings(table: type[Table]) -> dict[str, str]:
    """What the string behind each field says of it, also where a table takes fields over from another."""
    (base,) = table.__bases__
    found = meanings(base) if base is not Table else {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(table))).body
    assert isinstance(definition, ast.ClassDef)
    for field, behind in pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(behind, ast.Expr):
            found[field.target.id] = " ".join(ast.literal_eval(behind.value).split())
    return found


def settings_of(table: type[Table], path: str) -> list[str]:
    plain, inner = [], []
    says = meanings(table)
    for field in msgspec.structs.fields(table):
        found = inner_table(field.type)
        if found:
            inner.append((found[0], f"{path}.{field.encode_name}" + (".NAME" if found[1] else "")))
        else:
            meaning = says.get(field.name, "")
            plain.append((code(field.encode_name), type_name(field.type), default_of(field), meaning))
    summary = " ".join((table.__doc__ or "").split())
    lines = [f"### `[{path.lstrip('.')}]`" if path else "### At the top of the file", "", summary, ""]
    lines += rows(("Key", "Value", "Default", "Meaning"), plain) if plain else []
    for inner_struct, inner_path in inner:
        lines += settings_of(inner_struct, inner_path)
    return lines


def settings_page() -> list[str]:
    lines = ["## Settings: `rivermouth.toml`", "", "A key that is not listed here is refused, with its line.", ""]
    return lines + settings_of(ConfigFile, "") + quirks_page() + presets_page() + environment_page()


def quirks_page() -> list[str]:
    lines = ["### Quirks", "", "Words for `[providers.NAME] quirks`.", ""]
    lines += rows(("Quirk", "The provider ..."), ((code(word), quirk.says) for word, quirk in QUIRKS.items()))
    lines[-1:] = [
        "",
        "One of your own that speaks openai_chat has `max_tokens`, unless one of the two names is listed.",
        "",
    ]
    return lines


def presets_page() -> list[str]:
    lines = ["### Presets", "", "Providers that need no more than a variable in the environment.", ""]
    cells = (
        (code(name), switched_on_by(name), preset.dialect, preset.base_url, ", ".join(map(code, sorted(preset.quirks))))
        for name, preset in PRESETS.items()
    )
    return lines + rows(("Provider", "Switched on by", "Dialect", "Address", "Quirks"), cells)


def switched_on_by(name: str) -> str:
    preset = PRESETS[name]
    if preset.only_by_file:
        return f"`[providers.{name}]` alone; the key may be in " + " or ".join(map(code, preset.keys))
    words = " or ".join(map(code, preset.keys or filter(None, (preset.address,))))
    return words + (f" with {' or '.join(map(code, preset.beside))}" if preset.beside else "")


def environment_page() -> list[str]:
    lines = [
        "## Environment variables",
        "",
        "A file may name any other one, as `env:NAME`, where it wants a secret.",
        "",
    ]
    own = [(", ".join(map(code, names.split(", "))), says) for names, says in ENVIRONMENT.items()]
    return lines + rows(("Variable", "What it does"), [*switches(), *own])


def switches() -> Iterator[tuple[str, str]]:
    """The variables that switch a preset on."""
    for name, preset in PRESETS.items():
        if preset.keys and not preset.only_by_file:
            others = len(preset.keys) > 1
            first = " The first that is set counts." if others else ""
            if preset.beside:
                first += f" Needs {' or '.join(map(code, preset.beside))} beside it."
            yield ", ".join(map(code, preset.keys)), f"Switches on the provider `{name}`, and is its key.{first}"
        if preset.needs_address:
            yield code(preset.address), f"Says where the provider `{name}` is, which needs its key beside it."
        elif preset.address:
            yield code(preset.address), f"Switches on the provider `{name}`, and says where it is."


# -- the scripted models


def scripted_page() -> list[str]:
    lines = [
        "## Scripted models",
        "",
        "`rivermouth serve --scripted` adds them. The same request gets the same words. A token: up to eight letters.",
        "",
    ]
    lines += rows(("Model", "What it does"), ((code(name), traits(persona)) for name, persona in PERSONAS.items()))
    lines += ["What is in the request decides the rest, for every one of them that says something.", ""]
    return lines + rows(("In a request", "What comes of it"), CUES.items())


def traits(persona: Persona) -> str:
    """What makes it another than the plain one."""
    plain = Persona()
    names = [name for name in Persona.__struct_fields__ if getattr(persona, name) != getattr(plain, name)]
    return ", ".join(TRAITS[name](getattr(persona, name)) for name in names) or PLAIN_PERSONA


# -- the command line and the metrics


def commands_page() -> list[str]:
    lines = ["## Command line", ""]
    for words, command in sorted(walk(typer.main.get_command(app), "rivermouth")):
        lines += [f"### `{words}`", "", " ".join((command.help or "").split()), ""]
        options = [each for each in command.params if "--help" not in each.opts]
        cells = ((option_name(each), getattr(each, "help", None) or "") for each in options)
        lines += rows(("Option or argument", "What it is"), cells) if options else []
    lines += ["### Exit codes", ""]
    return lines + rows(("Code", "Meaning"), ((exit_code.value, means) for exit_code, means in MEANINGS.items()))


def option_name(option: Any) -> str:
    """`--config`, or `MODEL` for an argument."""
    if option.opts[0].startswith("-"):
        return code(", ".join(option.opts))
    return code(option.metavar or option.name.upper())


def walk(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """Every command below this one that can be run, with the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None or (command.invoke_without_command and not command.no_args_is_help):
        yield words, command
    for name, each in (inner or {}).items():
        if not each.hidden:
            yield from walk(each, f"{words} {name}")


def metrics_page() -> list[str]:
    metrics = Metrics(process=False)
    metrics.ended(EVERYTHING)  # labels show only where something was counted
    metrics.queues_from(lambda: (Queue(model="", device="CPU", slots=1, active=0, waiting=()),))
    metrics.backlog_from("records", lambda: BacklogStatistics(0, 0, 0))
    metrics.spans_from(lambda: {"exported": 0})
    metrics.chat.ended("completed")
    text = metrics.render().decode("utf-8")
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    labels = dict(re.findall(r"^(\w+?)(?:_bucket|_created)?\{(.*)\} ", text, re.MULTILINE))
    lines = [
        "## Metrics",
        "",
        "`GET /metrics`, in the text format of Prometheus. Models and providers that are not configured are `other`.",
        "",
    ]
    cells = (
        (code(name), kinds[name], ", ".join(map(code, label_names(labels.get(name, "")))), says)
        for name, says in re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE)
        if not name.endswith("_created")
    )
    return lines + rows(("Metric", "Kind", "Labels", "What it counts"), cells)


def telemetry_page() -> list[str]:
    """What the log says of a call, and what its spans do."""
    lines = ["## The line of a call", "", "`call.ended` in the log; what is not known is left out.", ""]
    lines += [", ".join(map(code, FIELDS)) + ".", ""]
    lines += ["## Attributes of spans", "", "No prompt, no answer and no message is among them.", ""]
    cells = (("A call", CALL), ("An attempt", (*ATTEMPT, "server.address", "server.port")))
    return lines + rows(("Span", "Attributes"), ((span, ", ".join(map(code, names))) for span, names in cells))


def label_names(labels: str) -> list[str]:
    """The names in `a="1",le="2"`; a histogram's own `le` is not one of ours."""
    return [name for name in re.findall(r"(\w+)=", labels) if name != "le"]


EVERYTHING: Final = CallRecord(
    id="",
    started_ns=0,
    operation="generate",
    dialect="openai_chat",
    surface="/v1",
    model_asked="",
    status=Status.FAILED,
    kind=Kind.INTERNAL,
    stream=True,
    input_tokens=1,
    output_tokens=1,
    chunks=2,
    first_token_ns=1,
    ended_ns=2,
    price_nano=1,
    price_currency="EUR",
    attempts=tuple(
        AttemptRecord(number=number, endpoint_id=name, provider="", model="", outcome=Outcome.FAILED)
        for number, name in enumerate(("one", "one", "other"), 1)
    ),
)
"""A call that touches every metric."""


def generate() -> str:
    """The whole page."""
    lines = [HEAD, *dialects_page(), *own_routes_page(), *headers_page(), *grammar_page(), *errors_page()]
    lines += settings_page() + scripted_page() + commands_page() + metrics_page() + telemetry_page()
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    chat = generate_chat(CHAT_PAGE.read_text(encoding="utf-8"))
    for path, text in {PAGE: generate(), CHAT_PAGE: chat, **generate_pages()}.items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {path.relative_to(PAGE.parent)}\n")
