"""The common part of all `ottla cluster` commands: where the cluster is, one sentence on failure.

Without `--bootstrap` a command is for the local cluster in `--data`, and reaches a secured one as its
administrator. Only an option leads it elsewhere, not the environment: a command that drains or removes a broker
must not reach another cluster because a variable is set.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ottla.cli.client_config import are_brokers_by_chance, client_options, use_security
from ottla.localcluster.cluster import LocalCluster
from ottla.localcluster.state import ClusterError

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DATA: Final = "./ottla-cluster"
node_id: Final = click.IntRange(0, 2**31 - 1)


def data_option(command: F) -> F:
    """`--data`, by which a command in any terminal finds the cluster."""
    return click.option(
        "--data",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        default=DEFAULT_DATA,
        show_default=True,
        help="Where the cluster keeps everything.",
        callback=lambda _context, _option, path: path.absolute(),
    )(command)


def bootstrap_options(command: F) -> F:
    """`--bootstrap`, `--config` and `--profile`, for commands that any cluster understands."""
    return click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        callback=_asked_for,
        help="Any cluster, by the address of one of its brokers.",
    )(client_options(command))


def _asked_for(context: click.Context, option: click.Parameter, bootstrap: str | None) -> str | None:
    return None if are_brokers_by_chance(context) else bootstrap


def address_of(data: Path, bootstrap: str | None) -> str:
    """The addresses to ask: the given one, or those of the brokers that serve."""
    if bootstrap is not None:
        return bootstrap
    cluster = LocalCluster(data)
    state = cluster.running_state
    use_security(cluster.security)
    return state.bootstrap_at_work or state.bootstrap


def refusing(command: F) -> F:
    """Turn an error of the cluster into one sentence and exit code 1."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except ClusterError as error:
            raise click.ClickException(str(error)) from error
        except PermissionError as error:
            raise click.ClickException(f"{error.filename}: {(error.strerror or '').lower()}") from error

    return run  # type: ignore[return-value]
