"""Recognises a produce request that repeats an earlier one around new records, and writes its response.

A producer sends the same client id, acks, timeout, topic and partition in each request; only the correlation id and
the records differ. Having decoded one such request with the compiled codec, its words before the records are kept,
and the next request is compared with them: one memory comparison instead of a decoding. Who writes to several partitions
has one shape for each (`ProduceShapes`). A test holds this path equal to the compiled codec's.
"""

from struct import Struct

from ottla.log.writing.append import Appended
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.header import HEADER_BYTES, TRANSACTIONAL
from ottla.server.partitions.hosted_partition import HostedPartition

# Where the low byte of the attributes stands in a batch.
ATTRIBUTES_LOW_BYTE = 22
# A frame begins with size, api key, api version and correlation id; the words that repeat begin after them.
_WORDS_AT = 12
_FIRST_FLEXIBLE_VERSION = 9
_FIRST_TOPIC_ID_VERSION = 13
# Before it zstd must be refused, so that every batch has to be looked at. Nobody hurries there.
_FIRST_ZSTD_VERSION = 7
_FIRST_RECORD_ERRORS_VERSION = 8
# After the records of the only partition: no tagged fields for the partition, the topic and the request.
_FLEXIBLE_END = b"\0\0\0"
_INT32 = Struct(">i")
_INT16 = Struct(">h")
# Partitions that one connection writes to are seldom more. Beyond that, learning begins anew.
_SHAPES_KEPT = 256
# Topics have names of different lengths, and so have their words.
_LENGTHS_KEPT = 8


class ProduceShape:
    """The words of a one-partition produce request, and the words of its response."""

    __slots__ = (
        "_end_bytes",
        "_flexible",
        "_middle",
        "_pack",
        "_size",
        "_tail",
        "acks",
        "partition",
        "timeout_ms",
        "version",
        "words",
    )

    def __init__(
        self, words: bytes, version: int, request: ProduceRequest, partition: HostedPartition
    ) -> None:
        self.version = version
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.partition = partition
        self.words = words
        self._flexible = version >= _FIRST_FLEXIBLE_VERSION
        self._end_bytes = len(_FLEXIBLE_END) if self._flexible else 0
        self._middle, self._tail = _response_words(version, partition)
        layout = Struct(f">ii{len(self._middle)}shqqq{len(self._tail)}s")
        self._pack = layout.pack
        self._size = layout.size - 4

    def match(
        self, data: bytearray, view: memoryview, start: int, frame_end: int, version: int
    ) -> memoryview | None:
        """The records of the frame at `start`, or None when it is not of this shape (or needs a closer look)."""
        partition = self.partition
        if (
            version != self.version
            or not data.startswith(self.words, start + _WORDS_AT)
            or partition.append_error(self.acks)
        ):
            return None
        position = start + _WORDS_AT + len(self.words)
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
            or data[position + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL
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
    """The shapes that one connection has shown, found by their words."""

    __slots__ = ("_by_words", "_lengths")

    def __init__(self) -> None:
        self._by_words: dict[bytes, ProduceShape] = {}
        self._lengths: set[int] = set()

    def add(self, shape: ProduceShape) -> None:
        """Recognise requests of this shape from now on."""
        words = shape.words
        if len(self._by_words) >= _SHAPES_KEPT or len(self._lengths) >= _LENGTHS_KEPT:
            self.clear()
        self._by_words[words] = shape
        self._lengths.add(len(words))

    def find(self, view: memoryview, start: int) -> ProduceShape | None:
        """The shape that the frame at `start` may have; `match` tells whether it has."""
        position = start + _WORDS_AT
        for length in self._lengths:
            shape = self._by_words.get(bytes(view[position : position + length]))
            if shape is not None:
                return shape
        return None

    def clear(self) -> None:
        """Forget every shape."""
        self._by_words.clear()
        self._lengths.clear()


def learn_shape(
    frame: memoryview, version: int, request: ProduceRequest, partition: HostedPartition
) -> ProduceShape | None:
    """The shape of a decoded one-partition request (`frame` is without its size), where it has one."""
    if version < _FIRST_ZSTD_VERSION:
        return None
    records = request.topic_data[0].partition_data[0].records
    assert records is not None
    flexible = version >= _FIRST_FLEXIBLE_VERSION
    end_bytes = len(_FLEXIBLE_END) if flexible else 0
    length_bytes = (len(records) + 1).bit_length() + 6 if flexible else 32
    length_bytes = length_bytes // 7 if flexible else length_bytes // 8
    words = bytes(frame[_WORDS_AT - 4 : len(frame) - end_bytes - len(records) - length_bytes])
    shape = ProduceShape(words, version, request, partition)
    # Read the frame it was learnt from: tagged fields or a padded length would put the records elsewhere.
    again = bytearray(4) + frame
    found = shape.match(again, memoryview(again), 0, len(again), version)
    # As bytes: to compare views takes a hundred times as long.
    return shape if found is not None and bytes(found) == bytes(records) else None


def _response_words(version: int, partition: HostedPartition) -> tuple[bytes, bytes]:
    """What stands before the error code and after the log start offset in the response."""
    index = _INT32.pack(partition.index)
    throttle = _INT32.pack(0)
    name = partition.topic.encode()
    if version >= _FIRST_FLEXIBLE_VERSION:
        topic = partition.topic_id.bytes if version >= _FIRST_TOPIC_ID_VERSION else _compact_string(name)
        # Header without tagged fields; one topic; one partition.
        middle = b"\0" + b"\x02" + topic + b"\x02" + index
        # No record errors, no error message, no tagged fields of partition and topic, throttle, no tagged fields.
        return middle, b"\x01\0" + b"\0\0" + throttle + b"\0"
    one = _INT32.pack(1)
    middle = one + _INT16.pack(len(name)) + name + one + index
    no_errors = _INT32.pack(0) + _INT16.pack(-1) if version >= _FIRST_RECORD_ERRORS_VERSION else b""
    return middle, no_errors + throttle


def _compact_string(text: bytes) -> bytes:
    length = len(text) + 1
    # A topic name has at most 249 characters, so two bytes are enough.
    prefix = bytes((length,)) if length < 128 else bytes((length & 127 | 128, length >> 7))
    return prefix + text
