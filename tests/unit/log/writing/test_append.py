"""Appending what clients send (STO-3, STO-4, STO-5, STO-11)."""

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch, sealed
from tests.unit.log.logs import append, config, content, open_log, read_all, refusal

from ottla.errors import ErrorCode, KafkaError
from ottla.log.writing.append import Appended
from ottla.records.batch import BatchView
from ottla.records.compression import Compression


def test_offsets_begin_at_zero_and_rise_by_one_per_record() -> None:
    log = open_log(SimulatedDisk())
    answers = append(log, batch(3), batch(1), batch(2))
    assert [(answer.base_offset, answer.last_offset) for answer in answers] == [(0, 2), (3, 3), (4, 5)]
    assert log.log_end_offset == 6


def test_only_base_offset_and_leader_epoch_of_a_batch_are_changed() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(5))
    data = batch(2)
    before = bytes(data)
    append(log, data, leader_epoch=4)
    stored = content(log)[5]
    assert stored[8:12] + stored[16:] == before[8:12] + before[16:]
    header = BatchView(stored).header
    assert (header.base_offset, header.partition_leader_epoch) == (5, 4)


def test_one_call_is_one_write() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch())
    before = disk.counts["append"]
    append(log, *(batch() for _ in range(20)))
    assert disk.counts["append"] == before + 1


def test_a_roll_in_the_middle_of_a_call_splits_the_write_and_no_batch_spans_two_segments() -> None:
    log = open_log(SimulatedDisk(), settings=config(segment_bytes=400))
    append(log, *(batch() for _ in range(7)))
    size = len(batch())
    assert [segment.size_bytes // size for segment in log.extent.segments] == [2, 2, 2, 1]
    assert [segment.base_offset for segment in log.extent.segments] == [0, 2, 4, 6]
    assert [found.base_offset for found in read_all(log)] == list(range(7))


def test_a_create_time_topic_answers_no_append_time_and_a_log_append_time_topic_does() -> None:
    (plain,) = append(open_log(SimulatedDisk()), batch())
    assert plain.log_append_time_ms == -1
    log = open_log(SimulatedDisk(), settings=config(message_timestamp_type="LogAppendTime"))
    (stamped,) = append(log, batch(2, timestamp=5), now_ms=NOW_MS + 7)
    assert stamped.log_append_time_ms == NOW_MS + 7
    (stored,) = read_all(log)
    assert stored.crc_is_valid()
    assert stored.max_timestamp == NOW_MS + 7
    assert [record.timestamp for record in stored.records()] == [NOW_MS + 7] * 2


def test_a_wrong_max_timestamp_is_corrected_from_the_records() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(3, timestamp_step=10, max_timestamp=-1))
    (stored,) = read_all(log)
    assert stored.max_timestamp == NOW_MS + 20
    assert stored.crc_is_valid()


def test_a_topic_with_its_own_compression_compresses_anew() -> None:
    log = open_log(SimulatedDisk(), settings=config(compression_type="zstd"))
    data = batch(20, value=b"a" * 100, producer_id=9, producer_epoch=1, sequence=3)
    before = [record.value for record in BatchView(data).records()]
    append(log, data)
    (stored,) = read_all(log)
    assert stored.compression == Compression.ZSTD
    assert stored.size_bytes < len(data) // 4
    assert stored.crc_is_valid()
    assert (stored.producer_id, stored.producer_epoch, stored.base_sequence) == (9, 1, 3)
    assert [record.value for record in stored.records()] == before


def test_a_topic_that_asks_for_no_compression_stores_none() -> None:
    compressed = open_log(SimulatedDisk(), settings=config(compression_type="gzip"))
    append(compressed, batch(3))
    (squeezed,) = read_all(compressed)
    log = open_log(SimulatedDisk(), settings=config(compression_type="uncompressed"))
    append(log, bytearray(squeezed.view()))
    (stored,) = read_all(log)
    assert stored.compression == Compression.NONE
    assert len(list(stored.records())) == 3


def test_a_compacted_topic_takes_records_with_keys_only() -> None:
    log = open_log(SimulatedDisk(), settings=config(cleanup_policy=("compact",)))
    assert refusal(log, batch(2)).code == ErrorCode.INVALID_RECORD
    append(log, batch(2, key=b"k"))
    assert log.log_end_offset == 2


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bytearray(), ErrorCode.INVALID_RECORD),
        (bytearray(60), ErrorCode.INVALID_RECORD),
        (batch()[:-1], ErrorCode.INVALID_RECORD),
        (batch() + b"\0", ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch(magic=1), ErrorCode.INVALID_RECORD),
        (batch(magic=3), ErrorCode.INVALID_RECORD),
        (batch()[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (batch(attributes=0x20), ErrorCode.INVALID_RECORD),
        (batch(attributes=0x30, producer_id=1, producer_epoch=0, sequence=0), ErrorCode.INVALID_RECORD),
        (batch(attributes=0x40), ErrorCode.INVALID_RECORD),
        (batch(attributes=0x10), ErrorCode.INVALID_RECORD),
        (batch(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch(attributes=0x08), ErrorCode.INVALID_TIMESTAMP),
        (batch(producer_id=1, producer_epoch=0, sequence=-1), ErrorCode.INVALID_RECORD),
        (batch(producer_id=1, producer_epoch=-1, sequence=0), ErrorCode.INVALID_RECORD),
        (batch(timestamp=NOW_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
        (batch(value=bytes(1_048_588)), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_a_client_may_not_append_is_refused_with_kafkas_error(data: bytearray, code: ErrorCode) -> None:
    log = open_log(SimulatedDisk())
    assert refusal(log, data).code == code
    assert log.log_end_offset == 0
    assert log.extent.segments.size_bytes == 0


def test_a_record_count_that_does_not_fit_the_offsets_is_refused() -> None:
    log = open_log(SimulatedDisk())
    for position, number in ((57, 3), (23, 5), (57, 0)):
        data = batch(2)
        data[position : position + 4] = number.to_bytes(4, "big")
        assert refusal(log, sealed(data)).code == ErrorCode.INVALID_RECORD


def test_timestamps_older_than_the_topic_allows_are_refused_and_absent_ones_are_not() -> None:
    log = open_log(SimulatedDisk(), settings=config(message_timestamp_before_max_ms=1000))
    assert refusal(log, batch(timestamp=NOW_MS - 1001)).code == ErrorCode.INVALID_TIMESTAMP
    append(log, batch(timestamp=NOW_MS - 1000), batch(timestamp=-1))
    assert log.log_end_offset == 2


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = open_log(SimulatedDisk(), settings=config(segment_bytes=1000))
    assert refusal(log, batch(value=bytes(1000))).code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_changed_configuration_holds_from_the_next_append_on() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch())
    log.tail.configure(config(max_message_bytes=100))
    assert refusal(log, batch()).code == ErrorCode.MESSAGE_TOO_LARGE
    log.tail.configure(config(segment_bytes=200))
    append(log, batch())
    assert len(log.extent.segments) == 2


def test_a_bad_item_spoils_nothing_for_its_neighbours() -> None:
    log = open_log(SimulatedDisk())
    answers = log.append(
        [memoryview(batch(2)), memoryview(bytearray(5)), memoryview(batch(1))], leader_epoch=0, now_ms=NOW_MS
    )
    first, refused, last = answers
    assert isinstance(refused, KafkaError)
    assert isinstance(first, Appended)
    assert isinstance(last, Appended)
    assert (first.base_offset, last.base_offset) == (0, 2)


def test_a_segment_rolls_when_its_records_span_segment_ms() -> None:
    log = open_log(SimulatedDisk(), settings=config(segment_ms=1000))
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 1000))
    assert len(log.extent.segments) == 1
    append(log, batch(timestamp=NOW_MS + 1001), batch(timestamp=NOW_MS + 1500))
    assert [segment.base_offset for segment in log.extent.segments] == [0, 2]


def test_records_without_timestamps_age_by_the_wall_clock() -> None:
    log = open_log(SimulatedDisk(), settings=config(segment_ms=1000))
    append(log, batch(timestamp=-1))
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1000)
    assert len(log.extent.segments) == 1
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1001)
    assert len(log.extent.segments) == 2


def test_an_idle_segment_rolls_by_the_wall_clock_when_asked() -> None:
    log = open_log(SimulatedDisk(), settings=config(segment_ms=1000))
    assert not log.tail.roll_if_due(NOW_MS + 5000)
    append(log, batch())
    assert not log.tail.roll_if_due(NOW_MS + 1000)
    assert log.tail.roll_if_due(NOW_MS + 1001)
    assert [segment.base_offset for segment in log.extent.segments] == [0, 1]


def test_jitter_makes_segments_roll_earlier_but_always_at_the_same_time() -> None:
    spans = set()
    for directory in ("/data/a-0", "/data/a-1", "/data/a-0"):
        log = open_log(
            SimulatedDisk(), directory=directory, settings=config(segment_ms=1000, segment_jitter_ms=900)
        )
        append(log, batch())
        span = next(age for age in range(2000) if log.tail.roll_if_due(NOW_MS + age))
        spans.add(span)
        assert 100 < span <= 1001
    assert len(spans) == 2


def test_a_segment_rolls_when_its_index_is_full() -> None:
    log = open_log(SimulatedDisk(), settings=config(index_interval_bytes=1, segment_index_bytes=36))
    append(log, *(batch(timestamp=NOW_MS + number) for number in range(30)))
    assert len(log.extent.segments) > 5
    for segment in log.extent.segments:
        assert segment.index.file.count <= 4
        assert segment.time_index.file.count <= 3
    assert [found.base_offset for found in read_all(log)] == list(range(30))


def test_a_segment_rolls_before_an_offset_no_longer_fits_its_index() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch())
    far = batch(base_offset=2**31 - 2)
    log.append_replicated(memoryview(far), NOW_MS)
    assert len(log.extent.segments) == 1
    append(log, batch())
    assert len(log.extent.segments) == 1
    append(log, batch())
    assert [segment.base_offset for segment in log.extent.segments] == [0, 2**31]


def test_an_empty_segment_gives_way_to_one_that_begins_behind_a_hole() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    log.append_replicated(memoryview(batch(base_offset=2**40)), NOW_MS)
    assert [segment.base_offset for segment in log.extent.segments] == [2**40]
    assert not [path for path in disk.paths(log.directory) if "00000000000000000000.log" in path]


def test_replicated_batches_keep_their_offsets_and_epochs() -> None:
    log = open_log(SimulatedDisk())
    records = batch(2, base_offset=0, leader_epoch=3) + batch(1, base_offset=7, leader_epoch=5)
    log.append_replicated(memoryview(records), NOW_MS)
    assert [found.base_offset for found in read_all(log)] == [0, 7]
    assert log.extent.leader_epochs.entries == [(3, 0), (5, 7)]
    assert log.log_end_offset == 8


def test_replicated_batches_that_are_damaged_or_go_back_are_refused_as_a_whole() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(3))
    good = batch(base_offset=3)
    for bad, code in (
        (batch(base_offset=4)[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (batch(base_offset=3), ErrorCode.INVALID_RECORD),
        (batch()[:50], ErrorCode.CORRUPT_MESSAGE),
    ):
        with pytest.raises(KafkaError) as refused:
            log.append_replicated(memoryview(good + bad), NOW_MS)
        assert refused.value.code == code
    assert log.log_end_offset == 3


def test_the_brokers_own_batches_are_numbered_and_may_be_control_batches() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(3))
    answer = log.append_records(
        memoryview(batch(attributes=0x20, leader_epoch=-1)), leader_epoch=2, now_ms=NOW_MS
    )
    assert (answer.base_offset, answer.last_offset) == (3, 3)
    assert read_all(log)[-1].partition_leader_epoch == 2
    assert log.extent.leader_epochs.entries == [(0, 0), (2, 3)]


def test_a_new_leader_epoch_begins_with_its_first_batch_and_not_with_a_refused_one() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(3), leader_epoch=1)
    refusal(log, bytearray(3), leader_epoch=2)
    assert log.extent.leader_epochs.entries == [(1, 0)]
    append(log, batch(3), leader_epoch=2)
    assert log.extent.leader_epochs.entries == [(1, 0), (2, 3)]


def test_the_level_of_an_enforced_compression_counts() -> None:
    sizes = []
    for level in (-131072, 19):
        settings = config(compression_type="zstd", compression_zstd_level=level)
        log = open_log(SimulatedDisk(), settings=settings)
        append(log, batch(value=b"ottla " * 1000))
        sizes.append(log.extent.segments.size_bytes)
    assert sizes[1] < sizes[0] // 10
