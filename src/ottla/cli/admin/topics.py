"""`ottla topics`: create, delete, list, describe, alter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ottla.cli.admin.topic_details import TopicDetails, details_as_json, gather_details
from ottla.cli.admin.topic_differences import Differences, differences_from
from ottla.cli.broker_command import (
    ask,
    broker_options,
    broker_options_beside_settings,
    config_changes,
    print_json,
    print_table,
    raise_errors,
    settings_given,
)
from ottla.client.admin.admin import Admin
from ottla.client.admin.checks.waiting_partitions import damaged_replicas, reason_without_leader
from ottla.client.requests.configs import ConfigChange, ConfigResource, ResourceType
from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.topics import CreatedTopic, NewTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.log.files.uuids import uuid_text
from ottla.model import BROKER_DEFAULT, TopicPartition

# The protocol's limit; a broker may accept fewer.
COUNT = click.IntRange(1, 2**31 - 1)
REPLICAS = click.IntRange(1, 2**15 - 1)


@click.group()
def topics() -> None:
    """Create, delete, list, describe and alter topics."""


@topics.command()
@click.argument("name")
@click.option(
    "--partitions", type=click.IntRange(min=1), help="How many partitions.  [default: the broker's]"
)
@click.option(
    "--replication-factor", type=REPLICAS, metavar="N", help="How many copies.  [default: the broker's]"
)
@click.option(
    "--config", "configs", multiple=True, metavar="NAME=VALUE", help="A setting of the topic; repeatable."
)
@click.option(
    "--if-not-exists",
    is_flag=True,
    help="Be content if the topic is there already; what differs from the options is reported, not changed.",
)
@broker_options_beside_settings
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Create the topic NAME.

    \b
    ottla topics create orders --partitions 3
    ottla topics create orders --partitions 3 --config retention.ms=86400000
    """
    wanted = NewTopic(
        name,
        partitions or BROKER_DEFAULT,
        replication_factor or BROKER_DEFAULT,
        settings_given(configs),
    )

    topic, differences = ask(bootstrap, lambda admin: _created(admin, wanted, if_not_exists))
    created = isinstance(topic, CreatedTopic)
    if as_json:
        print_json({**_listing(topic), "created": created, "differs": differences})
    else:
        state = "Created topic" if created else "There is already a topic"
        click.echo(f"{state} {name}: {_shape(topic)}, id {uuid_text(topic.topic_id)}.")
    if differences:
        told = ", ".join(f"{each} is {is_}, not {wish}" for each, (is_, wish) in differences.items())
        click.echo(f"It was left as it is: {told}. To change it, use: ottla topics alter {name}", err=True)


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--if-exists", is_flag=True, help="Be content if a topic is not there.")
@broker_options
def delete(names: tuple[str, ...], if_exists: bool, bootstrap: str, as_json: bool) -> None:
    """Delete topics, with all that is in them."""
    outcomes = ask(bootstrap, lambda admin: admin.delete_topics(names))
    absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if if_exists:
        outcomes = {
            name: error
            for name, error in outcomes.items()
            if not (isinstance(error, KafkaError) and error.code == absent)
        }
    deleted = [name for name, error in outcomes.items() if error is None]
    if as_json:
        print_json({"deleted": deleted})
    else:
        for name in deleted:
            click.echo(f"Deleted topic {name}.")
    raise_errors(outcomes, "delete")


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also the topics that the broker keeps for itself.")
@broker_options
def list_(internal: bool, bootstrap: str, as_json: bool) -> None:
    """List all topics."""
    found = ask(bootstrap, lambda admin: admin.list_topics(include_internal=internal))
    if as_json:
        print_json([_listing(topic) for topic in found])
    elif not found:
        click.echo("There are no topics. Create one with: ottla topics create NAME --partitions N")
    else:
        rows = [(t.name, len(t.partitions), t.replication_factor, uuid_text(t.topic_id)) for t in found]
        print_table(["topic", "partitions", "replicas", "id"], rows)


@topics.command()
@click.argument("names", nargs=-1, metavar="[NAME...]")
@broker_options
def describe(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Describe topics (without a NAME, all of them): leaders, replicas, offsets, sizes, settings of their
    own.
    """

    async def question(admin: Admin) -> tuple[list[TopicDetails], Mapping[str, Any]]:
        if not names:
            return await gather_details(admin, await admin.list_topics()), {}
        outcomes = await admin.describe_topics(names)
        found = [topic for topic in outcomes.values() if isinstance(topic, TopicInfo)]
        return await gather_details(admin, found), outcomes

    described, outcomes = ask(bootstrap, question)
    if as_json:
        print_json([details_as_json(details) for details in described])
    for details in () if as_json else described:
        _print_details(details)
    raise_errors(outcomes, "describe")


@topics.command()
@click.argument("name")
@click.option("--partitions", type=COUNT, metavar="N", help="The number of partitions to grow to.")
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", help="Set a setting; repeatable.")
@click.option(
    "--delete-config", "deleted", multiple=True, metavar="NAME", help="Back to the default; repeatable."
)
@broker_options_beside_settings
def alter(
    name: str,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
    bootstrap: str,
    as_json: bool,
) -> None:
    """Change the topic NAME: let it grow, or change its settings. Settings that are not named stay as they
    are.

    \b
    ottla topics alter orders --partitions 6
    ottla topics alter orders --config retention.ms=86400000 --delete-config segment.bytes
    """
    changes = config_changes(configs, deleted)
    if partitions is None and not changes:
        raise click.UsageError("nothing to change: give --partitions, --config or --delete-config")
    details = ask(bootstrap, lambda admin: _altered(admin, name, partitions, changes))
    if as_json:
        print_json(details_as_json(details))
    else:
        _print_details(details)


async def _created(
    admin: Admin, wanted: NewTopic, if_not_exists: bool
) -> tuple[CreatedTopic | TopicInfo, Differences]:
    """The topic that was created, or, if that is good enough, the one that was there, and how it differs."""
    outcome = (await admin.create_topics([wanted]))[wanted.name]
    if not isinstance(outcome, KafkaError):
        return outcome, {}
    if if_not_exists and outcome.code == ErrorCode.TOPIC_ALREADY_EXISTS:
        topic = succeeded(await admin.describe_topics([wanted.name]))[wanted.name]
        return topic, await differences_from(admin, topic, wanted)
    raise outcome


async def _altered(
    admin: Admin, name: str, partitions: int | None, changes: list[ConfigChange]
) -> TopicDetails:
    # Settings first: the broker checks them all before it changes one, whereas partitions cannot be taken
    # back.
    if changes:
        succeeded(await admin.alter_configs({ConfigResource(ResourceType.TOPIC, name): changes}))
    if partitions is not None:
        succeeded(await admin.create_partitions({name: partitions}))
    topic = succeeded(await admin.describe_topics([name]))[name]
    return (await gather_details(admin, [topic]))[0]


def _listing(topic: TopicInfo | CreatedTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "partitions": _partition_count(topic),
        "replication_factor": topic.replication_factor,
        "is_internal": isinstance(topic, TopicInfo) and topic.is_internal,
    }


def _shape(topic: TopicInfo | CreatedTopic) -> str:
    count = _partition_count(topic)
    return f"{count} partition{'s' if count != 1 else ''}, replication factor {topic.replication_factor}"


def _partition_count(topic: TopicInfo | CreatedTopic) -> int:
    return len(topic.partitions) if isinstance(topic, TopicInfo) else topic.partitions


def _print_details(details: TopicDetails) -> None:
    click.echo(f"Topic {details.name}, id {details.topic_id}{', internal' if details.is_internal else ''}")
    for setting, value in sorted(details.configs.items()):
        note = "  (without effect)" if setting in details.without_effect else ""
        click.echo(f"  {setting}={value}{note}")
    columns = ["partition", "leader", "epoch", "replicas", "in sync", "start", "end", "bytes"]
    is_tiered = any(each.local_start_offset is not None for each in details.partitions)
    if is_tiered:
        columns += ["local start", "last in store"]
    rows: list[tuple[Any, ...]] = [
        (
            each.partition,
            each.leader,
            each.leader_epoch,
            ",".join(map(str, each.replicas)),
            ",".join(map(str, each.isr)),
            each.log_start_offset,
            each.high_watermark,
            each.size_bytes,
            *((each.local_start_offset, each.latest_tiered_offset) if is_tiered else ()),
        )
        for each in details.partitions
    ]
    print_table(columns, rows)
    for each in details.partitions:
        if each.leader is None:
            partition = TopicPartition(details.name, each.partition)
            click.echo(reason_without_leader(partition, each.isr, each.offline_replicas))
        elif each.damaged_replicas:
            click.echo(
                f"{details.name}-{each.partition}: {'. '.join(damaged_replicas(each.damaged_replicas))}"
            )
