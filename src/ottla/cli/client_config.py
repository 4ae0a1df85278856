"""`--config FILE` and `--profile NAME`: the properties with which a command reaches a secured cluster.

The file is one that Kafka's tools take as `--command-config`: `security.protocol`, `ssl.*` and `sasl.*` are
used, and `bootstrap.servers` where no `--bootstrap` is given. A profile is such a file with a name, in
`~/.config/ottla`. An option of the command comes before the environment, and of the same rank the file before
the profile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from ottla.cli.broker_settings import read_settings_file
from ottla.config import ConfigError
from ottla.security.settings import PLAINTEXT, Security

F = TypeVar("F", bound=Callable[..., Any])

_SECURITY: Final = "ottla.security"
_SOURCE: Final = "ottla.security.source"
_SUFFIX: Final = ".properties"
_PROPERTIES: Final = "ottla.client.properties"


def config_option(command: F, *names: str) -> F:
    """The option for a file under these names, and `--profile`. Their value is read with `security_given`."""
    with_profile = click.option(
        "--profile",
        "client_profile",
        metavar="NAME",
        envvar="OTTLA_PROFILE",
        show_envvar=True,
        is_eager=True,
        expose_value=False,
        callback=_read_profile,
        help="The same from ~/.config/ottla/NAME.properties.",
    )(command)
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
    )(with_profile)


def client_options(command: F) -> F:
    """`--config`, with Kafka's name as well, and `--profile`."""
    return config_option(command, "--config", "--command-config")


def use_security(security: Security) -> None:
    """Have the command that runs reach its cluster in this way, unless an option of the command says another."""
    context = click.get_current_context()
    if not is_given_by_option(context):
        context.meta[_SECURITY] = security


def is_given_by_option(context: click.Context) -> bool:
    """Whether an option of the command names the file or the profile, and not the environment."""
    return context.meta.get(_SOURCE) is ParameterSource.COMMANDLINE


def are_brokers_by_chance(context: click.Context) -> bool:
    """Whether `--bootstrap` comes from a file that only the environment names."""
    is_from_file = context.get_parameter_source("bootstrap") is ParameterSource.DEFAULT_MAP
    return is_from_file and not is_given_by_option(context)


def profile_file(name: str) -> Path:
    """The file of a profile."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "ottla" / f"{name}{_SUFFIX}"


def security_given() -> Security:
    """The security settings of the command that runs."""
    context = click.get_current_context(silent=True)
    given = PLAINTEXT if context is None else context.meta.get(_SECURITY, PLAINTEXT)
    assert isinstance(given, Security)
    return given


def properties_given() -> dict[str, str]:
    """All properties of the file, by their names."""
    context = click.get_current_context(silent=True)
    return {} if context is None else dict(context.meta.get(_PROPERTIES, {}))


def _read_profile(context: click.Context, option: click.Parameter, name: str | None) -> None:
    if not name:
        return
    file = profile_file(name)
    if not file.is_file():
        known = ", ".join(sorted(each.stem for each in file.parent.glob(f"*{_SUFFIX}"))) or "none"
        raise click.BadParameter(f"there is no {file}; profiles that exist: {known}", context, option)
    _read(context, option, str(file))


def security_properties_given() -> dict[str, str]:
    """The properties that `security_given` was made of, by Kafka's names. Names of files are whole paths: Spark's
    processes have other working directories.
    """
    families = ("security.", "ssl.", "sasl.")
    return {
        name: os.path.abspath(value) if name.startswith("ssl.") and name.endswith(".location") else value
        for name, value in properties_given().items()
        if name.startswith(families)
    }


def _read(context: click.Context, option: click.Parameter, path: str | None) -> None:
    if not path:
        return
    source = context.get_parameter_source(option.name or "")
    if (former := context.meta.get(_SOURCE)) is not None:
        # click calls the options of the command line first, then those of the environment.
        if source is former is ParameterSource.COMMANDLINE:
            raise click.BadParameter("give a file or a profile, not both", context, option)
        return
    context.meta[_SOURCE] = source
    try:
        properties = read_settings_file(path)
        context.meta[_SECURITY] = Security.from_properties(properties)
        context.meta[_PROPERTIES] = properties
    except (ConfigError, ValueError) as error:
        raise click.BadParameter(str(error), context, option) from error
    if "bootstrap.servers" in properties:
        context.default_map = {**(context.default_map or {}), "bootstrap": properties["bootstrap.servers"]}
