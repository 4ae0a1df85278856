"""One group coordinator: a machine over one partition of `__consumer_offsets`, and the waiting requests.

A decision's records are appended and, once they are in the log, replayed. The answers leave when the append
is acknowledged (partitions/acknowledgement.py). A decision that cannot be written did not happen: its
requests are answered with COORDINATOR_NOT_AVAILABLE, and the client asks again. A question that writes
nothing is answered as soon as everything that the machine has replayed is committed: no client sees an offset
or a generation that the next coordinator may not know.

A shard belongs to one leadership of its partition: when that leadership ends, waiting requests are answered
with NOT_COORDINATOR, and the shard writes nothing more. A broker that is cut off from controller and followers
(replication/isolation.py) may have been replaced without knowing, so its shards answer NOT_COORDINATOR, too.

Loading replays the log and nothing else. Until it is done every request is answered with
COORDINATOR_LOAD_IN_PROGRESS.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from ottla.errors import ErrorCode, KafkaError
from ottla.group.coordinator import GroupCoordinator, TopicsDeleted
from ottla.group.decision import Decision, GroupRequestContext
from ottla.group.records import GroupRecord
from ottla.model import ACKS_ALL, ACKS_LEADER
from ottla.protocol.messages.groups import HeartbeatRequest
from ottla.records.builder import build_batch
from ottla.records.header import HEADER_BYTES
from ottla.records.record import Record
from ottla.server.coordinators.group_replay import replay_log
from ottla.server.partitions.acknowledgement import Acknowledgements
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition

logger = logging.getLogger(__name__)

# The most that a record's length, attributes, timestamp, offset, lengths of key and value and headers take.
_RECORD_OVERHEAD_BYTES = 32
_COMMAND_CONTEXT = GroupRequestContext(0, "", "", None)
# How long an answer waits for the in-sync replicas, as offsets.commit.timeout.ms in Kafka.
_COMMIT_TIMEOUT_S = 5.0


class GroupShard:
    """Answers for the groups of one partition.

    Records are stamped with the wall clock (`now_ms`); deadlines are kept by a monotonic clock
    (`monotonic_ms`).
    """

    def __init__(
        self,
        partition: HostedPartition,
        machine: GroupCoordinator,
        flusher: Flusher,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self.partition = partition
        # Of the leadership that it answers under.
        self._committed = partition.high_watermark
        self.is_loaded = False
        self._is_gone = False
        # The end of the last record that the machine has replayed.
        self._replayed_end = 0
        self._machine = machine
        self._flusher = flusher
        self._acknowledgements = Acknowledgements(flusher)
        self._now_ms = now_ms
        self._steady_ms = monotonic_ms
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tickets = count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None

    @property
    def is_current(self) -> bool:
        """Whether its leadership goes on."""
        partition = self.partition
        return (
            not partition.is_closed
            and partition.replica.is_leader
            and partition.high_watermark is self._committed
        )

    @property
    def committed_topics(self) -> set[str]:
        """The topics that groups of this shard have offsets in."""
        return {topic for group in self._machine.groups.values() for topic in group.offsets.topics()}

    async def load(self) -> None:
        """Replay the log, then answer; unless the shard is unloaded meanwhile."""
        await replay_log(self.partition, self._machine, lambda: not self._is_gone)
        if not self._is_gone:
            self.begin()

    def begin(self) -> None:
        """Answer from now on: the log is replayed, or there is nothing in it."""
        self._replayed_end = self.partition.log.log_end_offset
        self._machine.loaded(self._steady_ms())
        self.is_loaded = True
        self._set_timer()

    def unload(self) -> None:
        """This broker no longer coordinates these groups: all waiting requests are refused."""
        self.is_loaded = False
        self._is_gone = True
        if self._timer is not None:
            self._timer.cancel()
        for decision in self._machine.unload():
            self._release(decision)
        self._fail(list(self._waiting), ErrorCode.NOT_COORDINATOR)

    def tell(self, command: Any) -> None:
        """Give the machine a command whose answer is not needed."""
        if self.is_loaded:
            # A failure is logged there.
            with suppress(KafkaError):
                self._carry_out(self._machine.command(command, _COMMAND_CONTEXT, self._steady_ms()))

    def forget_topics(self, names: Iterable[str]) -> None:
        """Forget the offsets in topics that are gone."""
        self.tell(TopicsDeleted(frozenset(names)))

    def ask(self, request: Any, version: int, client_id: str, client_host: str) -> Any:
        """The answer to a request, or what to await for it. Raises KafkaError while there is no coordinator."""
        self._check_presence()
        ticket = next(self._tickets)
        context = GroupRequestContext(version, client_id, client_host, ticket)
        decision = self._machine.command(request, context, self._steady_ms())
        response = decision.response
        if response is None:
            return self._wait(ticket, decision)
        self._carry_out(decision)
        # Also where nothing was written: the answer may tell of what others wrote a moment ago.
        end = self._replayed_end
        if self.partition.is_acknowledged(end, acks_all=True):
            return response
        return self._answer_when_acknowledged(end, response)

    def heartbeat(self, request: HeartbeatRequest) -> int:
        """The error code that answers a heartbeat, without the rest of `ask`.

        Nothing is written, no timer is set, and nothing is awaited: a member hears of a rebalance early.
        """
        self._check_presence()
        error: int = self._machine.command(request, _COMMAND_CONTEXT, self._steady_ms()).response.error_code
        return error

    def _check_presence(self) -> None:
        """Raise KafkaError unless this shard answers for its groups, and knows that no other does."""
        if not self.is_loaded:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR if self._is_gone else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )
        if self.partition.append_error(ACKS_LEADER):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def _wait(self, ticket: int, decision: Decision) -> asyncio.Future[Any]:
        answer = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        try:
            self._carry_out(decision)
        except KafkaError:
            self._waiting.pop(ticket, None)
            raise
        return answer

    def _carry_out(self, decision: Decision) -> None:
        """Write, replay, and release waiting requests."""
        end = self._write(decision) if decision.records else 0
        for note in decision.notes:
            logger.info("%s", note)
        if decision.completions:
            if not end or self.partition.is_acknowledged(end, acks_all=True):
                self._release(decision)
            else:
                self._release_when_acknowledged(end, decision)
        self._set_timer()

    # Writing

    def _write(self, decision: Decision) -> int:
        try:
            return self._append(decision.records)
        except KafkaError as error:
            code = self._code_for(error)
            if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                logger.error("%s could not be written: %s", self.partition.name, error)
            self._fail([ticket for ticket, _ in decision.completions], code)
            # The machine may have set deadlines all the same.
            self._set_timer()
            raise KafkaError(code) from error

    def _append(self, records: Sequence[GroupRecord]) -> int:
        """Append and replay, batch by batch: if one cannot be written, those before it are in force."""
        if not self.is_current:
            # Another leadership has begun: the log may hold records of other brokers, unknown to this
            # machine.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        now_ms, end, config = self._now_ms(), 0, self.partition.config
        for some in _batches(records, min(config.max_message_bytes, config.segment_bytes)):
            batch = build_batch([Record(n, now_ms, key, value) for n, (key, value) in enumerate(some)])
            end = self.partition.append_own(memoryview(batch), now_ms).last_offset + 1
            self._replayed_end = end
            for key, value in some:
                self._machine.replay(key, value)
        if self.partition.flush_policy.is_due:
            self._flusher.flush(self.partition)
        return end

    # Answering

    def _code_for(self, error: KafkaError) -> ErrorCode:
        """The error for a member after a failed write: find the new coordinator, or ask this one again."""
        is_elsewhere = self._is_gone or error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NOT_COORDINATOR if is_elsewhere else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _answer_when_acknowledged(self, end: int, response: Any) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(_: HostedPartition, failure: KafkaError | None) -> None:
            if answer.done():
                return
            if failure is None:
                answer.set_result(response)
            else:
                answer.set_exception(KafkaError(self._code_for(failure)))

        self._acknowledgements.wait((self.partition, end), ACKS_ALL, _COMMIT_TIMEOUT_S, done)
        return answer

    def _release_when_acknowledged(self, end: int, decision: Decision) -> None:
        def done(_: HostedPartition, failure: KafkaError | None) -> None:
            if failure is None:
                self._release(decision)
            else:
                self._fail([ticket for ticket, _ in decision.completions], self._code_for(failure))

        self._acknowledgements.wait((self.partition, end), ACKS_ALL, _COMMIT_TIMEOUT_S, done)

    def _release(self, decision: Decision) -> None:
        for ticket, response in decision.completions:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(response)

    def _fail(self, tickets: Sequence[int], error: ErrorCode) -> None:
        for ticket in tickets:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_exception(KafkaError(error))

    # Time

    def _set_timer(self) -> None:
        """Be called again when the machine's next deadline is due."""
        due_ms = self._machine.next_deadline_ms
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms, self._timer = due_ms, None
        if due_ms is not None:
            delay_s = max(0, due_ms - self._steady_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ms = None
        for decision in self._machine.tick(self._steady_ms()):
            # A failure is logged there; the members' next requests, or the next deadline, try again.
            with suppress(KafkaError):
                self._carry_out(decision)
        self._set_timer()


def _batches(records: Sequence[GroupRecord], limit_bytes: int) -> Iterator[Sequence[GroupRecord]]:
    """The records in order, split so that each part fits a batch; a larger record is a batch of its own."""
    start, size_bytes = 0, HEADER_BYTES
    for number, (key, value) in enumerate(records):
        record_bytes = len(key) + len(value or b"") + _RECORD_OVERHEAD_BYTES
        if size_bytes + record_bytes > limit_bytes and number > start:
            yield records[start:number]
            start, size_bytes = number, HEADER_BYTES
        size_bytes += record_bytes
    yield records[start:]
