"""Recognises a produce request that repeats an earlier one around new records, and writes its response.

A producer sends the same client id, acks, timeout, topic and partition in each request; only the correlation
id and the records differ. Of a request that was decoded with the compiled codec, the bytes before the records
are kept (its prefix), and the next request is compared with them: one memory comparison instead of a
decoding. A client that writes to several partitions has one shape for each (`ProduceShapes`).

A shape remembers decisions that its partition, its prefix and its version make for good; what may change with
the partition's state (leader, in-sync replicas, settings) is asked for each request, and `gate/basis.py` says
when shapes are forgotten. Tests hold that a recognised request is read as the compiled codec reads it, and
decided as an unrecognised one.
"""

from struct import Struct

from ottla.log.writing.append import Appended
from ottla.protocol.codec import first_version
from ottla.protocol.declaration import first_flexible_version
from ottla.protocol.messages.produce import (
    ZSTD_SINCE,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.header import HEADER_BYTES, TRANSACTIONAL
from ottla.server.apis.produce_verification import ATTRIBUTES_LOW_BYTE, has_transaction, is_ongoing
from ottla.server.partitions.hosted_partition import HostedPartition

# A frame begins with size, api key, api version and correlation id; the prefix that repeats begins after
# them.
_PREFIX_AT = 12
_FLEXIBLE_SINCE = first_flexible_version(ProduceRequest)
_TOPIC_IDS_SINCE = first_version(TopicProduceData, "topic_id")
_RECORD_ERRORS_SINCE = first_version(PartitionProduceResponse, "record_errors")
# After the records of the only partition: no tagged fields for the partition, the topic and the request.
_FLEXIBLE_END = b"\0\0\0"
_INT32 = Struct(">i")
_INT16 = Struct(">h")
# Partitions that one connection writes to are seldom more. Beyond that, all are forgotten and learnt again.
_SHAPES_KEPT = 256
# Topics have names of different lengths, and so have their prefixes; each length is looked up by itself.
_LENGTHS_KEPT = 8


class ProduceShape:
    """The bytes that repeat in the requests of one client to one partition, and in their responses."""

    __slots__ = (
        "_end_bytes",
        "_flexible",
        "_middle",
        "_of_transaction",
        "_pack",
        "_size",
        "_tail",
        "acks",
        "partition",
        "prefix",
        "timeout_ms",
        "version",
    )

    def __init__(
        self, prefix: bytes, version: int, request: ProduceRequest, partition: HostedPartition
    ) -> None:
        self.version = version
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.partition = partition
        self.prefix = prefix
        # Whether the right to the transactional id was asked for: records without a transaction need none.
        self._of_transaction = has_transaction(request)
        self._flexible = version >= _FLEXIBLE_SINCE
        self._end_bytes = len(_FLEXIBLE_END) if self._flexible else 0
        self._middle, self._tail = _response_parts(version, partition)
        layout = Struct(f">ii{len(self._middle)}shqqq{len(self._tail)}s")
        self._pack = layout.pack
        self._size = layout.size - 4

    def match(
        self, data: bytearray, view: memoryview, start: int, frame_end: int, version: int
    ) -> memoryview | None:
        """The records of the frame at `start`; None if it has another shape or must be decided by the slow
        path.
        """
        partition = self.partition
        if (
            version != self.version
            or not data.startswith(self.prefix, start + _PREFIX_AT)
            or partition.append_error(self.acks)
        ):
            return None
        position = start + _PREFIX_AT + len(self.prefix)
        records_end = frame_end - self._end_bytes
        if not self._flexible:
            if position + 4 > records_end:
                return None
            (size,) = _INT32.unpack_from(data, position)
            position += 4
        else:
            size = shift = 0
            while True:
                if position >= records_end or shift > 28:
                    return None
                byte = data[position]
                position += 1
                size |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
            size -= 1
            if not data.startswith(_FLEXIBLE_END, records_end):
                return None
        if (
            size < HEADER_BYTES
            or position + size != records_end
            or (
                data[position + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL
                and not (self._of_transaction and is_ongoing(partition, view[position:records_end]))
            )
        ):
            return None
        return view[position:records_end]

    def response(self, correlation_id: int, appended: Appended) -> bytes:
        """The whole response frame for records that were appended."""
        return self._pack(
            self._size,
            correlation_id,
            self._middle,
            0,
            appended.base_offset,
            appended.log_append_time_ms,
            appended.log_start_offset,
            self._tail,
        )


class ProduceShapes:
    """The shapes that one connection has shown, found by their prefixes."""

    __slots__ = ("_by_prefix", "_lengths")

    def __init__(self) -> None:
        self._by_prefix: dict[bytes, ProduceShape] = {}
        self._lengths: set[int] = set()

    def add(self, shape: ProduceShape) -> None:
        """Recognise requests of this shape from now on."""
        prefix = shape.prefix
        if len(self._by_prefix) >= _SHAPES_KEPT or len(self._lengths) >= _LENGTHS_KEPT:
            self.clear()
        self._by_prefix[prefix] = shape
        self._lengths.add(len(prefix))

    def find(self, view: memoryview, start: int) -> ProduceShape | None:
        """The shape that the frame at `start` may have; `match` tells whether it has."""
        position = start + _PREFIX_AT
        for length in self._lengths:
            shape = self._by_prefix.get(bytes(view[position : position + length]))
            if shape is not None:
                return shape
        return None

    def clear(self) -> None:
        """Forget every shape."""
        self._by_prefix.clear()
        self._lengths.clear()


def learn_shape(
    frame: memoryview, version: int, request: ProduceRequest, partition: HostedPartition
) -> ProduceShape | None:
    """The shape of a decoded one-partition request (`frame` is without its size), where it has one."""
    if version < ZSTD_SINCE:
        # There zstd must be refused, so that every batch has to be looked at; no client in a hurry is that
        # old.
        return None
    records = request.topic_data[0].partition_data[0].records
    assert records is not None
    flexible = version >= _FLEXIBLE_SINCE
    end_bytes = len(_FLEXIBLE_END) if flexible else 0
    length_bytes = (len(records) + 1).bit_length() + 6 if flexible else 32
    length_bytes = length_bytes // 7 if flexible else length_bytes // 8
    prefix = bytes(frame[_PREFIX_AT - 4 : len(frame) - end_bytes - len(records) - length_bytes])
    shape = ProduceShape(prefix, version, request, partition)
    # Read the frame that the shape was learnt from: tagged fields or a padded length would put the records
    # elsewhere.
    again = bytearray(4) + frame
    found = shape.match(again, memoryview(again), 0, len(again), version)
    # As bytes: to compare views takes a hundred times as long.
    return shape if found is not None and bytes(found) == bytes(records) else None


def _response_parts(version: int, partition: HostedPartition) -> tuple[bytes, bytes]:
    """The bytes before the error code, and those after the log start offset, of a response without an
    error.
    """
    index = _INT32.pack(partition.index)
    throttle = _INT32.pack(0)
    name = partition.topic.encode()
    if version >= _FLEXIBLE_SINCE:
        topic = partition.topic_id.bytes if version >= _TOPIC_IDS_SINCE else _compact_string(name)
        # Header without tagged fields; one topic; one partition.
        middle = b"\0" + b"\x02" + topic + b"\x02" + index
        # No record errors, no error message, no tagged fields of partition and topic, throttle, no tagged
        # fields.
        return middle, b"\x01\0" + b"\0\0" + throttle + b"\0"
    one = _INT32.pack(1)
    middle = one + _INT16.pack(len(name)) + name + one + index
    no_errors = _INT32.pack(0) + _INT16.pack(-1) if version >= _RECORD_ERRORS_SINCE else b""
    return middle, no_errors + throttle


def _compact_string(text: bytes) -> bytes:
    length = len(text) + 1
    # A topic name has at most 249 characters, so two bytes are enough.
    prefix = bytes((length,)) if length < 128 else bytes((length & 127 | 128, length >> 7))
    return prefix + text
