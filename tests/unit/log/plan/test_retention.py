"""Which segments go (RET-1, RET-2)."""

from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, open_log, read_all

from ottla.log.plan.retention import Reason, RetentionPlan, SegmentFacts, plan_retention


def facts(*segments: tuple[int, int, int]) -> list[SegmentFacts]:
    """(records, bytes, age in ms) of each segment, oldest first."""
    found, offset = [], 0
    for records, size_bytes, age_ms in segments:
        found.append(SegmentFacts(offset, offset + records, size_bytes, NOW_MS - age_ms, NOW_MS))
        offset += records
    return found


def reasons(plan: RetentionPlan) -> dict[int, Reason]:
    return {deletion.base_offset: deletion.reason for deletion in plan.deletions}


def test_segments_go_when_all_their_records_are_too_old() -> None:
    plan = plan_retention(
        facts((10, 5, 3000), (10, 5, 1001), (10, 5, 1000), (10, 5, 0)), config(retention_ms=1000), 0, NOW_MS
    )
    assert reasons(plan) == {0: Reason.TIME, 10: Reason.TIME}
    assert plan.log_start_offset == 20
    assert not plan.roll_active


def test_a_young_segment_protects_older_ones_behind_it() -> None:
    plan = plan_retention(
        facts((10, 5, 3000), (10, 5, 10), (10, 5, 9999), (1, 5, 0)), config(retention_ms=1000), 0, NOW_MS
    )
    assert plan.segments == (0,)


def test_segments_without_timestamps_age_by_their_last_write() -> None:
    old = SegmentFacts(0, 10, 5, -1, NOW_MS - 2000)
    active = SegmentFacts(10, 20, 5, -1, NOW_MS)
    assert plan_retention([old, active], config(retention_ms=1000), 0, NOW_MS).segments == (0,)


def test_a_negative_retention_keeps_everything() -> None:
    segments = facts((10, 500, 10**12), (10, 500, 0))
    plan = plan_retention(segments, config(retention_ms=-1, retention_bytes=-1), 0, NOW_MS)
    assert plan == RetentionPlan((), 0, False)


def test_segments_go_as_long_as_the_rest_still_has_the_bytes_to_keep() -> None:
    segments = facts((10, 400, 0), (10, 400, 0), (10, 400, 0), (10, 100, 0))
    for keep, gone in (
        (1300, ()),
        (901, ()),
        (900, (0,)),
        (500, (0, 10)),
        (100, (0, 10, 20)),
        (0, (0, 10, 20)),
    ):
        plan = plan_retention(segments, config(retention_bytes=keep), 0, NOW_MS)
        assert plan.segments == gone
        assert all(reason is Reason.SIZE for reason in reasons(plan).values())


def test_segments_below_the_log_start_go_even_from_a_compacted_topic() -> None:
    segments = facts((10, 5, 10**12), (10, 5, 0), (10, 5, 0))
    compacted = config(cleanup_policy=("compact",), retention_ms=1)
    assert plan_retention(segments, compacted, 0, NOW_MS).segments == ()
    assert reasons(plan_retention(segments, compacted, 10, NOW_MS)) == {0: Reason.LOG_START_OFFSET}
    assert plan_retention(segments, compacted, 19, NOW_MS).log_start_offset == 19


def test_the_active_segment_never_goes_but_is_rolled_when_it_has_expired() -> None:
    segments = facts((10, 5, 5000), (10, 5, 5000))
    plan = plan_retention(segments, config(retention_ms=1000), 0, NOW_MS)
    assert plan.segments == (0,)
    assert plan.roll_active
    empty = facts((10, 5, 5000), (0, 0, 5000))
    assert not plan_retention(empty, config(retention_ms=1000), 0, NOW_MS).roll_active


def test_nothing_above_the_high_watermark_goes() -> None:
    segments = facts((10, 5, 5000), (10, 5, 5000), (10, 5, 0))
    plan = plan_retention(segments, config(retention_ms=1000), 0, NOW_MS, deletable_up_to=15)
    assert plan.segments == (0,)


@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.integers(0, 500), st.integers(0, 5000)), min_size=1, max_size=12
    ),
    st.integers(-1, 5000),
    st.integers(-1, 4000),
    st.integers(0, 300),
)
def test_a_plan_is_always_a_run_of_the_oldest_without_the_active_one(
    shapes: list[tuple[int, int, int]], retention_ms: int, retention_bytes: int, start: int
) -> None:
    segments = facts(*shapes)
    start = min(start, segments[-1].next_offset)
    settings = config(retention_ms=retention_ms, retention_bytes=retention_bytes)
    plan = plan_retention(segments, settings, start, NOW_MS)
    bases = tuple(segment.base_offset for segment in segments)
    assert plan.segments == bases[: len(plan.segments)]
    assert bases[-1] not in plan.segments
    assert plan.log_start_offset >= start
    left = [segment for segment in segments if segment.base_offset not in plan.segments]
    assert plan.log_start_offset <= max(start, left[0].base_offset)
    if plan.deletions and plan.deletions[-1].reason is Reason.SIZE:
        assert sum(segment.size_bytes for segment in left) >= retention_bytes


def test_deleting_is_a_rename_first_and_a_removal_after_the_delay() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=config(segment_bytes=300, retention_bytes=0, file_delete_delay_ms=1000))
    append(log, *(batch() for _ in range(9)))
    reader = log.read(0, 10, upper_offset=9, at_least_one=True)
    assert reader is not None
    log.retention.delete_segments(
        plan_retention(log.retention.segment_facts(), log.tail.config, 0, NOW_MS), NOW_MS
    )
    assert (log.log_start_offset, len(log.extent.segments)) == (8, 1)
    assert [found.base_offset for found in read_all(log)] == [8]
    assert len([path for path in disk.paths(log.directory) if path.endswith(".log.deleted")]) == 4
    log.retention.remove_deleted(NOW_MS + 999)
    assert [path for path in disk.paths(log.directory) if path.endswith(".deleted")]
    log.retention.remove_deleted(NOW_MS + 1000)
    assert not [path for path in disk.paths(log.directory) if path.endswith(".deleted")]
    # A reader that has the file open continues to read it.
    assert len(reader.file.read(reader.position, reader.size)) == reader.size


def test_facts_come_from_the_log_as_it_is() -> None:
    log = open_log(SimulatedDisk(), settings=config(segment_bytes=300))
    append(log, *(batch(timestamp=NOW_MS + number) for number in range(3)))
    size = len(batch())
    assert log.retention.segment_facts() == [
        SegmentFacts(0, 2, 2 * size, NOW_MS + 1, NOW_MS),
        SegmentFacts(2, 3, size, NOW_MS + 2, NOW_MS),
    ]


def test_an_expired_active_segment_is_rolled_and_then_goes() -> None:
    log = open_log(SimulatedDisk(), settings=config(retention_ms=1000))
    append(log, batch(3))
    now_ms = NOW_MS + 5000
    plan = plan_retention(log.retention.segment_facts(), log.tail.config, log.log_start_offset, now_ms)
    assert plan.roll_active
    log.roll(now_ms)
    log.retention.delete_segments(
        plan_retention(log.retention.segment_facts(), log.tail.config, log.log_start_offset, now_ms), now_ms
    )
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
