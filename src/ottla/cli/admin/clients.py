"""`ottla clients`: clients that push metrics to their brokers, and the subscriptions that ask them to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from ottla.cli.broker_command import ask, broker_options, print_json, print_table
from ottla.client.admin.admin import Admin
from ottla.client.admin.checks.durations import duration
from ottla.client.admin.client_metrics import (
    ClientNumber,
    PushingClient,
    client_numbers,
    list_clients,
    list_subscriptions,
    subscribe,
    unsubscribe,
)
from ottla.config.client_metrics import SELECTORS

_NO_CLIENTS = (
    "No client has asked for a subscription. librdkafka and Java ask when they connect, if there is one: "
    "see ottla clients subscribe."
)


@click.group()
def clients() -> None:
    """Clients that push metrics of their own to their brokers (KIP-714): librdkafka and Java do, once a subscription
    asks for it. Brokers keep what was pushed last, in memory.

    \b
    ottla clients subscribe all --metrics '*' --interval 30000
    ottla clients list
    ottla clients describe my-client
    """


@clients.command("list")
@broker_options
def list_(bootstrap: str, as_json: bool) -> None:
    """List the clients that push metrics, or would if a subscription matched them."""
    found = ask(bootstrap, list_clients)
    if as_json:
        print_json([asdict(each) for each in found])
    elif not found:
        click.echo(_NO_CLIENTS)
    else:
        columns = [
            "client id",
            "software",
            "address",
            "user",
            "subscriptions",
            "pushed",
            "numbers",
            "instance",
        ]
        print_table(columns, map(_row, found))


@clients.command()
@click.argument("name", metavar="CLIENT")
@click.option("--metrics", "prefix", default="", metavar="PREFIX", help="Only numbers whose name begins so.")
@broker_options
def describe(name: str, prefix: str, bootstrap: str, as_json: bool) -> None:
    """Show what CLIENT pushed last. CLIENT is a client id or an instance id; all clients of that id are shown."""

    async def question(admin: Admin) -> list[tuple[PushingClient, list[ClientNumber]]]:
        known = await list_clients(admin)
        met = [each for each in known if name in (each.client_id, each.instance_id)]
        return [(each, await client_numbers(admin, each)) for each in met]

    found = ask(bootstrap, question)
    if not found:
        raise click.ClickException(f"no client '{name}' has asked for a subscription: see ottla clients list")
    shown = [
        (client, [each for each in numbers if each.name.startswith(prefix)]) for client, numbers in found
    ]
    if as_json:
        print_json([{**asdict(one), "metrics": [asdict(each) for each in numbers]} for one, numbers in shown])
    for client, numbers in () if as_json else shown:
        _print_client(client, numbers)


@clients.command("subscriptions")
@broker_options
def subscriptions(bootstrap: str, as_json: bool) -> None:
    """List the subscriptions: which metrics are asked of which clients, and how often."""
    found = ask(bootstrap, list_subscriptions)
    if as_json:
        print_json(found)
    elif not found:
        click.echo("There are no subscriptions: make one with ottla clients subscribe.")
    else:
        rows = [
            (name, each["metrics"] or "none", each["interval.ms"], each["match"] or "every client")
            for name, each in found.items()
        ]
        print_table(["subscription", "metrics", "every ms", "clients"], rows)


@clients.command("subscribe")
@click.argument("name")
@click.option(
    "--metrics",
    "metrics",
    multiple=True,
    metavar="PREFIX",
    help="How the names of wanted metrics begin; repeatable.  [default: all]",
)
@click.option(
    "--interval", "interval_ms", type=int, metavar="MS", help="How often to push.  [default: 300000]"
)
@click.option(
    "--match",
    "match",
    multiple=True,
    metavar="NAME=PATTERN",
    help=f"Only clients whose NAME is like the regular expression PATTERN; repeatable. Names: {', '.join(SELECTORS)}.",
)
@broker_options
def subscribe_(
    name: str,
    metrics: tuple[str, ...],
    interval_ms: int | None,
    match: tuple[str, ...],
    bootstrap: str,
    as_json: bool,
) -> None:
    """Ask clients for metrics: make the subscription NAME, or change it. Clients follow at their next push."""
    settings = {"metrics": ",".join(metrics or ("*",))}
    if interval_ms is not None:
        settings["interval.ms"] = str(interval_ms)
    if match:
        settings["match"] = ",".join(match)
    ask(bootstrap, lambda admin: subscribe(admin, name, settings))
    if as_json:
        print_json({"subscription": name, **settings})
    else:
        click.echo(f"Subscribed {name}. Clients see it when they connect, or at their next push.")


@clients.command("unsubscribe")
@click.argument("name")
@broker_options
def unsubscribe_(name: str, bootstrap: str, as_json: bool) -> None:
    """Ask clients no more for the metrics of the subscription NAME."""
    if not ask(bootstrap, lambda admin: unsubscribe(admin, name)):
        raise click.ClickException(f"there is no subscription '{name}': see ottla clients subscriptions")
    if as_json:
        print_json({"unsubscribed": name})
    else:
        click.echo(f"Removed the subscription {name}.")


def _row(each: PushingClient) -> tuple[object, ...]:
    return (
        each.client_id,
        each.software,
        each.address,
        each.user,
        ", ".join(each.subscriptions) or "none",
        _pushed(each),
        each.numbers,
        each.instance_id,
    )


def _pushed(each: PushingClient) -> str:
    if each.pushed_ms_ago is None:
        return "never"
    ended = ", has ended" if each.is_terminating else ""
    return f"{duration(each.pushed_ms_ago)} ago{ended}"


def _print_client(client: PushingClient, numbers: Sequence[ClientNumber]) -> None:
    click.echo(f"Client {client.client_id} ({client.software}) at {client.address}, user {client.user}")
    click.echo(f"Instance {client.instance_id}, broker {client.broker}, pushed {_pushed(client)}")
    if not numbers:
        click.echo("It has pushed no such metrics.")
        return
    rows = [
        (each.name, _attributes(each), _value(each), each.unit or None)
        for each in sorted(numbers, key=lambda each: (each.name, _attributes(each)))
    ]
    print_table(["metric", "of", "value", "unit"], rows)


def _attributes(number: ClientNumber) -> str:
    return " ".join(f"{name}={value}" for name, value in number.attributes.items())


def _value(number: ClientNumber) -> str:
    if number.value is None:
        return "-"
    value = f"{number.value:.6g}" if isinstance(number.value, float) else str(number.value)
    return value if number.observations is None else f"{value} in {number.observations}"
