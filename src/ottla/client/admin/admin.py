"""The administrator's client: topics, partitions, settings, offsets, groups, transactions, brokers, rights.

    async with Admin("localhost:9092") as admin:
        succeeded(await admin.create_topics([NewTopic("orders", partitions=3)]))

Calls that name several items return a value or a `KafkaError` for each (see `outcomes`). A failure that
passes by itself, such as a leader election, is retried until `timeout_ms` is over; a request that must not be
carried out twice is sent again only if it certainly was not carried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from ottla.client.admin.plan import (
    broker_questions,
    group_questions,
    partition_moves,
    security_questions,
    token_questions,
    topic_changes,
    transaction_questions,
)
from ottla.client.admin.record_peek import peek
from ottla.client.calls import arguments
from ottla.client.calls.lifetime import Lifetime
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.machine.group_inquiries import commit_offsets, fetch_offsets
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaderless_partitions import describe_leaderless, elect_replicas
from ottla.client.cluster.machine.leaders import by_leader
from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.cluster.machine.topic_inquiries import (
    cluster_metadata_inquiry,
    describe_topics,
    list_offsets,
    topics_of,
)
from ottla.client.fetching.plan.partition_reader import ConsumerRecord
from ottla.client.requests import quorum, transactions
from ottla.client.requests.acls import acl_filter, acl_filters, acls_to_create
from ottla.client.requests.brokers import ClusterDescription, LogDir
from ottla.client.requests.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    config_changes,
    config_resources,
    resource_type,
)
from ottla.client.requests.delegation_tokens import DelegationToken
from ottla.client.requests.features import Feature
from ottla.client.requests.group_offsets import CommittedOffset, CommittedOffsets, committable
from ottla.client.requests.groups import GroupDescription, GroupListing, all_members, named_members
from ottla.client.requests.leaderless import LeaderlessPartition
from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.offsets import ListedOffset, end_offset, offset_spec
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.quotas import QuotaEntity, quota_changes
from ottla.client.requests.reassignments import ElectionType, Reassignment, election_type, replicas_or_none
from ottla.client.requests.topics import CreatedTopic, NewTopic, new_topics
from ottla.client.requests.users import UserChange, user_changes
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.runtime.randomness import OsRandomness
from ottla.security.acl.rules import Acl, AclFilter
from ottla.security.settings import Security

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Admin:
    """Administers a cluster: topics, settings, offsets, groups, transactions, brokers, rights, quotas.

    It opens its connections in `async with`, which raises CannotConnectError if no bootstrap address can be
    reached. Calls that name several items return a value or a `KafkaError` for each item; `succeeded` turns
    the first error into an exception. `timeout_ms` limits each call, retries included. `security` says how to
    reach a secured cluster (`ottla.Security`).
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        client_id: str = "ottla-admin",
        timeout_ms: int = 30_000,
        security: Security | None = None,
    ) -> None:
        self._timeout_ms = arguments.whole_number("timeout_ms", timeout_ms, 1, arguments.MOST_INT32)
        self._lifetime = Lifetime("administrator's client")
        self._connections = Connections(
            KnownCluster(arguments.addresses("bootstrap", bootstrap)),
            client_id=arguments.text("client_id", client_id),
            timeout_ms=timeout_ms,
            security=arguments.security_of(security),
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
        return await self._settle(topic_changes.create_topics(wanted, validate_only=validate_only))

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics with all their records."""
        return await self._settle(topic_changes.delete_topics(arguments.names("names", names)))

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Let each topic grow to the given number of partitions.

        Records with the same key may go to another partition from then on.
        """
        wanted = arguments.by_name("counts", counts, arguments.count)
        arguments.flag("validate_only", validate_only)
        return await self._settle(topic_changes.create_partitions(wanted, validate_only=validate_only))

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicInfo]:
        """All topics, by name."""
        arguments.flag("include_internal", include_internal)
        metadata = await self._one(cluster_metadata_inquiry(self._connections.known))
        return topics_of(metadata, include_internal=include_internal)

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicInfo | KafkaError]:
        """The named topics with their partitions, leaders and replicas."""
        return await self._settle(describe_topics(self._connections.known, arguments.names("names", names)))

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Iterable[str] = ()
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        """All settings of topics and brokers, or those of some names, with where each value comes from."""
        wanted, named = config_resources("resources", resources), arguments.names("names", names)
        return await self._settle(broker_questions.describe_configs(wanted, named))

    async def list_config_resources(self, kind: ResourceType) -> list[ConfigResource]:
        """The resources of a kind that have settings."""
        return await self._one(broker_questions.list_config_resources(resource_type("kind", kind)))

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change the named settings and leave all others as they are."""
        wanted = config_changes("changes", changes)
        arguments.flag("validate_only", validate_only)
        return await self._settle(broker_questions.alter_configs(wanted, validate_only=validate_only))

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """Offsets by `OffsetSpec`, or of the first record at or after a timestamp in milliseconds."""
        specs = arguments.by_partition("wanted", wanted, offset_spec)
        arguments.flag("read_committed", read_committed)
        return await self._settle(list_offsets(self._connections.known, specs, read_committed=read_committed))

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
        wanted = arguments.by_partition("before", before, end_offset)
        return await self._settle(topic_changes.delete_records(self._connections.known, wanted))

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """The cluster's id, controller and brokers.

        With `include_fenced`, also brokers that are registered and not alive.
        """
        arguments.flag("include_fenced", include_fenced)
        return await self._one(broker_questions.describe_cluster(include_fenced=include_fenced))

    async def describe_quorum(self) -> quorum.QuorumDescription:
        """The leader and voters of the metadata quorum, and the progress of each node."""
        return await self._one(broker_questions.describe_quorum())

    async def add_voter(self, node_id: int, directory_id: UUID, address: str) -> None:
        """Make a controller among the observers of `describe_quorum` a voter, once it has caught up.

        `address` (host:port) is where other voters reach the node: at the listener of the quorum, which need not be
        that of clients.
        """
        voter = quorum.voter_key(node_id, directory_id)
        places = arguments.addresses("address", arguments.text("address", address))
        listener_name = (await self.describe_quorum()).listener_name
        place = quorum.QuorumAddress(listener_name, places[0])
        await self._one(broker_questions.add_voter(voter, place))

    async def remove_voter(self, node_id: int, directory_id: UUID) -> None:
        """Let a voter of the metadata quorum vote no more; `directory_id` as in `describe_quorum`."""
        await self._one(broker_questions.remove_voter(quorum.voter_key(node_id, directory_id)))

    async def describe_features(self) -> dict[str, Feature]:
        """The features that the broker supports, and the level of each that the whole cluster works at."""
        return await self._one(broker_questions.describe_features())

    async def update_feature(self, name: str, level: int, *, downgrades: bool = False) -> None:
        """Raise the level of a feature, or lower it with `downgrades`; 0 does without the feature.

        A level is taken only if every broker supports it.
        """
        named, wanted = arguments.text("name", name), arguments.whole_number("level", level, most=2**15 - 1)
        lowers = arguments.flag("downgrades", downgrades)
        await self._one(broker_questions.update_feature(named, wanted, downgrades=lowers))

    async def unregister_broker(self, node_id: int) -> None:
        """Forget a broker that is gone for good. It must hold no replicas and must not be alive."""
        await self._one(broker_questions.unregister_broker(arguments.broker("node_id", node_id)))

    async def alter_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move partitions to these brokers, the preferred leader first; None cancels a move."""
        wanted = arguments.by_partition("replicas", replicas, replicas_or_none)
        return await self._settle(partition_moves.alter_reassignments(wanted))

    async def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way."""
        return await self._one(partition_moves.list_reassignments())

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition], election: ElectionType = ElectionType.PREFERRED
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the preferred leaders of partitions.

        With `ElectionType.UNCLEAN`, partitions without a leader are given to any live replica, which may lose
        records.
        """
        wanted = arguments.partitions("partitions", partitions)
        return await self._settle(partition_moves.elect_leaders(wanted, election_type("election", election)))

    async def describe_leaderless(
        self, topics: Iterable[str] | None = None
    ) -> dict[TopicPartition, LeaderlessPartition]:
        """The partitions without a leader, of some topics or of all, with the logs of their live replicas.

        Each live replica comes with the number of records that its election would give up, as far as the
        other live replicas show.
        """
        return await self._one(describe_leaderless(arguments.names("topics", topics or ())))

    async def elect_replicas(
        self, leaders: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the named replica of each partition without a leader. Records that it does not hold are lost.

        A replica that holds every acknowledged record is elected instead, if there is one by now. Only
        Ottla's brokers know this election.
        """
        return await self._settle(
            elect_replicas(arguments.by_partition("leaders", leaders, arguments.broker))
        )

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None
    ) -> dict[int, tuple[LogDir, ...] | KafkaError]:
        """The data directories of some brokers, or of all, with the size of every partition's log."""
        wanted = await self._brokers() if node_ids is None else arguments.numbers("node_ids", node_ids)
        return await self._settle(broker_questions.describe_log_dirs(wanted))

    async def list_groups(self, *, states: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, or those in one of these states, by name: each broker lists those that it coordinates."""
        wanted = arguments.names("states", states)
        inquiry = group_questions.list_groups(await self._brokers(), wanted)
        outcomes = await self._settle(inquiry)
        listed = succeeded(outcomes)
        # Brokers before Kafka 2.6 know no states: they list every group.
        return sorted((group for groups in listed.values() for group in groups), key=lambda g: g.group_id)

    async def describe_groups(self, names: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
        """Groups with their members, and the partitions of each member."""
        wanted = arguments.names("names", names)
        return await self._settle(group_questions.describe_groups(self._connections.known, wanted))

    async def delete_groups(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, with their committed offsets."""
        wanted = arguments.names("names", names)
        return await self._settle(group_questions.delete_groups(self._connections.known, wanted))

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
        known = self._connections.known
        return await self._settle(group_questions.remove_members(known, group_id, wanted, reason))

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
        group_id = arguments.name_of("group_id", group_id)
        wanted = arguments.partitions("partitions", partitions)
        known = self._connections.known
        return await self._settle(group_questions.delete_group_offsets(known, group_id, wanted))

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[transactions.TransactionListing]:
        """All transactional ids, by name, or those that pass every filter given.

        With `open_for_ms`, only transactions that began at least so long ago (Kafka 3.8); with `pattern`,
        only ids that this regular expression matches (Kafka 4.1). Every broker is asked for those that it
        coordinates.
        """
        filters = transactions.transaction_filters(states, producer_ids, open_for_ms, pattern)
        inquiry = transaction_questions.list_transactions(await self._brokers(), filters)
        outcomes = await self._settle(inquiry)
        listed = succeeded(outcomes)
        return sorted((each for some in listed.values() for each in some), key=lambda t: t.transactional_id)

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, transactions.TransactionDescription | KafkaError]:
        """The latest transaction of each transactional id: state, producer, start and partitions."""
        wanted = arguments.names("transactional_ids", transactional_ids)
        known = self._connections.known
        return await self._settle(transaction_questions.describe_transactions(known, wanted))

    async def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, transactions.FencedProducer | KafkaError]:
        """Fence the producers that use these transactional ids. An open transaction of theirs is aborted."""
        wanted = arguments.names("transactional_ids", transactional_ids)
        return await self._settle(transaction_questions.fence_producers(self._connections.known, wanted))

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[transactions.ActiveProducer, ...] | KafkaError]:
        """The idempotent and transactional producers that the leader of each partition knows."""
        wanted = arguments.partitions("partitions", partitions)
        return await self._settle(transaction_questions.describe_producers(self._connections.known, wanted))

    async def abort_transaction(
        self, partition: TopicPartition, producer: transactions.ActiveProducer
    ) -> None:
        """Abort a hanging transaction in one partition; `producer` as `describe_producers` returned it.

        Use `fence_producers` for a transaction that its coordinator knows: aborting one partition of it would
        leave half of a transaction that is committed later.
        """
        where = arguments.partition("partition", partition)
        if not isinstance(producer, transactions.ActiveProducer):
            raise TypeError(f"producer must be an ActiveProducer, not {producer!r}")
        inquiry = transaction_questions.abort_transaction(self._connections.known, where, producer)
        outcomes = await self._settle(inquiry)
        succeeded(outcomes)

    async def find_hanging_transactions(
        self, partitions: Iterable[TopicPartition], *, silent_since_ms: int
    ) -> list[transactions.HangingTransaction]:
        """Open transactions of these partitions that no coordinator will end, the oldest first.

        Only producers count that wrote nothing after the moment `silent_since_ms` (milliseconds since 1970):
        a transaction that has just begun may not be known to its coordinator yet.
        """
        arguments.whole_number("silent_since_ms", silent_since_ms)
        candidates = transactions.open_transactions(
            succeeded(await self.describe_producers(partitions)), silent_since_ms
        )
        if not candidates:
            return []
        listed = await self.list_transactions(producer_ids={each.producer_id for _, each in candidates})
        described = await self.describe_transactions([each.transactional_id for each in listed])
        return transactions.hanging_transactions(candidates, listed, described)

    async def describe_acls(self, wanted: AclFilter = AclFilter()) -> list[Acl]:  # noqa: B008 - frozen
        """The access control lists that a filter finds; without a filter, all."""
        return await self._one(security_questions.describe_acls(acl_filter("wanted", wanted)))

    async def create_acls(self, acls: Iterable[Acl]) -> dict[Acl, KafkaError | None]:
        """Allow or deny what each access control list says; one that is there already stays."""
        return await self._settle(security_questions.create_acls(acls_to_create("acls", acls)))

    async def delete_acls(self, filters: Iterable[AclFilter]) -> dict[AclFilter, list[Acl] | KafkaError]:
        """Delete the access control lists that each filter finds; they are returned."""
        return await self._settle(security_questions.delete_acls(acl_filters("filters", filters)))

    async def describe_users(
        self, names: Iterable[str] | None = None
    ) -> dict[str, dict[str, int] | KafkaError]:
        """The users that log in with a password: all, or these, each with its mechanisms and their iterations."""
        wanted = None if names is None else arguments.names("names", names)
        return await self._one(security_questions.describe_users(wanted))

    async def alter_users(self, changes: Iterable[UserChange]) -> dict[str, KafkaError | None]:
        """Give users passwords, and take them away. A password is salted here, and is not sent."""
        wanted, random = user_changes("changes", changes), OsRandomness()
        return await self._settle(security_questions.alter_users(wanted, lambda: random.uuid4().bytes))

    async def describe_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of all users, client ids and addresses that have some."""
        return await self._one(security_questions.describe_quotas())

    async def alter_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]]
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set quotas by their names, such as `producer_byte_rate` in bytes per second; None removes one."""
        return await self._settle(security_questions.alter_quotas(quota_changes("changes", changes)))

    async def create_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int | None = None
    ) -> DelegationToken:
        """A new delegation token: a login as `owner`, without one as yourself. `renewers` may renew it, too."""
        return await self._one(token_questions.create(owner, renewers, max_lifetime_ms))

    async def renew_token(self, token: DelegationToken | bytes, *, period_ms: int | None = None) -> int:
        """Prolong a token, named by its HMAC, within its longest life; returns when the token expires."""
        return await self._one(token_questions.renew(token, period_ms))

    async def expire_token(self, token: DelegationToken | bytes, *, after_ms: int | None = None) -> int:
        """End a token at once, or after a time; returns when the token expires."""
        return await self._one(token_questions.expire(token, after_ms))

    async def describe_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The tokens that you may see: all, or those that belong to these principals."""
        return await self._one(token_questions.describe(owners))

    async def _settle(self, inquiry: Inquiry[K, V, T]) -> dict[K, T | KafkaError]:
        self._lifetime.needs_open()
        return await self._connections.settle(inquiry, self._timeout_ms)

    async def _one(self, inquiry: Inquiry[str, None, T]) -> T:
        """The outcome of an inquiry that has only one, under the key "". Raises it if it is an error."""
        outcomes = await self._settle(inquiry)
        return succeeded(outcomes)[""]

    async def _brokers(self) -> list[int]:
        return [broker.node_id for broker in (await self.describe_cluster()).brokers]
