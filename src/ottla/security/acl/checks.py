"""The table of checks: for each API the rights that it asks for, and the answer to a caller without them.

The table is the source of three things: the broker takes the rights and the error of each check from here
(`server/guards`), docs/security.md shows the table, and a test walks over it with no right, with each single
right, and with all. The operations and resources are those that Kafka checks.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.security.acl.rules import AUTHORIZATION_ERRORS, Operation, ResourceType


class Refusal(Enum):
    """The part of an answer that a missing right changes."""

    WHOLE = "the whole request has the error"
    EACH = "the resource has the error, the others are answered"
    TOGETHER = "the resource has the error, the others OPERATION_NOT_ATTEMPTED"
    HIDDEN = "the answer leaves the resource out"
    MASKED = "the answer leaves the field out"


class Right(NamedTuple):
    """One operation on the resource that a request names; `of_any` where a right on any such resource will do."""

    operation: Operation
    resource_type: ResourceType
    of_any: bool = False


class Check(NamedTuple):
    """A check of an API: one of its rights is enough. `applies` says to which requests, or parts of the answer."""

    rights: tuple[Right, ...]
    refusal: Refusal
    error: ErrorCode
    applies: str = ""
    api: ApiKey = ApiKey.API_VERSIONS


def _check(refusal: Refusal, *rights: Right, applies: str = "", error: ErrorCode | None = None) -> Check:
    return Check(rights, refusal, error or AUTHORIZATION_ERRORS[rights[-1].resource_type], applies)


def _by_api(table: Mapping[ApiKey, tuple[Check, ...]]) -> Mapping[ApiKey, tuple[Check, ...]]:
    named = {api: tuple(check._replace(api=api) for check in checks) for api, checks in table.items()}
    return MappingProxyType(named)


def _topic(operation: Operation, *, of_any: bool = False) -> Right:
    return Right(operation, ResourceType.TOPIC, of_any)


def _group(operation: Operation) -> Right:
    return Right(operation, ResourceType.GROUP)


def _transactional_id(operation: Operation) -> Right:
    return Right(operation, ResourceType.TRANSACTIONAL_ID)


def _cluster(operation: Operation) -> Right:
    return Right(operation, ResourceType.CLUSTER)


def _user(operation: Operation) -> Right:
    return Right(operation, ResourceType.USER)


_READ, _WRITE, _CREATE, _DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
_ALTER, _DESCRIBE = Operation.ALTER, Operation.DESCRIBE
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
_WHOLE, _EACH, _HIDDEN, _MASKED = Refusal.WHOLE, Refusal.EACH, Refusal.HIDDEN, Refusal.MASKED

_ALTERS_CLUSTER: Final = _check(_WHOLE, _cluster(_ALTER))
_DESCRIBES_CLUSTER: Final = _check(_WHOLE, _cluster(_DESCRIBE))
_READS_GROUP: Final = _check(_WHOLE, _group(_READ))
_OF_NODES: Final = _check(_WHOLE, _cluster(Operation.CLUSTER_ACTION))
_IN_TRANSACTION: Final = _check(_WHOLE, _transactional_id(_WRITE))
_CLUSTER_OPERATIONS: Final = _check(
    _MASKED, _cluster(_DESCRIBE), applies="the authorized operations of the cluster"
)
_TOPIC_ERROR: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED

# Logging in, and finding out how to speak to the broker, come before any right. Metrics that clients push ask for
# none, as in Kafka: a client tells of itself, and sees nothing of others.
UNCHECKED: Final = frozenset(
    {
        *(ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
        *(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY),
    }
)

CHECKS: Final = _by_api(
    {
        # Records
        ApiKey.PRODUCE: (
            _IN_TRANSACTION._replace(applies="records of a transaction"),
            _check(_EACH, _topic(_WRITE)),
        ),
        ApiKey.INIT_PRODUCER_ID: (
            _IN_TRANSACTION._replace(applies="a producer with a transactional id"),
            _check(
                _WHOLE,
                _topic(_WRITE, of_any=True),
                _cluster(Operation.IDEMPOTENT_WRITE),
                applies="any other producer",
            ),
            _check(
                _WHOLE,
                _transactional_id(Operation.TWO_PHASE_COMMIT),
                applies="a producer that prepares transactions",
            ),
        ),
        ApiKey.FETCH: (
            _check(_EACH, _topic(_READ), applies="the fetch of a consumer"),
            _check(
                _EACH,
                _cluster(Operation.CLUSTER_ACTION),
                error=_TOPIC_ERROR,
                applies="the fetch of a follower",
            ),
            _OF_NODES._replace(applies="the fetch of a node of the metadata quorum"),
        ),
        ApiKey.LIST_OFFSETS: (_check(_EACH, _topic(_DESCRIBE)),),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (
            _check(_EACH, _cluster(Operation.CLUSTER_ACTION), _topic(_DESCRIBE)),
        ),
        ApiKey.DELETE_RECORDS: (_check(_EACH, _topic(_DELETE)),),
        ApiKey.DESCRIBE_PRODUCERS: (_check(_EACH, _topic(_READ)),),
        ApiKey.DESCRIBE_LOG_DIRS: (_DESCRIBES_CLUSTER,),
        ApiKey.DESCRIBE_REMOTE_LOG: (_DESCRIBES_CLUSTER,),
        ApiKey.LIST_REMOTE_SEGMENTS: (_check(_EACH, _topic(_READ)),),
        # Topics
        ApiKey.METADATA: (
            _check(_EACH, _topic(_DESCRIBE), applies="a topic that the request names"),
            _check(_HIDDEN, _topic(_DESCRIBE), applies="a topic of a request for all topics"),
            _check(
                _EACH,
                _cluster(_CREATE),
                _topic(_CREATE),
                applies="a topic that would be created because the request names it",
            ),
            _CLUSTER_OPERATIONS,
        ),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
            _check(_EACH, _topic(_DESCRIBE), applies="a topic that the request names"),
            _check(_HIDDEN, _topic(_DESCRIBE), applies="a topic of a request for all topics"),
        ),
        ApiKey.CREATE_TOPICS: (
            _check(_EACH, _cluster(_CREATE), _topic(_CREATE)),
            _check(_MASKED, _topic(_DESCRIBE_CONFIGS), applies="the settings of the created topic"),
        ),
        ApiKey.DELETE_TOPICS: (_check(_EACH, _cluster(_DELETE), _topic(_DELETE)),),
        ApiKey.CREATE_PARTITIONS: (_check(_EACH, _topic(_ALTER)),),
        ApiKey.ELECT_LEADERS: (_ALTERS_CLUSTER,),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_ALTERS_CLUSTER,),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (_DESCRIBES_CLUSTER,),
        # Groups
        ApiKey.FIND_COORDINATOR: (
            _check(_EACH, _group(_DESCRIBE), applies="the coordinator of a group"),
            _check(_EACH, _transactional_id(_DESCRIBE), applies="the coordinator of a transactional id"),
        ),
        ApiKey.JOIN_GROUP: (_READS_GROUP,),
        ApiKey.SYNC_GROUP: (_READS_GROUP,),
        ApiKey.HEARTBEAT: (_READS_GROUP,),
        ApiKey.LEAVE_GROUP: (_READS_GROUP,),
        ApiKey.DESCRIBE_GROUPS: (_check(_EACH, _group(_DESCRIBE)),),
        ApiKey.LIST_GROUPS: (_check(_HIDDEN, _cluster(_DESCRIBE), _group(_DESCRIBE)),),
        ApiKey.DELETE_GROUPS: (_check(_EACH, _group(_DELETE)),),
        ApiKey.OFFSET_COMMIT: (_READS_GROUP, _check(_EACH, _topic(_READ))),
        ApiKey.OFFSET_FETCH: (
            _check(_EACH, _group(_DESCRIBE)),
            _check(_EACH, _topic(_DESCRIBE), applies="a topic that the request names"),
            _check(_HIDDEN, _topic(_DESCRIBE), applies="a topic of a request for all topics"),
        ),
        ApiKey.OFFSET_DELETE: (_check(_WHOLE, _group(_DELETE)), _check(_EACH, _topic(_READ))),
        # Transactions
        ApiKey.ADD_PARTITIONS_TO_TXN: (
            _IN_TRANSACTION._replace(applies="a producer, up to version 3"),
            _check(Refusal.TOGETHER, _topic(_WRITE), applies="a producer, up to version 3"),
            _OF_NODES._replace(applies="a broker, from version 4 on"),
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: (_IN_TRANSACTION, _READS_GROUP),
        ApiKey.END_TXN: (_IN_TRANSACTION,),
        ApiKey.TXN_OFFSET_COMMIT: (_IN_TRANSACTION, _READS_GROUP, _check(_EACH, _topic(_READ))),
        ApiKey.DESCRIBE_TRANSACTIONS: (
            _check(_EACH, _transactional_id(_DESCRIBE)),
            _check(_HIDDEN, _topic(_DESCRIBE), applies="a topic of the transaction"),
        ),
        ApiKey.LIST_TRANSACTIONS: (_check(_HIDDEN, _transactional_id(_DESCRIBE)),),
        ApiKey.WRITE_TXN_MARKERS: (_check(_WHOLE, _cluster(_ALTER), _cluster(Operation.CLUSTER_ACTION)),),
        # Settings
        ApiKey.DESCRIBE_CONFIGS: (
            _check(_EACH, _topic(_DESCRIBE_CONFIGS), applies="the settings of a topic"),
            _check(_EACH, _group(_DESCRIBE_CONFIGS), applies="the settings of a group"),
            _check(_EACH, _cluster(_DESCRIBE_CONFIGS), applies="all other settings"),
        ),
        ApiKey.ALTER_CONFIGS: (
            _check(_EACH, _topic(_ALTER_CONFIGS), applies="the settings of a topic"),
            _check(_EACH, _group(_ALTER_CONFIGS), applies="the settings of a group"),
            _check(_EACH, _cluster(_ALTER_CONFIGS), applies="all other settings"),
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (
            _check(_EACH, _topic(_ALTER_CONFIGS), applies="the settings of a topic"),
            _check(_EACH, _group(_ALTER_CONFIGS), applies="the settings of a group"),
            _check(_EACH, _cluster(_ALTER_CONFIGS), applies="all other settings"),
        ),
        ApiKey.LIST_CONFIG_RESOURCES: (_check(_WHOLE, _cluster(_DESCRIBE_CONFIGS)),),
        # The cluster, its users and their rights
        ApiKey.DESCRIBE_CLUSTER: (_CLUSTER_OPERATIONS,),
        ApiKey.DESCRIBE_QUORUM: (_DESCRIBES_CLUSTER,),
        ApiKey.ADD_RAFT_VOTER: (_ALTERS_CLUSTER,),
        ApiKey.REMOVE_RAFT_VOTER: (_ALTERS_CLUSTER,),
        ApiKey.UPDATE_FEATURES: (_ALTERS_CLUSTER,),
        ApiKey.UNREGISTER_BROKER: (_ALTERS_CLUSTER,),
        ApiKey.DESCRIBE_ACLS: (_DESCRIBES_CLUSTER,),
        ApiKey.CREATE_ACLS: (_ALTERS_CLUSTER,),
        ApiKey.DELETE_ACLS: (_ALTERS_CLUSTER,),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_DESCRIBES_CLUSTER,),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_ALTERS_CLUSTER,),
        ApiKey.CREATE_DELEGATION_TOKEN: (
            _check(_WHOLE, _user(Operation.CREATE_TOKENS), applies="a token for another owner"),
        ),
        # A token is prolonged and ended by whom it belongs to, not by a right.
        ApiKey.RENEW_DELEGATION_TOKEN: (),
        ApiKey.EXPIRE_DELEGATION_TOKEN: (),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: (
            _check(
                _HIDDEN,
                Right(_DESCRIBE, ResourceType.DELEGATION_TOKEN),
                _user(Operation.DESCRIBE_TOKENS),
                applies="a token that does not belong to the caller",
            ),
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (_check(_WHOLE, _cluster(_DESCRIBE_CONFIGS)),),
        ApiKey.ALTER_CLIENT_QUOTAS: (_check(_WHOLE, _cluster(_ALTER_CONFIGS)),),
        # Brokers and controllers among themselves
        ApiKey.ENVELOPE: (_OF_NODES,),
        ApiKey.BROKER_REGISTRATION: (_OF_NODES,),
        ApiKey.BROKER_HEARTBEAT: (_OF_NODES,),
        ApiKey.ALTER_PARTITION: (_OF_NODES,),
        ApiKey.ALLOCATE_PRODUCER_IDS: (_OF_NODES,),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: (_OF_NODES,),
        ApiKey.ALTER_REMOTE_LOG: (_OF_NODES,),
        ApiKey.VOTE: (_OF_NODES,),
        ApiKey.BEGIN_QUORUM_EPOCH: (_OF_NODES,),
        ApiKey.END_QUORUM_EPOCH: (_OF_NODES,),
        ApiKey.FETCH_SNAPSHOT: (_OF_NODES,),
    }
)
