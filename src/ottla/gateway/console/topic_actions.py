"""Changes of topics: create, let grow, settings, delete records, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.requests.configs import ConfigChange, ConfigOperation, ConfigResource, ResourceType
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.topics import NewTopic
from ottla.errors import KafkaError
from ottla.gateway.console.actions import Plan, Planner, counted
from ottla.gateway.console.door import Visit
from ottla.gateway.console.machine.command_lines import assignments
from ottla.gateway.console.machine.questions import Body
from ottla.gateway.console.topic_figures import ends_of
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.model import TopicPartition


def planners() -> Mapping[str, Planner]:
    """The actions of this module by name."""
    return {
        "create-topic": _create,
        "grow-topic": _grow,
        "set-configs": _configure,
        "delete-topic": _delete,
    }


async def _create(visit: Visit, body: Body) -> Plan:
    name = body.text("topic")
    partitions = body.optional_number("partitions", 1, 2**31 - 1)
    replicas = body.optional_number("replication_factor", 1, 32_767)
    configs = {key: value for key, value in body.settings("configs").items() if value is not None}
    new = NewTopic(name, partitions or -1, replicas or -1, configs)
    succeeded(await visit.admin.create_topics([new], validate_only=True))

    async def carry_out() -> str:
        succeeded(await visit.admin.create_topics([new]))
        return f"The topic {name} is created."

    many = (
        "the cluster's default number of partitions"
        if partitions is None
        else counted(partitions, "partition")
    )
    what = f"Creates the topic {name} with {many}" + (
        f", {counted(replicas, 'replica')} of each." if replicas else "."
    )
    command = visit.commands.line(
        "topics",
        "create",
        name,
        partitions=partitions,
        replication_factor=replicas,
        config=assignments(configs),
    )
    return Plan(what, command, carry_out)


async def _grow(visit: Visit, body: Body) -> Plan:
    name, count = body.text("topic"), body.number("partitions", 1, 2**31 - 1)
    now = len((await visit.caller.topics.describe(name)).partitions)
    succeeded(await visit.admin.create_partitions({name: count}, validate_only=True))

    async def carry_out() -> str:
        succeeded(await visit.admin.create_partitions({name: count}))
        return f"{name} has {counted(count, 'partition')}."

    what = (
        f"Lets {name} grow from {counted(now, 'partition')} to {count:,}. Records with the same key may go to another"
        " partition from then on, and a topic cannot shrink again."
    )
    return Plan(what, visit.commands.line("topics", "alter", name, partitions=count), carry_out)


async def _configure(visit: Visit, body: Body) -> Plan:
    name, wanted = body.text("topic"), body.settings("configs")
    if not wanted:
        raise unprocessable('"configs" names no setting')
    await visit.caller.topics.describe(name)
    resource = ConfigResource(ResourceType.TOPIC, name)
    changes = [
        ConfigChange(key, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
        for key, value in wanted.items()
    ]
    succeeded(await visit.admin.alter_configs({resource: changes}, validate_only=True))
    entries = succeeded(await visit.admin.describe_configs([resource]))[resource]

    async def carry_out() -> str:
        succeeded(await visit.admin.alter_configs({resource: changes}))
        return f"{counted(len(changes), 'setting')} of {name} changed."

    rows: list[dict[str, Any]] = [
        {
            "setting": key,
            "now": entries[key].value if key in entries else None,
            "then": "the default" if value is None else value,
        }
        for key, value in wanted.items()
    ]
    sets = assignments({key: value for key, value in wanted.items() if value is not None})
    command = visit.commands.line(
        "topics",
        "alter",
        name,
        config=sets,
        delete_config=[k for k, value in wanted.items() if value is None],
    )
    return Plan(f"Changes {counted(len(changes), 'setting')} of {name}.", command, carry_out, rows=rows)


async def _delete(visit: Visit, body: Body) -> Plan:
    topic = await visit.caller.topics.describe(body.text("topic"))
    if topic.is_internal:
        raise HttpError(403, f"{topic.name} belongs to the cluster itself: the console does not delete it")
    ends = await ends_of(visit.admin, [TopicPartition(topic.name, each.index) for each in topic.partitions])
    records = sum(each.end - each.start for each in ends.values())

    async def carry_out() -> str:
        succeeded(await visit.admin.delete_topics([topic.name]))
        return f"The topic {topic.name} is deleted."

    readers = await _reading_groups(visit, list(ends))
    what = (
        f"Deletes the topic {topic.name} for good: {counted(len(topic.partitions), 'partition')} with"
        f" {counted(records, 'record')}."
    )
    if readers:
        what += (
            f" Groups that have read it: {', '.join(readers[:10])}{' and more' if len(readers) > 10 else ''}."
        )
    command = visit.commands.line("topics", "delete", topic.name)
    return Plan(what, command, carry_out, is_destructive=True, name=topic.name)


async def _reading_groups(visit: Visit, places: list[TopicPartition]) -> list[str]:
    found: list[str] = []
    for group in (await visit.admin.list_groups())[:100]:
        try:
            if await visit.admin.list_group_offsets(group.group_id, places):
                found.append(group.group_id)
        except KafkaError:
            continue
    return found
