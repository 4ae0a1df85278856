"""How a topic that exists differs from the one that was asked for."""

from __future__ import annotations

from typing import TypeAlias

from ottla.client.admin.admin import Admin
from ottla.client.requests.configs import ConfigResource, ResourceType
from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.topics import NewTopic
from ottla.model import BROKER_DEFAULT

# The name of what differs, with its value and the value that was asked for.
Differences: TypeAlias = dict[str, tuple[str, str]]


async def differences_from(admin: Admin, topic: TopicInfo, wanted: NewTopic) -> Differences:
    """Only what was asked for is compared: partitions, replicas and settings that were left out may differ."""
    shape = {
        "partitions": (len(topic.partitions), wanted.partitions),
        "replication factor": (topic.replication_factor, wanted.replication_factor),
    }
    found = {
        name: (str(present), str(wish))
        for name, (present, wish) in shape.items()
        if wish not in (BROKER_DEFAULT, present)
    }
    if wanted.configs:
        resource = ConfigResource(ResourceType.TOPIC, wanted.name)
        present_configs = succeeded(await admin.describe_configs([resource]))[resource]
        for name, wish in wanted.configs.items():
            entry = present_configs.get(name)
            if entry is None or entry.value != wish:
                found[name] = ("unknown" if entry is None else str(entry.value), wish)
    return found
