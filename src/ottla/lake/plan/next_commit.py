"""Which offset ranges the next commit of a table takes, and whether there is enough for one.

Rules
- A commit takes, of each partition, the range from the table's next offset to the end of the log, or a part
  of it from its beginning: there is never a gap before what a table holds.
- A partition that the table does not know begins where the log begins, or at its end at the time of the first
  commit if the table starts at "latest".
- A log that begins after the table's next offset has lost records that the table lacks: LostRecordsError,
  unless the caller accepts the loss; then the range begins where the log does.
- A topic with another id is another topic: WrongTopicError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.lake.plan.table_offsets import TableOffsets
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.plan.splitting import split


class LostRecordsError(RuntimeError):
    """Records that the table lacks are not in the log any more."""


class WrongTopicError(RuntimeError):
    """The topic is not the one that the table was made of."""


@dataclass(frozen=True, slots=True)
class LogState:
    """A topic as the cluster describes it: where each partition begins, and where it ends for the reader."""

    topic: str
    topic_id: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Cadence:
    """When a continuous writer commits: at `records` new records, or when the oldest has waited `wait_ms`."""

    records: int
    wait_ms: int

    def is_due(self, lag_records: int, waited_ms: float) -> bool:
        return lag_records > 0 and (lag_records >= self.records or waited_ms >= self.wait_ms)


def check_topic(recorded: TableOffsets, log: LogState) -> None:
    """WrongTopicError if the topic was deleted and created again since the table's last commit."""
    if recorded.topic_id != log.topic_id:
        raise WrongTopicError(
            f"The topic {log.topic} was deleted and created again: the table holds the records of the topic with "
            f"id {recorded.topic_id}, and this one has id {log.topic_id}. Keep the table and enable another one for "
            f"the new topic: ottla lake disable {log.topic}, then ottla lake enable {log.topic} --table NEW_NAME."
        )


def next_offsets(recorded: TableOffsets | None, log: LogState, *, from_latest: bool) -> dict[int, int]:
    """For each partition of the topic the next offset that the table lacks."""
    known = recorded.next_offsets if recorded is not None else {}
    first = log.ends if from_latest and recorded is None else log.starts
    return {partition: known.get(partition, first[partition]) for partition in log.ends}


def next_ranges(
    begins: Mapping[int, int], log: LogState, *, most_records: int, accept_loss: bool = False
) -> list[OffsetRange]:
    """What the next commit takes, about `most_records` at most; nothing if the table has everything.

    A limit is shared by the partitions in proportion to what each offers, so that none falls behind for good.
    """
    ranges = []
    for partition, end in sorted(log.ends.items()):
        begin = _after_loss(log, partition, begins[partition], accept_loss)
        if end > begin:
            ranges.append(OffsetRange(log.topic, partition, begin, end))
    total = sum(each.size for each in ranges)
    if total <= most_records:
        return ranges
    return [_head(each, max(1, each.size * most_records // total)) for each in ranges]


def _after_loss(log: LogState, partition: int, begin: int, accept_loss: bool) -> int:
    start = log.starts[partition]
    if start <= begin:
        return begin
    if not accept_loss:
        raise LostRecordsError(
            f"The table lacks the offsets {begin} to {start - 1} of {log.topic}-{partition}, and the log begins at "
            f"{start}: retention deleted them before they were written. To continue without them: "
            f"ottla lake run {log.topic} --accept-loss."
        )
    return start


def _head(whole: OffsetRange, size: int) -> OffsetRange:
    return OffsetRange(whole.topic, whole.partition, whole.start, min(whole.end, whole.start + size))


def tasks_of(ranges: Iterable[OffsetRange], most_records_per_task: int) -> list[OffsetRange]:
    """The ranges cut into pieces that one task writes."""
    return split(ranges, None, most_records_per_task)


def ends_of(ranges: Sequence[OffsetRange]) -> dict[int, int]:
    """The table's next offsets when the ranges are committed. The pieces of a partition follow each other."""
    ends: dict[int, int] = {}
    for each in sorted(ranges, key=lambda piece: (piece.partition, piece.start)):
        assert ends.get(each.partition, each.start) == each.start, f"a gap before {each}"
        ends[each.partition] = each.end
    return ends


def lag_records(begins: Mapping[int, int], log: LogState) -> int:
    """How many offsets the table is behind the log."""
    return sum(max(0, end - begins[partition]) for partition, end in log.ends.items())
