import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.integration.quorum_nodes import eventually
from tests.unit.server.group_shards import Hosted, ask, commit_request, committed, wall_ms

from ottla.errors import ErrorCode, KafkaError
from ottla.group.coordinator import GroupCoordinator
from ottla.group.records import GroupRecord, OffsetCommitValue, offset_record
from ottla.log.log import Log
from ottla.log.reading.reader import FileRange
from ottla.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.record import Record
from ottla.server.coordinators import group_replay, log_reading
from ottla.server.coordinators.group_shard import GroupShard

PRODUCER = 77


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path)
    yield made
    made.close()


def offset(partition: int, value: int | None, group: str = "g") -> GroupRecord:
    committed_value = None if value is None else OffsetCommitValue(value, -1, "", wall_ms())
    return offset_record(group, "t", partition, committed_value)


def append(hosted: Hosted, *records: GroupRecord, **options: object) -> None:
    numbered = [Record(n, wall_ms(), key, value) for n, (key, value) in enumerate(records)]
    hosted.partition.append_own(memoryview(build_batch(numbered, **options)), wall_ms())  # type: ignore[arg-type]


def append_marker(hosted: Hosted, *, is_commit: bool) -> None:
    marker = build_marker(
        EndTransactionMarker(is_commit, 0), producer_id=PRODUCER, producer_epoch=0, timestamp=wall_ms()
    )
    hosted.partition.append_own(memoryview(marker), wall_ms())


def append_transactional(hosted: Hosted, *records: GroupRecord) -> None:
    append(hosted, *records, is_transactional=True, producer_id=PRODUCER, producer_epoch=0, base_sequence=0)


def loaded(hosted: Hosted) -> dict[tuple[str, int], int]:
    """Load, and answer the offsets of the group."""
    return asyncio.run(_loaded(hosted))


async def _loaded(hosted: Hosted) -> dict[tuple[str, int], int]:
    shard = hosted.shard()
    await asyncio.wait_for(shard.load(), 10)
    try:
        return committed(shard, "g")
    finally:
        shard.unload()


def test_the_last_value_of_each_key_counts(hosted: Hosted) -> None:
    append(hosted, offset(0, 1), offset(1, 2), offset(2, 3))
    append(hosted, offset(0, 9), offset(1, None))
    assert loaded(hosted) == {("t", 0): 9, ("t", 2): 3}


def test_compressed_batches_are_read_too(hosted: Hosted) -> None:
    append(hosted, offset(0, 1), offset(1, 2), compression=Compression.GZIP)
    assert loaded(hosted) == {("t", 0): 1, ("t", 1): 2}


def test_records_of_other_kinds_are_passed_over(hosted: Hosted) -> None:
    append(hosted, offset(0, 1), GroupRecord(b"\0\x05future", b"\0\0"), offset(1, 2))
    assert loaded(hosted) == {("t", 0): 1, ("t", 1): 2}


def test_a_damaged_record_is_named_and_passed_over(hosted: Hosted, caplog: pytest.LogCaptureFixture) -> None:
    append(hosted, offset(0, 1), GroupRecord(b"\0\x01\0\x7f", b"\0\0"), offset(1, 2))
    with caplog.at_level(logging.ERROR):
        assert loaded(hosted) == {("t", 0): 1, ("t", 1): 2}
    assert "record 1 of __consumer_offsets-0 is passed over" in caplog.text


def append_three(hosted: Hosted) -> None:
    """Three batches, of which the one in the middle is compressed."""
    append(hosted, offset(0, 1))
    append(hosted, offset(1, 2), compression=Compression.GZIP)
    append(hosted, offset(2, 3))


def damage_the_second(hosted: Hosted) -> tuple[Path, bytes]:
    """The disk changes a batch; the file, and its content before."""
    (path,) = Path(hosted.partition.log.directory).glob("*.log")
    first, damaged, _ = (batch.size_bytes for batch in hosted.batches())
    before = path.read_bytes()
    stored = bytearray(before)
    stored[first + damaged - 20 : first + damaged] = bytes(20)
    path.write_bytes(stored)
    return path, before


def test_a_damaged_batch_of_the_only_copy_is_named_and_passed_over(
    hosted: Hosted, caplog: pytest.LogCaptureFixture
) -> None:
    append_three(hosted)
    damage_the_second(hosted)
    with caplog.at_level(logging.ERROR):
        assert loaded(hosted) == {("t", 0): 1, ("t", 2): 3}
    assert "the batch at 1 of __consumer_offsets-0 is damaged and passed over" in caplog.text


def test_damaged_records_that_another_replica_has_are_waited_for(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "_RETRY_S", 0.01)
    append_three(hosted)
    path, before = damage_the_second(hosted)
    hosted.hold_watermark()
    status = hosted.partition.log.status

    async def mended() -> None:
        await eventually(lambda: status.unread_offset is not None, "the damage is noted")
        path.write_bytes(before)

    async def scenario() -> dict[tuple[str, int], int]:
        found, _ = await asyncio.gather(_loaded(hosted), mended())
        return found

    assert asyncio.run(scenario()) == {("t", 0): 1, ("t", 1): 2, ("t", 2): 3}
    assert status.take_unread() == 0


def test_a_damaged_replica_that_hands_over_answers_nothing_of_what_it_read(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "_RETRY_S", 0.01)
    append_three(hosted)
    damage_the_second(hosted)
    hosted.hold_watermark()

    async def scenario() -> None:
        shard = hosted.shard()
        loading = asyncio.ensure_future(shard.load())
        status = hosted.partition.log.status
        await eventually(lambda: status.unread_offset is not None, "the damage is noted")
        hosted.lose_leadership()
        await asyncio.wait_for(loading, 30)
        assert not shard.is_current

    asyncio.run(scenario())


def test_damaged_records_that_nobody_takes_over_are_passed_over_in_the_end(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "_RETRY_S", 0.001)
    append_three(hosted)
    damage_the_second(hosted)
    hosted.hold_watermark()
    assert loaded(hosted) == {("t", 0): 1, ("t", 2): 3}


@pytest.mark.parametrize(("is_commit", "expected"), [(True, 9), (False, 1)])
def test_offsets_of_a_transaction_count_if_it_was_committed(
    hosted: Hosted, is_commit: bool, expected: int
) -> None:
    append(hosted, offset(0, 1))
    append_transactional(hosted, offset(0, 9))
    append_marker(hosted, is_commit=is_commit)
    assert loaded(hosted) == {("t", 0): expected}


def test_offsets_of_an_open_transaction_do_not_count_yet(hosted: Hosted) -> None:
    append(hosted, offset(0, 1))
    append_transactional(hosted, offset(0, 9))

    async def scenario() -> None:
        shard = hosted.shard()
        await shard.load()
        topics = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])
        assert ask(shard, request).groups[0].topics[0].partitions[0].committed_offset == 1
        request.require_stable = True
        unstable = ask(shard, request).groups[0].topics[0].partitions[0]
        assert unstable.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        shard.unload()

    asyncio.run(scenario())


def test_a_log_that_cannot_be_read_now_is_tried_again(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    append(hosted, offset(0, 1))
    monkeypatch.setattr(log_reading, "_RETRY_S", 0.01)
    troubles = iter([KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), OSError(5, "no luck")])
    read = Log.read

    def troubled(
        log: Log, offset: int, max_bytes: int, *, upper_offset: int, at_least_one: bool
    ) -> FileRange | None:
        for trouble in troubles:
            raise trouble
        return read(log, offset, max_bytes, upper_offset=upper_offset, at_least_one=at_least_one)

    monkeypatch.setattr(Log, "read", troubled)
    with caplog.at_level(logging.ERROR):
        assert loaded(hosted) == {("t", 0): 1}
    assert caplog.text.count("cannot be read, its clients have to wait") == 2


def test_a_log_of_several_segments_whose_start_was_deleted_is_read_from_there(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, segment_bytes=500)
    for number in range(50):
        append(hosted, offset(number, number))
    hosted.partition.log.advance_log_start_offset(20)
    assert loaded(hosted) == {("t", number): number for number in range(20, 50)}
    hosted.close()


def test_records_that_are_deleted_while_it_reads_are_not_missed(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "_READ_BYTES", 1000)
    monkeypatch.setattr(log_reading, "_RECORDS_PER_TURN", 1)
    for number in range(600):
        append(hosted, offset(number, number))

    async def scenario() -> None:
        shard = hosted.shard()
        loading = asyncio.ensure_future(shard.load())
        await asyncio.sleep(0)
        hosted.partition.log.advance_log_start_offset(550)
        await asyncio.wait_for(loading, 5)
        assert len(committed(shard, "g")) < 100
        assert committed(shard, "g")["t", 599] == 599
        shard.unload()

    asyncio.run(scenario())


def test_what_is_appended_while_it_reads_is_replayed(hosted: Hosted) -> None:
    append(hosted, *[offset(number, number) for number in range(1000)])

    async def scenario() -> None:
        shard: GroupShard = hosted.shard()
        loading = asyncio.ensure_future(shard.load())
        await asyncio.sleep(0)
        append(hosted, offset(0, 77))
        await loading
        assert committed(shard, "g")["t", 0] == 77
        ask(shard, commit_request("g", {0: 78}))
        assert committed(shard, "g")["t", 0] == 78
        shard.unload()

    asyncio.run(scenario())


def test_an_empty_log_is_read_at_once(hosted: Hosted) -> None:
    machine = GroupCoordinator(hosted.settings, str)
    replay_of = partial(group_replay.replay_of_groups, machine)
    asyncio.run(log_reading.replay_log(hosted.partition, replay_of, lambda: True))
    assert not machine.groups
