"""Programs with members in them, and the members as tests hold them.

A host is a process of one client family; several members can live in it. Tests that kill or freeze take a
host of their own; all others share one per family, because a JVM costs seconds to start.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tests.clients.families.driver_family import Driver
from tests.clients.groups.model import Committed, Consumed, Event, Membership, Partition, View
from tests.clients.model import DEADLINE_SECONDS
from tests.repository import ROOT

from ottla.localcluster.waiting import wait_until

NAMES = itertools.count()


def python_host(family: str) -> Driver:
    """A Python process with members of a client from PyPI."""
    command = [sys.executable, "-m", "tests.clients.groups.programs.program", family]
    return Driver(command, cwd=ROOT, environment={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"})


class Host:
    """One such process."""

    def __init__(self, family: str, driver: Driver) -> None:
        self.family = family
        self._driver = driver
        self.is_running = True

    def ask(self, op: str, **arguments: Any) -> Any:
        return self._driver.ask({"op": op, **arguments})

    def join(self, membership: Membership) -> Member:
        name = f"{self.family}-{next(NAMES)}"
        self.ask("join", member=name, **asdict(membership))
        return Member(self, name, membership)

    def kill(self) -> None:
        self.is_running = False
        self._driver.kill()

    def freeze(self) -> None:
        """Nothing in it moves any more, but nothing is gone either (SIGSTOP): a long pause of any kind."""
        self._driver.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._driver.signal(signal.SIGCONT)

    def close(self) -> None:
        if self.is_running:
            self.is_running = False
            self._driver.kill()  # its members have left; some libraries take seconds to end


class Member:
    """A consumer in a group, seen from outside."""

    def __init__(self, host: Host, name: str, membership: Membership) -> None:
        self.host = host
        self.name = name
        self.membership = membership
        self.has_left = False
        self._records: list[Consumed] = []

    def _ask(self, op: str, **arguments: Any) -> Any:
        return self.host.ask(op, member=self.name, **arguments)

    def look(self) -> View:
        """The member's partitions and the records that it has seen by now."""
        answer = self._ask("look", seen=len(self._records))
        self._records += [Consumed(*record) for record in answer["records"]]
        return View(
            answer["member_id"],
            _partitions(answer["assignment"]),
            tuple(self._records),
            tuple(Event(kind, _partitions(partitions)) for kind, partitions in answer["events"]),
            tuple(answer["errors"]),
        )

    @property
    def assignment(self) -> frozenset[Partition]:
        return self.look().assignment

    def has(self, count: int) -> bool:
        """Whether the member has this number of partitions."""
        return len(self.assignment) == count

    def hold(self) -> None:
        """Have its application stop polling, as one that is busy with a record would."""
        self._ask("hold")

    def go_on(self) -> None:
        self._ask("go_on")

    def commit(self, offsets: Sequence[Committed] | None = None, *, is_async: bool = False) -> None:
        """Commit these offsets, or where it stands; `RefusedError` if that is refused."""
        wanted = None if offsets is None else [[o.topic, o.partition, o.offset, o.metadata] for o in offsets]
        self._ask("commit", offsets=wanted, is_async=is_async)

    def committed(self, *partitions: Partition) -> list[Committed]:
        return [Committed(*one) for one in self._ask("committed", partitions=partitions)]

    def pause(self, *partitions: Partition) -> None:
        self._ask("pause", partitions=partitions)

    def resume(self, *partitions: Partition) -> None:
        self._ask("resume", partitions=partitions)

    def seek(self, partition: Partition, offset: int) -> None:
        self._ask("seek", partition=partition, offset=offset)

    def leave(self) -> None:
        """Close the consumer: a dynamic member tells the coordinator, a static one does not."""
        if not self.has_left and self.host.is_running:
            self.has_left = True
            self._ask("leave")


def _partitions(pairs: Sequence[Sequence[Any]]) -> frozenset[Partition]:
    return frozenset((topic, partition) for topic, partition in pairs)


def until(
    condition: Callable[[], bool], what: str, members: Sequence[Member], seconds: float = DEADLINE_SECONDS
) -> None:
    """Wait for a condition of these members; if it does not come, say how they look."""
    try:
        wait_until(condition, what, seconds)
    except TimeoutError as error:
        seen = [(member.name, member.look()) for member in members if member.host.is_running]
        lines = [
            f"{name}: {sorted(view.assignment)}, {len(view.records)} records, {view.events}, errors {view.errors}"
            for name, view in seen
        ]
        raise TimeoutError("\n".join([str(error), *lines])) from None


def shared_out(members: Sequence[Member], total: int) -> bool:
    """Whether each of `total` partitions has one owner among these members, and none has over one more than
    another.
    """
    shares = [member.assignment for member in members]
    sizes = [len(share) for share in shares]
    owned = frozenset[Partition]().union(*shares)
    return len(owned) == total == sum(sizes) and max(sizes) - min(sizes) <= 1


def await_shared_out(members: Sequence[Member], total: int, seconds: float = DEADLINE_SECONDS) -> None:
    until(
        lambda: shared_out(members, total),
        f"{total} partitions are shared by {len(members)}",
        members,
        seconds,
    )


def rounds(member: Member) -> int:
    """How often it was told what it has."""
    return sum(event.kind == "assigned" for event in member.look().events)
