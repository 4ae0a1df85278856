import os
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.config import TopicConfig
from ottla.errors import ErrorCode
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.log.writing.append import Appended
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.codec import DecodeError, codec
from ottla.protocol.frame import RequestHeader, read_request_header, response_frame, write_request
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.records.batch import HEADER_BYTES
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Record
from ottla.replication.events import Assigned
from ottla.replication.partition import PartitionReplica
from ottla.runtime.disk import OsDisk
from ottla.server.apis.produce_shape import ProduceShape, ProduceShapes, learn_shape
from ottla.server.partitions.hosted_partition import HostedPartition

VERSIONS = range(APIS[ApiKey.PRODUCE].min_version, APIS[ApiKey.PRODUCE].max_version + 1)
# Below version 7 the records must be looked at (zstd) and the response is shorter: no client in a hurry is
# that old.
SHAPED = range(7, VERSIONS.stop)
TOPIC_ID = UUID(int=0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF0)
SIZE = struct.Struct(">i")


@contextmanager
def hosted(topic: str = "orders", index: int = 3) -> Iterator[HostedPartition]:
    """A partition that this node leads."""
    with TemporaryDirectory() as directory:
        log = Log.open(
            OsDisk(),
            str(Path(directory) / f"{topic[:100]}-{index}"),
            TopicConfig(),
            recovery_point=0,
            log_start_offset=0,
            clean=True,
            now_ms=0,
            open_files=OpenFiles(64, 64),
        )
        partition = HostedPartition(topic, TOPIC_ID, index, log, PartitionReplica(1, 0))
        partition.assign(Assigned(leader=1, leader_epoch=0, isr=(1,), replicas=(1,)), 0)
        yield partition
        log.close()


@pytest.fixture(scope="module")
def partition() -> Iterator[HostedPartition]:
    with hosted() as found:
        yield found


def a_batch(size: int = 20, **options: Any) -> bytes:
    return bytes(build_batch([Record(0, 1000, None, os.urandom(size))], **options))


def request_of(
    *sets: bytes | bytearray, index: int = 3, topic: str = "orders", **fields: Any
) -> ProduceRequest:
    data = [PartitionProduceData(index=index + n, records=memoryview(held)) for n, held in enumerate(sets)]
    named = TopicProduceData(name=topic, topic_id=TOPIC_ID, partition_data=data)
    return ProduceRequest(**{"acks": -1, "timeout_ms": 30_000, "topic_data": [named], **fields})


def frame_of(
    version: int, request: ProduceRequest, correlation_id: int = 1, client_id: str | None = "shop"
) -> bytearray:
    out = bytearray()
    write_request(RequestHeader(ApiKey.PRODUCE, version, correlation_id, client_id), request, out)
    return out


def learnt(frame: bytearray, version: int, partition: HostedPartition) -> ProduceShape | None:
    return learn_shape(memoryview(frame)[4:], version, decoded(frame, version), partition)


def decoded(frame: bytearray, version: int) -> ProduceRequest:
    view = memoryview(frame)[4:]
    _, position = read_request_header(view, 0)
    return codec(ProduceRequest, version).read(view, position)[0]


def match(shape: ProduceShape, frame: bytearray, version: int) -> bytes | None:
    """The records that the shape finds in the frame, with other frames before and after it in the buffer."""
    data = bytearray(b"\x07" * 13) + frame + b"\0" * 64
    found = shape.match(data, memoryview(data), 13, 13 + len(frame), version)
    return None if found is None else bytes(found)


@pytest.mark.parametrize("version", SHAPED)
def test_a_repeated_request_is_recognised_and_its_records_are_the_codecs(
    version: int, partition: HostedPartition
) -> None:
    shape = learnt(frame_of(version, request_of(a_batch())), version, partition)
    assert shape is not None
    for size in (0, 50, 200, 20_000, 3_000_000):
        records = a_batch(size)
        assert match(shape, frame_of(version, request_of(records), correlation_id=size), version) == records
    assert (shape.acks, shape.timeout_ms, shape.version) == (-1, 30_000, version)


@pytest.mark.parametrize("version", SHAPED)
def test_the_response_equals_the_compiled_codecs(version: int, partition: HostedPartition) -> None:
    shape = learnt(frame_of(version, request_of(a_batch())), version, partition)
    assert shape is not None
    for appended in (Appended(0, 4, -1, 0, False), Appended(2**62, 2**62, 1_700_000_000_000, 17, True)):
        response = PartitionProduceResponse(
            index=3,
            error_code=ErrorCode.NONE,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.log_start_offset,
        )
        topic = TopicProduceResponse(name="orders", topic_id=TOPIC_ID, partition_responses=[response])
        compiled = response_frame(-5, ApiKey.PRODUCE, version, ProduceResponse(responses=[topic]))
        assert shape.response(-5, appended) == compiled


@pytest.mark.parametrize("length", [1, 126, 127, 128, 249])
@pytest.mark.parametrize("version", [8, 9, 12])
def test_topic_names_of_every_length_come_back_right(version: int, length: int) -> None:
    name = "t" * length
    with hosted(name) as partition:
        shape = learnt(frame_of(version, request_of(a_batch(), topic=name)), version, partition)
        assert shape is not None
        response = PartitionProduceResponse(index=3, log_start_offset=0)
        topic = TopicProduceResponse(name=name, partition_responses=[response])
        compiled = response_frame(9, ApiKey.PRODUCE, version, ProduceResponse(responses=[topic]))
        assert shape.response(9, Appended(0, 0, -1, 0, False)) == compiled


@pytest.mark.parametrize("version", range(VERSIONS.start, SHAPED.start))
def test_versions_before_zstd_are_always_decoded_because_their_records_must_be_looked_at(
    version: int, partition: HostedPartition
) -> None:
    assert learnt(frame_of(version, request_of(a_batch())), version, partition) is None


@pytest.mark.parametrize("version", SHAPED)
def test_a_request_that_differs_in_anything_but_its_records_is_not_recognised(
    version: int, partition: HostedPartition
) -> None:
    shape = learnt(frame_of(version, request_of(a_batch())), version, partition)
    assert shape is not None
    others = [
        frame_of(version, request_of(a_batch(), acks=1)),
        frame_of(version, request_of(a_batch(), acks=0)),
        frame_of(version, request_of(a_batch(), timeout_ms=29_999)),
        frame_of(version, request_of(a_batch(), transactional_id="mine")),
        frame_of(version, request_of(a_batch(), index=4)),
        frame_of(version, request_of(a_batch(), a_batch())),
        frame_of(version, request_of(a_batch()), client_id="shoq"),
        frame_of(version, request_of(a_batch()), client_id=None),
        frame_of(version, request_of(b"")),
        frame_of(version, request_of(a_batch(is_transactional=True, producer_id=4, producer_epoch=0))),
        frame_of(version, request_of(bytes(HEADER_BYTES - 1))),
    ]
    if version < 13:
        others.append(frame_of(version, request_of(a_batch(), topic="orderz")))
    assert [match(shape, frame, version) for frame in others] == [None] * len(others)
    assert match(shape, frame_of(version, request_of(a_batch())), version - 1) is None


def found_in(shapes: ProduceShapes, frame: bytearray) -> ProduceShape | None:
    data = bytearray(b"\x07" * 13) + frame
    return shapes.find(memoryview(data), 13)


@pytest.mark.parametrize("version", [8, 9, 12])
def test_who_writes_to_several_partitions_has_a_shape_for_each(version: int) -> None:
    shapes, kept = ProduceShapes(), []
    with hosted("orders", 3) as third, hosted("orders", 4) as fourth, hosted("more-orders", 3) as other:
        for partition in (third, fourth, other):
            request = request_of(a_batch(), index=partition.index, topic=partition.topic)
            frame = frame_of(version, request)
            assert found_in(shapes, frame) is None
            shape = learnt(frame, version, partition)
            assert shape is not None
            shapes.add(shape)
            kept.append((frame, shape))
        assert [found_in(shapes, frame) for frame, _ in kept] == [shape for _, shape in kept]
        assert found_in(shapes, frame_of(version, request_of(a_batch(), index=9))) is None
        shapes.clear()
        assert [found_in(shapes, frame) for frame, _ in kept] == [None] * 3


def test_shapes_without_number_are_not_kept(partition: HostedPartition) -> None:
    shapes = ProduceShapes()
    for number in range(1000):
        frame = frame_of(9, request_of(a_batch()), client_id="c" * (number % 20) + str(number))
        shape = learnt(frame, 9, partition)
        assert shape is not None
        shapes.add(shape)
        assert found_in(shapes, frame) is shape
    assert len(shapes._by_prefix) <= 256


def test_nothing_is_recognised_once_the_partition_is_gone() -> None:
    with hosted() as partition:
        frame = frame_of(9, request_of(a_batch()))
        shape = learnt(frame, 9, partition)
        assert shape is not None
        partition.close()
        assert match(shape, frame, 9) is None


def test_a_request_with_tagged_fields_or_a_padded_length_is_left_to_the_codec(
    partition: HostedPartition,
) -> None:
    records = a_batch(40)
    plain = frame_of(9, request_of(records))
    shape = learnt(plain, 9, partition)
    assert shape is not None
    body = bytes(plain[: -len(records) - 4])  # without the one byte of length, and the three ends
    tag = b"\x01\x63\x02ab"  # one tagged field, number 99, two bytes
    length = len(records) + 1
    padded = bytes((length & 127 | 128, 128, 0))
    odd = [
        body + bytes((length,)) + records + tag + b"\0\0",
        body + bytes((length,)) + records + b"\0" + tag + b"\0",
        body + bytes((length,)) + records + b"\0\0" + tag,
        body + padded + records + b"\0\0\0",
        body + bytes((length,)) + records + b"\0\0\0" + b"left over",
    ]
    for raw in odd:
        frame = bytearray(raw)
        SIZE.pack_into(frame, 0, len(frame) - 4)
        assert decoded(frame, 9).topic_data[0].partition_data[0].records == memoryview(records)
        assert match(shape, frame, 9) in (None, records)
        again = learnt(frame, 9, partition)
        assert again is None or match(again, frame, 9) == records


def mutated(frame: bytearray, seed: int) -> bytearray:
    """The frame with a few bytes changed, put in or taken out, and a size that fits."""
    rng = random.Random(seed)
    changed = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(12, len(changed))
        match rng.randrange(4):
            case 0:
                changed[place] = rng.randrange(256)
            case 1:
                changed[place] ^= 1 << rng.randrange(8)
            case 2:
                changed[place:place] = rng.randbytes(rng.randint(1, 3))
            case _:
                del changed[place : place + rng.randint(1, 3)]
    SIZE.pack_into(changed, 0, len(changed) - 4)
    return changed


def the_codec_agrees(shape: ProduceShape, frame: bytearray, version: int) -> bool:
    """None, or exactly the records that the codec finds, with everything else as the shape has it."""
    found = match(shape, frame, version)
    if found is None:
        return True
    request = decoded(frame, version)
    (topic,) = request.topic_data
    (data,) = topic.partition_data
    named = topic.topic_id == TOPIC_ID if version >= 13 else topic.name == shape.partition.topic
    same = (request.acks, request.timeout_ms) == (shape.acks, shape.timeout_ms)
    return named and same and data.index == shape.partition.index and data.records == memoryview(found)


@settings(deadline=None)
@given(
    version=st.sampled_from(SHAPED),
    size=st.integers(0, 400),
    seed=st.integers(0, 2**32),
    compression=st.sampled_from(Compression),
)
def test_a_mutated_frame_is_never_recognised_wrongly(
    partition: HostedPartition, version: int, size: int, seed: int, compression: Compression
) -> None:
    frame = frame_of(version, request_of(a_batch(size, compression=compression)))
    shape = learnt(frame, version, partition)
    assert shape is not None
    for step in range(8):
        changed = mutated(frame, seed + step)
        try:
            assert the_codec_agrees(shape, changed, version)
        except DecodeError as problem:
            raise AssertionError(f"recognised what the codec refuses: {problem}") from problem


REQUESTS = st.builds(
    ProduceRequest,
    transactional_id=st.none() | st.text(max_size=3),
    acks=st.sampled_from([-1, 1]),
    timeout_ms=st.integers(0, 2),
    topic_data=st.lists(
        st.builds(
            TopicProduceData,
            name=st.sampled_from(["orders", "order"]),
            topic_id=st.sampled_from([TOPIC_ID, UUID(int=1)]),
            partition_data=st.lists(
                st.builds(
                    PartitionProduceData,
                    index=st.integers(2, 4),
                    records=st.none() | st.binary(max_size=150),
                ),
                max_size=3,
            ),
        ),
        max_size=2,
    ),
)


@settings(deadline=None)
@given(version=st.sampled_from(VERSIONS), first=REQUESTS, then=st.lists(REQUESTS, max_size=4))
def test_whatever_was_learnt_other_requests_are_recognised_only_where_the_codec_agrees(
    partition: HostedPartition, version: int, first: ProduceRequest, then: list[ProduceRequest]
) -> None:
    usual = request_of(a_batch(), acks=1, timeout_ms=1)
    for known in (first, usual):
        if [len(topic.partition_data) for topic in known.topic_data] != [1]:
            continue
        data = known.topic_data[0].partition_data[0]
        if not data.records or data.index != 3 or known.topic_data[0].name != "orders":
            continue
        shape = learnt(frame_of(version, known), version, partition)
        for request in [*then, first, usual] if shape is not None else ():
            frame = frame_of(version, request)
            assert shape is not None
            assert the_codec_agrees(shape, frame, version)
