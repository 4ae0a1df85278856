"""Random steps of a fleet and of the world around it, from one seed; and the calm after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.unit.group.fleet import HEARTBEAT_MS, Consumer, Fleet, group_of
from tests.unit.group.shell import GROUP, SESSION_MS

from ottla.group.coordinator import TopicsDeleted
from ottla.protocol.messages.group_admin import DeleteGroupsRequest

_PRODUCERS = (70, 71, 72)


class Storm:
    """Random steps, from one seed."""

    def __init__(self, seed: int) -> None:
        self.fleet = Fleet(seed)
        self.random = self.fleet.random
        self._steps: list[tuple[int, Callable[[], None]]] = [
            (6, self.fleet.start),
            (30, lambda: self._some(self.fleet.deliver)),
            (20, lambda: self._some(self.fleet.heartbeat)),
            (3, lambda: self._some(self.fleet.kill)),
            (5, lambda: self._some(self.fleet.bounce)),
            (3, lambda: self._some(self.fleet.leave)),
            (3, lambda: self._some(self.fleet.change_topics)),
            (3, lambda: self._some(self.fleet.ask_again)),
            (15, lambda: self.fleet.pass_time(self.random.randrange(1, 2_000))),
            (3, lambda: self.fleet.pass_time(self.random.randrange(1, 3 * SESSION_MS))),
            (1, lambda: self.fleet.pass_time(400_000)),
            (12, self._commit),
            (4, self._zombie),
            (4, self._commit_in_transaction),
            (3, self._end_transaction),
            (2, self.fleet.restart_coordinator),
            (3, self._full_disk),
            (1, self._delete_group),
            (1, lambda: self._tell(TopicsDeleted(frozenset({"t"})))),
        ]

    def run(self, steps: int) -> None:
        """Let it rage."""
        weights = [weight for weight, _ in self._steps]
        for number in range(steps):
            (chosen,) = self.random.choices(self._steps, weights)
            chosen[1]()
            self.fleet.check()
            if number % 20 == 0:
                self.fleet.check_replay()
        self.fleet.check_replay()

    def calm(self) -> None:
        """No more faults, and every consumer does what it should."""
        fleet = self.fleet
        for _ in range(60):
            for consumer in list(fleet.consumers):
                fleet.heartbeat(consumer)
            for _ in range(4):
                for consumer in list(fleet.consumers):
                    fleet.deliver(consumer)
            fleet.pass_time(HEARTBEAT_MS)
            fleet.check()
        fleet.check_replay()

    def _some(self, step: Callable[[Consumer], None]) -> None:
        if self.fleet.consumers:
            step(self.random.choice(self.fleet.consumers))

    def _told(self) -> Iterator[tuple[str, int]]:
        """Memberships that somebody has or had; and the one after, unless he is in that without having been
        told.
        """
        for consumer in (*self.fleet.consumers, *self.fleet.zombies[-20:]):
            for member_id, generation in consumer.told[-5:]:
                yield member_id, generation
                yield member_id, generation - 1
                if consumer.instance is None:
                    yield member_id, generation + 1

    def _commit(self) -> None:
        """By a member, by a former one, by one of an older generation, or without a member."""
        told = list(self._told())
        if not told or self.random.random() < 0.1:
            self.fleet.commit("", -1)
            return
        member_id, generation = self.random.choice(told)
        self.fleet.commit(member_id, generation)

    def _commit_in_transaction(self) -> None:
        """By a member, or by a producer that knows no group."""
        told = list(self._told())
        member_id, generation = self.random.choice(told) if told else ("", -1)
        self.fleet.commit_within(self.random.choice(_PRODUCERS), member_id, generation)

    def _end_transaction(self) -> None:
        is_commit = self.random.random() < 0.5
        self.fleet.shell.end_transaction(self.random.choice(_PRODUCERS), is_commit=is_commit)

    def _zombie(self) -> None:
        """A request that a process sent before it died arrives late."""
        if not self.fleet.zombies:
            return
        zombie = self.random.choice(self.fleet.zombies[-5:])
        instance = zombie.instance if zombie.version >= 5 else None
        self.fleet.shell.heartbeat(zombie.member_id, zombie.generation, instance)
        if zombie.generation >= 0:
            self.fleet.commit(zombie.member_id, zombie.generation, instance)
            ticket = self.fleet.shell.sync(zombie.member_id, zombie.generation, group_instance_id=instance)
            self.fleet.wait_for(zombie, ticket)

    def _full_disk(self) -> None:
        """Something happens while nothing can be written."""
        shell = self.fleet.shell
        shell.writes_fail = True
        logged = len(shell.log)
        self.random.choice(
            (
                lambda: self._some(self.fleet.deliver),
                lambda: self.fleet.pass_time(SESSION_MS),
                self._bounce_quietly,
            )
        )()
        shell.writes_fail = False
        assert len(shell.log) == logged
        self.fleet.recorded()
        self.fleet.log_lags = self.fleet.log_lags or GROUP in map(group_of, shell.lost_records)
        shell.lost_records.clear()

    def _bounce_quietly(self) -> None:
        statics = [one for one in self.fleet.consumers if one.instance is not None]
        if statics:
            self.fleet.bounce(self.random.choice(statics))

    def _delete_group(self) -> None:
        self._tell(DeleteGroupsRequest([GROUP]))

    def _tell(self, command: Any) -> None:
        self.fleet.shell.send(command)
