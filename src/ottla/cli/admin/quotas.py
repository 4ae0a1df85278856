"""`ottla quotas`: how much clients may send, read and ask for, and how many connections an address may make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

import click

from ottla.cli.broker_command import ask, broker_options, print_json, print_table
from ottla.client.admin.admin import Admin
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.quotas import QuotaEntity
from ottla.security.quota.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    UNITS,
)

F = TypeVar("F", bound=Callable[..., Any])

_MOST_BYTES = 2**62
_MOST_CONNECTIONS = 2**31 - 1
# The option of each quota, the type of its value, and what it limits.
_BYTES, _RATE = click.IntRange(1, _MOST_BYTES), click.FloatRange(0, min_open=True)
_QUOTAS: dict[str, tuple[str, click.ParamType[Any], str, str]] = {
    PRODUCER_BYTE_RATE: ("produce", _BYTES, "BYTES", "To send, per second."),
    CONSUMER_BYTE_RATE: ("fetch", _BYTES, "BYTES", "To read, per second."),
    REQUEST_PERCENTAGE: ("request-time", _RATE, "PERCENT", "Of the time of each broker."),
    CONTROLLER_MUTATION_RATE: ("mutations", _RATE, "COUNT", "Partitions to create and delete, per second."),
    CONNECTION_CREATION_RATE: (
        "connections",
        click.IntRange(1, _MOST_CONNECTIONS),
        "COUNT",
        "Connections to make, per second; of addresses only.",
    ),
}


@click.group()
def quotas() -> None:
    """List, set and remove quotas: how much users and client ids may send to, read from and ask of each broker, and
    how many connections an address may make.

    A client that goes beyond its quota is answered, and then not read from for a while.
    """


def _entity_options(command: F) -> F:
    """Who a quota is for: the argument `entity`."""

    @wraps(command)
    def collected(
        user: str | None,
        all_users: bool,
        client_id: str | None,
        all_client_ids: bool,
        ip: str | None,
        all_ips: bool,
        **others: Any,
    ) -> Any:
        entity = QuotaEntity(
            _name("user", user, all_users),
            _name("client-id", client_id, all_client_ids),
            _name("ip", ip, all_ips),
        )
        if entity == QuotaEntity():
            raise click.UsageError(
                "say for whom: give --user, --all-users, --client-id, --all-client-ids, --ip or --all-ips"
            )
        return command(entity=entity, **others)

    for option in _OPTIONS:
        option(collected)
    return cast(F, collected)


_OPTIONS = (
    click.option("--all-ips", is_flag=True, help="Each address without a quota of its own."),
    click.option("--ip", metavar="ADDRESS", help="An address that connections come from."),
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
        shown = [(entity, key, _shown(value), UNITS.get(key, "")) for entity, key, value in rows]
        print_table(["for", "quota", "value", "unit"], shown)


def _shown(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _set_options(command: F) -> F:
    for option, kind, unit, doc in reversed(_QUOTAS.values()):
        command = click.option(f"--{option}", type=kind, metavar=unit, help=doc)(command)
    return command


def _remove_options(command: F) -> F:
    for key, (option, *_) in reversed(_QUOTAS.items()):
        command = click.option(f"--{option}", is_flag=True, help=f"Only the quota {key}.")(command)
    return command


def _by_key(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of quotas that were given, by the keys of the quotas."""
    return {
        key: given[option.replace("-", "_")]
        for key, (option, *_) in _QUOTAS.items()
        if given[option.replace("-", "_")]
    }


@quotas.command("set")
@_set_options
@_entity_options
@broker_options
def set_quotas(entity: QuotaEntity, bootstrap: str, as_json: bool, **given: Any) -> None:
    """Set the quotas of a user, of a client id, of both together, or of an address.

    \b
    ottla quotas set --user alice --produce 1000000 --fetch 5000000
    ottla quotas set --all-client-ids --request-time 25 --mutations 10
    ottla quotas set --all-ips --connections 20
    """
    values = {key: float(value) for key, value in _by_key(given).items()}
    if not values:
        options = ", ".join(f"--{option}" for option, *_ in _QUOTAS.values())
        raise click.UsageError(f"say how much: give one of {options}")
    ask(bootstrap, lambda admin: _alter(admin, entity, dict(values)))
    if as_json:
        print_json({**entity._asdict(), "set": values})
        return
    for key, value in values.items():
        click.echo(f"{key} of {entity} is {_shown(value)} {UNITS[key]}.")


@quotas.command()
@_remove_options
@_entity_options
@broker_options
def remove(entity: QuotaEntity, bootstrap: str, as_json: bool, **given: Any) -> None:
    """Remove the quotas of a user, a client id, both together, or an address; without an option, all of them."""
    chosen = list(_by_key(given))

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
