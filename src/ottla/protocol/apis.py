"""The APIs: which key is which question, and which versions of it are served.

`APIS` is what a listener serves; ApiVersions tells clients the same table, except that it claims Produce from
version 0 on, because librdkafka before 2.11.1 compresses only if it sees that version (KAFKA-18659), and that it
leaves out `CLIENT_METRICS_APIS` where the broker wants no metrics of clients: clients that see them use them. The
minima are floors: older librdkafka switches features off if a range does not contain exactly the version it
looks for. `INTERNAL_APIS` are what brokers tell the controller, `QUORUM_APIS` what the nodes of the metadata
quorum ask each other: served and not advertised, for a node knows the versions of its peers. `OWN_APIS` are
questions of Ottla's own clients: not advertised either, because Kafka has no such keys. `api_of` finds an
API in whichever table it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final


class ApiKey(IntEnum):
    """Every API key that Kafka 4.3 defines, served or not, so that a log line can name what was asked; and those that
    Ottla has for itself, far outside Kafka's.
    """

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    ALTER_REMOTE_LOG = 20480
    DESCRIBE_REMOTE_LOG = 20481
    LIST_REMOTE_SEGMENTS = 20482


class Api:
    """One API: the versions that are served, the lowest one that is advertised, and its messages.

    The messages are imported when the first of them travels: there are two hundred declarations, and a broker
    that is to be ready in a fraction of a second needs a dozen. A test holds the numbers here equal to the
    declarations.
    """

    def __init__(
        self,
        key: ApiKey,
        module: str,
        versions: tuple[int, int],
        *,
        flexible: int | None,
        advertised_min_version: int | None = None,
    ) -> None:
        self.key = key
        self.min_version, self.max_version = versions
        self.first_flexible_version = flexible
        self.advertised_min_version = (
            self.min_version if advertised_min_version is None else advertised_min_version
        )
        self._module = f"ottla.protocol.messages.{module}"
        self._name = "".join(word.capitalize() for word in key.name.split("_"))

    def __repr__(self) -> str:
        return f"Api({self._name}, {self.min_version} to {self.max_version})"

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    @cached_property
    def request(self) -> type[Any]:
        """The declaration of the question."""
        return self._declaration("Request")

    @cached_property
    def response(self) -> type[Any]:
        """The declaration of the answer."""
        return self._declaration("Response")

    def _declaration(self, kind: str) -> type[Any]:
        found: type[Any] = getattr(import_module(self._module), self._name + kind)
        return found


def _by_key(apis: Iterable[Api]) -> Mapping[int, Api]:
    return MappingProxyType({int(api.key): api for api in apis})


APIS: Final = _by_key(
    [
        Api(ApiKey.PRODUCE, "produce", (3, 13), flexible=9, advertised_min_version=0),
        Api(ApiKey.FETCH, "fetch", (4, 18), flexible=12),
        Api(ApiKey.LIST_OFFSETS, "list_offsets", (1, 11), flexible=6),
        Api(ApiKey.METADATA, "metadata", (0, 13), flexible=9),
        Api(ApiKey.FIND_COORDINATOR, "coordinator", (0, 6), flexible=3),
        Api(ApiKey.SASL_HANDSHAKE, "sasl", (0, 1), flexible=None),
        Api(ApiKey.API_VERSIONS, "api_versions", (0, 4), flexible=3),
        Api(ApiKey.SASL_AUTHENTICATE, "sasl", (0, 2), flexible=2),
        Api(ApiKey.CREATE_TOPICS, "topics", (2, 7), flexible=5),
        Api(ApiKey.DELETE_TOPICS, "topics", (1, 6), flexible=4),
        Api(ApiKey.DELETE_RECORDS, "topics", (0, 2), flexible=2),
        Api(ApiKey.INIT_PRODUCER_ID, "producer_ids", (0, 6), flexible=2),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "leader_epochs", (2, 4), flexible=4),
        Api(ApiKey.WRITE_TXN_MARKERS, "transactions", (1, 2), flexible=1),
        Api(ApiKey.DESCRIBE_PRODUCERS, "transaction_admin", (0, 0), flexible=0),
        Api(ApiKey.DESCRIBE_CONFIGS, "configs", (1, 4), flexible=4),
        Api(ApiKey.ALTER_CONFIGS, "configs", (0, 2), flexible=2),
        Api(ApiKey.DESCRIBE_LOG_DIRS, "cluster", (1, 5), flexible=2),
        Api(ApiKey.CREATE_PARTITIONS, "topics", (0, 3), flexible=2),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "configs", (0, 1), flexible=1),
        Api(ApiKey.DESCRIBE_CLUSTER, "cluster", (0, 2), flexible=0),
        Api(ApiKey.LIST_CONFIG_RESOURCES, "configs", (0, 1), flexible=0),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "cluster", (0, 0), flexible=0),
        Api(ApiKey.OFFSET_COMMIT, "offsets", (2, 10), flexible=8),
        Api(ApiKey.OFFSET_FETCH, "offsets", (1, 10), flexible=6),
        Api(ApiKey.JOIN_GROUP, "groups", (0, 9), flexible=6),
        Api(ApiKey.HEARTBEAT, "groups", (0, 4), flexible=4),
        Api(ApiKey.LEAVE_GROUP, "groups", (0, 5), flexible=4),
        Api(ApiKey.SYNC_GROUP, "groups", (0, 5), flexible=4),
        Api(ApiKey.DESCRIBE_GROUPS, "group_admin", (0, 6), flexible=5),
        Api(ApiKey.LIST_GROUPS, "group_admin", (0, 5), flexible=3),
        Api(ApiKey.DELETE_GROUPS, "group_admin", (0, 2), flexible=2),
        Api(ApiKey.OFFSET_DELETE, "offsets", (0, 0), flexible=None),
        Api(ApiKey.ELECT_LEADERS, "partitions", (0, 2), flexible=2),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "partitions", (0, 1), flexible=0),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "partitions", (0, 0), flexible=0),
        Api(ApiKey.DESCRIBE_QUORUM, "quorum", (0, 2), flexible=0),
        Api(ApiKey.UPDATE_FEATURES, "features", (0, 2), flexible=0),
        Api(ApiKey.UNREGISTER_BROKER, "brokers", (0, 0), flexible=0),
        Api(ApiKey.ADD_RAFT_VOTER, "raft_voters", (0, 1), flexible=0),
        Api(ApiKey.REMOVE_RAFT_VOTER, "raft_voters", (0, 0), flexible=0),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, "transactions", (0, 5), flexible=3),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, "transactions", (0, 4), flexible=3),
        Api(ApiKey.END_TXN, "transactions", (0, 5), flexible=3),
        Api(ApiKey.TXN_OFFSET_COMMIT, "transactions", (0, 5), flexible=3),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, "transaction_admin", (0, 0), flexible=0),
        Api(ApiKey.LIST_TRANSACTIONS, "transaction_admin", (0, 2), flexible=0),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "user_scram_credentials", (0, 0), flexible=0),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "user_scram_credentials", (0, 0), flexible=0),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, "delegation_tokens", (1, 3), flexible=2),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, "delegation_tokens", (1, 2), flexible=2),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, "delegation_tokens", (1, 2), flexible=2),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "delegation_tokens", (1, 3), flexible=2),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "client_quotas", (0, 1), flexible=1),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, "client_quotas", (0, 1), flexible=1),
        Api(ApiKey.DESCRIBE_ACLS, "acls", (1, 3), flexible=2),
        Api(ApiKey.CREATE_ACLS, "acls", (1, 3), flexible=2),
        Api(ApiKey.DELETE_ACLS, "acls", (1, 3), flexible=2),
        Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "client_telemetry", (0, 0), flexible=0),
        Api(ApiKey.PUSH_TELEMETRY, "client_telemetry", (0, 0), flexible=0),
    ]
)

CLIENT_METRICS_APIS: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})

INTERNAL_APIS: Final = _by_key(
    [
        Api(ApiKey.ALTER_PARTITION, "partitions", (2, 3), flexible=0),
        Api(ApiKey.ENVELOPE, "envelope", (0, 0), flexible=0),
        Api(ApiKey.BROKER_REGISTRATION, "brokers", (0, 4), flexible=0),
        Api(ApiKey.BROKER_HEARTBEAT, "brokers", (0, 1), flexible=0),
        Api(ApiKey.ALLOCATE_PRODUCER_IDS, "producer_ids", (0, 0), flexible=0),
        Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "brokers", (0, 0), flexible=0),
        Api(ApiKey.ALTER_REMOTE_LOG, "remote_logs", (0, 0), flexible=0),
    ]
)

QUORUM_APIS: Final = _by_key(
    [
        Api(ApiKey.VOTE, "quorum", (0, 2), flexible=0),
        Api(ApiKey.BEGIN_QUORUM_EPOCH, "quorum", (0, 1), flexible=1),
        Api(ApiKey.END_QUORUM_EPOCH, "quorum", (0, 1), flexible=1),
        Api(ApiKey.FETCH_SNAPSHOT, "quorum", (0, 1), flexible=0),
    ]
)

OWN_APIS: Final = _by_key(
    [
        Api(ApiKey.DESCRIBE_REMOTE_LOG, "remote_logs", (0, 0), flexible=0),
        Api(ApiKey.LIST_REMOTE_SEGMENTS, "remote_logs", (0, 0), flexible=0),
    ]
)

DECLARED_APIS: Final[Mapping[int, Api]] = MappingProxyType(
    {**APIS, **INTERNAL_APIS, **QUORUM_APIS, **OWN_APIS}
)


def api_of(key: int) -> Api | None:
    """The API with this key, advertised or not; None if none is declared."""
    return DECLARED_APIS.get(key)
