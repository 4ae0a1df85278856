"""ListOffsets (key 2), versions 1 to 11.

KIP-79 one offset by timestamp (v1), KIP-98 isolation level (v2), KIP-320 leader epochs (v4), KIP-207
OFFSET_NOT_AVAILABLE (v5), KIP-482 flexible versions (v6), KIP-734 the record with the largest timestamp (v7),
KIP-405 the earliest local offset (v8), KIP-1005 the last tiered offset (v9), KIP-1075 a timeout (v10),
KIP-1023 the earliest offset not yet tiered (v11). Version 0 went with Kafka 4 (KIP-896).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from ottla.protocol.codec import Int8, Int16, Int32, Int64, String, message, since, struct

# Timestamps that are questions of their own.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6

# Each of these questions, and the version that introduced it.
TIMESTAMPS_SINCE: Final = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}

# The version whose clients know the error of a new leader that cannot tell the offset yet.
OFFSET_NOT_AVAILABLE_SINCE: Final = 5


@struct
class ListOffsetsPartition:
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, since(4)] = -1
    timestamp: Int64 = 0


@struct
class ListOffsetsTopic:
    name: String = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


@message(key=2, versions=(1, 11), flexible=6)
class ListOffsetsRequest:
    replica_id: Int32 = 0  # -1 for a consumer
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: Annotated[Int32, since(10)] = 0


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


@struct
class ListOffsetsTopicResponse:
    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


@message(key=2, versions=(1, 11), flexible=6)
class ListOffsetsResponse:
    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
