"""The records of remote logs: from an image to records, and from records to the next image.

They are written only where tiered storage is used. Kafka has no such records, and its tools refuse a metadata log
that has them: docs/decisions/0015.
"""

from collections.abc import Iterator
from dataclasses import replace
from sys import intern
from typing import Any, Final
from uuid import UUID

from ottla.controller.records import (
    RemoteEpoch,
    RemoteLogRecord,
    RemoteObjectEntry,
    RemoteSegmentRecord,
    RemoveRemoteSegmentRecord,
)
from ottla.controller.remote_log import RemoteLog, RemoteLogs, RemoteObject, RemoteSegment, RemoteTopic

# The states of a segment in its record.
COPYING: Final = 0
COPIED: Final = 1
DELETING: Final = 2

_STATES: Final = {"copying": COPYING, "copied": COPIED, "deleting": DELETING}
_EMPTY: Final = RemoteLog()


def segment_record(
    topic_id: UUID, partition_id: int, segment: RemoteSegment, state: int
) -> RemoteSegmentRecord:
    """The record that gives a segment a state."""
    return RemoteSegmentRecord(
        topic_id=topic_id,
        partition_id=partition_id,
        segment_id=segment.segment_id,
        state=state,
        base_offset=segment.base_offset,
        next_offset=segment.next_offset,
        leader_epoch=segment.leader_epoch,
        size_bytes=segment.size_bytes,
        max_timestamp_ms=segment.max_timestamp_ms,
        objects=[RemoteObjectEntry(*each) for each in segment.objects],
        epochs=[RemoteEpoch(*each) for each in segment.epochs],
    )


def segment_of(record: Any) -> RemoteSegment:
    """The segment in a record, or in a request: the fields have the same names."""
    return RemoteSegment(
        segment_id=record.segment_id,
        base_offset=record.base_offset,
        next_offset=record.next_offset,
        leader_epoch=record.leader_epoch,
        size_bytes=record.size_bytes,
        max_timestamp_ms=record.max_timestamp_ms,
        # The kinds are few and the segments many: each kind is one text for all of them.
        objects=tuple(RemoteObject(intern(each.kind), each.size_bytes, each.crc) for each in record.objects),
        epochs=tuple((each.epoch, each.start_offset) for each in record.epochs),
    )


def remote_log_records(logs: RemoteLogs) -> Iterator[Any]:
    """Everything that an image says about remote logs, for a snapshot."""
    for topic_id, topic in sorted(logs.items()):
        for index, log in sorted(topic.partitions.items()):
            yield RemoteLogRecord(topic_id, index, topic.name, log.start_offset)
            for state, segment in log.all_segments():
                yield segment_record(topic_id, index, segment, _STATES[state])


class RemoteLogsDelta:
    """The remote logs of the next image."""

    __slots__ = ("logs",)

    def __init__(self, logs: RemoteLogs) -> None:
        self.logs = logs

    def set_start(self, record: RemoteLogRecord) -> None:
        """The remote part of a partition begins to exist, or its start moves up."""
        log = self._log(record.topic_id, record.partition_id) or _EMPTY
        self._put(
            record.topic_id, record.topic_name, record.partition_id, log.started_at(record.start_offset)
        )

    def set_segment(self, record: RemoteSegmentRecord) -> None:
        """A segment has a state."""
        log, segment = self._log(record.topic_id, record.partition_id), segment_of(record)
        if log is None:
            return
        if record.state == COPYING:
            changed = log.with_copying(segment)
        elif record.state == COPIED:
            changed = log.with_copied(segment)
        else:
            changed = log.with_deleting(segment)
        self._put(record.topic_id, None, record.partition_id, changed)

    def remove_segment(self, record: RemoveRemoteSegmentRecord, *, is_deleted: bool) -> None:
        """A segment has no objects any more. The last one of a deleted topic ends the topic here."""
        log = self._log(record.topic_id, record.partition_id)
        if log is not None:
            self._put(record.topic_id, None, record.partition_id, log.without(record.segment_id))
            if is_deleted:
                self._drop_if_empty(record.topic_id)

    def remove_topic(self, topic_id: UUID) -> None:
        """A topic is deleted: its objects are to be deleted."""
        topic = self.logs.get(topic_id)
        if topic is not None:
            partitions = {index: log.abandoned() for index, log in topic.partitions.items()}
            self.logs = {**self.logs, topic_id: replace(topic, partitions=partitions)}
            self._drop_if_empty(topic_id)

    def _drop_if_empty(self, topic_id: UUID) -> None:
        if all(log.is_empty for log in self.logs[topic_id].partitions.values()):
            self.logs = {key: topic for key, topic in self.logs.items() if key != topic_id}

    def _log(self, topic_id: UUID, index: int) -> RemoteLog | None:
        topic = self.logs.get(topic_id)
        return None if topic is None else topic.partitions.get(index)

    def _put(self, topic_id: UUID, name: str | None, index: int, log: RemoteLog) -> None:
        topic = self.logs.get(topic_id) or RemoteTopic(name or "")
        partitions = {**topic.partitions, index: log}
        self.logs = {**self.logs, topic_id: replace(topic, partitions=partitions)}
