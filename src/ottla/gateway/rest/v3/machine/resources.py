"""The JSON of clusters, topics, settings and groups, as v3 shows them. `base` is the address of the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from ottla.client.requests.configs import ConfigEntry, ConfigSource
from ottla.client.requests.groups import GroupDescription, MemberDescription
from ottla.client.requests.metadata import BrokerInfo, PartitionInfo, TopicInfo

_SOURCES: Final = {
    ConfigSource.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.DYNAMIC_BROKER: "DYNAMIC_BROKER_CONFIG",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ConfigSource.STATIC_BROKER: "STATIC_BROKER_CONFIG",
    ConfigSource.DEFAULT: "DEFAULT_CONFIG",
    ConfigSource.OTHER: "UNKNOWN",
}


def resource(kind: str, url: str, **fields: Any) -> dict[str, Any]:
    """One resource with the address of itself."""
    return {"kind": f"Kafka{kind}", "metadata": {"self": url}, **fields}


def listing(kind: str, url: str, items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A list, whole: there are no pages."""
    return {"kind": f"Kafka{kind}List", "metadata": {"self": url, "next": None}, "data": list(items)}


def cluster(base: str, cluster_id: str, controller: int | None) -> dict[str, Any]:
    links = {
        name.replace("-", "_"): related(f"{base}/{name}") for name in ("brokers", "consumer-groups", "topics")
    }
    at = None if controller is None else related(f"{base}/brokers/{controller}")
    return resource("Cluster", base, cluster_id=cluster_id, controller=at, **links)


def broker(base: str, cluster_id: str, each: BrokerInfo) -> dict[str, Any]:
    fields = {"broker_id": each.node_id, "host": each.host, "port": each.port, "rack": each.rack}
    return resource("Broker", f"{base}/brokers/{each.node_id}", cluster_id=cluster_id, **fields)


def topic(base: str, cluster_id: str, each: TopicInfo) -> dict[str, Any]:
    url = f"{base}/topics/{each.name}"
    return resource(
        "Topic",
        url,
        cluster_id=cluster_id,
        topic_name=each.name,
        is_internal=each.is_internal,
        replication_factor=each.replication_factor,
        partitions_count=len(each.partitions),
        partitions=related(f"{url}/partitions"),
        configs=related(f"{url}/configs"),
    )


def partition(base: str, cluster_id: str, name: str, each: PartitionInfo) -> dict[str, Any]:
    url = f"{base}/topics/{name}/partitions/{each.index}"
    leader = None if each.leader is None else related(f"{base}/brokers/{each.leader}")
    return resource(
        "Partition", url, cluster_id=cluster_id, topic_name=name, partition_id=each.index, leader=leader
    )


def topic_config(base: str, cluster_id: str, name: str, each: ConfigEntry) -> dict[str, Any]:
    return resource(
        "TopicConfig",
        f"{base}/topics/{name}/configs/{each.name}",
        cluster_id=cluster_id,
        topic_name=name,
        name=each.name,
        value=each.value,
        is_default=each.source is not ConfigSource.TOPIC,
        is_read_only=each.is_read_only,
        is_sensitive=each.is_sensitive,
        source=_SOURCES[each.source],
    )


def group(base: str, cluster_id: str, each: GroupDescription) -> dict[str, Any]:
    url = f"{base}/consumer-groups/{quote(each.group_id, safe='')}"
    return resource(
        "ConsumerGroup",
        url,
        cluster_id=cluster_id,
        consumer_group_id=each.group_id,
        is_simple=not each.protocol_type,
        partition_assignor=each.protocol,
        state=state_name(each.state),
        coordinator=related(f"{base}/brokers/{each.coordinator}"),
        consumers=related(f"{url}/consumers"),
        lag_summary=related(f"{url}/lag-summary"),
        lags=related(f"{url}/lags"),
    )


def member(base: str, cluster_id: str, group_id: str, each: MemberDescription) -> dict[str, Any]:
    url = f"{base}/consumer-groups/{quote(group_id, safe='')}/consumers/{quote(each.member_id, safe='')}"
    return resource(
        "Consumer",
        url,
        cluster_id=cluster_id,
        consumer_group_id=group_id,
        consumer_id=each.member_id,
        instance_id=each.group_instance_id,
        client_id=each.client_id,
    )


def state_name(state: str) -> str:
    """`PreparingRebalance` is PREPARING_REBALANCE."""
    return "".join(
        f"_{letter}" if letter.isupper() and index else letter for index, letter in enumerate(state)
    ).upper()


def related(url: str) -> dict[str, str]:
    return {"related": url}
