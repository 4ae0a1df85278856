"""The common part of all commands that ask a broker: its address, JSON or tables, one sentence on failure.

Exit codes: 0 done, 1 the broker or the request failed, 2 the command was not understood.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import click

from ottla.cli.client_config import client_options, config_option, security_given
from ottla.cli.name_values import parse_assignments
from ottla.client.admin.admin import Admin
from ottla.client.requests.configs import ConfigChange, ConfigOperation
from ottla.config import ConfigError
from ottla.errors import KafkaError
from ottla.log.files.uuids import uuid_text
from ottla.model import parse_addresses

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

CLIENT_ID = "ottla-cli"
# A person at a terminal would rather read an error than wait longer.
TIMEOUT_MS = 15_000
_PIPE_COLUMNS = 240


def broker_options(command: F) -> F:
    """`--bootstrap`, `--config` and `--json`, the same for every command."""
    return _json_option(bootstrap_option(command))


def broker_options_beside_settings(command: F) -> F:
    """The same for commands whose `--config` sets a setting: the client's file is `--command-config` there."""
    return _json_option(_bootstrap_option(config_option(command, "--command-config")))


def bootstrap_option(command: F) -> F:
    """`--bootstrap` and `--config`, for commands that print no table."""
    return _bootstrap_option(client_options(command))


def _json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def _bootstrap_option(command: F) -> F:
    return click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        default="localhost:9092",
        envvar="OTTLA_BOOTSTRAP",
        show_default=True,
        show_envvar=True,
        callback=_checked_addresses,
        help="A broker to begin with; several with commas between.",
    )(command)


def _checked_addresses(context: click.Context, option: click.Parameter, text: str) -> str:
    try:
        parse_addresses(text)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from error
    return text


def ask(bootstrap: str, question: Callable[[Admin], Awaitable[T]]) -> T:
    """Connect, ask, close; every failure of broker or network becomes one sentence."""

    async def session() -> T:
        async with Admin(
            bootstrap, client_id=CLIENT_ID, timeout_ms=TIMEOUT_MS, security=security_given()
        ) as admin:
            return await question(admin)

    return run(session())


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; every failure of broker or network becomes one sentence."""
    # A command says itself what it waits for, and why it ends.
    clients = logging.getLogger("ottla.client")
    level = clients.level
    clients.setLevel(logging.ERROR)
    try:
        return asyncio.run(work)
    except KafkaError as error:
        raise click.ClickException(sentence(error)) from error
    # ValueError: what the protocol has no room for
    except (ConnectionError, TimeoutError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        clients.setLevel(level)


def sentence(error: KafkaError) -> str:
    """The broker's error message with the name of its error code."""
    return f"{error.message.rstrip('.')} ({error.code.name})"


def settings_given(assignments: Sequence[str]) -> dict[str, str]:
    """`--config` options as a mapping; one that cannot be read is a mistake in the command."""
    try:
        return parse_assignments(assignments, "--config")
    except ConfigError as error:
        if any("=" not in each for each in assignments):
            raise click.UsageError(
                f"{error} A file of client properties is --command-config here."
            ) from error
        raise click.UsageError(str(error)) from error


def config_changes(assignments: Sequence[str], deleted: Iterable[str]) -> list[ConfigChange]:
    """`--config` and `--delete-config` options as changes."""
    changes = [ConfigChange(name, value) for name, value in settings_given(assignments).items()]
    return changes + [ConfigChange(name, None, ConfigOperation.DELETE) for name in deleted]


def raise_errors(outcomes: Mapping[str, Any], verb: str) -> None:
    """Fail with one sentence if some of the things that were asked for went wrong."""
    errors = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, KafkaError)}
    if errors:
        reasons = "; ".join(f"could not {verb} {name}: {sentence(error)}" for name, error in errors.items())
        raise click.ClickException(reasons)


def print_json(value: Any) -> None:
    """For programs: one JSON document on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_as_text))


def _as_text(value: object) -> str:
    """The form of an id that JSON has no type for: the one that Kafka's tools show."""
    if isinstance(value, UUID):
        return uuid_text(value)
    raise TypeError(f"{value!r} cannot be printed as JSON")


def print_table(columns: Iterable[str], rows: Iterable[Iterable[Any]], *, title: str | None = None) -> None:
    """For people: columns of numbers to the right, text to the left, as wide as the terminal."""
    from rich.box import SIMPLE_HEAD  # drawn only here: `ottla serve` never imports it
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [list(row) for row in rows]
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text("-" if cell is None else str(cell)) for cell in row))
    # A pipe has no width: lines must not be folded to one.
    Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_COLUMNS).print(table)
