"""What a reader gets, how much of it, and how long it waits (WIRE-3, STO-7)."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from tests.integration.in_process import BrokerThread
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    delete_topic,
    fetch,
    fetch_request,
    list_offset,
    now_ms,
    produce,
    produce_request,
    records_of,
    timed,
    took_s,
    values_of,
)

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.records.control import EndTransactionMarker, build_marker

VERSIONS = range(APIS[ApiKey.FETCH].min_version, APIS[ApiKey.FETCH].max_version + 1)
# So long that a test which waits for it is seen to have waited, and one which must not wait is seen too.
LONG_MS = 10_000
SOON_S = 3.0


def answers(response: Any) -> list[PartitionData]:
    return [partition for topic in response.responses for partition in topic.partitions]


@contextmanager
def waiting(served: BrokerThread, topic: str, request: Any, version: int = 12) -> Iterator[Callable[[], Any]]:
    """A fetch that waits in a long poll; call what is yielded for its answer."""
    readers = served.partition(topic).waiters.readers
    with Peer(served.port) as reader:
        reader.send(ApiKey.FETCH, version, request)
        wait_until(lambda: len(readers) == 1, "the fetch waits")
        yield lambda: reader.receive(ApiKey.FETCH, version)[1]


class TestWaiting:
    def test_the_append_that_completes_min_bytes_wakes_it_whatever_the_partition(
        self, served: BrokerThread, peer: Peer, topic: str
    ) -> None:
        create_topic(peer, topic, partitions=3)
        one = len(batch(bytes(100)))
        wants = [(topic, index, 0) for index in range(3)]
        request = fetch_request(wants, max_wait_ms=LONG_MS, min_bytes=3 * one)
        with waiting(served, topic, request) as answer:
            started = time.monotonic()
            for index in (2, 0):
                produce(peer, topic, batch(bytes(100)), partition=index)
                assert len(served.partition(topic).waiters.readers) == 1, "it goes on waiting"
            produce(peer, topic, batch(bytes(100)), partition=1)
            sizes = [len(found.records or b"") for found in answers(answer())]
            assert time.monotonic() - started < SOON_S
        assert sizes == [one, one, one]

    def test_what_is_there_already_counts(self, served: BrokerThread, peer: Peer, topic: str) -> None:
        create_topic(peer, topic, partitions=2)
        one = len(batch(bytes(100)))
        produce(peer, topic, batch(bytes(100)), partition=1)
        request = fetch_request([(topic, 0, 0), (topic, 1, 0)], max_wait_ms=LONG_MS, min_bytes=2 * one)
        with waiting(served, topic, request) as answer:
            produce(peer, topic, batch(bytes(100)), partition=0)
            assert [len(found.records or b"") for found in answers(answer())] == [one, one]

    def test_at_its_deadline_it_is_answered_with_what_there_is(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"v"))
        found, elapsed = timed(lambda: fetch(peer, topic, max_wait_ms=200, min_bytes=1_000_000))
        assert 0.19 < elapsed < SOON_S
        assert values_of(found) == [b"v"]

    @pytest.mark.parametrize(
        "limits", [{"max_wait_ms": 0, "min_bytes": 1}, {"max_wait_ms": LONG_MS, "min_bytes": 0}]
    )
    def test_with_no_wait_or_no_bytes_asked_for_it_is_answered_at_once(
        self, peer: Peer, topic: str, limits: dict[str, int]
    ) -> None:
        create_topic(peer, topic)
        assert took_s(lambda: fetch(peer, topic, **limits)) < SOON_S

    def test_an_error_of_one_partition_is_told_at_once(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        request = fetch_request([(topic, 0, 0), ("nowhere", 0, 0), (topic, 0, 99)], max_wait_ms=LONG_MS)
        answer, elapsed = timed(lambda: peer.ask(ApiKey.FETCH, 12, request))
        codes = [found.error_code for found in answers(answer)]
        assert elapsed < SOON_S
        assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_OUT_OF_RANGE]

    def test_data_of_an_older_segment_is_not_waited_behind(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic, segment_bytes=2000)
        for number in range(4):
            produce(peer, topic, batch(b"%d" % number, bytes(1200)))
        offset, seen = 0, []
        while offset < 8:
            request = fetch_request((topic, 0, offset), max_wait_ms=1000, min_bytes=1 << 20)
            answer, elapsed = timed(partial(peer.ask, ApiKey.FETCH, 12, request))
            records = records_of(answers(answer)[0])
            offset = records[-1].offset + 1
            seen.append((offset, elapsed < 0.9))
        assert seen == [(2, True), (4, True), (6, True), (8, False)]

    def test_a_deleted_topic_wakes_it(self, served: BrokerThread, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        with waiting(served, topic, fetch_request((topic, 0, 0), max_wait_ms=LONG_MS)) as answer:
            delete_topic(peer, topic)
            (found,) = answers(answer())
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_deleted_topic_wakes_one_that_knows_it_by_id(
        self, served: BrokerThread, peer: Peer, topic: str
    ) -> None:
        topic_id = create_topic(peer, topic)
        request = fetch_request((topic_id, 0, 0), max_wait_ms=LONG_MS)
        with waiting(served, topic, request, version=16) as answer:
            delete_topic(peer, topic)
            (found,) = answers(answer())
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_many_readers_wake_together(self, served: BrokerThread, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        readers = [Peer(served.port) for _ in range(50)]
        try:
            for reader in readers:
                reader.send(ApiKey.FETCH, 12, fetch_request((topic, 0, 0), max_wait_ms=LONG_MS))
            wait_until(lambda: len(served.partition(topic).waiters.readers) == 50, "all wait")
            produce(peer, topic, batch(b"news"))
            for reader in readers:
                assert values_of(answers(reader.receive(ApiKey.FETCH, 12)[1])[0]) == [b"news"]
        finally:
            for reader in readers:
                reader.socket.close()
        assert not served.partition(topic).waiters.readers

    def test_records_deleted_meanwhile_are_told_of(
        self, served: BrokerThread, peer: Peer, topic: str
    ) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a", b"b"))
        request = fetch_request((topic, 0, 0), max_wait_ms=300, min_bytes=1 << 20)
        with waiting(served, topic, request) as answer:
            deleted = DeleteRecordsTopic(
                name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
            )
            peer.ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[deleted]))
            (found,) = answers(answer())
        assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


class TestHowMuch:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_every_version_reads_the_same_records(self, peer: Peer, topic: str, version: int) -> None:
        topic_id = create_topic(peer, topic)
        sent = produce_request(topic, batch(b"a", b"b", b"c"))
        peer.ask(ApiKey.PRODUCE, 9, sent)
        found = fetch(peer, topic if version < 13 else topic_id, 1, version=version)
        assert values_of(found) == [b"a", b"b", b"c"], "the whole batch that holds the offset"
        assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 3, 3)
        assert found.aborted_transactions is None
        assert found.log_start_offset == (0 if version >= 5 else -1)

    def test_a_first_batch_larger_than_all_limits_comes_whole_and_alone(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic, partitions=2)
        for index in (0, 1):
            produce(peer, topic, batch(bytes(5000)), partition=index)
            produce(peer, topic, batch(b"second"), partition=index)
        wants = [(topic, 0, 0), (topic, 1, 0)]
        for limits in ({"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}):
            found = answers(peer.ask(ApiKey.FETCH, 12, fetch_request(wants, **limits)))
            assert [values_of(one) for one in found] == [[bytes(5000)], []], limits

    def test_the_first_partition_with_records_is_the_one_that_may_exceed_the_limit(
        self, peer: Peer, topic: str
    ) -> None:
        create_topic(peer, topic, partitions=3)
        for index in (1, 2):
            produce(peer, topic, batch(bytes(5000)), partition=index)
        wants = [(topic, index, 0) for index in (0, 2, 1)]
        found = answers(peer.ask(ApiKey.FETCH, 12, fetch_request(wants, max_bytes=100)))
        assert [(one.partition_index, len(values_of(one))) for one in found] == [(0, 0), (2, 1), (1, 0)]

    def test_partition_max_bytes_bounds_each_partition_to_whole_batches(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic, partitions=2)
        one = len(batch(bytes(1000)))
        for index in (0, 1):
            for _ in range(10):
                produce(peer, topic, batch(bytes(1000)), partition=index)
        wants = [(topic, 0, 0), (topic, 1, 0)]
        request = fetch_request(wants, partition_max_bytes=3 * one + 5)
        sizes = [len(found.records or b"") for found in answers(peer.ask(ApiKey.FETCH, 12, request))]
        assert sizes == [3 * one, 3 * one]
        request = fetch_request(wants, max_bytes=4 * one + 5, partition_max_bytes=3 * one + 5)
        sizes = [len(found.records or b"") for found in answers(peer.ask(ApiKey.FETCH, 12, request))]
        assert sizes == [3 * one, one]

    def test_the_end_of_the_log_is_empty_and_no_error(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a"))
        found = fetch(peer, topic, 1)
        assert (found.error_code, found.high_watermark, len(found.records or b"")) == (0, 1, 0)

    @pytest.mark.parametrize("offset", [-1, 0, 1, 6, 1 << 62])
    def test_an_offset_outside_the_log_is_refused_and_tells_nothing_else(
        self, peer: Peer, topic: str, offset: int
    ) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(*[b"v"] * 5))
        deleted = DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
        )
        peer.ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[deleted]))
        found = fetch(peer, topic, offset)
        assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (-1, -1, -1)
        assert not found.records
        assert fetch(peer, topic, 2).log_start_offset == 2

    def test_an_unknown_id_is_told_apart_from_an_unknown_partition(self, peer: Peer, topic: str) -> None:
        topic_id = create_topic(peer, topic)
        assert fetch(peer, UUID(int=5)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        unknown = fetch(peer, topic_id, partition=9)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_segment_that_ends_before_what_was_promised_is_news(
        self, served: BrokerThread, peer: Peer, topic: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(bytes(200_000)))
        file = served.call(lambda: served.log(topic).extent.segments.active.file)
        os.truncate(f"/proc/self/fd/{file.fileno()}", 100_000)
        with Peer(served.port) as reader:
            reader.send(ApiKey.FETCH, 12, fetch_request((topic, 0, 0)))
            with pytest.raises(ConnectionError):
                reader.receive(ApiKey.FETCH, 12)
        wait_until(lambda: "a segment file ended before" in caplog.text, "it is logged")

    def test_reading_goes_on_across_hundreds_of_segments(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic, segment_bytes=1000)
        count = 300
        frames = b"".join(
            peer.frame(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"%d" % number, bytes(400)), acks=1))
            for number in range(count)
        )
        sender = threading.Thread(target=peer.socket.sendall, args=(frames,))
        sender.start()
        for _ in range(count):
            peer.receive(ApiKey.PRODUCE, 9)
        sender.join()
        offset, values = 0, []
        while records := records_of(fetch(peer, topic, offset)):
            values += [record.value for record in records if record.offset % 2 == 0]
            offset = records[-1].offset + 1
        assert values == [b"%d" % number for number in range(count)]


class TestEpochs:
    def test_a_readers_epoch_is_compared_with_the_leaders(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"v"))
        assert fetch(peer, topic, current_leader_epoch=0).error_code == 0
        assert fetch(peer, topic, current_leader_epoch=-1).error_code == 0
        unknown = fetch(peer, topic, current_leader_epoch=1)
        assert (unknown.error_code, unknown.high_watermark) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)

    def test_a_reader_whose_log_went_another_way_is_told_where(
        self, served: BrokerThread, peer: Peer, topic: str
    ) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a", b"b"))
        partition = served.partition(topic)
        served.call(lambda: partition.log.append([memoryview(batch(b"c"))], leader_epoch=3, now_ms=now_ms()))
        diverging = fetch(peer, topic, 5, last_fetched_epoch=2)
        assert diverging.error_code == 0
        assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (0, 2)
        assert not diverging.records
        agreeing = fetch(peer, topic, 2, last_fetched_epoch=0)
        assert (agreeing.error_code, agreeing.diverging_epoch.epoch) == (0, -1)

    def test_an_epoch_that_never_was_is_out_of_range(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a", b"b"))
        assert fetch(peer, topic, 1, last_fetched_epoch=9).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


class TestIsolation:
    def open_transaction(self, served: BrokerThread, topic: str, producer_id: int) -> None:
        """As a transaction coordinator will let producers do."""
        records = batch(
            b"open", is_transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=0
        )
        partition = served.partition(topic)
        (appended,) = served.call(lambda: partition.append([memoryview(records)], now_ms()))
        assert not isinstance(appended, Exception)

    def end_transaction(self, served: BrokerThread, topic: str, producer_id: int) -> None:
        marker = build_marker(
            EndTransactionMarker(is_commit=True, coordinator_epoch=0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=now_ms(),
        )
        log = served.log(topic)
        served.call(lambda: log.append_records(memoryview(marker), leader_epoch=0, now_ms=now_ms()))

    def test_readers_of_committed_records_stop_at_an_open_transaction(
        self, served: BrokerThread, peer: Peer, topic: str
    ) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"before"))
        self.open_transaction(served, topic, 70)
        produce(peer, topic, batch(b"behind"))
        everything = fetch(peer, topic, isolation_level=0)
        committed = fetch(peer, topic, isolation_level=1)
        assert values_of(everything) == [b"before", b"open", b"behind"]
        assert values_of(committed) == [b"before"]
        assert (committed.high_watermark, committed.last_stable_offset) == (3, 1)
        assert (everything.aborted_transactions, committed.aborted_transactions) == (None, [])
        assert list_offset(peer, topic, -1, isolation_level=1).offset == 1
        assert list_offset(peer, topic, -1, isolation_level=0).offset == 3

    def test_when_it_ends_they_read_on(self, served: BrokerThread, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        self.open_transaction(served, topic, 71)
        assert took_s(lambda: fetch(peer, topic, isolation_level=1, max_wait_ms=150)) >= 0.14
        self.end_transaction(served, topic, 71)
        produce(peer, topic, batch(b"behind"))
        found = fetch(peer, topic, isolation_level=1)
        assert (found.high_watermark, found.last_stable_offset) == (3, 3)
        assert b"open" in values_of(found)
        assert b"behind" in values_of(found)
