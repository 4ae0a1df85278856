"""The administrator's client: topics, partitions, settings, offsets, groups, brokers.

    async with Admin("localhost:9092") as admin:
        succeeded(await admin.create_topics([NewTopic("orders", partitions=3)]))

Calls that name several things answer a value or a `KafkaError` for each (see `outcomes`). What passes by itself, such as
a leader that is just being elected, is asked again until `timeout_ms` is over; a request that must not be carried out
twice is sent again only if it certainly was not carried out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ottla.client.admin.record_peek import peek
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.retries import settle
from ottla.client.cluster.routing import by_coordinator, by_leader, by_node, by_resource
from ottla.client.fetching.plan.partition_reader import ConsumerRecord
from ottla.client.requests.brokers import (
    ClusterDescription,
    LogDir,
    described_cluster,
    described_log_dirs,
    unregistered_broker,
)
from ottla.client.requests.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    alter_configs_request,
    altered_configs,
    describe_configs_request,
    described_configs,
)
from ottla.client.requests.group_offsets import (
    CommittedOffset,
    CommittedOffsets,
    commit_offsets,
    delete_offsets_request,
    deleted_offsets,
    fetch_offsets,
)
from ottla.client.requests.groups import (
    GroupDescription,
    GroupListing,
    all_members,
    deleted_groups,
    described_groups,
    list_groups_request,
    listed_groups,
    named_members,
    remove_members,
)
from ottla.client.requests.metadata import ClusterMetadata, TopicInfo
from ottla.client.requests.offsets import (
    ListedOffset,
    delete_records_request,
    list_offsets_request,
    listed_offsets,
    low_watermarks,
)
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.quorum import QuorumDescription, describe_quorum_request, described_quorum
from ottla.client.requests.reassignments import (
    ElectionType,
    Reassignment,
    alter_reassignments_request,
    altered_reassignments,
    elect_leaders_request,
    elected_leaders,
    list_reassignments_request,
    listed_reassignments,
)
from ottla.client.requests.topics import (
    CreatedTopic,
    NewTopic,
    create_partitions_request,
    create_topics_request,
    created_topics,
    delete_topics_request,
    deleted_topics,
    grown_topics,
)
from ottla.errors import KafkaError
from ottla.model import TopicPartition, parse_addresses
from ottla.protocol.messages.brokers import UnregisterBrokerRequest
from ottla.protocol.messages.cluster import DescribeClusterRequest, DescribeLogDirsRequest
from ottla.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from ottla.protocol.messages.groups import MemberIdentity
from ottla.wire.connection import Connection

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Admin:
    """Opens its connections in `async with`, which raises CannotConnectError if no bootstrap address can be reached."""

    def __init__(
        self, bootstrap: str = "localhost:9092", *, client_id: str = "ottla-admin", timeout_ms: int = 30_000
    ) -> None:
        self._timeout_ms = timeout_ms
        self._connections = Connections(
            parse_addresses(bootstrap), client_id=client_id, timeout_ms=timeout_ms
        )

    async def __aenter__(self) -> Admin:
        await self._connections.any()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; with `validate_only`, say only what would come of it."""

        async def attempt(
            pending: Mapping[str, NewTopic], left_ms: int
        ) -> Mapping[str, CreatedTopic | KafkaError]:
            request = create_topics_request(pending.values(), left_ms, validate_only)
            return created_topics(await self._ask_any(request, left_ms))

        return await self._settle({topic.name: topic for topic in topics}, attempt, repeatable=validate_only)

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics with all that is in them."""

        async def attempt(pending: Mapping[str, None], left_ms: int) -> Mapping[str, KafkaError | None]:
            return deleted_topics(await self._ask_any(delete_topics_request(list(pending), left_ms), left_ms))

        return await self._settle(dict.fromkeys(names), attempt, repeatable=False)

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Let topics grow to so many partitions in all. Keys may then go to other partitions than before."""

        async def attempt(pending: Mapping[str, int], left_ms: int) -> Mapping[str, KafkaError | None]:
            request = create_partitions_request(pending, left_ms, validate_only)
            return grown_topics(await self._ask_any(request, left_ms))

        return await self._settle(counts, attempt, repeatable=validate_only)

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicInfo]:
        """All topics, by name."""

        async def attempt(_: Mapping[str, None], left_ms: int) -> Mapping[str, ClusterMetadata | KafkaError]:
            return {"": await self._connections.refresh(None, left_ms)}

        metadata = succeeded(await self._settle({"": None}, attempt))[""]
        topics = (topic for topic in metadata.topics.values() if isinstance(topic, TopicInfo))
        return sorted(
            (each for each in topics if include_internal or not each.is_internal), key=lambda t: t.name
        )

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicInfo | KafkaError]:
        """The named topics with their partitions, leaders and replicas."""

        async def attempt(pending: Mapping[str, None], left_ms: int) -> Mapping[str, TopicInfo | KafkaError]:
            return (await self._connections.refresh(list(pending), left_ms)).topics

        return await self._settle(dict.fromkeys(names), attempt)

    async def describe_configs(
        self, resources: Iterable[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        """All settings of topics and brokers, with where each value comes from."""

        async def ask(
            broker: Connection, part: Mapping[ConfigResource, None], left_ms: int
        ) -> Mapping[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
            return described_configs(await broker.ask(describe_configs_request(part), timeout_ms=left_ms))

        return await self._settle(dict.fromkeys(resources), by_resource(self._connections, ask))

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change the named settings and leave all others as they are."""

        async def ask(
            broker: Connection, part: Mapping[ConfigResource, Iterable[ConfigChange]], left_ms: int
        ) -> Mapping[ConfigResource, KafkaError | None]:
            return altered_configs(
                await broker.ask(alter_configs_request(part, validate_only), timeout_ms=left_ms)
            )

        return await self._settle(changes, by_resource(self._connections, ask))

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """Offsets by `OffsetSpec`, or of the first record at or after a timestamp in milliseconds."""

        async def ask(
            leader: Connection, part: Mapping[TopicPartition, int], left_ms: int
        ) -> Mapping[TopicPartition, ListedOffset | KafkaError]:
            request = list_offsets_request(part, read_committed=read_committed, timeout_ms=left_ms)
            return listed_offsets(await leader.ask(request, timeout_ms=left_ms))

        return await self._settle(wanted, by_leader(self._connections, ask))

    async def peek(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ConsumerRecord | KafkaError | None]:
        """The first record at or after an offset of each partition; None at the end."""

        async def ask(
            leader: Connection, part: Mapping[TopicPartition, int], left_ms: int
        ) -> Mapping[TopicPartition, ConsumerRecord | KafkaError | None]:
            return await peek(leader, part, left_ms)

        return await self._settle(offsets, by_leader(self._connections, ask))

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete all records before an offset (`HIGH_WATERMARK`: all there are); answers where each log starts now."""

        async def ask(
            leader: Connection, part: Mapping[TopicPartition, int], left_ms: int
        ) -> Mapping[TopicPartition, int | KafkaError]:
            return low_watermarks(await leader.ask(delete_records_request(part, left_ms), timeout_ms=left_ms))

        return await self._settle(before, by_leader(self._connections, ask))

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """The cluster's id, controller and brokers; also those that are registered and not alive, if wanted."""
        request = DescribeClusterRequest(include_fenced_brokers=include_fenced)

        async def attempt(
            _: Mapping[str, None], left_ms: int
        ) -> Mapping[str, ClusterDescription | KafkaError]:
            return {"": described_cluster(await self._ask_any(request, left_ms))}

        return succeeded(await self._settle({"": None}, attempt))[""]

    async def describe_quorum(self) -> QuorumDescription:
        """Who leads the metadata quorum, who votes in it, and how far each node has come."""

        async def attempt(
            _: Mapping[str, None], left_ms: int
        ) -> Mapping[str, QuorumDescription | KafkaError]:
            return {"": described_quorum(await self._ask_any(describe_quorum_request(), left_ms))}

        return succeeded(await self._settle({"": None}, attempt))[""]

    async def unregister_broker(self, node_id: int) -> None:
        """Forget a broker that is gone for good. It must hold no replicas and must not be alive."""

        async def attempt(_: Mapping[int, None], left_ms: int) -> Mapping[int, KafkaError | None]:
            request = UnregisterBrokerRequest(broker_id=node_id)
            return {node_id: unregistered_broker(await self._ask_any(request, left_ms))}

        succeeded(await self._settle({node_id: None}, attempt))

    async def alter_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move partitions to these brokers, the preferred leader first; None cancels a move."""

        async def attempt(
            pending: Mapping[TopicPartition, Sequence[int] | None], left_ms: int
        ) -> Mapping[TopicPartition, KafkaError | None]:
            request = alter_reassignments_request(pending, left_ms)
            return altered_reassignments(await self._ask_any(request, left_ms), pending)

        return await self._settle(replicas, attempt)

    async def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way."""

        async def attempt(
            _: Mapping[str, None], left_ms: int
        ) -> Mapping[str, dict[TopicPartition, Reassignment] | KafkaError]:
            return {
                "": listed_reassignments(await self._ask_any(list_reassignments_request(left_ms), left_ms))
            }

        return succeeded(await self._settle({"": None}, attempt))[""]

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition], election: ElectionType = ElectionType.PREFERRED
    ) -> dict[TopicPartition, KafkaError | None]:
        """Give partitions to their preferred leaders; or, unclean, give those without a leader to any live replica."""

        async def attempt(
            pending: Mapping[TopicPartition, None], left_ms: int
        ) -> Mapping[TopicPartition, KafkaError | None]:
            request = elect_leaders_request(pending, election, left_ms)
            return elected_leaders(await self._ask_any(request, left_ms), pending)

        return await self._settle(dict.fromkeys(partitions), attempt)

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None
    ) -> dict[int, tuple[LogDir, ...] | KafkaError]:
        """The data directories of some brokers, or of all, with the size of every partition's log."""
        if node_ids is None:
            node_ids = [broker.node_id for broker in (await self.describe_cluster()).brokers]

        async def ask(broker: Connection, left_ms: int) -> tuple[LogDir, ...] | KafkaError:
            return described_log_dirs(
                await broker.ask(DescribeLogDirsRequest(topics=None), timeout_ms=left_ms)
            )

        return await self._settle(dict.fromkeys(node_ids), by_node(self._connections, ask))

    async def list_groups(self, *, states: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, or those in one of these states, by name; every broker is asked for those it coordinates."""
        wanted = list(states)
        nodes = [broker.node_id for broker in (await self.describe_cluster()).brokers]

        async def ask(broker: Connection, left_ms: int) -> list[GroupListing] | KafkaError:
            return listed_groups(await broker.ask(list_groups_request(wanted), timeout_ms=left_ms))

        listed = succeeded(await self._settle(dict.fromkeys(nodes), by_node(self._connections, ask)))
        # Brokers before Kafka 2.6 know no states: they list everything, and so it is taken.
        return sorted((group for groups in listed.values() for group in groups), key=lambda g: g.group_id)

    async def describe_groups(self, names: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
        """Groups with their members, and with the partitions that each member was given."""

        async def ask(
            coordinator: Connection, part: Mapping[str, None], left_ms: int
        ) -> Mapping[str, GroupDescription | KafkaError]:
            request = DescribeGroupsRequest(groups=list(part))
            node_id = self._connections.node_of(coordinator)
            return described_groups(await coordinator.ask(request, timeout_ms=left_ms), node_id)

        return await self._settle(dict.fromkeys(names), by_coordinator(self._connections, _itself, ask))

    async def delete_groups(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, with their committed offsets."""

        async def ask(
            coordinator: Connection, part: Mapping[str, None], left_ms: int
        ) -> Mapping[str, KafkaError | None]:
            request = DeleteGroupsRequest(groups_names=list(part))
            return deleted_groups(await coordinator.ask(request, timeout_ms=left_ms))

        attempt = by_coordinator(self._connections, _itself, ask)
        return await self._settle(dict.fromkeys(names), attempt, repeatable=False)

    async def remove_members(
        self,
        group_id: str,
        *,
        members: Iterable[str] | None = None,
        instances: Iterable[str] | None = None,
        reason: str = "",
    ) -> dict[str, KafkaError | None]:
        """Take members out of a group: by their ids, static ones by their `group_instance_id`s; without either, all there are.

        The others share at once what these had. It is for members that are gone: one that still runs joins again. Raises
        KafkaError if all are meant and there is no such group. The broker logs the reason.
        """
        if members is None and instances is None:
            wanted = all_members(succeeded(await self.describe_groups([group_id]))[group_id])
        else:
            wanted = named_members(members or (), instances or ())
        why = f"removed by an administrator{f': {reason}' if reason else ''}"

        async def ask(
            coordinator: Connection, part: Mapping[str, MemberIdentity], left_ms: int
        ) -> Mapping[str, KafkaError | None]:
            return await remove_members(coordinator, group_id, part, why, left_ms)

        attempt = by_coordinator(self._connections, lambda _: group_id, ask)
        return await self._settle(wanted, attempt, repeatable=False)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> CommittedOffsets:
        """The committed offsets of a group: of these partitions, or of all. What has none is not in the answer."""
        wanted = None if partitions is None else list(partitions)

        async def ask(
            coordinator: Connection, part: Mapping[str, None], left_ms: int
        ) -> Mapping[str, CommittedOffsets | KafkaError]:
            return {group_id: await fetch_offsets(coordinator, group_id, wanted, timeout_ms=left_ms)}

        attempt = by_coordinator(self._connections, _itself, ask)
        return succeeded(await self._settle({group_id: None}, attempt))[group_id]

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit offsets for a group that has no members; the group comes into being if it is not there."""

        async def ask(
            coordinator: Connection, part: Mapping[TopicPartition, CommittedOffset], left_ms: int
        ) -> Mapping[TopicPartition, KafkaError | None]:
            return await commit_offsets(coordinator, group_id, part, timeout_ms=left_ms)

        return await self._settle(offsets, by_coordinator(self._connections, lambda _: group_id, ask))

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forget where a group was in these partitions; refused for topics that its members read."""

        async def ask(
            coordinator: Connection, part: Mapping[TopicPartition, None], left_ms: int
        ) -> Mapping[TopicPartition, KafkaError | None]:
            request = delete_offsets_request(group_id, part)
            return deleted_offsets(await coordinator.ask(request, timeout_ms=left_ms), part)

        attempt = by_coordinator(self._connections, lambda _: group_id, ask)
        return await self._settle(dict.fromkeys(partitions), attempt)

    async def _settle(
        self,
        items: Mapping[K, V],
        attempt: Callable[[Mapping[K, V], int], Awaitable[Mapping[K, T | KafkaError]]],
        *,
        repeatable: bool = True,
    ) -> dict[K, T | KafkaError]:
        return await settle(items, attempt, repeatable=repeatable, timeout_ms=self._timeout_ms)

    async def _ask_any(self, request: Any, timeout_ms: int) -> Any:
        return await (await self._connections.any()).ask(request, timeout_ms=timeout_ms)


def _itself(group_id: str) -> str:
    return group_id
