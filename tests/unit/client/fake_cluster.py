"""A cluster of one fake broker that holds a topic and coordinates a group of one, for tests of the consumer.

It does what a consumer expects of a broker; a test that wants something else says so with `broker.on(...)`,
or puts error codes into `errors`, which are then given out one by one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any
from uuid import UUID

from tests.unit.wire.fake_broker import FakeBroker

from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages import coordinator, fetch, groups, list_offsets, metadata, offsets
from ottla.records.builder import build_batch
from ottla.records.record import Record

TOPIC_ID = UUID(int=7)
EMPTY_FETCH_SECONDS = 0.02


class FakeCluster:
    """Topic `t`; records are appended with `append`, and fetched from then on."""

    def __init__(self, partitions: int = 1) -> None:
        self.broker = FakeBroker()
        self.partitions = partitions
        self.topic_id = TOPIC_ID
        self.leader_epoch = 0
        self.log_start_offset = 0
        self.errors: defaultdict[type[Any], list[ErrorCode]] = defaultdict(list)
        self.committed: dict[TopicPartition, int] = {}
        self.generation_id = 0
        self._batches: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self._ends: defaultdict[int, int] = defaultdict(int)
        for request_type, answer in {
            metadata.MetadataRequest: self._metadata,
            fetch.FetchRequest: self._fetch,
            list_offsets.ListOffsetsRequest: self._list_offsets,
            coordinator.FindCoordinatorRequest: self._find_coordinator,
            groups.JoinGroupRequest: self._join,
            groups.SyncGroupRequest: self._sync,
            groups.HeartbeatRequest: self._heartbeat,
            groups.LeaveGroupRequest: groups.LeaveGroupResponse(),
            offsets.OffsetFetchRequest: self._offset_fetch,
            offsets.OffsetCommitRequest: self._offset_commit,
        }.items():
            self.broker.on(request_type, answer)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker.port}"

    def append(self, *values: bytes, partition: int = 0) -> None:
        """One batch with these values."""
        base = self._ends[partition]
        records = [Record(base + i, 1_000 + base + i, None, value) for i, value in enumerate(values)]
        data = bytes(build_batch(records, base_offset=base, partition_leader_epoch=self.leader_epoch))
        self._ends[partition] += len(values)
        self._batches[partition].append((self._ends[partition], data))

    def damage_last_batch(self, partition: int = 0) -> None:
        """Change a byte of the last batch; done twice, it is as it was."""
        end, data = self._batches[partition][-1]
        self._batches[partition][-1] = (end, data[:-1] + bytes([data[-1] ^ 1]))

    def asked_for(self, request_type: type[Any]) -> list[Any]:
        return self.broker.asked_for(request_type)

    def _error(self, request: Any) -> ErrorCode:
        waiting = self.errors[type(request)]
        return waiting.pop(0) if waiting else ErrorCode.NONE

    def _metadata(self, request: metadata.MetadataRequest, header: RequestHeader) -> Any:
        named = [
            self._topic(each.name or "")
            for each in request.topics or [metadata.MetadataRequestTopic(name="t")]
        ]
        itself = metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.broker.port)
        return metadata.MetadataResponse(brokers=[itself], controller_id=1, topics=named)

    def _topic(self, name: str) -> metadata.MetadataResponseTopic:
        if name != "t" or not self.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return metadata.MetadataResponseTopic(name=name, error_code=code)
        partitions = [
            metadata.MetadataResponsePartition(
                partition_index=index, leader_id=1, leader_epoch=self.leader_epoch, replica_nodes=[1]
            )
            for index in range(self.partitions)
        ]
        return metadata.MetadataResponseTopic(name=name, topic_id=self.topic_id, partitions=partitions)

    async def _fetch(self, request: fetch.FetchRequest, header: RequestHeader) -> Any:
        topic = fetch.FetchableTopicResponse(
            topic=request.topics[0].topic, topic_id=request.topics[0].topic_id
        )
        topic.partitions = [self._read(each, self._error(request)) for each in request.topics[0].partitions]
        if not any(data.records or data.error_code for data in topic.partitions):
            await asyncio.sleep(EMPTY_FETCH_SECONDS)
        return fetch.FetchResponse(responses=[topic])

    def _read(self, wanted: fetch.FetchPartition, code: ErrorCode) -> fetch.PartitionData:
        index = wanted.partition
        if not self.log_start_offset <= wanted.fetch_offset <= self._ends[index]:
            code = code or ErrorCode.OFFSET_OUT_OF_RANGE
        found = b"".join(data for end, data in self._batches[index] if end > wanted.fetch_offset)
        return fetch.PartitionData(
            partition_index=index,
            error_code=code,
            high_watermark=self._ends[index],
            log_start_offset=self.log_start_offset,
            records=memoryview(b"" if code else found),
        )

    def _list_offsets(self, request: list_offsets.ListOffsetsRequest, header: RequestHeader) -> Any:
        code = self._error(request)
        found = [
            list_offsets.ListOffsetsPartitionResponse(
                partition_index=each.partition_index,
                error_code=code,
                offset=self._offset_at(each.partition_index, each.timestamp),
                leader_epoch=self.leader_epoch,
            )
            for each in request.topics[0].partitions
        ]
        answer = list_offsets.ListOffsetsTopicResponse(name=request.topics[0].name, partitions=found)
        return list_offsets.ListOffsetsResponse(topics=[answer])

    def _offset_at(self, partition: int, timestamp: int) -> int:
        if timestamp == list_offsets.EARLIEST_TIMESTAMP:
            return self.log_start_offset
        end = self._ends[partition]
        if timestamp == list_offsets.LATEST_TIMESTAMP:
            return end
        return max(0, timestamp - 1_000) if timestamp - 1_000 < end else -1

    def _find_coordinator(self, request: coordinator.FindCoordinatorRequest, header: RequestHeader) -> Any:
        found = coordinator.Coordinator(
            key=request.coordinator_keys[0],
            node_id=1,
            host="127.0.0.1",
            port=self.broker.port,
            error_code=self._error(request),
        )
        return coordinator.FindCoordinatorResponse(coordinators=[found])

    def _join(self, request: groups.JoinGroupRequest, header: RequestHeader) -> Any:
        if code := self._error(request):
            return groups.JoinGroupResponse(error_code=code, member_id="m-1")
        self.generation_id += 1
        member = groups.JoinGroupResponseMember(
            member_id="m-1", metadata=bytes(request.protocols[0].metadata)
        )
        return groups.JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type="consumer",
            protocol_name=request.protocols[0].name,
            leader="m-1",
            member_id="m-1",
            members=[member],
        )

    def _sync(self, request: groups.SyncGroupRequest, header: RequestHeader) -> Any:
        assignment = bytes(request.assignments[0].assignment)
        return groups.SyncGroupResponse(error_code=self._error(request), assignment=assignment)

    def _heartbeat(self, request: groups.HeartbeatRequest, header: RequestHeader) -> Any:
        return groups.HeartbeatResponse(error_code=self._error(request))

    def _offset_fetch(self, request: offsets.OffsetFetchRequest, header: RequestHeader) -> Any:
        (group,) = request.groups
        topics = [
            offsets.OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    offsets.OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=self.committed.get(TopicPartition(topic.name, index), -1),
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in group.topics or []
        ]
        answer = offsets.OffsetFetchResponseGroup(
            group_id=group.group_id, topics=topics, error_code=self._error(request)
        )
        return offsets.OffsetFetchResponse(groups=[answer])

    def _offset_commit(self, request: offsets.OffsetCommitRequest, header: RequestHeader) -> Any:
        code = self._error(request)
        if not code:
            self.committed |= {
                TopicPartition(topic.name, each.partition_index): each.committed_offset
                for topic in request.topics
                for each in topic.partitions
            }
        topics = [
            offsets.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    offsets.OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return offsets.OffsetCommitResponse(topics=topics)
