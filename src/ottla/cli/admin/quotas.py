"""`ottla quotas`: how much clients may send and read."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from ottla.cli.broker_command import ask, broker_options, print_json, print_table
from ottla.client.admin.admin import Admin
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.quotas import QuotaEntity
from ottla.security.quota.entities import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE

F = TypeVar("F", bound=Callable[..., Any])

_MOST_BYTES = 2**62


@click.group()
def quotas() -> None:
    """List, set and remove quotas: the bytes per second that a client may send to, and read from, each broker.

    A client that goes beyond its quota is answered, and then not read from for a while.
    """


def _entity_options(command: F) -> F:
    """Who a quota is for: the argument `entity`."""

    @wraps(command)
    def collected(
        user: str | None, all_users: bool, client_id: str | None, all_client_ids: bool, **others: Any
    ) -> Any:
        entity = QuotaEntity(_name("user", user, all_users), _name("client-id", client_id, all_client_ids))
        if entity == QuotaEntity():
            raise click.UsageError("say for whom: give --user, --all-users, --client-id or --all-client-ids")
        return command(entity=entity, **others)

    for option in _OPTIONS:
        option(collected)
    return cast(F, collected)


_OPTIONS = (
    click.option("--all-client-ids", is_flag=True, help="Each client id without a quota of its own."),
    click.option("--client-id", metavar="ID", help="A client id."),
    click.option("--all-users", is_flag=True, help="Each user without a quota of its own."),
    click.option("--user", metavar="NAME", help="A user; ANONYMOUS for clients that do not log in."),
)


def _name(option: str, name: str | None, is_default: bool) -> str | None:
    if name is not None and is_default:
        raise click.UsageError(f"give --{option} or --all-{option}s, not both")
    if name == "":
        raise click.UsageError(f"--{option} must not be empty")
    return "" if is_default else name


@quotas.command("list")
@broker_options
def list_quotas(bootstrap: str, as_json: bool) -> None:
    """Show all quotas."""
    found = ask(bootstrap, lambda admin: admin.describe_quotas())
    rows = [
        (entity, key, value)
        for entity, values in sorted(found.items(), key=lambda item: str(item[0]))
        for key, value in sorted(values.items())
    ]
    if as_json:
        print_json([{**entity._asdict(), "quota": key, "value": value} for entity, key, value in rows])
    elif not rows:
        click.echo("There are no quotas.")
    else:
        shown = [(entity, key, int(value) if value.is_integer() else value) for entity, key, value in rows]
        print_table(["for", "quota", "value"], shown)


@quotas.command("set")
@click.option("--produce", type=click.IntRange(1, _MOST_BYTES), metavar="BYTES", help="To send, per second.")
@click.option("--fetch", type=click.IntRange(1, _MOST_BYTES), metavar="BYTES", help="To read, per second.")
@_entity_options
@broker_options
def set_quotas(
    entity: QuotaEntity, produce: int | None, fetch: int | None, bootstrap: str, as_json: bool
) -> None:
    """Set the quotas of a user, of a client id, or of both together.

    \b
    ottla quotas set --user alice --produce 1000000 --fetch 5000000
    ottla quotas set --all-client-ids --fetch 10000000
    """
    given = {PRODUCER_BYTE_RATE: produce, CONSUMER_BYTE_RATE: fetch}
    values = {key: float(value) for key, value in given.items() if value is not None}
    if not values:
        raise click.UsageError("say how much: give --produce or --fetch")
    ask(bootstrap, lambda admin: _alter(admin, entity, dict(values)))
    if as_json:
        print_json({**entity._asdict(), "set": values})
        return
    for key, value in values.items():
        click.echo(f"{key} of {entity} is {int(value)} bytes per second.")


@quotas.command()
@click.option("--produce", is_flag=True, help="Only the quota for sending.")
@click.option("--fetch", is_flag=True, help="Only the quota for reading.")
@_entity_options
@broker_options
def remove(entity: QuotaEntity, produce: bool, fetch: bool, bootstrap: str, as_json: bool) -> None:
    """Remove the quotas of a user, of a client id, or of both together; without an option, all of them."""
    chosen = [
        key for key, is_given in ((PRODUCER_BYTE_RATE, produce), (CONSUMER_BYTE_RATE, fetch)) if is_given
    ]

    async def question(admin: Admin) -> list[str]:
        present = (await admin.describe_quotas()).get(entity, {})
        removed = [key for key in chosen or sorted(present) if key in present]
        if removed:
            await _alter(admin, entity, dict.fromkeys(removed))
        return removed

    removed = ask(bootstrap, question)
    if as_json:
        print_json({**entity._asdict(), "removed": removed})
    elif removed:
        click.echo(f"Removed {' and '.join(removed)} of {entity}.")
    else:
        click.echo(f"There is no such quota of {entity}; see them with: ottla quotas list")


async def _alter(admin: Admin, entity: QuotaEntity, values: dict[str, float | None]) -> None:
    succeeded(await admin.alter_quotas({entity: values}))
