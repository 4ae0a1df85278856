"""A member inside its program: one thread that polls, and does between polls what it is asked to.

Most clients may be used by one thread only, so everything goes through that thread. What the member has seen
is kept here and can be looked at from any thread, at any time.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.clients.groups.model import Committed, Consumed, Event, Membership, Partition
from tests.clients.model import DEADLINE_SECONDS, RefusedError

POLL_SECONDS = 0.02


class Log:
    """The history of a member. Written by its thread, read by others."""

    def __init__(self, journal: str | None) -> None:
        self.records: list[Consumed] = []
        self.events: list[Event] = []
        self.errors: list[str] = []
        self.assignment: frozenset[Partition] = frozenset()
        self.member_id = ""
        self._journal = None if journal is None else os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, line: str) -> None:
        """Keep a line even if this process is killed in the next moment."""
        if self._journal is not None:
            os.write(self._journal, f"{line}\n".encode())

    def hear(self, kind: Any, partitions: Sequence[Any]) -> None:
        found = frozenset((one.topic, one.partition) for one in partitions)
        self.events.append(Event(kind, found))

    def fail(self, error: BaseException) -> None:
        said = error.code if isinstance(error, RefusedError) else f"{type(error).__name__}: {error}"
        if self.errors[-1:] != [said]:
            self.errors.append(said)

    def close(self) -> None:
        if self._journal is not None:
            os.close(self._journal)
            self._journal = None


class GroupConsumer(Protocol):
    """A client's consumer, as far as a member needs it. Errors of the broker come as `RefusedError`."""

    def poll(self, seconds: float) -> list[Consumed]: ...

    def idle(self, seconds: float) -> None:
        """Let time pass without polling; what the client does in the background goes on."""

    def assignment(self) -> frozenset[Partition]: ...

    def member_id(self) -> str: ...

    def commit(self, offsets: Sequence[Committed] | None, *, is_async: bool) -> None: ...

    def committed(self, partitions: Sequence[Partition]) -> list[Committed]: ...

    def pause(self, partitions: Sequence[Partition]) -> None: ...

    def resume(self, partitions: Sequence[Partition]) -> None: ...

    def seek(self, partition: Partition, offset: int) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class RunningMember:
    """A consumer and the thread that polls it."""

    membership: Membership
    make: Callable[[Membership, Log], GroupConsumer]
    log: Log = field(init=False)
    is_held: bool = False
    _commands: queue.SimpleQueue[tuple[Callable[[GroupConsumer], Any], Future[Any]]] = field(
        default_factory=queue.SimpleQueue
    )
    _is_closing: bool = False
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.log = Log(self.membership.journal)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def ask(self, command: Callable[[GroupConsumer], Any]) -> Any:
        """Have the member's thread do something, and wait for what comes of it."""
        done: Future[Any] = Future()
        self._commands.put((command, done))
        return done.result(DEADLINE_SECONDS)

    def close(self) -> None:
        self._is_closing = True
        self._thread.join(DEADLINE_SECONDS)
        if self._thread.is_alive():
            raise AssertionError("the member did not close")

    def _run(self) -> None:
        try:
            consumer = self.make(self.membership, self.log)
        except Exception as error:
            self.log.fail(error)
            return
        while not self._is_closing:
            try:
                self._turn(consumer)
            except Exception as error:
                self.log.fail(error)
                consumer.idle(POLL_SECONDS)
        try:
            consumer.close()
        except Exception as error:
            self.log.fail(error)
        self.log.close()

    def _turn(self, consumer: GroupConsumer) -> None:
        while not self._commands.empty():
            self._carry_out(consumer)
        if self.is_held:
            consumer.idle(POLL_SECONDS)
            return
        records = consumer.poll(POLL_SECONDS)
        self.log.assignment = consumer.assignment()
        self.log.member_id = consumer.member_id()
        for record in records:
            self.log.write(f"got {record.partition} {record.offset} {record.value}")
            self.log.records.append(record)
        if records and self.membership.commits == "each":
            self._commit(consumer, records)

    def _commit(self, consumer: GroupConsumer, records: Sequence[Consumed]) -> None:
        ends = {(record.topic, record.partition): record.offset + 1 for record in records}
        consumer.commit([Committed(*place, offset) for place, offset in ends.items()], is_async=False)
        for (_, partition), offset in ends.items():
            self.log.write(f"committed {partition} {offset}")

    def _carry_out(self, consumer: GroupConsumer) -> None:
        command, done = self._commands.get()
        try:
            done.set_result(command(consumer))
        except Exception as error:
            done.set_exception(error)
