"""Kafka's error codes, and the one exception that carries them.

The numbers and names are Kafka 4.3's, because every client knows them; the sentences are ours. An error
travels inside the program as `KafkaError(ErrorCode.X)` and becomes a number on the wire where a response is
built. `retriable` says what Kafka's clients do with the code: try again (perhaps after fresh metadata), or
give up.
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """An error of the Kafka protocol: `int(code)` is the number on the wire."""

    retriable: bool
    message: str

    # The defaults never apply: they let a type checker accept `ErrorCode(3)`, the lookup by number.
    def __new__(cls, code: int, retriable: bool = False, message: str = "") -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.message = message
        return member

    UNKNOWN_SERVER_ERROR = -1, False, "The broker failed in a way it did not foresee."
    NONE = 0, False, "No error."
    OFFSET_OUT_OF_RANGE = (
        1,
        False,
        "The offset lies outside the log: ask for the earliest and the latest one.",
    )
    CORRUPT_MESSAGE = 2, True, "The batch is damaged: its checksum, size or format is wrong."
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This broker knows no such topic or partition."
    INVALID_FETCH_SIZE = 4, False, "The number of bytes asked for cannot be served."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, True, "This broker does not lead the partition, or holds no replica of it."
    REQUEST_TIMED_OUT = 7, True, "The request was not completed within its time."
    BROKER_NOT_AVAILABLE = 8, False, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, True, "The replica is not available on this broker."
    MESSAGE_TOO_LARGE = 10, False, "The batch is larger than the topic allows (max.message.bytes)."
    STALE_CONTROLLER_EPOCH = 11, False, "The request comes from a controller that has been replaced."
    OFFSET_METADATA_TOO_LARGE = 12, False, "The metadata string of the committed offset is too long."
    NETWORK_EXCEPTION = 13, True, "The connection was lost before the answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, True, "There is no coordinator at the moment."
    NOT_COORDINATOR = 16, True, "This broker is not the coordinator for that key."
    INVALID_TOPIC_EXCEPTION = (
        17,
        False,
        "The topic name is not allowed, or the topic may not be used this way.",
    )
    RECORD_LIST_TOO_LARGE = 18, False, "The batch is larger than a segment."
    NOT_ENOUGH_REPLICAS = 19, True, "Fewer replicas are in sync than min.insync.replicas asks for."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "The batch was written, but too few replicas were in sync to confirm it.",
    )
    INVALID_REQUIRED_ACKS = 21, False, "acks must be 0, 1 or -1 (all)."
    ILLEGAL_GENERATION = 22, False, "The member speaks for a generation that is not the group's current one."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "The member shares no protocol, or not the protocol type, with its group.",
    )
    INVALID_GROUP_ID = 24, False, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, False, "The group knows no such member."
    INVALID_SESSION_TIMEOUT = 26, False, "The session timeout lies outside the bounds the broker allows."
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing: join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The offset commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "You are not allowed to do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, "You are not allowed to do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "You are not allowed to do this with the cluster."
    INVALID_TIMESTAMP = (
        32,
        False,
        "The timestamp of a record is further from the broker's clock than the topic allows.",
    )
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, False, "The request does not fit the state of the authentication."
    UNSUPPORTED_VERSION = 35, False, "The broker does not serve this version of the request."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic of this name is there already."
    INVALID_PARTITIONS = 37, False, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "The replication factor is not positive, or larger than the number of brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The replica assignment is not valid."
    INVALID_CONFIG = 40, False, "The configuration is not valid."
    NOT_CONTROLLER = 41, True, "This node is not the active controller."
    INVALID_REQUEST = 42, False, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "The record format in use does not support this."
    POLICY_VIOLATION = 44, False, "A policy of this cluster forbids the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "The producer's sequence number leaves a gap."
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "The producer's sequence number was used before."
    INVALID_PRODUCER_EPOCH = 47, False, "A newer epoch of this producer id has written already."
    INVALID_TXN_STATE = 48, False, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = 49, False, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, False, "The transaction timeout is longer than the broker allows."
    CONCURRENT_TRANSACTIONS = (
        51,
        True,
        "Another transaction of this transactional id is still being completed.",
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        False,
        "The transaction marker comes from a coordinator that has been replaced.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "You are not allowed to use the transactional id."
    SECURITY_DISABLED = 54, False, "Security features are switched off on this cluster."
    OPERATION_NOT_ATTEMPTED = 55, False, "Nothing was tried, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, True, "The disk failed when the log was read or written."
    LOG_DIR_NOT_FOUND = 57, False, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, False, "The authentication failed."
    UNKNOWN_PRODUCER_ID = 59, False, "The broker holds no state of this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, False, "The partition is being moved already."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "The delegation token belongs to another principal."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "Delegation tokens cannot be asked for on this connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "You are not allowed to use the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "The type of the principal is not supported."
    NON_EMPTY_GROUP = 68, False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "The broker has no such fetch session: start a new one."
    INVALID_FETCH_SESSION_EPOCH = 71, True, "The fetch session is at another epoch: start a new one."
    LISTENER_NOT_FOUND = 72, True, "The leader has no listener of the name this request came through."
    TOPIC_DELETION_DISABLED = 73, False, "Topics may not be deleted on this cluster."
    FENCED_LEADER_EPOCH = 74, True, "The leader epoch is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, True, "The leader epoch is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "This version of the request does not allow the compression type.",
    )
    STALE_BROKER_EPOCH = 77, False, "The broker has registered again since: this epoch is old."
    OFFSET_NOT_AVAILABLE = 78, True, "The leader is new and does not know its high watermark yet."
    MEMBER_ID_REQUIRED = 79, False, "Join again with the member id that came with this answer."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group is full."
    FENCED_INSTANCE_ID = 82, False, "Another member has taken over this static instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "No replica that may become leader is available."
    ELECTION_NOT_NEEDED = 84, True, "The partition already has the leader that the election would choose."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "The partition is not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "The group still reads the topic."
    INVALID_RECORD = 87, False, "A record breaks the rules of its topic or of its format."
    UNSTABLE_OFFSET_COMMIT = 88, True, "A transaction that commits these offsets is still open."
    THROTTLING_QUOTA_EXCEEDED = 89, True, "The quota is used up: try again later."
    PRODUCER_FENCED = 90, False, "A newer producer with the same transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, False, "The resource that the request names does not exist."
    DUPLICATE_RESOURCE = 92, False, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, False, "The voter is not in the set that the request assumes."
    INVALID_UPDATE_VERSION = 95, False, "The version of the update is not the one expected."
    FEATURE_UPDATE_FAILED = 96, False, "The feature level could not be changed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The forwarded principal could not be read."
    SNAPSHOT_NOT_FOUND = 98, False, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, False, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "This broker knows no topic of that id."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "Another living broker is registered under this id."
    BROKER_ID_NOT_REGISTERED = 102, False, "No broker is registered under this id."
    INCONSISTENT_TOPIC_ID = 103, True, "The topic id is not the one that the log belongs to."
    INCONSISTENT_CLUSTER_ID = 104, False, "The request was meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "The fetch session mixes topic names with topic ids."
    INELIGIBLE_REPLICA = 107, False, "The replica may not join the in-sync set."
    NEW_LEADER_ELECTED = 108, False, "The change was made, and with it the partition got another leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset is held in tiered storage."
    FENCED_MEMBER_EPOCH = 110, False, "The member's epoch is not the group's: join again from epoch 0."
    UNRELEASED_INSTANCE_ID = 111, False, "Another living member holds this static instance id."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group coordinator has no such assignor."
    STALE_MEMBER_EPOCH = 113, False, "The member's epoch is old: heartbeat, then try again."
    MISMATCHED_ENDPOINT_TYPE = 114, False, "The request was sent to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "The kind of endpoint asked for is not known here."
    UNKNOWN_CONTROLLER_ID = 116, False, "There is no controller of that id."
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "The telemetry subscription is out of date."
    TELEMETRY_TOO_LARGE = 118, False, "The telemetry is larger than the broker takes."
    INVALID_REGISTRATION = 119, False, "The controller considers the registration invalid."
    TRANSACTION_ABORTABLE = (
        120,
        False,
        "The transaction failed and must be aborted; the producer may go on afterwards.",
    )
    INVALID_RECORD_STATE = 121, False, "The record is not in a state that can be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, True, "The broker has no such share session: start a new one."
    INVALID_SHARE_SESSION_EPOCH = 123, True, "The share session is at another epoch: start a new one."
    FENCED_STATE_EPOCH = 124, False, "The share coordinator holds a newer state epoch."
    INVALID_VOTER_KEY = 125, False, "The voter key is not that of the node that received it."
    DUPLICATE_VOTER = 126, False, "The voter is in the voter set already."
    VOTER_NOT_FOUND = 127, False, "The voter is not in the voter set."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression cannot be understood."
    REBOOTSTRAP_REQUIRED = 129, False, "The client should start again from its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, False, "The streams topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The epoch of the streams topology is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, False, "The epoch of the streams topology is old."
    SHARE_SESSION_LIMIT_REACHED = 133, True, "The broker can hold no more share sessions at the moment."


class KafkaError(Exception):
    """An answer other than success; `code` goes on the wire, `message` to people."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message if message is not None else code.message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
