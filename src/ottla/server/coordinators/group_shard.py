"""One group coordinator: a machine over one partition of `__consumer_offsets`, and the waiting requests.

A decision's records are appended and, once they are in the log, replayed. The answers leave when the append
is acknowledged (partitions/acknowledgement.py). A decision that cannot be written did not happen: its
requests are answered with COORDINATOR_NOT_AVAILABLE, and the client asks again. A question that writes
nothing is answered as soon as everything that the machine has replayed is committed: no client sees an offset
or a generation that the next coordinator may not know.

Offsets of a transaction are written as transactional batches of its producer; `end_transaction` writes the
marker that puts them in force, or forgets them.

A shard belongs to one leadership of its partition: when that leadership ends, waiting requests are answered
with NOT_COORDINATOR, and the shard writes nothing more. A broker that is cut off from controller and followers
(replication/isolation.py) may have been replaced without knowing, so its shards answer NOT_COORDINATOR, too.

Loading replays the log and nothing else. Until it is done every request is answered with
COORDINATOR_LOAD_IN_PROGRESS.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

from ottla.errors import ErrorCode, KafkaError
from ottla.group.classic import ClassicGroup
from ottla.group.coordinator import GroupCoordinator, TopicsDeleted
from ottla.group.decision import Decision, GroupRequestContext
from ottla.model import ACKS_LEADER
from ottla.protocol.messages.groups import HeartbeatRequest
from ottla.records.control import TransactionMarker
from ottla.server.coordinators.coordinator_log import CoordinatorLog
from ottla.server.coordinators.group_replay import replay_of_groups
from ottla.server.coordinators.log_reading import replay_log
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition

logger = logging.getLogger(__name__)

_COMMAND_CONTEXT = GroupRequestContext(0, "", "", None)


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
        self.is_loaded = False
        self._is_gone = False
        self._machine = machine
        self._log = CoordinatorLog(partition, machine.replay, flusher, now_ms)
        self._steady_ms = monotonic_ms
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tickets = count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None

    @property
    def is_current(self) -> bool:
        """Whether its leadership goes on."""
        return self._log.is_current

    @property
    def groups(self) -> Mapping[str, ClassicGroup]:
        """Its groups, to look at."""
        return self._machine.groups

    @property
    def committed_topics(self) -> set[str]:
        """The topics that groups of this shard have offsets in, in force or pending."""
        return {topic for group in self._machine.groups.values() for topic, _ in group.offsets.partitions()}

    async def load(self) -> None:
        """Replay the log, then answer; unless the shard is unloaded meanwhile."""
        await replay_log(self.partition, partial(replay_of_groups, self._machine), lambda: not self._is_gone)
        if not self._is_gone:
            self.begin()

    def begin(self) -> None:
        """Answer from now on: the log is replayed, or there is nothing in it."""
        self._log.begin()
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
        end = self._log.replayed_end
        if self._log.is_acknowledged(end):
            return response
        return self._answer_when_acknowledged(end, response)

    def end_transaction(self, marker: TransactionMarker) -> int:
        """Write the marker of a producer's transaction and take it over; the end offset to be acknowledged.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER where this shard does not answer, or not yet, so that the
        transaction coordinator looks for the leader and tries again.
        """
        try:
            self._check_presence()
        except KafkaError as error:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from error
        end = self._log.append_marker(marker)
        self._machine.replay_end_of_transaction(marker.producer_id, is_commit=marker.is_commit)
        return end

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
            if not end or self._log.is_acknowledged(end):
                self._release(decision)
            else:
                self._release_when_acknowledged(end, decision)
        self._set_timer()

    # Writing

    def _write(self, decision: Decision) -> int:
        try:
            return self._append(decision)
        except KafkaError as error:
            code = self._code_for(error)
            if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                logger.error("%s could not be written: %s", self.partition.name, error)
            self._fail([ticket for ticket, _ in decision.completions], code)
            # The machine may have set deadlines all the same.
            self._set_timer()
            raise KafkaError(code) from error

    def _append(self, decision: Decision) -> int:
        if decision.transaction is None:
            return self._log.append(decision.records)
        replay = partial(self._machine.replay, producer_id=decision.transaction.producer_id)
        return self._log.append_within(decision.records, decision.transaction, replay)

    # Answering

    def _code_for(self, error: KafkaError) -> ErrorCode:
        """The error after a failed write: find the new coordinator, ask this one again, or give up."""
        if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            return error.code
        is_elsewhere = self._is_gone or error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NOT_COORDINATOR if is_elsewhere else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _answer_when_acknowledged(self, end: int, response: Any) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(failure: KafkaError | None) -> None:
            if answer.done():
                return
            if failure is None:
                answer.set_result(response)
            else:
                answer.set_exception(KafkaError(self._code_for(failure)))

        self._log.when_acknowledged(end, done)
        return answer

    def _release_when_acknowledged(self, end: int, decision: Decision) -> None:
        def done(failure: KafkaError | None) -> None:
            if failure is None:
                self._release(decision)
            else:
                self._fail([ticket for ticket, _ in decision.completions], self._code_for(failure))

        self._log.when_acknowledged(end, done)

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
