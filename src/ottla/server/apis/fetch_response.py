"""Writes a fetch response around file ranges: the words are built here, the records stay in their files.

The layout is written out by hand because the compiled codec would have to read the records. A test holds it
equal to the compiled codec's for every version. Results with tagged fields are rare and carry no records: a
response that has one goes through the compiled codec.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from struct import Struct
from typing import Final
from uuid import UUID

from ottla.errors import ErrorCode
from ottla.log.reading.reader import FileRange
from ottla.model import NO_NODE
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import first_flexible_version, first_version
from ottla.protocol.frame import response_frame
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.records.index_entries import AbortedEntry
from ottla.replication.fetch_session import NO_SESSION_ID, FetchContext
from ottla.server.answers.send_queue import Part, part_bytes
from ottla.server.apis.leader_hints import CurrentLeader
from ottla.server.partitions.partition_counts import PartitionCounts

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_LOG_START_OFFSET_SINCE: Final = first_version(PartitionData, "log_start_offset")
_SESSIONS_SINCE: Final = first_version(FetchResponse, "session_id")
_PREFERRED_REPLICA_SINCE: Final = first_version(PartitionData, "preferred_read_replica")
_FLEXIBLE_SINCE: Final = first_flexible_version(FetchResponse)
_TOPIC_IDS_SINCE: Final = first_version(FetchableTopicResponse, "topic_id")

# index, error code, high watermark, last stable offset, [log start offset], number of aborted transactions,
# [preferred read replica]
_HEAD_V4 = Struct(">ihqqi")
_HEAD_V5 = Struct(">ihqqqi")
_HEAD_V11 = Struct(">ihqqqii")
_HEAD_FLEXIBLE = Struct(">ihqqqBi")
# producer id, first offset, [no tagged fields]
_ABORTED = Struct(">qq")
_ABORTED_FLEXIBLE = Struct(">qqB")
_PREFERRED_BYTES: Final = _INT32.size


@dataclass(slots=True)
class PartitionResult:
    """The answer of one partition to a fetch."""

    topic: str
    topic_id: UUID
    partition: int
    error_code: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileRange | None = None
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    aborted: Sequence[AbortedEntry] = ()
    current_leader: CurrentLeader | None = None
    preferred_read_replica: int = NO_NODE
    # Of the partition that the records are from.
    counts: PartitionCounts | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of records."""
        return 0 if self.records is None else self.records.size

    @property
    def has_tags(self) -> bool:
        """Whether it says something that most answers leave out."""
        return self.diverging_epoch >= 0 or self.current_leader is not None


def fetch_response_parts(
    version: int,
    correlation_id: int,
    session_id: int,
    read_committed: bool,
    results: Sequence[PartitionResult],
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Part]:
    """The parts of a whole response frame, its size first."""
    if any(result.has_tags for result in results):
        return [_compiled(version, correlation_id, session_id, read_committed, results, node_endpoints)]
    flexible = version >= _FLEXIBLE_SINCE
    words = bytearray(_INT32.pack(0) + _INT32.pack(correlation_id))
    if flexible:
        words.append(0)
    words += _INT32.pack(0)  # throttle time
    if version >= _SESSIONS_SINCE:
        words += _INT16.pack(0) + _INT32.pack(session_id)
    parts: list[Part] = [words]
    topics = [list(group) for _, group in groupby(results, _topic_key)]
    words += _count(len(topics), flexible)
    for partitions in topics:
        words = _write_topic(version, read_committed, partitions, words, parts)
    if flexible:
        words.append(0)
    _INT32.pack_into(parts[0], 0, sum(map(part_bytes, parts)) - 4)  # type: ignore[arg-type]
    return parts


def fetch_refusal(version: int, correlation_id: int, error: ErrorCode) -> Part:
    """A whole response frame that refuses a fetch for one reason and names no partition."""
    return response_frame(correlation_id, ApiKey.FETCH, version, FetchResponse(error_code=error))


def throttled_fetch(version: int, correlation_id: int, session: FetchContext, throttle_ms: int) -> Part:
    """A whole response frame without partitions: the client's quota is used up for now.

    As in Kafka, a session that this request would have begun is not begun.
    """
    session_id = NO_SESSION_ID if session.is_full else session.session_id
    response = FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id)
    return response_frame(correlation_id, ApiKey.FETCH, version, response)


def _topic_key(result: PartitionResult) -> tuple[str, UUID]:
    return result.topic, result.topic_id


def _write_topic(
    version: int,
    read_committed: bool,
    partitions: list[PartitionResult],
    words: bytearray,
    parts: list[Part],
) -> bytearray:
    flexible = version >= _FLEXIBLE_SINCE
    first = partitions[0]
    if version >= _TOPIC_IDS_SINCE:
        words += first.topic_id.bytes
    else:
        name = first.topic.encode()
        words += (_count(len(name), True) if flexible else _INT16.pack(len(name))) + name
    words += _count(len(partitions), flexible)
    for result in partitions:
        words += (
            _head_with_aborted(version, result) if result.aborted else _head(version, read_committed, result)
        )
        size = result.size_bytes
        words += _count(size, flexible)
        if result.records is not None and size:
            parts.append(result.records)
            words = bytearray()
            parts.append(words)
        if flexible:
            words.append(0)
    if flexible:
        words.append(0)
    return words


def _head(version: int, read_committed: bool, result: PartitionResult) -> bytes:
    # The list of aborted transactions: null for readers of everything, empty for readers of committed
    # records.
    aborted = 0 if read_committed else -1
    index, error, preferred = result.partition, result.error_code, result.preferred_read_replica
    high_watermark, stable, start = result.high_watermark, result.last_stable_offset, result.log_start_offset
    if version >= _FLEXIBLE_SINCE:
        return _HEAD_FLEXIBLE.pack(index, error, high_watermark, stable, start, aborted + 1, preferred)
    if version >= _PREFERRED_REPLICA_SINCE:
        return _HEAD_V11.pack(index, error, high_watermark, stable, start, aborted, preferred)
    if version >= _LOG_START_OFFSET_SINCE:
        return _HEAD_V5.pack(index, error, high_watermark, stable, start, aborted)
    return _HEAD_V4.pack(index, error, high_watermark, stable, aborted)


def _head_with_aborted(version: int, result: PartitionResult) -> bytes:
    """The head with the list of aborted transactions in the place of the empty one."""
    flexible = version >= _FLEXIBLE_SINCE
    head = _head(version, True, result)
    preferred = head[-_PREFERRED_BYTES:] if version >= _PREFERRED_REPLICA_SINCE else b""
    before = head[: len(head) - len(preferred) - len(_count(0, flexible))]
    aborted = result.aborted
    listed = (
        (_ABORTED_FLEXIBLE.pack(entry.producer_id, entry.first_offset, 0) for entry in aborted)
        if flexible
        else (_ABORTED.pack(entry.producer_id, entry.first_offset) for entry in aborted)
    )
    return b"".join((before, _count(len(aborted), flexible), *listed, preferred))


def _count(count: int, flexible: bool) -> bytes:
    """A length or a count: four bytes, or one more than it as an unsigned varint."""
    if not flexible:
        return _INT32.pack(count)
    count += 1
    out = bytearray()
    while count > 127:
        out.append(count & 127 | 128)
        count >>= 7
    out.append(count)
    return bytes(out)


def _compiled(
    version: int,
    correlation_id: int,
    session_id: int,
    read_committed: bool,
    results: Sequence[PartitionResult],
    node_endpoints: Sequence[NodeEndpoint],
) -> bytearray:
    topics = [
        FetchableTopicResponse(
            topic=group[0].topic,
            topic_id=group[0].topic_id,
            partitions=[_partition_data(result, read_committed) for result in group],
        )
        for group in (list(same) for _, same in groupby(results, _topic_key))
    ]
    response = FetchResponse(session_id=session_id, responses=topics, node_endpoints=list(node_endpoints))
    return response_frame(correlation_id, ApiKey.FETCH, version, response)


def _partition_data(result: PartitionResult, read_committed: bool) -> PartitionData:
    records = result.records
    data = b"" if records is None else records.file.read(records.position, records.size)
    return PartitionData(
        partition_index=result.partition,
        error_code=result.error_code,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=result.diverging_epoch, end_offset=result.diverging_end_offset),
        current_leader=LeaderIdAndEpoch(*(result.current_leader or ())),
        aborted_transactions=_aborted_transactions(result) if read_committed else None,
        preferred_read_replica=result.preferred_read_replica,
        records=memoryview(data),
    )


def _aborted_transactions(result: PartitionResult) -> list[AbortedTransaction]:
    return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in result.aborted]
