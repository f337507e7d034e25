"""A configuration is whole and checked, or every fault in it is named with file, line and key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from rivermouth.config import Config, ConfigError, default_model_doubt, load, override, parse
from rivermouth.config.schema import ConfigFile
from rivermouth.config.values import Duration
from tests.engine.tls import self_signed

DIALECTS = frozenset({"openai_chat", "anthropic", "ollama"})

DOCUMENTED = """\
data_dir = "data"
[server]
host = "127.0.0.1"
port = 8080
keys = ["env:RIVERMOUTH_KEY"]
default_model = "gpt-x"
[providers.openai]
api_key = "env:OPENAI_API_KEY"
[providers.lab]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9101/v1/"
api_key = "env:LAB_KEY"
ca_file = "certs/lab.pem"
headers = { x-team = "env:LAB_KEY" }
quirks = ["no_seed"]
[providers.lab.timeouts]
first_token_s = 20
[providers.mybot]
python = "mypackage.bot:stream"
[endpoints.lab-eu]
provider = "lab"
model = "gpt-x-2026"
region = "eu-west"
sovereignty = "eu-resident"
retention = "none"
price = { input = 2.5, output = 10.0, currency = "EUR", per = 1_000_000 }
[models.gpt-x]
endpoints = ["lab-eu", "openai/gpt-x", "local/smollm2:135m"]
[resilience]
retries = 2
cooldown = true
[timeouts]
connect_s = 10
first_token_s = 60
idle_s = 60
total_s = 600
[http]
allowed_hosts = ["models.example.org"]
base_path = "/llm"
[routing_block]
key = "llmeu"
send = "always"
[openai]
role = "every"
[gemini]
finish_reason = "every"
[records]
text = "none"
[local]
keep_alive = "1h30m"
chat_template = false
devices = ["NPU", "GPU.1", "CPU"]
npu_prompt_tokens = 900
max_waiting = 0
wait_s = 0
"""
ENVIRON = {"RIVERMOUTH_KEY": "rk-1234567890", "OPENAI_API_KEY": "sk-1234567890", "LAB_KEY": "lab-1234567890"}


def problems(text: str, environ: dict[str, str] | None = None) -> list[str]:
    """What is wrong with this text, as it is shown."""
    with pytest.raises(ConfigError) as caught:
        parse(text, "rivermouth.toml", environ or {}, DIALECTS)
    return [str(p) for p in caught.value.problems]


def test_the_documented_file_loads(tmp_path: Path):
    file = tmp_path / "rivermouth.toml"
    file.write_text(DOCUMENTED)
    (tmp_path / "certs").mkdir()
    self_signed(tmp_path)[0].rename(tmp_path / "certs/lab.pem")
    config = load(file, ENVIRON, DIALECTS)
    lab = config.providers["lab"]
    assert list(config.providers) == ["openai", "lab", "mybot"]
    assert (lab.dialect, lab.base_url, lab.timeouts.first_token_s) == ("openai_chat", "http://127.0.0.1:9101/v1", 20)
    assert lab.api_key is not None
    assert (lab.api_key.reveal(), lab.api_key.label) == ("lab-1234567890", "LAB_KEY")
    assert lab.headers["x-team"].reveal() == "lab-1234567890"
    assert lab.ca_file == str(tmp_path / "certs/lab.pem")
    assert lab.quirks == {"no_seed", "max_tokens"}
    assert config.data_dir == str(tmp_path / "data")
    assert config.server.keys[0].matches("rk-1234567890")
    assert config.default_model == "gpt-x"
    assert config.models["gpt-x"].endpoints == ("lab-eu", "openai/gpt-x", "local/smollm2:135m")
    assert config.endpoints["lab-eu"].price is not None
    assert config.endpoints["lab-eu"].price.cost(1_000_000, 100_000) == 3.5
    assert (config.local.keep_alive, config.local.chat_template) == (5400, False)
    assert (config.local.devices, config.local.npu_prompt_tokens) == (("NPU", "GPU.1", "CPU"), 900)
    assert (config.local.max_waiting, config.local.wait_s) == (0, 0)
    assert config.openai.role == "every"
    assert config.gemini.finish_reason == "every"


def test_an_authority_that_cannot_be_used_is_a_fault_of_its_line(tmp_path: Path):
    file = tmp_path / "rivermouth.toml"
    file.write_text(DOCUMENTED)
    authority = tmp_path / "certs/lab.pem"
    place = f"{file}:13: providers.lab.ca_file: {authority}"
    with pytest.raises(ConfigError) as caught:
        load(file, ENVIRON, DIALECTS)
    assert str(caught.value) == f"{place} cannot be read: No such file or directory"
    authority.parent.mkdir()
    authority.write_text("no PEM")
    with pytest.raises(ConfigError) as caught:
        load(file, ENVIRON, DIALECTS)
    assert str(caught.value) == f"{place} holds no certificate in PEM"


def test_without_a_file_everything_has_its_default():
    config = load(None, {}, DIALECTS)
    assert config == Config()
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8080)
    assert (config.timeouts.hold_s, config.timeouts.drain_s) == (15, 10)
    assert config.http.body_limit_bytes == 32 * 1024 * 1024


@pytest.mark.fault("F36")
def test_no_secret_is_shown_by_a_config_or_its_errors():
    config = parse(DOCUMENTED, "f", ENVIRON, DIALECTS)
    shown = repr(config) + "".join(problems(DOCUMENTED + "[nope]\n", ENVIRON))
    assert not any(value in shown for value in ENVIRON.values())
    assert {s.reveal() for s in config.secrets} == set(ENVIRON.values())


FAULTS = {
    "misspelt key": ("[server]\nprot = 1", "rivermouth.toml:2: server.prot: unknown key; did you mean port?"),
    "misspelt table": ("[sevrer]", "rivermouth.toml:1: sevrer: unknown key; did you mean server?"),
    "nothing near": ("[server]\nzzz = 1", "rivermouth.toml:2: server.zzz: unknown key"),
    "wrong type": ('[server]\nport = "80"', "rivermouth.toml:2: server.port: expected integer, got string"),
    "out of range": ("[server]\nport = 99999", "rivermouth.toml:2: server.port: expected integer <= 65535"),
    "table wanted": ("server = 1", "rivermouth.toml:1: server: expected a table, got integer"),
    "in an array": ('[server]\nkeys = [\n "a",\n 1]', "rivermouth.toml:4: server.keys[1]: expected a string"),
    "a word": (
        '[routing_block]\nsend = "no"',
        'rivermouth.toml:2: routing_block.send: expected one of "always", "policy", "never"',
    ),
    "missing key": ('[endpoints.a]\nmodel = "m"', "rivermouth.toml:1: endpoints.a: the key provider is missing"),
    "inline table": (
        '[providers.l]\ndialect="ollama"\nbase_url="http://x"\ntimeouts={ idle = 1 }',
        "rivermouth.toml:4: providers.l.timeouts.idle: unknown key; did you mean idle_s?",
    ),
    "quoted name": (
        '[models."a.b"]\nendpoints = []',
        'rivermouth.toml:2: models."a.b".endpoints: expected array of length >= 1',
    ),
    "no such policy of a model": (
        '[models.m]\nendpoints = ["local/m"]\npolicy = "eu"\n[policies.eu1]',
        "rivermouth.toml:3: models.m.policy: no policy is called eu; did you mean eu1?",
    ),
    "no such policy of a key": (
        '[keys.ci]\nkey = "k"\npolicy = "eu"',
        "rivermouth.toml:3: keys.ci.policy: no policy is called eu",
    ),
    "no such policy of the server": (
        '[server]\npolicy = "eu"',
        "rivermouth.toml:2: server.policy: no policy is called eu",
    ),
    "a class that has no order": (
        '[policies.eu]\nsovereignty_min = "own"',
        (
            "rivermouth.toml:2: policies.eu.sovereignty_min: "
            "sovereignty.classes, which says the order of the classes, is not set"
        ),
    ),
    "a class that is none": (
        '[sovereignty]\nclasses = ["own", "eu"]\n[endpoints.a]\nprovider = "local"\nmodel = "m"\nsovereignty = "eu-1"',
        "rivermouth.toml:6: endpoints.a.sovereignty: eu-1 is not among sovereignty.classes; did you mean eu?",
    ),
    "a retention that is no time": (
        '[policies.eu]\nretention_max = "soon"',
        'rivermouth.toml:2: policies.eu.retention_max: must be "none" or a time as in "30d"',
    ),
    "a weight of what is no endpoint of the model": (
        '[models.m]\nendpoints = ["local/m"]\nweights = { "local/n" = 2 }',
        'rivermouth.toml:3: models.m.weights."local/n": not one of its endpoints; did you mean local/m?',
    ),
    "unset variable": (
        '[server]\nkeys = ["env:NOPE"]',
        "rivermouth.toml:2: server.keys[0]: the environment variable NOPE is not set",
    ),
    "empty secret": ('[server]\nkeys = [""]', "rivermouth.toml:2: server.keys[0]: is empty"),
    "no duration": (
        '[local]\nkeep_alive = "5 min"',
        "rivermouth.toml:2: local.keep_alive: expected a duration as in 300 or '5m', got '5 min'",
    ),
    "no device": (
        '[local]\ndevices = ["CPU", "TPU"]',
        "rivermouth.toml:2: local.devices[1]: must be NPU, GPU or CPU, or one of several as in GPU.1",
    ),
    "preset without a key": (
        "[providers.kimi]",
        "rivermouth.toml:1: providers.kimi: needs api_key, or KIMI_API_KEY or MOONSHOT_API_KEY in the environment",
    ),
    "unknown dialect": (
        '[providers.l]\ndialect = "openai_caht"\nbase_url = "http://x"',
        (
            "rivermouth.toml:2: providers.l.dialect: unknown dialect; did you mean openai_chat? "
            "(there are: anthropic, ollama, openai_chat)"
        ),
    ),
    "no address": (
        '[providers.l]\ndialect = "ollama"',
        "rivermouth.toml:1: providers.l: not a preset, so it needs base_url (or python)",
    ),
    "not an address": (
        '[providers.l]\ndialect = "ollama"\nbase_url = "x:1"',
        "rivermouth.toml:3: providers.l.base_url: must begin with http:// or https://, and a host",
    ),
    "a host with a scheme": (
        '[http]\nallowed_hosts = ["a.example", "https://b.example"]',
        (
            "rivermouth.toml:2: http.allowed_hosts[1]: must be a name alone, without scheme, port and path: "
            '"example.org"'
        ),
    ),
    "an origin without a scheme": (
        '[http]\nallowed_origins = ["b.example"]',
        (
            "rivermouth.toml:2: http.allowed_origins[0]: must be an origin as in "
            '"https://example.org", without a path; or "http://host:*", "scheme://*", "*"'
        ),
    ),
    "reserved name": ('[providers.local]\npython = "a:b"', "rivermouth.toml:1: providers.local: this name is taken"),
    "python and more": (
        '[providers.b]\npython = "a:b"\ndialect = "ollama"',
        "rivermouth.toml:3: providers.b.dialect: a python provider has none",
    ),
    "unknown quirk": (
        '[providers.b]\npython = "a:b"\nquirks = ["no_sed"]',
        "rivermouth.toml:3: providers.b.quirks[0]: unknown quirk; did you mean no_seed?",
    ),
    "endpoint at nobody": (
        '[endpoints.a]\nprovider = "nobody"\nmodel = "m"',
        "rivermouth.toml:2: endpoints.a.provider: no provider is called nobody",
    ),
    "endpoint at a disabled one": (
        '[providers.b]\npython = "a:b"\nenabled = false\n[endpoints.a]\nprovider = "b"\nmodel = "m"',
        "rivermouth.toml:5: endpoints.a.provider: the provider b is disabled",
    ),
    "endpoint id with a slash": (
        '[endpoints."a/b"]\nprovider = "local"\nmodel = "m"',
        "rivermouth.toml:1: endpoints.\"a/b\": an endpoint's id has no '/': that is provider/model",
    ),
    "model at a preset without a key": (
        '[models.m]\nendpoints = [\n"groq/x"]',
        (
            "rivermouth.toml:3: models.m.endpoints[0]: the provider groq is not switched on: "
            "it needs [providers.groq] or GROQ_API_KEY"
        ),
    ),
    "model at no endpoint": (
        '[endpoints.lab-eu]\nprovider="local"\nmodel="m"\n[models.m]\nendpoints = ["lab-e"]',
        "rivermouth.toml:5: models.m.endpoints[0]: no such endpoint; did you mean lab-eu?",
    ),
    "a password in an address": (
        '[providers.b]\ndialect = "openai_chat"\nbase_url = "http://me:secret@lab.example/v1"',
        "rivermouth.toml:3: providers.b.base_url: credentials do not belong in an address: use api_key or headers",
    ),
    "open to all": (
        '[server]\nhost = "0.0.0.0"',
        (
            "rivermouth.toml:2: server.host: 0.0.0.0 can be reached from other machines and no key is asked for: "
            "set server.keys or server.require_keys, or server.allow_open = true to leave it open to all"
        ),
    ),
    "syntax": ("[server\nport = 1", "rivermouth.toml:1: expected ']' at the end of a table declaration"),
    "syntax at the end": ('a = "', "rivermouth.toml:1: unterminated string"),
    "twice": ("a = 1\na = 2", "rivermouth.toml:2: cannot overwrite a value"),
}


@pytest.mark.parametrize(("text", "want"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_named_with_its_line_and_key(text, want):
    assert problems(text) == [want]


def test_all_faults_of_a_file_are_reported_together_in_the_order_of_lines():
    found = problems('[sevrer]\n[server]\nport = "x"\nhots = 1\n[local]\nmax_models = 0\n')
    assert [p.split(":")[1] for p in found] == ["1", "3", "4", "6"]


def test_a_file_that_is_not_there_or_not_text_is_a_problem(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "nope.toml", {}, DIALECTS)
    (tmp_path / "latin.toml").write_bytes(b'a = 1\nb = "\xe9"\n')
    with pytest.raises(ConfigError, match=r"latin\.toml:2: not UTF-8"):
        load(tmp_path / "latin.toml", {}, DIALECTS)


OPEN_OR_NOT = [
    ('host = "127.0.0.1"', True),
    ('host = "localhost"', True),
    ('host = "::1"', True),
    ('host = "127.8.8.8"', True),
    ('host = "0.0.0.0"', False),
    ('host = "::"', False),
    ('host = "192.168.1.2"', False),
    ('host = "example.org"', False),
    ('host = "0.0.0.0"\nallow_open = true', True),
    ('host = "0.0.0.0"\nkeys = ["k-123456"]', True),
]


@pytest.mark.parametrize(("server", "starts"), OPEN_OR_NOT)
def test_an_open_server_starts_on_loopback_only(server, starts):
    text = f"[server]\n{server}\n"
    if starts:
        parse(text, "f", {}, DIALECTS)
    else:
        assert "server.host" in problems(text)[0]


def test_the_command_line_cannot_open_it_either():
    with pytest.raises(ConfigError, match="command line: --host"):
        override(Config(), host="0.0.0.0")
    with pytest.raises(ConfigError, match="command line: --also"):
        override(Config(), host="0.0.0.0", option="--also")
    assert override(Config(), port=9).server.port == 9


DURATIONS = [(300, 300), (1.5, 1.5), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("-1", -1), ("-5m", -300), ("0", 0)]


@pytest.mark.parametrize(("said", "seconds"), DURATIONS)
def test_durations_are_read_as_ollama_writes_them(said, seconds):
    assert Duration.parse(said) == seconds


def constraints(of: object) -> Iterator[msgspec.Meta]:
    """Every one in a type of the schema, however deep."""
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        for field in msgspec.structs.fields(of):
            yield from constraints(field.type)
    yield from (c for c in getattr(of, "__metadata__", ()) if isinstance(c, msgspec.Meta))
    for inner in get_args(of):
        yield from constraints(inner)


def test_no_fault_shows_a_regular_expression():
    patterns = [c for c in constraints(ConfigFile) if c.pattern is not None]
    assert len(patterns) > 5
    assert [c.pattern for c in patterns if not (c.description or "").startswith("must ")] == []


HOSTS = {
    "example.org": True,
    "[::1]": True,
    "192.168.1.2": True,
    "a_b.internal": True,
    "https://example.org": False,
    "example.org:8080": False,
    "example.org/llm": False,
    "*.example.org": False,
    "::1": False,
}
ORIGINS = {
    "https://example.org": True,
    "https://example.org/": True,
    "http://localhost:*": True,
    "http://[::1]:3000": True,
    "app://*": True,
    "vscode-webview://abc": True,
    "*": True,
    "null": True,
    "example.org": False,
    "example.org:*": False,
    "https://example.org/page": False,
    "https://*.example.org": False,
    "https://": False,
}


@pytest.mark.parametrize(
    ("key", "value", "fits"),
    [*(("allowed_hosts", v, f) for v, f in HOSTS.items()), *(("allowed_origins", v, f) for v, f in ORIGINS.items())],
)
def test_a_name_that_no_request_could_fit_is_refused(key, value, fits):
    text = f"[http]\n{key} = ['{value}']\n"
    if fits:
        assert getattr(parse(text, "f", {}, DIALECTS).http, key) == (value,)
    else:
        assert f"http.{key}[0]: must be" in problems(text)[0]


BOT = '[providers.bot]\npython = "a:b"\n[models.mine]\nendpoints = ["bot/x"]\n'
DEFAULTS = [
    ("", "m:latest", None),
    ("", "m", None),
    ("", "scripted/x", None),
    ("", "mm:latest", "nothing here is called mm:latest; did you mean m:latest?"),
    ("", "bto/x", "nothing here is called bto/x"),
    (BOT, "mine", None),
    (BOT, "bot/x", None),
    (BOT, "x", None),  # the provider may list it
    (BOT, "bto/x", "nothing here is called bto/x, unless a provider lists it"),
]


@pytest.mark.parametrize(("text", "name", "doubt"), DEFAULTS)
def test_a_default_model_that_is_nowhere_is_doubted(text, name, doubt):
    config = parse(f'[server]\ndefault_model = "{name}"\n{text}', "f", {}, DIALECTS)
    said = default_model_doubt(config, ["m:latest"])
    assert said == (f"server.default_model: {doubt}" if doubt else None)
    assert default_model_doubt(Config(), []) is None


def test_config_and_file_say_the_same_keys():
    """A table of the file that `Config` did not carry on would be read and ignored."""
    assert set(ConfigFile.__struct_fields__) == set(Config.__struct_fields__) - {"file"}
    for name in ConfigFile.__struct_fields__:
        if name not in ("providers", "data_dir"):
            types = [{f.name: f.type for f in msgspec.structs.fields(s)}[name] for s in (ConfigFile, Config)]
            assert types[0] == types[1]


@pytest.mark.parametrize(
    ("quirks", "expected"),
    [("", {"max_tokens"}), ('quirks = ["max_completion_tokens"]', {"max_completion_tokens"})],
)
def test_a_server_that_speaks_openais_dialect_gets_the_name_of_the_limit_that_all_know(
    quirks: str, expected: set[str]
) -> None:
    text = f'[providers.lab]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:1/v1"\n{quirks}'
    config = parse(text, "x.toml", {}, frozenset({"openai_chat"}))
    assert config.providers["lab"].quirks == expected


ASKS_SCRIPTED = """
[endpoints.canned]
provider = "scripted"
model = "scripted"

[models.writer]
endpoints = ["canned", "scripted/scripted-slow", "local/x"]
"""


def test_who_asks_the_scripted_models_needs_a_server_that_has_them(tmp_path: Path):
    file = tmp_path / "rivermouth.toml"
    file.write_text(ASKS_SCRIPTED, encoding="utf-8")
    assert load(file, {}, DIALECTS).models["writer"].endpoints[0] == "canned"
    with pytest.raises(ConfigError) as caught:
        load(file, {}, DIALECTS, scripted=False)
    assert [(p.line, p.key) for p in caught.value.problems] == [
        (3, "endpoints.canned.provider"),
        (7, "models.writer.endpoints[1]"),
    ]
    assert "rivermouth serve --scripted" in str(caught.value)
