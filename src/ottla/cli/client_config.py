"""`--config FILE`: the properties with which a command reaches a secured cluster.

The file is one that Kafka's tools take as `--command-config`: `security.protocol`, `ssl.*` and `sasl.*` are
used, and `bootstrap.servers` where no `--bootstrap` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from ottla.cli.broker_settings import read_settings_file
from ottla.config import ConfigError
from ottla.security.settings import PLAINTEXT, Security

F = TypeVar("F", bound=Callable[..., Any])

_SECURITY: Final = "ottla.security"
_PROPERTIES: Final = "ottla.security.properties"


def config_option(command: F, *names: str) -> F:
    """The option under these names. Its value is read with `security_given`."""
    return click.option(
        *names,
        "client_config",
        metavar="FILE",
        envvar="OTTLA_CONFIG",
        show_envvar=True,
        is_eager=True,  # before --bootstrap, whose default it may give
        expose_value=False,
        callback=_read,
        help="A file of client properties: security.protocol, ssl.*, sasl.*, bootstrap.servers.",
    )(command)


def security_given() -> Security:
    """The security settings of the command that runs."""
    context = click.get_current_context(silent=True)
    given = PLAINTEXT if context is None else context.meta.get(_SECURITY, PLAINTEXT)
    assert isinstance(given, Security)
    return given


def security_properties_given() -> dict[str, str]:
    """The properties that `security_given` was made of, by Kafka's names."""
    context = click.get_current_context(silent=True)
    return {} if context is None else dict(context.meta.get(_PROPERTIES, {}))


def _read(context: click.Context, option: click.Parameter, path: str | None) -> None:
    if not path:
        return
    try:
        properties = read_settings_file(path)
        context.meta[_SECURITY] = Security.from_properties(properties)
        families = ("security.", "ssl.", "sasl.")
        context.meta[_PROPERTIES] = {
            name: value for name, value in properties.items() if name.startswith(families)
        }
    except (ConfigError, ValueError) as error:
        raise click.BadParameter(str(error), context, option) from error
    if "bootstrap.servers" in properties:
        context.default_map = {**(context.default_map or {}), "bootstrap": properties["bootstrap.servers"]}
