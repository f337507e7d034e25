"""`rivermouth.toml` and the environment to a `Config`, or to a list of everything that is wrong with them.

Reading the file, and the authorities and secrets that it names, is the only I/O.  A file that cannot be used changes
nothing: the caller keeps the `Config` it has.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from rivermouth.config import check, network, telemetry
from rivermouth.config.complete import Config
from rivermouth.config.lines import key_lines
from rivermouth.config.problems import ConfigError, KeyPath, Problem, dotted
from rivermouth.config.schema import ConfigFile
from rivermouth.config.shape import Fault, faults, secrets_from

_AT_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)$")


def load(
    path: Path | str | None,
    environ: Mapping[str, str],
    dialects: frozenset[str],
    *,
    port: int | None = None,
    scripted: bool = True,
) -> Config:
    """The configuration of this file (None: of no file) and this environment.  Raises `ConfigError`.

    `dialects` are the names a provider may speak.  Relative paths in it are beside the file.  `port` is
    where the server will listen, if not at the file's: what the environment switches on there would be the server.
    `scripted`: it may be that of a server that has the scripted models.
    """
    if path is None:
        return parse("", "", environ, dialects, port=port)
    name = str(path)
    try:
        text = Path(path).read_bytes().decode()
    except OSError as error:
        raise ConfigError([Problem(name, 0, "", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError([Problem(name, line, "", "not UTF-8")]) from None
    config = parse(text, name, environ, dialects, port=port)
    config = _anchored(config, Path(path).absolute().parent)
    wrong = [*_untrusted(config), *_unsigned(config), *(() if scripted else check.scripted_asked(config))]
    if wrong:
        raise ConfigError(_problems(wrong, name, text))
    return config


def remains(path: Path | str | None) -> Config | None:
    """What a file that cannot be used still says of where its server is: the data directory.

    None where not even that can be known, because the file cannot be read as TOML.
    """
    if path is None:
        return Config()
    try:
        tree = tomllib.loads(Path(path).read_bytes().decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None
    said = tree.get("data_dir")
    place = _beside(Path(path).absolute().parent, said) if isinstance(said, str) and said else None
    return Config(data_dir=place, file=str(path))


def parse(
    text: str, name: str, environ: Mapping[str, str], dialects: frozenset[str], *, port: int | None = None
) -> Config:
    """The configuration that this text says.  Raises `ConfigError`, naming the text `name`."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax(error, name, text)]) from None
    hook = secrets_from(environ, Path(name).absolute().parent)
    wrong = faults(tree, ConfigFile, hook)
    if wrong:
        raise ConfigError(_problems(wrong, name, text))
    file = msgspec.convert(tree, ConfigFile, dec_hook=hook)
    if port is not None:
        file = msgspec.structs.replace(file, server=msgspec.structs.replace(file.server, port=port))
    config, wrong = _complete(file, name, environ, dialects)
    if wrong:
        raise ConfigError(_problems(wrong, name, text))
    return config


def override(config: Config, *, host: str | None = None, port: int | None = None, option: str = "--host") -> Config:
    """The same configuration at another address, as this option of the command line gives it.

    Raises `ConfigError` (R16).
    """
    given: dict[str, Any] = {k: v for k, v in (("host", host), ("port", port)) if v is not None}
    server = msgspec.structs.replace(config.server, **given)
    wrong = list(check.exposure(server, keyed=bool(config.keys)))
    if wrong:
        raise ConfigError([Problem("command line", 0, option, fault.message) for fault in wrong])
    return msgspec.structs.replace(config, server=server)


def apart_from(config: Config, addresses: Iterable[tuple[str, int]]) -> Config:
    """The same configuration without what the environment switched on at an address that is our own."""
    ours = list(addresses)
    kept = {
        name: provider
        for name, provider in config.providers.items()
        if provider.origin == "file" or not any(check.is_at(provider.base_url or "", h, p) for h, p in ours)
    }
    return msgspec.structs.replace(config, providers=kept)


def _complete(
    file: ConfigFile, name: str, environ: Mapping[str, str], dialects: frozenset[str]
) -> tuple[Config, list[Fault]]:
    providers, wrong = check.providers(file, environ, dialects)
    for each, table in file.providers.items():
        if table.proxy is not None and each in providers:
            providers[each] = msgspec.structs.replace(providers[each], proxy=table.proxy)
    shared = {f: getattr(file, f) for f in ConfigFile.__struct_fields__ if f != "providers"}
    config = Config(providers=providers, file=name or None, **shared)
    config = msgspec.structs.replace(
        config, chat=check.chat_clocks(file.chat, environ), telemetry=telemetry.as_wanted(file.telemetry, environ)
    )
    disabled = frozenset(n for n, table in file.providers.items() if not table.enabled)
    wrong += network.faults(file)
    wrong += [*check.references(config, disabled), *check.exposure(file.server, keyed=bool(file.keys))]
    wrong += telemetry.faults_of(config.telemetry, environ)
    return config, wrong


def _problems(wrong: Iterable[Fault], name: str, text: str) -> list[Problem]:
    lines = key_lines(text)
    return [Problem(name, _line_of(fault.path, lines), dotted(fault.path), fault.message) for fault in wrong]


def _line_of(path: KeyPath, lines: Mapping[KeyPath, int]) -> int:
    """Of the key itself, or of the nearest table around it that is written down; 0 if none is."""
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 0)


def _syntax(error: tomllib.TOMLDecodeError, name: str, text: str) -> Problem:
    message = str(error)
    at = _AT_LINE.search(message)
    line = int(at.group(1)) if at else text.count("\n") + 1
    reason = _AT_LINE.sub("", message).removesuffix(" (at end of document)")
    return Problem(name, line, "", reason[0].lower() + reason[1:])


def _anchored(config: Config, folder: Path) -> Config:
    """Paths in the file are relative to the file, not to where the server was started."""
    providers = {
        name: msgspec.structs.replace(p, ca_file=_beside(folder, p.ca_file)) if p.ca_file else p
        for name, p in config.providers.items()
    }
    data_dir = _beside(folder, config.data_dir) if config.data_dir else None
    local = config.local
    if local.catalog:
        local = msgspec.structs.replace(local, catalog=_beside(folder, local.catalog))
    server, outbound = config.server, config.outbound
    if server.tls_cert is not None and server.tls_key is not None:
        cert, key = _beside(folder, server.tls_cert), _beside(folder, server.tls_key)
        server = msgspec.structs.replace(server, tls_cert=cert, tls_key=key)
    if outbound.ca_file is not None:
        outbound = msgspec.structs.replace(outbound, ca_file=_beside(folder, outbound.ca_file))
    return msgspec.structs.replace(
        config, providers=providers, data_dir=data_dir, local=local, server=server, outbound=outbound
    )


def _untrusted(config: Config) -> Iterator[Fault]:
    """Authorities that cannot be read; their providers could not be asked."""
    files: list[tuple[KeyPath, str | None]] = [(("outbound", "ca_file"), config.outbound.ca_file)]
    files += [(("providers", name, "ca_file"), provider.ca_file) for name, provider in config.providers.items()]
    for path, file in files:
        if file is None:
            continue
        import ssl  # slow to import, and few configurations name an authority

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
        except ssl.SSLError:
            yield Fault(path, f"{file} holds no certificate in PEM")
        except OSError as error:
            yield Fault(path, f"{file} cannot be read: {error.strerror}")


def _unsigned(config: Config) -> Iterator[Fault]:
    """Providers whose requests nothing here can sign."""
    if find_spec("botocore") is None:
        for name, provider in config.providers.items():
            if provider.region is not None:
                text = "signs its requests for AWS, which needs: pip install 'rivermouth[bedrock]'; or set api_key"
                yield Fault(("providers", name), text)


def _beside(folder: Path, path: str) -> str:
    return str(folder / Path(path).expanduser())
