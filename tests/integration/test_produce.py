"""What a producer is told: the offset, or the error that Kafka's clients know what to do with (REP-5,
PRO-4).
"""

import struct
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.integration.in_process import BrokerThread
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    fetch,
    list_offset,
    now_ms,
    produce,
    produce_request,
    read_all,
    records_of,
    values_of,
)

from ottla.errors import ErrorCode
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.frame import read_response, response_frame
from ottla.protocol.messages.produce import ProduceRequest, TopicProduceData
from ottla.protocol.messages.producer_ids import InitProducerIdRequest
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Record

VERSIONS = range(3, APIS[ApiKey.PRODUCE].max_version + 1)
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def asking(served: BrokerThread) -> Iterator[Peer]:
    """One connection for the whole module: what one test leaves behind on it must not harm the next."""
    with Peer(served.port) as connected:
        yield connected


def new_producer_id(peer: Peer) -> int:
    answer = peer.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None))
    assert answer.error_code == 0
    producer_id: int = answer.producer_id
    return producer_id


def sequenced(producer_id: int, sequence: int, *values: bytes, epoch: int = 0) -> bytearray:
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def with_bad_checksum() -> bytearray:
    damaged = batch(b"value")
    damaged[-3] ^= 1
    return damaged


def test_every_version_answers_exactly_what_its_codec_would_and_stores_the_records(
    asking: Peer, topic: str
) -> None:
    topic_id = create_topic(asking, topic)
    sent: list[bytes | None] = []
    for version in VERSIONS:
        # The second and third request of a version are recognised by their shape, the first is decoded.
        for number in range(3):
            value = b"%d-%d" % (version, number)
            target = topic if version < 13 else topic_id
            request = produce_request(target, batch(value, value), acks=-1)
            correlation_id = asking.send(ApiKey.PRODUCE, version, request)
            raw = asking.receive_frame()
            answered_id, answer = read_response(ApiKey.PRODUCE, version, memoryview(raw))
            again = response_frame(correlation_id, ApiKey.PRODUCE, version, answer)
            assert (answered_id, raw) == (correlation_id, bytes(again)[4:])
            found = answer.responses[0].partition_responses[0]
            assert (found.error_code, found.base_offset, found.log_append_time_ms) == (0, len(sent), -1)
            assert found.log_start_offset == (-1 if version < 5 else 0)
            sent += [value, value]
    assert read_all(asking, topic) == sent


def test_an_unknown_topic_or_partition_is_said_to_be_unknown(asking: Peer, topic: str) -> None:
    create_topic(asking, topic)
    assert produce(asking, "nowhere", batch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = produce(asking, topic, batch(), partition=1)
    assert (refused.error_code, refused.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert produce(asking, UUID(int=77), batch()).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("acks", [5, 2, -2, 32767])
def test_acks_that_do_not_exist_are_refused(asking: Peer, topic: str, acks: int) -> None:
    create_topic(asking, topic)
    assert produce(asking, topic, batch(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert list_offset(asking, topic, -1).offset == 0


BAD_BATCHES: dict[str, tuple[Any, ErrorCode]] = {
    "a wrong checksum": (with_bad_checksum, ErrorCode.CORRUPT_MESSAGE),
    "two batches": (lambda: batch(b"1") + batch(b"2"), ErrorCode.INVALID_RECORD),
    "a cut batch": (lambda: batch(b"value")[:-1], ErrorCode.INVALID_RECORD),
    "fewer bytes than a header": (lambda: batch(b"value")[:40], ErrorCode.INVALID_RECORD),
    "no records": (lambda: bytearray(), ErrorCode.INVALID_RECORD),
    "a control batch": (
        lambda: batch(b"v", is_control=True, producer_id=1, producer_epoch=0, base_sequence=0),
        ErrorCode.INVALID_RECORD,
    ),
    "a batch larger than max.message.bytes": (
        lambda: batch(bytes(1_048_588)),
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "a time too far ahead": (
        lambda: batch(b"v", timestamp=now_ms() + 2 * HOUR_MS),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "a producer id without a sequence": (
        lambda: batch(b"v", producer_id=7, producer_epoch=0),
        ErrorCode.INVALID_RECORD,
    ),
    "a transaction without a transactional id": (
        lambda: batch(b"v", is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


@pytest.mark.parametrize("is_repeated", [False, True], ids=["decoded", "recognised by its shape"])
@pytest.mark.parametrize("what", BAD_BATCHES)
def test_a_bad_batch_is_refused_with_kafkas_error_and_takes_no_offset(
    asking: Peer, topic: str, what: str, is_repeated: bool
) -> None:
    create_topic(asking, topic)
    make, error = BAD_BATCHES[what]
    if is_repeated:
        produce(asking, topic, batch(b"good"))
    refused = produce(asking, topic, make())
    assert (ErrorCode(refused.error_code), refused.base_offset) == (error, -1)
    assert refused.error_message
    assert produce(asking, topic, batch(b"good")).base_offset == int(is_repeated)


@pytest.mark.parametrize("version", [3, 5, 6])
def test_zstd_is_refused_before_version_7_also_behind_other_batches(
    asking: Peer, topic: str, version: int
) -> None:
    create_topic(asking, topic)
    for _ in range(2):
        assert produce(asking, topic, batch(b"plain"), version=version).error_code == 0
        refused = produce(asking, topic, batch(b"v", compression=Compression.ZSTD), version=version)
        assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(asking, topic, batch(b"v", compression=Compression.ZSTD), version=7).base_offset == 2


@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)
def test_a_batch_is_stored_as_it_was_compressed(asking: Peer, topic: str, codec: Compression) -> None:
    create_topic(asking, topic)
    sent = batch(*[b"repeated words " * 20] * 50, compression=codec)
    assert produce(asking, topic, sent).error_code == 0
    stored = fetch(asking, topic)
    assert bytes(stored.records or b"")[21:] == sent[21:], "only base offset and epoch may differ"
    assert values_of(stored) == [b"repeated words " * 20] * 50


def test_each_partition_of_a_request_gets_its_own_answer(asking: Peer, topic: str) -> None:
    create_topic(asking, topic, partitions=2)
    request = produce_request(topic, batch(b"a"), with_bad_checksum(), batch(b"c"))
    request.topic_data.append(
        TopicProduceData(name="nowhere", partition_data=request.topic_data[0].partition_data[:1])
    )
    answer = asking.ask(ApiKey.PRODUCE, 9, request)
    codes = [[found.error_code for found in answered.partition_responses] for answered in answer.responses]
    assert codes == [
        [ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    assert [answered.name for answered in answer.responses] == [topic, "nowhere"]


def test_internal_topics_take_records_only_from_who_says_that_it_means_them(asking: Peer) -> None:
    create_topic(asking, "__share_group_state")
    request = produce_request("__share_group_state", batch(b"v"), acks=1)
    for client_id, error in (("peer", ErrorCode.INVALID_TOPIC_EXCEPTION), ("__admin_client", ErrorCode.NONE)):
        asking.socket.sendall(asking.frame(ApiKey.PRODUCE, 9, request, client_id) * 2)
        for _ in range(2):
            answer = asking.receive(ApiKey.PRODUCE, 9)[1].responses[0].partition_responses[0]
            assert answer.error_code == error


def test_a_request_without_topics_is_answered_without_topics(asking: Peer) -> None:
    assert asking.ask(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1)).responses == []


class TestIdempotence:
    def test_a_batch_sent_again_is_answered_with_the_offset_it_got_the_first_time(
        self, asking: Peer, topic: str
    ) -> None:
        create_topic(asking, topic)
        producer = new_producer_id(asking)
        sent = [sequenced(producer, number * 2, b"%d" % number, b"x") for number in range(5)]
        first = [produce(asking, topic, records).base_offset for records in sent]
        again = [produce(asking, topic, bytearray(records)) for records in sent]
        assert first == [0, 2, 4, 6, 8]
        assert [(found.error_code, found.base_offset) for found in again] == [(0, offset) for offset in first]
        assert list_offset(asking, topic, -1).offset == 10

    def test_a_gap_is_refused_and_the_right_batch_taken_afterwards(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic)
        producer = new_producer_id(asking)
        produce(asking, topic, sequenced(producer, 0, b"a"))
        refused = [produce(asking, topic, sequenced(producer, 2, b"c")).error_code for _ in range(4)]
        waits = [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
        assert refused == [*waits, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        assert produce(asking, topic, sequenced(producer, 1, b"b")).base_offset == 1

    def test_pipelined_batches_see_each_other(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic)
        producer = new_producer_id(asking)
        frames = b""
        for sequence in (0, 1, 1, 3, 2, 0):
            request = produce_request(topic, sequenced(producer, sequence, b"%d" % sequence))
            frames += asking.frame(ApiKey.PRODUCE, 9, request)
        asking.socket.sendall(frames)
        answers = [asking.receive(ApiKey.PRODUCE, 9)[1].responses[0].partition_responses[0] for _ in range(6)]
        assert [(found.error_code, found.base_offset) for found in answers] == [
            (0, 0),
            (0, 1),
            (0, 1),
            (ErrorCode.NOT_ENOUGH_REPLICAS, -1),
            (0, 2),
            (0, 0),
        ]
        assert read_all(asking, topic) == [b"0", b"1", b"2"]

    def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_0(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic)
        producer = new_producer_id(asking)
        produce(asking, topic, sequenced(producer, 0, b"a", epoch=1))
        stale = produce(asking, topic, sequenced(producer, 1, b"b", epoch=0))
        assert stale.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        skipped = produce(asking, topic, sequenced(producer, 1, b"b", epoch=2))
        assert skipped.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert produce(asking, topic, sequenced(producer, 0, b"b", epoch=2)).base_offset == 1

    def test_an_unknown_producer_may_begin_anywhere_but_not_at_once(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic)
        producer = new_producer_id(asking)
        answers = [produce(asking, topic, sequenced(producer, 40, b"a")) for _ in range(4)]
        assert [answer.error_code for answer in answers] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 3 + [0]
        assert answers[-1].base_offset == 0

    def test_sequences_wrap_to_0(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic)
        producer = new_producer_id(asking)
        produce(asking, topic, sequenced(producer, 2**31 - 2, b"a", b"b", b"c"))
        assert produce(asking, topic, sequenced(producer, 1, b"d")).base_offset == 3


class TestTopicsThatChangeOrCheckRecords:
    def test_a_compacted_topic_takes_no_record_without_a_key(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic, cleanup_policy="compact")
        refused = produce(asking, topic, batch(b"v", key=None))
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert produce(asking, topic, batch(b"v", key=b"k")).base_offset == 0

    def test_the_refused_records_of_a_batch_are_named(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic, cleanup_policy="compact", message_timestamp_before_max_ms=HOUR_MS)
        now, late = now_ms(), now_ms() - 2 * HOUR_MS
        keys = [Record(0, now, b"k", b"v"), Record(1, now, None, b"v"), Record(2, now, None, b"v")]
        refused = produce(asking, topic, build_batch(keys))
        assert (refused.error_code, refused.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        reason = "a compacted topic takes no record without a key"
        assert refused.error_message == reason
        named = [(each.batch_index, each.batch_index_error_message) for each in refused.record_errors]
        assert named == [(1, reason), (2, reason)]
        times = [Record(0, late, b"k", b"v"), Record(1, now, b"k", b"v")]
        refused = produce(asking, topic, build_batch(times))
        assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
        named = [(each.batch_index, each.batch_index_error_message) for each in refused.record_errors]
        assert named == [(0, f"timestamp {late} is out of range")]
        damaged = produce(asking, topic, batch(b"v")[:-1] + b"?")
        assert (damaged.error_code, damaged.record_errors) == (ErrorCode.CORRUPT_MESSAGE, [])

    def test_log_append_time_is_answered_and_stored(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic, message_timestamp_type="LogAppendTime")
        before = now_ms()
        found = produce(asking, topic, batch(b"a", b"b", timestamp=1))
        assert before <= found.log_append_time_ms <= now_ms()
        stamps = {record.timestamp for record in records_of(fetch(asking, topic))}
        assert stamps == {found.log_append_time_ms}

    def test_a_time_too_long_ago_is_refused_where_the_topic_says_so(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic, message_timestamp_before_max_ms=HOUR_MS)
        late = produce(asking, topic, batch(b"v", timestamp=now_ms() - 2 * HOUR_MS))
        assert late.error_code == ErrorCode.INVALID_TIMESTAMP
        assert produce(asking, topic, batch(b"v")).error_code == 0

    def test_a_batch_larger_than_a_segment_is_refused(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic, segment_bytes=1_048_576, max_message_bytes=3_000_000)
        refused = produce(asking, topic, batch(bytes(1_200_000)))
        assert refused.error_code == ErrorCode.RECORD_LIST_TOO_LARGE

    def test_a_topic_with_its_own_compression_stores_that(self, asking: Peer, topic: str) -> None:
        create_topic(asking, topic, compression_type="lz4")
        produce(asking, topic, batch(b"words " * 100, compression=Compression.GZIP))
        stored = fetch(asking, topic)
        (attributes,) = struct.unpack_from(">h", stored.records or b"", 21)
        assert attributes & 7 == Compression.LZ4
        assert values_of(stored) == [b"words " * 100]

    def test_more_in_sync_replicas_than_there_are_replicas_are_not_asked_for(
        self, asking: Peer, topic: str
    ) -> None:
        create_topic(asking, topic, min_insync_replicas=2)
        assert [produce(asking, topic, batch(), acks=acks).error_code for acks in (-1, 1)] == [0, 0]
