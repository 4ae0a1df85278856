"""Where two logs part, judged by leader epochs alone. Pure.

Two logs that hold a record of the same epoch at the same offset are equal up to there: one leader wrote each
epoch, in order, and a follower appends only behind a record that its leader has, too. So a follower says with
each fetch which epoch its last record has; the leader finds the end of that epoch in its own log, and the
follower cuts what lies behind. The watermark plays no part in it.
"""

from typing import Protocol

from ottla.errors import ErrorCode
from ottla.model import NO_EPOCH, EpochEnd


class LogView(Protocol):
    """A log as replication sees it: offsets and epochs, no records. Always what the log is now."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record."""

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last record; -1 without one."""

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The largest epoch that is at most `epoch`, and where it ends; (-1, -1) if that is unknown."""


def end_of_epoch(log: LogView, leader_epoch: int, epoch: int) -> EpochEnd:
    """As a leader of `leader_epoch` answers: the largest epoch that is at most `epoch`, and where it ends;
    (-1, -1) if that is unknown.

    The log hears of an epoch with its first record; that it has begun where the log ends is known before.
    """
    latest = log.latest_epoch
    if latest < epoch <= leader_epoch:
        is_older = epoch < leader_epoch and latest > NO_EPOCH
        return EpochEnd(latest if is_older else epoch, log.log_end_offset)
    return log.end_offset_for(epoch)


def judge_read(
    log: LogView, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int
) -> EpochEnd | ErrorCode:
    """The leader's verdict on a reader that asks at `fetch_offset` and whose last record has
    `last_fetched_epoch` (-1: none).

    NONE: the reader may go on there. OFFSET_OUT_OF_RANGE: the leader's log does not reach there, or not any
    more, or the leader cannot tell. An EpochEnd: the reader's log diverges.
    """
    if fetch_offset < log.log_start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if last_fetched_epoch > NO_EPOCH:
        end = end_of_epoch(log, leader_epoch, last_fetched_epoch)
        if end.epoch == NO_EPOCH:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
            return end
    return ErrorCode.OFFSET_OUT_OF_RANGE if fetch_offset > log.log_end_offset else ErrorCode.NONE


def judge_fetch(
    log: LogView, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int
) -> EpochEnd | ErrorCode:
    """The leader's verdict on a follower: as for any reader, but a follower's whole log must match.

    Where the leader has deleted all records that the follower holds, and does not know the epoch of the last
    of them any more, the follower may hold other records: OFFSET_OUT_OF_RANGE makes it start again. A
    consumer may go on there.
    """
    verdict = judge_read(log, leader_epoch, fetch_offset, last_fetched_epoch)
    is_at_start = verdict is ErrorCode.NONE and fetch_offset == log.log_start_offset
    if is_at_start and last_fetched_epoch not in (NO_EPOCH, log.latest_epoch):
        end = end_of_epoch(log, leader_epoch, last_fetched_epoch)
        if end.end_offset <= log.log_start_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
    return verdict


def truncation_offset(log: LogView, diverging: EpochEnd) -> int:
    """Where a follower cuts its log, told the leader's largest epoch that may be common, and its end
    there.
    """
    if diverging.epoch >= log.latest_epoch:
        return min(log.log_end_offset, diverging.end_offset)
    own = log.end_offset_for(diverging.epoch)
    return min(log.log_start_offset if own.epoch == NO_EPOCH else own.end_offset, diverging.end_offset)
