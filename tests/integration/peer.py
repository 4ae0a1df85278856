"""A blocking client for tests: says exactly what is sent, shows exactly what comes back.

`Peer` is the connection; the functions below it build the requests that most tests need and ask them at once.
Versions are fixed unless a test says otherwise, so that an answer's bytes mean the same in every test.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar
from uuid import UUID

from ottla.localcluster.ports import HOST
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.frame import RequestHeader, read_response, write_request
from ottla.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from ottla.records.batch import iter_batches
from ottla.records.builder import BatchOptions, build_batch
from ottla.records.record import Record

T = TypeVar("T")

DEADLINE_S = 15.0
PRODUCE_VERSION = 9
FETCH_VERSION = 12
MANY_BYTES = 50_000_000
_FIRST_TOPIC_ID_VERSION = 13


class Peer:
    """One connection. Use it as a context manager."""

    def __init__(
        self,
        port: int,
        *,
        host: str = HOST,
        source: str | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        self.socket = socket.socket()
        if source is not None:
            self.socket.bind((source, 0))
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(DEADLINE_S)
        try:
            self.socket.connect((host, port))
        except OSError:
            self.socket.close()
            raise
        self.correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, key: ApiKey, version: int, request: object, client_id: str | None = "peer") -> bytes:
        """A whole request frame with the next correlation id."""
        self.correlation_id += 1
        out = bytearray()
        write_request(RequestHeader(key, version, self.correlation_id, client_id), request, out)
        return bytes(out)

    def send(self, key: ApiKey, version: int, request: object) -> int:
        """Send a request; answer its correlation id."""
        self.socket.sendall(self.frame(key, version, request))
        return self.correlation_id

    def receive_frame(self) -> bytes:
        """The next response, without its size."""
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def receive(self, key: ApiKey, version: int) -> tuple[int, Any]:
        """The next response: its correlation id and the message."""
        return read_response(key, version, memoryview(self.receive_frame()))

    def ask(self, key: ApiKey, version: int, request: object) -> Any:
        """Send one request and take its answer."""
        asked = self.send(key, version, request)
        answered, response = self.receive(key, version)
        assert answered == asked, f"asked {asked}, was answered {answered}"
        return response

    def is_closed(self) -> bool:
        """Wait for the broker to close this connection; False if it sends something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _receive(self, size: int) -> bytes:
        received = bytearray(size)
        view, filled = memoryview(received), 0
        while filled < size:
            got = self.socket.recv_into(view[filled:])
            if not got:
                raise ConnectionError(f"the broker closed the connection after {filled} of {size} bytes")
            filled += got
        return bytes(received)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(
    *values: bytes, key: bytes | None = b"k", timestamp: int | None = None, **options: Any
) -> bytearray:
    """A producer's batch of these values."""
    stamp = now_ms() if timestamp is None else timestamp
    records = [Record(delta, stamp, key, value) for delta, value in enumerate(values or (b"v",))]
    named: BatchOptions = {**options}  # type: ignore[typeddict-item]
    return build_batch(records, **named)


def produce_request(
    topic: str | UUID,
    *sets: bytes | bytearray,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 10_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Each record set goes to the next partition, beginning with `partition`."""
    data = [
        PartitionProduceData(index=index, records=memoryview(records))
        for index, records in enumerate(sets, partition)
    ]
    named = isinstance(topic, str)
    wanted = TopicProduceData(
        name=topic if named else "",  # type: ignore[arg-type]
        topic_id=ZERO_UUID if named else topic,  # type: ignore[arg-type]
        partition_data=data,
    )
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[wanted]
    )


def produce(
    peer: Peer, topic: str | UUID, *sets: bytes | bytearray, version: int | None = None, **options: Any
) -> PartitionProduceResponse:
    """Produce and take the answer of the first partition. By id from version 13 on."""
    if version is None:
        version = PRODUCE_VERSION if isinstance(topic, str) else _FIRST_TOPIC_ID_VERSION
    answer = peer.ask(ApiKey.PRODUCE, version, produce_request(topic, *sets, **options))
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


def fetch_request(
    wanted: Sequence[tuple[str | UUID, int, int]] | tuple[str | UUID, int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = MANY_BYTES,
    partition_max_bytes: int = MANY_BYTES,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    **partition_fields: Any,
) -> FetchRequest:
    """Fetch (topic, partition, offset), one or several."""
    wants = [wanted] if isinstance(wanted, tuple) else wanted
    topics = []
    for topic, partition, offset in wants:
        want = FetchPartition(
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            **partition_fields,
        )
        if isinstance(topic, str):
            topics.append(FetchTopic(topic=topic, partitions=[want]))
        else:
            topics.append(FetchTopic(topic_id=topic, partitions=[want]))
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
    )


def fetch(
    peer: Peer,
    topic: str | UUID,
    offset: int = 0,
    *,
    partition: int = 0,
    version: int | None = None,
    **options: Any,
) -> PartitionData:
    """Fetch one partition and take its answer. By id from version 13 on."""
    if version is None:
        version = FETCH_VERSION if isinstance(topic, str) else _FIRST_TOPIC_ID_VERSION
    answer = peer.ask(ApiKey.FETCH, version, fetch_request((topic, partition, offset), **options))
    assert answer.error_code == 0
    found: PartitionData = answer.responses[0].partitions[0]
    return found


def values_of(found: PartitionData) -> list[bytes | None]:
    """The values in a partition's answer."""
    return [record.value for record in records_of(found)]


def records_of(found: PartitionData) -> list[Record]:
    return [record for stored in iter_batches(found.records or b"") for record in stored.records()]


def read_all(peer: Peer, topic: str, partition: int = 0, offset: int = 0) -> list[bytes | None]:
    """Every value from an offset on; offsets must be dense."""
    values: list[bytes | None] = []
    while found := records_of(fetch(peer, topic, offset + len(values), partition=partition)):
        for record in found:
            if record.offset >= offset + len(values):
                assert record.offset == offset + len(values)
                values.append(record.value)
    return values


def create_topic(peer: Peer, name: str, partitions: int = 1, **settings: str | int) -> UUID:
    """Create a topic, settings with _ for each dot; answer its id."""
    configs = [
        CreatableTopicConfig(name=setting.replace("_", "."), value=str(value))
        for setting, value in settings.items()
    ]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
    answer = peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    created = answer.topics[0]
    assert created.error_code == 0, created.error_message
    topic_id: UUID = created.topic_id
    return topic_id


def delete_topic(peer: Peer, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
    answer = peer.ask(ApiKey.DELETE_TOPICS, 6, request)
    assert answer.responses[0].error_code == 0


def describe_topic(peer: Peer, name: str) -> MetadataResponseTopic:
    """What Metadata says of a topic, which is not created by asking."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    found: MetadataResponseTopic = peer.ask(ApiKey.METADATA, 12, request).topics[0]
    return found


def list_offset(
    peer: Peer,
    topic: str,
    timestamp: int,
    *,
    partition: int = 0,
    version: int = 11,
    isolation_level: int = 0,
    epoch: int = -1,
) -> ListOffsetsPartitionResponse:
    want = ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=[want])],
    )
    found: ListOffsetsPartitionResponse = (
        peer.ask(ApiKey.LIST_OFFSETS, version, request).topics[0].partitions[0]
    )
    return found


def resident_bytes(pid: int) -> int:
    """The memory that a process has, as the kernel counts it."""
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def took_s(action: Callable[[], object]) -> float:
    """How long it takes."""
    return timed(action)[1]


def timed(action: Callable[[], T]) -> tuple[T, float]:
    """What it answers and how many seconds it takes."""
    start = time.perf_counter()
    answer = action()
    return answer, time.perf_counter() - start


def alter_config(peer: Peer, topic: str, name: str, value: str) -> None:
    """Change one setting of a topic."""
    change = IncrementalAlterableConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsResource(resource_type=2, resource_name=topic, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses[0]
    assert answer.error_code == 0, answer.error_message
