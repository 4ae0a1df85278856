"""The common part of all `ottla cluster` commands: where the cluster is, one sentence on failure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

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


def address_of(data: Path, bootstrap: str | None) -> str:
    """The addresses to ask: the given one, or those of the brokers that serve."""
    if bootstrap is not None:
        return bootstrap
    state = LocalCluster(data).running_state
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
