"""Bugs planted in the shells of shipped brokers: partitions, followers, logs, the quorum's commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.stories.machine_bugs import Patches

from ottla.errors import ErrorCode
from ottla.log.directory import LogDirectory
from ottla.log.writing.replicated import ReplicatedAppender
from ottla.model import EpochEnd
from ottla.replication.divergence import LogView
from ottla.server.apis import follower_fetch
from ottla.server.partitions.flush_policy import FlushPolicy
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.quorum import commands
from ottla.server.quorum.commands import Commands
from ottla.server.quorum.state_file import QuorumStateFile
from ottla.server.replicas.fetcher_lane import FetcherLane


def no_epoch_check_on_a_followers_fetch() -> Patches:
    def judge_fetch(
        log: LogView, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int
    ) -> EpochEnd | ErrorCode:
        if fetch_offset > log.log_end_offset:
            return EpochEnd(last_fetched_epoch, log.log_end_offset)
        return ErrorCode.NONE if fetch_offset >= log.log_start_offset else ErrorCode.OFFSET_OUT_OF_RANGE

    return [(follower_fetch, "judge_fetch", judge_fetch)]


def truncation_by_watermark() -> Patches:
    """As Kafka did before KIP-101: a follower of a new leader truncates its log to its own high watermark."""
    original = HostedPartition.assign

    def assign(self: HostedPartition, assigned: Any, now_ms: int) -> None:
        epoch = self.replica.leader_epoch
        original(self, assigned, now_ms)
        if self.replica.leader_epoch > epoch and not self.replica.is_leader:
            watermark = self.replica.high_watermark
            if watermark < self.log.log_end_offset:
                self.truncate_to(watermark, now_ms)

    return [(HostedPartition, "assign", assign)]


def follower_keeps_no_producer_state() -> Patches:
    """A follower that becomes leader does not know which batches it has."""
    original = ReplicatedAppender._place

    def place(self: ReplicatedAppender, records: memoryview, headers: list[Any]) -> None:
        original(self, records, [(*header[:9], -1, *header[10:]) for header in headers])

    return [(ReplicatedAppender, "_place", place)]


def waiters_are_not_told_of_a_new_leadership() -> Patches:
    """A leader that lost its leadership and has it again answers requests that still wait from before."""
    return [(HostedPartition, "_leader_changed", lambda self, goes_on: self.wake_readers())]


def answers_before_it_is_committed() -> Patches:
    """The controller answers when a decision is appended, not when it is committed."""
    original = Commands._carry_out

    async def carry_out(self: Any, request: Any, future: Any) -> None:
        controller = self._replay.controller
        command = controller.command

        def command_and_answer(asked: Any, now_ms: int) -> Any:
            decision = command(asked, now_ms)
            commands._answer(future, decision.response)
            return decision

        controller.command = command_and_answer
        try:
            await original(self, request, future)
        finally:
            del controller.command

    return [(Commands, "_carry_out", carry_out)]


def follower_asks_before_it_has_flushed() -> Patches:
    async def flush(self: FetcherLane, changed: Any) -> None:
        return

    return [(FetcherLane, "_flush", flush)]


def leader_counts_what_it_has_not_flushed() -> Patches:
    return [(FlushPolicy, "counted_offset", None)]


def clean_stop_is_remembered_for_ever() -> Patches:
    """Every start believes that the last stop was clean."""
    original = LogDirectory._read_in

    def read_in(self: LogDirectory, *args: Any) -> None:
        original(self, *args)
        self.was_closed_cleanly = True

    return [(LogDirectory, "_read_in", read_in)]


def vote_is_not_written_down() -> Patches:
    return [(QuorumStateFile, "write", lambda self, state: None)]


SHELL_BUGS: tuple[Callable[[], Patches], ...] = (
    no_epoch_check_on_a_followers_fetch,
    truncation_by_watermark,
    follower_keeps_no_producer_state,
    waiters_are_not_told_of_a_new_leadership,
    answers_before_it_is_committed,
    follower_asks_before_it_has_flushed,
    leader_counts_what_it_has_not_flushed,
    clean_stop_is_remembered_for_ever,
    vote_is_not_written_down,
)
