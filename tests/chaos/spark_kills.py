"""Kills of the driver, executors, Python workers and brokers, drawn from a seed.

A kill comes at a moment: any, while a batch is under way, or after a batch is in the table and before the
query has noted that it is over, which is where a careless sink writes it twice. The moments are found by
looking at the query's files, a thousand times a second; whether one was hit is looked up after the kill.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from tests.chaos.spark_checkpoint import Checkpoint
from tests.chaos.spark_driver import Driver, kill
from tests.clusters import ObservedCluster, eventually

MOMENT_DEADLINE_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.001


class Moment(StrEnum):
    """When a kill comes, seen from the batches of the query."""

    ANY = "at any time"
    IN_BATCH = "while a batch is under way"
    IN_TABLE = "between the table's commit and the query's"


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill as it was drawn."""

    number: int
    kind: str
    moment: Moment
    after_s: float  # how long after the last one, or after the moment
    hold_s: float  # how long a broker is away
    pick: int  # which of several, modulo their number
    waits: bool  # whether the query has gone on before the next one


class Scene:
    """All that can be killed, one kill, and words about whom it hit."""

    def __init__(self, cluster: ObservedCluster, topic: str, driver: Driver, files: Checkpoint) -> None:
        self.cluster, self.topic, self.driver, self.files = cluster, topic, driver, files
        self.notes: list[str] = []
        self.is_hit = False
        self._batch = -1  # the batch in which the kill comes

    def await_moment(self, kill: Kill) -> None:
        """Return in that very moment, or when it is clear that it does not come."""
        if kill.moment is Moment.ANY:
            time.sleep(kill.after_s)  # not a wait for a condition: the moment is drawn
            return
        if kill.moment is Moment.IN_BATCH:
            self._batch = self._next(self.files.has_begun)
            time.sleep(kill.after_s / 4)  # somewhere in it
        else:
            self._batch = self._next(self.files.is_in_table)

    def note_hit(self, kill: Kill) -> None:
        """Whether the kill came in its moment."""
        if kill.moment is Moment.ANY:
            self.is_hit = True
        else:
            self.is_hit = self._batch >= 0 and not self.files.is_over(self._batch)

    def _next(self, happens: Callable[[int], bool]) -> int:
        batch, deadline = self.files.ended + 1, time.monotonic() + MOMENT_DEADLINE_S
        while not happens(batch):
            if self.driver.has_ended or time.monotonic() > deadline:
                return -1
            if self.files.is_over(batch):
                batch += 1
            time.sleep(_LOOK_AGAIN_S)
        return batch


# ---- Spark


def kill_driver(scene: Scene, kill_: Kill) -> None:
    """Its executors work on until they notice."""
    scene.driver.kill_driver()
    scene.note_hit(kill_)
    scene.driver.start()


def kill_application(scene: Scene, kill_: Kill) -> None:
    scene.driver.kill_everything()
    scene.note_hit(kill_)
    scene.driver.start()


def _kill_some(role: str, *, all_of_them: bool) -> Callable[[Scene, Kill], None]:
    def carry_out(scene: Scene, kill_: Kill) -> None:
        pids = sorted(scene.driver.pids(role))
        if not pids:
            scene.notes.append(f"no {role} there")
            return
        chosen = pids if all_of_them else [pids[kill_.pick % len(pids)]]
        kill(chosen)
        scene.note_hit(kill_)
        scene.notes.append(f"{len(chosen)} of {len(pids)}")

    return carry_out


# ---- brokers


def _brokers(scene: Scene, kill_: Kill, victims: list[int], between: Callable[[], None]) -> None:
    scene.notes.append(f"broker {', '.join(map(str, victims))}")
    for victim in victims:
        scene.cluster.kill(victim)
    scene.note_hit(kill_)
    between()
    time.sleep(kill_.hold_s)  # how long it is away is drawn
    for victim in victims:
        scene.cluster.start_broker(victim, wait=False)


def _running(scene: Scene) -> list[int]:
    """All of them: those that the last kill took are back before the next one takes brokers."""
    make_whole(scene.cluster)
    return sorted(scene.cluster.running)


def _leader(scene: Scene, kill_: Kill) -> int:
    make_whole(scene.cluster)
    return scene.cluster.leader_of(scene.topic, kill_.pick % len(scene.cluster.partitions(scene.topic)))


def kill_leader(scene: Scene, kill_: Kill) -> None:
    _brokers(scene, kill_, [_leader(scene, kill_)], lambda: None)


def kill_majority(scene: Scene, kill_: Kill) -> None:
    running = _running(scene)
    spared = running[kill_.pick % len(running)]
    _brokers(scene, kill_, [each for each in running if each != spared], lambda: None)


def kill_all_brokers(scene: Scene, kill_: Kill) -> None:
    _brokers(scene, kill_, _running(scene), lambda: None)


def kill_leader_and_driver(scene: Scene, kill_: Kill) -> None:
    _brokers(scene, kill_, [_leader(scene, kill_)], lambda: kill_driver(scene, kill_))


def kill_leader_and_executor(scene: Scene, kill_: Kill) -> None:
    one = _kill_some("executor", all_of_them=False)
    _brokers(scene, kill_, [_leader(scene, kill_)], lambda: one(scene, kill_))


class Kind(NamedTuple):
    """How often a kind is drawn, and how it is carried out."""

    weight: int
    carry_out: Callable[[Scene, Kill], None]


KINDS: Final = {
    "the driver": Kind(4, kill_driver),
    "the driver and its executors": Kind(2, kill_application),
    "an executor": Kind(5, _kill_some("executor", all_of_them=False)),
    "all executors": Kind(3, _kill_some("executor", all_of_them=True)),
    "the Python workers": Kind(3, _kill_some("python worker", all_of_them=True)),
    "a leader": Kind(6, kill_leader),
    "two brokers of three": Kind(3, kill_majority),
    "all brokers": Kind(2, kill_all_brokers),
    "a leader and the driver": Kind(1, kill_leader_and_driver),
    "a leader and an executor": Kind(2, kill_leader_and_executor),
}


def plan(seed: int, count: int, kinds: tuple[str, ...] = tuple(KINDS)) -> list[Kill]:
    """The kills of a seed. All kinds come before one comes again: a short run sees many."""
    rng = random.Random(seed)
    drawn = rng.sample(kinds, len(kinds))[:count]
    while len(drawn) < count:
        drawn += rng.choices(kinds, [KINDS[kind].weight for kind in kinds])
    return [
        Kill(
            number=number,
            kind=kind,
            moment=rng.choice(list(Moment)),
            after_s=rng.uniform(0.0, 1.5),
            hold_s=rng.uniform(0.0, 2.0),
            pick=rng.randrange(1 << 16),
            waits=rng.random() < 0.6,
        )
        for number, kind in enumerate(drawn, 1)
    ]


def carry_out(scene: Scene, kill_: Kill) -> None:
    """Do it, and start again what does not start by itself."""
    scene.await_moment(kill_)
    KINDS[kill_.kind].carry_out(scene, kill_)


def make_whole(cluster: ObservedCluster) -> None:
    """Finish after a kill: brokers that did not come up are started again."""
    eventually(lambda: len(cluster.running) == len(cluster.ids), "all brokers run", MOMENT_DEADLINE_S)
