"""`ottla users`: users that log in with a password, by SCRAM."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.admin.password_options import password_given, password_options
from ottla.cli.broker_command import ask, broker_options, print_json, print_table
from ottla.client.admin.admin import Admin
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.users import DEFAULT_MECHANISM, ScramPassword, ScramRemoval
from ottla.errors import ErrorCode, KafkaError
from ottla.security.sasl.scram import LEAST_ITERATIONS, MOST_ITERATIONS, SCRAM_MECHANISMS

_mechanism_option = click.option(
    "--mechanism",
    type=click.Choice(list(SCRAM_MECHANISMS)),
    default=DEFAULT_MECHANISM,
    show_default=True,
    help="How the user logs in.",
)
_iterations_option = click.option(
    "--iterations",
    type=click.IntRange(LEAST_ITERATIONS, MOST_ITERATIONS),
    default=LEAST_ITERATIONS,
    show_default=True,
    help="How much work a guess of the password is.",
)


@click.group()
def users() -> None:
    """List, add and remove users that log in with a password, and change passwords.

    A password is salted here: the brokers get and keep keys that prove it.
    """


@users.command("list")
@broker_options
def list_users(bootstrap: str, as_json: bool) -> None:
    """List all users with the mechanisms that they can log in with."""
    found = ask(bootstrap, lambda admin: _described(admin, None))
    if as_json:
        print_json([{"user": name, "mechanisms": mechanisms} for name, mechanisms in sorted(found.items())])
    elif not found:
        click.echo("There are no users.")
    else:
        rows = [
            (name, mechanism, iterations)
            for name, mechanisms in sorted(found.items())
            for mechanism, iterations in sorted(mechanisms.items())
        ]
        print_table(["user", "mechanism", "iterations"], rows)


@users.command()
@click.argument("name")
@password_options
@_mechanism_option
@_iterations_option
@broker_options
def add(
    name: str,
    file: Path | None,
    from_stdin: bool,
    mechanism: str,
    iterations: int,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Add a user. The password is asked for, or read from a file or from standard input.

    \b
    ottla users add alice --password-file alice.password
    """
    change = ScramPassword(name, password_given(file, from_stdin), mechanism, iterations)

    async def question(admin: Admin) -> None:
        known = await _described(admin, name)
        if mechanism in known.get(name, ()):
            raise click.ClickException(
                f"There is a user '{name}' with {mechanism} already; for another password: ottla users password {name}"
            )
        succeeded(await admin.alter_users([change]))

    ask(bootstrap, question)
    _tell(name, mechanism, "added", f"Added user '{name}', who logs in with {mechanism}.", as_json=as_json)


@users.command()
@click.argument("name")
@password_options
@_mechanism_option
@_iterations_option
@broker_options
def password(
    name: str,
    file: Path | None,
    from_stdin: bool,
    mechanism: str,
    iterations: int,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Give a user another password. Connections that are open stay open.

    \b
    ottla users password alice --password-stdin < alice.password
    """
    change = ScramPassword(name, password_given(file, from_stdin), mechanism, iterations)

    async def question(admin: Admin) -> None:
        _need((await _described(admin, name)).get(name, {}), name, mechanism)
        succeeded(await admin.alter_users([change]))

    ask(bootstrap, question)
    _tell(name, mechanism, "changed", f"'{name}' has another password for {mechanism}.", as_json=as_json)


@users.command()
@click.argument("name")
@click.option(
    "--mechanism",
    type=click.Choice(list(SCRAM_MECHANISMS)),
    default=None,
    help="Only the password for one mechanism.  [default: all]",
)
@broker_options
def remove(name: str, mechanism: str | None, bootstrap: str, as_json: bool) -> None:
    """Remove a user. Connections that are open stay open; rights of the user stay, too."""

    async def question(admin: Admin) -> list[str]:
        known = (await _described(admin, name)).get(name, {})
        _need(known, name, mechanism)
        removed = [mechanism] if mechanism else sorted(known)
        succeeded(await admin.alter_users([ScramRemoval(name, each) for each in removed]))
        return removed

    for each in ask(bootstrap, question):
        _tell(name, each, "removed", f"'{name}' cannot log in with {each} any more.", as_json=as_json)


def _need(known: dict[str, int], name: str, mechanism: str | None) -> None:
    if not known:
        raise click.ClickException(f"There is no user '{name}'; see those there are with: ottla users list")
    if mechanism is not None and mechanism not in known:
        raise click.ClickException(
            f"'{name}' has no password for {mechanism}, only for {', '.join(sorted(known))}."
        )


async def _described(admin: Admin, name: str | None) -> dict[str, dict[str, int]]:
    """The mechanisms of all users, or of one; a user that is not there is left out."""
    found = await admin.describe_users(None if name is None else [name])
    absent = {
        user
        for user, outcome in found.items()
        if isinstance(outcome, KafkaError) and outcome.code == ErrorCode.RESOURCE_NOT_FOUND
    }
    return succeeded({user: outcome for user, outcome in found.items() if user not in absent})


def _tell(name: str, mechanism: str, verb: str, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"user": name, "mechanism": mechanism, "done": verb})
    else:
        click.echo(text)
