"""OffsetForLeaderEpoch (key 23), versions 2 to 4.

KIP-101 where an epoch ended, KIP-279 the epoch in the answer, KIP-320 fencing by the current epoch and use by
consumers (v2), KIP-392 the replica that asks (v3), KIP-482 flexible versions (v4). Versions 0 and 1 went with
Kafka 4 (KIP-896).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from ottla.protocol.codec import Int16, Int32, Int64, String, message, since, struct

# The version from which on a request says who asks; earlier ones are of consumers.
REPLICA_ID_SINCE: Final = 3


@struct
class OffsetForLeaderPartition:
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic:
    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


@message(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochRequest:
    replica_id: Annotated[Int32, since(3)] = -2  # -1 a consumer, -2 any replica
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


@struct
class EpochEndOffset:
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: String = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)


@message(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)
