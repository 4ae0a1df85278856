"""The administrator's client: topics, partitions, settings, offsets, groups, brokers.

    async with Admin("localhost:9092") as admin:
        succeeded(await admin.create_topics([NewTopic("orders", partitions=3)]))

Calls that name several items return a value or a `KafkaError` for each (see `outcomes`). A failure that
passes by itself, such as a leader election, is retried until `timeout_ms` is over; a request that must not be
carried out twice is sent again only if it certainly was not carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.client.admin.record_peek import peek
from ottla.client.calls import arguments
from ottla.client.calls.lifetime import Lifetime
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.coordinators import by_coordinator
from ottla.client.cluster.machine.group_inquiries import commit_offsets, fetch_offsets
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaders import AskNode, by_leader
from ottla.client.cluster.machine.retries import Attempt, Inquiry
from ottla.client.cluster.machine.single_brokers import by_any, by_node, by_resource, one_answer
from ottla.client.cluster.machine.topic_inquiries import (
    cluster_metadata_inquiry,
    describe_topics,
    list_offsets,
    topics_of,
)
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
    config_changes,
    config_resources,
    describe_configs_request,
    described_configs,
)
from ottla.client.requests.group_offsets import (
    CommittedOffset,
    CommittedOffsets,
    committable,
    delete_offsets_request,
    deleted_offsets,
)
from ottla.client.requests.groups import (
    SEVERAL_MEMBERS_SINCE,
    GroupDescription,
    GroupListing,
    all_members,
    deleted_groups,
    described_groups,
    list_groups_request,
    listed_groups,
    named_members,
    remove_members_request,
    removed_members,
)
from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.offsets import (
    HIGH_WATERMARK,
    ListedOffset,
    OffsetSpec,
    delete_records_request,
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
    new_topics,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.brokers import UnregisterBrokerRequest
from ottla.protocol.messages.cluster import DescribeClusterRequest, DescribeLogDirsRequest
from ottla.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from ottla.protocol.messages.groups import MemberIdentity

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Admin:
    """Administers a cluster: topics, settings, offsets, groups, brokers.

    It opens its connections in `async with`, which raises CannotConnectError if no bootstrap address can be
    reached. Calls that name several items return a value or a `KafkaError` for each item; `succeeded` turns
    the first error into an exception. `timeout_ms` limits each call, retries included.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        client_id: str = "ottla-admin",
        timeout_ms: int = 30_000,
    ) -> None:
        self._timeout_ms = arguments.whole_number("timeout_ms", timeout_ms, 1, arguments.MOST_INT32)
        self._lifetime = Lifetime("administrator's client")
        self._connections = Connections(
            KnownCluster(arguments.addresses("bootstrap", bootstrap)),
            client_id=arguments.text("client_id", client_id),
            timeout_ms=timeout_ms,
        )

    async def __aenter__(self) -> Admin:
        self._lifetime.needs_new()
        await self._connections.reach()
        self._lifetime.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        self._lifetime.needs_own_loop()
        if self._lifetime.is_open:
            self._lifetime.end()
            await self._connections.close()

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; with `validate_only`, only check whether they could be created."""
        wanted = new_topics("topics", topics)
        arguments.flag("validate_only", validate_only)
        attempt: Attempt[str, NewTopic, CreatedTopic] = by_any(
            lambda pending, left_ms: create_topics_request(pending.values(), left_ms, validate_only),
            lambda response, _: created_topics(response),
        )
        return await self._settle(Inquiry(wanted, attempt, is_repeatable=validate_only))

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics with all their records."""
        wanted = dict.fromkeys(arguments.names("names", names))
        attempt: Attempt[str, None, None] = by_any(
            lambda pending, left_ms: delete_topics_request(list(pending), left_ms),
            lambda response, _: deleted_topics(response),
        )
        return await self._settle(Inquiry(wanted, attempt, is_repeatable=False))

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Let each topic grow to the given number of partitions.

        Records with the same key may go to another partition from then on.
        """
        wanted = arguments.by_name("counts", counts, _count)
        arguments.flag("validate_only", validate_only)
        attempt: Attempt[str, int, None] = by_any(
            lambda pending, left_ms: create_partitions_request(pending, left_ms, validate_only),
            lambda response, _: grown_topics(response),
        )
        return await self._settle(Inquiry(wanted, attempt, is_repeatable=validate_only))

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicInfo]:
        """All topics, by name."""
        arguments.flag("include_internal", include_internal)
        metadata = await self._one(cluster_metadata_inquiry(self._connections.known))
        return topics_of(metadata, include_internal=include_internal)

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicInfo | KafkaError]:
        """The named topics with their partitions, leaders and replicas."""
        return await self._settle(describe_topics(self._connections.known, arguments.names("names", names)))

    async def describe_configs(
        self, resources: Iterable[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        """All settings of topics and brokers, with where each value comes from."""
        wanted = dict.fromkeys(config_resources("resources", resources))
        attempt = by_resource(describe_configs_request, described_configs)
        return await self._settle(Inquiry(wanted, attempt))

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change the named settings and leave all others as they are."""
        wanted = config_changes("changes", changes)
        arguments.flag("validate_only", validate_only)
        attempt: Attempt[ConfigResource, Iterable[ConfigChange], None] = by_resource(
            lambda part: alter_configs_request(part, validate_only), altered_configs
        )
        return await self._settle(Inquiry(wanted, attempt))

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """Offsets by `OffsetSpec`, or of the first record at or after a timestamp in milliseconds."""
        specs = arguments.by_partition("wanted", wanted, _offset_spec)
        arguments.flag("read_committed", read_committed)
        known = self._connections.known
        return await self._settle(list_offsets(known, specs, read_committed=read_committed))

    async def peek(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ConsumerRecord | KafkaError | None]:
        """The first record at or after an offset of each partition; None at the end of the partition."""
        wanted = arguments.by_partition("offsets", offsets, arguments.offset)
        return await self._settle(Inquiry(wanted, by_leader(self._connections.known, peek)))

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete all records before an offset (`HIGH_WATERMARK`: all records); returns the new starts."""

        def ask(
            leader: int, part: Mapping[TopicPartition, int], left_ms: int
        ) -> Steps[Mapping[TopicPartition, int | KafkaError]]:
            return low_watermarks((yield Ask(leader, delete_records_request(part, left_ms), left_ms)))

        wanted = arguments.by_partition("before", before, _end)
        return await self._settle(Inquiry(wanted, by_leader(self._connections.known, ask)))

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """The cluster's id, controller and brokers.

        With `include_fenced`, also brokers that are registered and not alive.
        """
        request = DescribeClusterRequest(
            include_fenced_brokers=arguments.flag("include_fenced", include_fenced)
        )
        return await self._one(one_answer(lambda _: request, described_cluster))

    async def describe_quorum(self) -> QuorumDescription:
        """The leader and voters of the metadata quorum, and the progress of each node."""
        return await self._one(one_answer(lambda _: describe_quorum_request(), described_quorum))

    async def unregister_broker(self, node_id: int) -> None:
        """Forget a broker that is gone for good. It must hold no replicas and must not be alive."""
        node_id = arguments.whole_number("node_id", node_id, most=arguments.MOST_INT32)
        request = UnregisterBrokerRequest(broker_id=node_id)
        await self._one(one_answer(lambda _: request, unregistered_broker))

    async def alter_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move partitions to these brokers, the preferred leader first; None cancels a move."""
        wanted = arguments.by_partition("replicas", replicas, _brokers)
        attempt: Attempt[TopicPartition, Sequence[int] | None, None] = by_any(
            alter_reassignments_request, altered_reassignments
        )
        return await self._settle(Inquiry(wanted, attempt))

    async def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way."""
        return await self._one(one_answer(list_reassignments_request, listed_reassignments))

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition], election: ElectionType = ElectionType.PREFERRED
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the preferred leaders of partitions.

        With `ElectionType.UNCLEAN`, partitions without a leader are given to any live replica, which may lose
        records.
        """
        wanted = dict.fromkeys(arguments.partitions("partitions", partitions))
        if not isinstance(election, ElectionType):
            raise TypeError(f"election must be an ElectionType, not {election!r}")
        attempt: Attempt[TopicPartition, None, None] = by_any(
            lambda pending, left_ms: elect_leaders_request(pending, election, left_ms), elected_leaders
        )
        return await self._settle(Inquiry(wanted, attempt))

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None
    ) -> dict[int, tuple[LogDir, ...] | KafkaError]:
        """The data directories of some brokers, or of all, with the size of every partition's log."""
        if node_ids is None:
            node_ids = [broker.node_id for broker in (await self.describe_cluster()).brokers]
        wanted = dict.fromkeys(arguments.numbers("node_ids", node_ids))
        attempt = by_node(DescribeLogDirsRequest(topics=None), described_log_dirs)
        return await self._settle(Inquiry(wanted, attempt))

    async def list_groups(self, *, states: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, or those in one of these states, by name.

        Every broker is asked for the groups it coordinates.
        """
        wanted = arguments.names("states", states)
        nodes = [broker.node_id for broker in (await self.describe_cluster()).brokers]
        attempt = by_node(list_groups_request(wanted), listed_groups)
        listed = succeeded(await self._settle(Inquiry(dict.fromkeys(nodes), attempt)))
        # Brokers before Kafka 2.6 know no states: they list every group.
        return sorted((group for groups in listed.values() for group in groups), key=lambda g: g.group_id)

    async def describe_groups(self, names: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
        """Groups with their members, and the partitions of each member."""

        def ask(
            coordinator: int, part: Mapping[str, None], left_ms: int
        ) -> Steps[Mapping[str, GroupDescription | KafkaError]]:
            response = yield Ask(coordinator, DescribeGroupsRequest(groups=list(part)), left_ms)
            return described_groups(response, coordinator)

        wanted = dict.fromkeys(arguments.names("names", names))
        return await self._settle(self._by_group(wanted, _itself, ask))

    async def delete_groups(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, with their committed offsets."""

        def ask(
            coordinator: int, part: Mapping[str, None], left_ms: int
        ) -> Steps[Mapping[str, KafkaError | None]]:
            request = DeleteGroupsRequest(groups_names=list(part))
            return deleted_groups((yield Ask(coordinator, request, left_ms)))

        wanted = dict.fromkeys(arguments.names("names", names))
        return await self._settle(self._by_group(wanted, _itself, ask, is_repeatable=False))

    async def remove_members(
        self,
        group_id: str,
        *,
        members: Iterable[str] | None = None,
        instances: Iterable[str] | None = None,
        reason: str = "",
    ) -> dict[str, KafkaError | None]:
        """Remove members from a group: by member id, or static members by `group_instance_id`.

        Without either, all members are removed. The other members share their partitions at once. This is for
        members that are gone: one that still runs joins again. Raises KafkaError if all members are to be
        removed and the group does not exist. The broker logs the reason.
        """
        arguments.name_of("group_id", group_id)
        arguments.text("reason", reason)
        by_id = arguments.names("members", members or ())
        by_instance = arguments.names("instances", instances or ())
        if members is None and instances is None:
            wanted = all_members(succeeded(await self.describe_groups([group_id]))[group_id])
        else:
            wanted = named_members(by_id, by_instance)
        why = f"removed by an administrator{f': {reason}' if reason else ''}"

        def ask(
            coordinator: int, part: Mapping[str, MemberIdentity], left_ms: int
        ) -> Steps[Mapping[str, KafkaError | None]]:
            request = remove_members_request(group_id, part, why)
            try:
                response = yield Ask(coordinator, request, left_ms, at_least=SEVERAL_MEMBERS_SINCE)
            except KafkaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:
                    raise
                needs = f"{error.message}: removing members needs v3 (Kafka 2.4)"
                raise KafkaError(error.code, needs) from error
            return removed_members(response, group_id, part)

        return await self._settle(self._by_group(wanted, lambda _: group_id, ask, is_repeatable=False))

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> CommittedOffsets:
        """The committed offsets of a group: of these partitions, or of all.

        Partitions without a committed offset are left out.
        """
        group_id = arguments.name_of("group_id", group_id)
        wanted = None if partitions is None else arguments.partitions("partitions", partitions)
        inquiry = fetch_offsets(self._connections.known, group_id, wanted)
        outcomes = await self._settle(inquiry)
        return succeeded(outcomes)[group_id]

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit offsets for a group that has no members; the group is created if it does not exist."""
        group_id = arguments.name_of("group_id", group_id)
        wanted = arguments.by_partition("offsets", offsets, committable)
        return await self._settle(commit_offsets(self._connections.known, group_id, wanted))

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete a group's committed offsets of partitions; refused for topics that its members read."""

        def ask(
            coordinator: int, part: Mapping[TopicPartition, None], left_ms: int
        ) -> Steps[Mapping[TopicPartition, KafkaError | None]]:
            response = yield Ask(coordinator, delete_offsets_request(group_id, part), left_ms)
            return deleted_offsets(response, part)

        group_id = arguments.name_of("group_id", group_id)
        wanted = dict.fromkeys(arguments.partitions("partitions", partitions))
        return await self._settle(self._by_group(wanted, lambda _: group_id, ask))

    async def _settle(self, inquiry: Inquiry[K, V, T]) -> dict[K, T | KafkaError]:
        self._lifetime.needs_open()
        return await self._connections.settle(inquiry, self._timeout_ms)

    async def _one(self, inquiry: Inquiry[str, None, T]) -> T:
        """The outcome of an inquiry that has only one, under the key "". Raises it if it is an error."""
        outcomes = await self._settle(inquiry)
        return succeeded(outcomes)[""]

    def _by_group(
        self,
        items: Mapping[K, V],
        group_of: Callable[[K], str],
        ask: AskNode[K, V, T],
        *,
        is_repeatable: bool = True,
    ) -> Inquiry[K, V, T]:
        return Inquiry(items, by_coordinator(self._connections.known, group_of, ask), is_repeatable)


def _itself(group_id: str) -> str:
    return group_id


def _count(name: str, value: object) -> int:
    return arguments.whole_number(name, value, 1, arguments.MOST_INT32)


def _offset_spec(name: str, value: object) -> int:
    return arguments.whole_number(name, value, min(OffsetSpec))


def _end(name: str, value: object) -> int:
    return arguments.whole_number(name, value, HIGH_WATERMARK)


def _brokers(name: str, value: object) -> list[int] | None:
    return None if value is None else arguments.numbers(name, value)
