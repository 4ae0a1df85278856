"""`ottla configs`: the settings of running brokers."""

from __future__ import annotations

from dataclasses import asdict

import click

from ottla.cli.broker_command import (
    ask,
    broker_options,
    broker_options_beside_settings,
    config_changes,
    print_json,
    print_table,
)
from ottla.client.admin.admin import Admin
from ottla.client.requests.configs import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
    is_without_effect,
)
from ottla.client.requests.outcomes import succeeded

_SOURCES = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "changed for this broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "changed for all brokers",
    ConfigSource.STATIC_BROKER: "given at start",
    ConfigSource.DEFAULT: "default",
    ConfigSource.CLIENT_METRICS: "subscription",
    ConfigSource.OTHER: "other",
}


@click.group()
def configs() -> None:
    """Describe and alter the settings of running brokers. (Those of a topic: ottla topics describe, ottla
    topics alter.)
    """


@configs.command()
@click.option(
    "--broker",
    "node_id",
    type=click.IntRange(0, 2**31 - 1),
    metavar="ID",
    help="Which broker.  [default: each of them]",
)
@click.option("--all", "everything", is_flag=True, help="Also the settings that are at their default.")
@broker_options
def describe(node_id: int | None, everything: bool, bootstrap: str, as_json: bool) -> None:
    """Show a broker's settings and where each value comes from."""

    async def question(admin: Admin) -> dict[str, dict[str, ConfigEntry]]:
        nodes = (
            [node_id]
            if node_id is not None
            else [b.node_id for b in (await admin.describe_cluster()).brokers]
        )
        resources = [ConfigResource(ResourceType.BROKER, str(node)) for node in nodes]
        described = succeeded(await admin.describe_configs(resources))
        return {resource.name: entries for resource, entries in described.items()}

    for node, entries in (answer := ask(bootstrap, question)).items():
        answer[node] = {n: e for n, e in entries.items() if everything or e.source != ConfigSource.DEFAULT}
    if as_json:
        print_json(
            {node: [_as_json(entry) for entry in entries.values()] for node, entries in answer.items()}
        )
    for node, entries in {} if as_json else answer.items():
        _print_settings(node, entries)


@configs.command()
@click.option(
    "--broker",
    "node_id",
    type=click.IntRange(0, 2**31 - 1),
    metavar="ID",
    help="Which broker.  [default: all, from now on]",
)
@click.option("--config", "given", multiple=True, metavar="NAME=VALUE", help="Set a setting; repeatable.")
@click.option(
    "--delete-config", "deleted", multiple=True, metavar="NAME", help="Back to what it was; repeatable."
)
@broker_options_beside_settings
def alter(
    node_id: int | None, given: tuple[str, ...], deleted: tuple[str, ...], bootstrap: str, as_json: bool
) -> None:
    """Change settings of one broker, or of all, while they run. Settings that are not named stay as they are.

    \b
    ottla configs alter --config log.retention.ms=86400000
    """
    changes = config_changes(given, deleted)
    if not changes:
        raise click.UsageError("nothing to change: give --config or --delete-config")
    resource = ConfigResource(ResourceType.BROKER, "" if node_id is None else str(node_id))

    async def question(admin: Admin) -> None:
        succeeded(await admin.alter_configs({resource: changes}))

    ask(bootstrap, question)
    names = [change.name for change in changes]
    if as_json:
        print_json({"broker": node_id, "changed": names})
    else:
        click.echo(
            f"Changed {', '.join(names)} of {'all brokers' if node_id is None else f'broker {node_id}'}."
        )


def _as_json(entry: ConfigEntry) -> dict[str, object]:
    source = entry.source.name.lower()
    synonyms = [{**asdict(each), "source": each.source.name.lower()} for each in entry.synonyms]
    return {**asdict(entry), "source": source, "synonyms": synonyms}


def _print_settings(node: str, entries: dict[str, ConfigEntry]) -> None:
    if not entries:
        click.echo(f"Broker {node}: every setting is at its default. See them with --all.")
        return
    rows = [
        (
            entry.name,
            "(hidden)" if entry.is_sensitive else entry.value,
            _SOURCES[entry.source] + (", without effect" if is_without_effect(entry) else ""),
        )
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
    ]
    print_table(["setting", "value", "source"], rows, title=f"Broker {node}")
