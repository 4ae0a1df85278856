"""Retention that waits for the table: the broker is told how far the table is.

The topic's setting `ottla.retention.requires` has brokers delete nothing that the table does not hold, and
`ottla.retention.table.offsets` says what the table holds. Both are settings of the topic, so that every replica
knows them, and `ottla topics describe` shows them. Brokers of Apache Kafka do not know them, and refuse.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.blocking import Admin
from ottla.client.requests.configs import ConfigChange, ConfigOperation, ConfigResource, ResourceType
from ottla.client.requests.outcomes import succeeded
from ottla.lake.topic import Cluster

_REQUIRES = "ottla.retention.requires"
_OFFSETS = "ottla.retention.table.offsets"


def require_table(cluster: Cluster, topic: str) -> None:
    """Have retention of a topic wait for its table. Raises KafkaError."""
    _alter(cluster, topic, [ConfigChange(_REQUIRES, "table"), ConfigChange(_OFFSETS, "")])


def tell_offsets(cluster: Cluster, topic: str, next_offsets: Mapping[int, int]) -> None:
    """Tell the brokers what the table holds. Raises KafkaError."""
    text = ",".join(f"{partition}:{offset}" for partition, offset in sorted(next_offsets.items()))
    _alter(cluster, topic, [ConfigChange(_OFFSETS, text)])


def forget_table(cluster: Cluster, topic: str) -> None:
    """Have retention of a topic go by its limits alone. Raises KafkaError."""
    _alter(
        cluster, topic, [ConfigChange(name, None, ConfigOperation.DELETE) for name in (_REQUIRES, _OFFSETS)]
    )


def _alter(cluster: Cluster, topic: str, changes: list[ConfigChange]) -> None:
    with Admin(cluster.bootstrap, client_id="ottla-lake", security=cluster.security) as admin:
        succeeded(admin.alter_configs({ConfigResource(ResourceType.TOPIC, topic): changes}))
