"""The sources of a broker's settings: flags before the environment, before the file, before the defaults.

Each source becomes a mapping of Kafka's names to texts; what the texts may be is for `ottla.config` to say.
Every refusal is a ConfigError of one sentence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from ottla.cli.name_values import parse_assignments
from ottla.config import (
    DEFAULT_MEMORY_BYTES,
    HTTP_LISTENER,
    BrokerConfig,
    ConfigError,
    NodeConfig,
    parse_properties,
    properties_from_environment,
)
from ottla.config.listeners import parse_listeners

# Of the variables that begin with OTTLA_, those that are not for the broker.
_OTHER_VARIABLES = {"OTTLA_BOOTSTRAP", "OTTLA_CONFIG", "OTTLA_PROFILE"}


# As for the broker itself: nobody outside this machine, unless asked for.
DEFAULT_HTTP_HOST = "localhost"


class Refusal(click.ClickException):
    """A node cannot run like this; the message is one sentence for the person who gave the command."""

    exit_code = 2


def broker_config(
    files: Sequence[str],
    assignments: Sequence[str],
    *,
    data: str | None = None,
    memory: bool = False,
    host: str | None = None,
    port: str | None = None,
    node_id: str | None = None,
    secured: Mapping[str, str] | None = None,
    http: str | None = None,
) -> BrokerConfig:
    """The settings of all sources together. Of several files a later one takes precedence, and all of them do over
    the settings of a `secured` broker.
    """
    settings = dict(secured or {})
    for file in files:
        settings |= read_settings_file(file)
    settings |= settings_from_environment(os.environ) | parse_assignments(assignments, "--set")
    return BrokerConfig.from_properties(
        apply_flags(settings, data=data, memory=memory, host=host, port=port, node_id=node_id, http=http)
    )


def read_settings_file(path: str) -> dict[str, str]:
    """The settings in a file."""
    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"The settings file {path} cannot be read: {(error.strerror or str(error)).lower()}."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"The settings file {path} cannot be read: it is not text in UTF-8.") from error
    except ConfigError as error:
        raise ConfigError(f"The settings file {path} cannot be used: {error}") from error


def settings_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings among the environment's variables."""
    return properties_from_environment(
        {name: value for name, value in environment.items() if name not in _OTHER_VARIABLES}
    )


def apply_flags(
    settings: Mapping[str, str],
    *,
    data: str | None = None,
    memory: bool = False,
    host: str | None = None,
    port: str | None = None,
    node_id: str | None = None,
    http: str | None = None,
) -> dict[str, str]:
    """The settings with those that have a flag of their own replaced by it."""
    result = dict(settings)
    if data is not None:
        result["log.dirs"] = data
    if memory:
        result.setdefault("ottla.memory.bytes", str(DEFAULT_MEMORY_BYTES))
    if node_id is not None:
        result["node.id"] = node_id
    if http is not None:
        result[HTTP_LISTENER] = http_listener(http)
    if host is not None or port is not None:
        result["listeners"] = _listener(settings, host, port)
    return result


def http_listener(text: str, host: str = DEFAULT_HTTP_HOST) -> str:
    """The value of a flag `--http [HOST:]PORT` as a setting; without a host, that of `host`."""
    if text.isascii() and text.isdigit():
        shown = f"[{host}]" if ":" in host else host
        return f"{shown}:{text}"
    if ":" not in text:
        raise ConfigError(f"--http cannot be '{text}': it must be a port, or HOST:PORT.")
    return text


def _listener(settings: Mapping[str, str], host: str | None, port: str | None) -> str:
    """The listeners in `settings`, the first with another host, another port, or both."""
    if port is not None and not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ConfigError(f"--port cannot be '{port}': it must be a number from 0 (any free port) to 65535.")
    text = settings.get("listeners")
    first, comma, others = (NodeConfig().listeners if text is None else text).partition(",")
    protocols = {
        first.partition("://")[0].strip().upper(): "PLAINTEXT"
    }  # any: only the address is of interest
    listener = parse_listeners("listeners", first, protocols)[0]
    host = listener.host if host is None else host.strip("[]")
    return f"{replace(listener, host=host, port=int(port or listener.port))}{comma}{others}"
