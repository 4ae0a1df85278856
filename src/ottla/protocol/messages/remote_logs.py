"""Requests about the part of a log that is kept in an object store. They are Ottla's own: Kafka keeps this
knowledge in a topic. Their keys lie far outside Kafka's, and ApiVersions does not tell them to clients.

AlterRemoteLog (key 20480), version 0: a leader to the controller. DescribeRemoteLog (20481), version 0: Ottla's
command line to any broker. ListRemoteSegments (20482), version 0: a consumer that reads the store itself, to the
leader of a partition; brokers with tiered storage announce it as the feature `REMOTE_SEGMENTS_FEATURE`
(docs/decisions/0025).
"""

from __future__ import annotations

from dataclasses import field

from ottla.protocol.codec import (
    ZERO_UUID,
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    UInt32,
    Uuid,
    message,
    struct,
)


@struct
class RemoteObjectData:
    """One object of a segment: its kind (the end of its name), its size and its CRC-32C."""

    kind: String = ""
    size_bytes: Int64 = 0
    crc: UInt32 = 0


@struct
class RemoteEpochData:
    epoch: Int32 = 0
    start_offset: Int64 = 0


@struct
class RemoteSegmentData:
    segment_id: Uuid = ZERO_UUID
    base_offset: Int64 = 0
    next_offset: Int64 = 0
    leader_epoch: Int32 = -1
    size_bytes: Int64 = 0
    max_timestamp_ms: Int64 = -1
    objects: list[RemoteObjectData] = field(default_factory=list)
    epochs: list[RemoteEpochData] = field(default_factory=list)


@message(key=20480, versions=(0, 0), flexible=0)
class AlterRemoteLogRequest:
    """One change of one partition's remote log. `operation` says which of the other fields count."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topic_id: Uuid = ZERO_UUID
    partition_index: Int32 = 0
    leader_epoch: Int32 = -1
    operation: Int8 = 0
    segment: RemoteSegmentData = field(default_factory=RemoteSegmentData)
    segment_ids: list[Uuid] = field(default_factory=list)
    offset: Int64 = -1


@message(key=20480, versions=(0, 0), flexible=0)
class AlterRemoteLogResponse:
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=20481, versions=(0, 0), flexible=0)
class DescribeRemoteLogRequest:
    """`topics`: null for all. `has_segments`: whether segments are wanted as well as sums."""

    topics: list[String] | None = None
    has_segments: Boolean = False


@struct
class StatedSegmentData:
    state: String = ""
    segment: RemoteSegmentData = field(default_factory=RemoteSegmentData)


@struct
class RemotePartitionData:
    """One partition; `local_start_offset` and what follows are -1 where another broker leads."""

    partition_index: Int32 = 0
    leader_id: Int32 = -1
    log_start_offset: Int64 = -1
    remote_next_offset: Int64 = -1
    segment_count: Int32 = 0
    size_bytes: Int64 = 0
    deleting_count: Int32 = 0
    local_start_offset: Int64 = -1
    copyable_next_offset: Int64 = -1
    problem: String | None = None
    segments: list[StatedSegmentData] = field(default_factory=list)


@struct
class RemoteTopicData:
    name: String = ""
    topic_id: Uuid = ZERO_UUID
    is_deleted: Boolean = False
    partitions: list[RemotePartitionData] = field(default_factory=list)


@message(key=20481, versions=(0, 0), flexible=0)
class DescribeRemoteLogResponse:
    error_code: Int16 = 0
    error_message: String | None = None
    store_url: String | None = None
    problem: String | None = None
    topics: list[RemoteTopicData] = field(default_factory=list)


@struct
class RemoteRange:
    """The offsets of one partition that a consumer wants to read."""

    partition_index: Int32 = 0
    current_leader_epoch: Int32 = -1
    start_offset: Int64 = 0
    end_offset: Int64 = 0


@struct
class RemoteRangeTopic:
    name: String = ""
    partitions: list[RemoteRange] = field(default_factory=list)


@message(key=20482, versions=(0, 0), flexible=0)
class ListRemoteSegmentsRequest:
    """Which segments in the store have records of these ranges?

    `is_about_aborted`: instead, the segments from the start on, however late, that have a transaction index. The
    markers of aborted transactions in a range may follow it by many segments.
    """

    is_about_aborted: Boolean = False
    topics: list[RemoteRangeTopic] = field(default_factory=list)


@struct
class ReadableSegmentData:
    """A segment that may be read: the names of its objects are `name` and a kind."""

    name: String = ""
    base_offset: Int64 = 0
    next_offset: Int64 = 0
    objects: list[RemoteObjectData] = field(default_factory=list)


@struct
class AbortedRecordsData:
    """An aborted transaction whose marker lies in the leader's log: its records, and that marker."""

    producer_id: Int64 = -1
    first_offset: Int64 = 0
    last_offset: Int64 = 0


@struct
class RemoteRangeData:
    """What the leader knows of one range.

    Segments follow each other, and are whole: the first may begin before the range, the last end after it. With
    `is_complete`, no other segment has records of the range; without, the question goes on where the last segment
    ends. `aborted` comes with the last part of the answer.
    """

    partition_index: Int32 = 0
    error_code: Int16 = 0
    log_start_offset: Int64 = -1
    is_complete: Boolean = False
    segments: list[ReadableSegmentData] = field(default_factory=list)
    aborted: list[AbortedRecordsData] = field(default_factory=list)


@struct
class RemoteRangeTopicData:
    name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[RemoteRangeData] = field(default_factory=list)


@message(key=20482, versions=(0, 0), flexible=0)
class ListRemoteSegmentsResponse:
    store_url: String = ""
    topics: list[RemoteRangeTopicData] = field(default_factory=list)
