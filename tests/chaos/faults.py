"""Faults of a cluster, drawn from a seed, each of which ends with everything running and
connected again.

All numbers of a fault are drawn before the first of them is carried out, so the same seed gives the same
faults; whom they hit ("the leader of partition 3") depends on what the cluster has become by then.

Disk full is made with RLIMIT_FSIZE of the broker's running process (prlimit(2)): files grow no more, the
write that crosses the limit is cut short, as on a full volume, and every later one fails. It needs no
privileges and leaves nothing behind; only the error's name is another (EFBIG for ENOSPC).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.chaos.workload import GROUP, TRANSACTIONAL_IDS
from tests.clusters import ObservedCluster, eventually

from ottla.client.admin.admin import Admin
from ottla.client.requests.outcomes import succeeded
from ottla.errors import KafkaError
from ottla.localcluster.state import ClusterError, Condition
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.coordinator import FindCoordinatorRequest

CHASES: Final = 5
# How much a "full" disk still takes: enough to tear a write, not enough to go on.
_LAST_BYTES: Final = 3_000
_MOVE_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault as it was drawn."""

    number: int
    kind: str
    partition: int  # whose leader is meant, where a leader is
    pick: int  # which of several, modulo their number
    hold_s: float  # how long it lasts
    waits: bool  # whether everything is in sync again before the next one


class Scene:
    """A cluster, one fault, and words about whom it hit."""

    def __init__(self, cluster: ObservedCluster, topic: str, fault: Fault) -> None:
        self.cluster = cluster
        self.topic = topic
        self.fault = fault
        self.notes: list[str] = []

    def note(self, words: str) -> None:
        self.notes.append(words)

    def hold(self) -> None:
        """Not a wait for a condition: how long the fault lasts is drawn."""
        time.sleep(self.fault.hold_s)

    def leader(self) -> int:
        return self.cluster.leader_of(self.topic, self.fault.partition)

    def follower(self) -> int:
        """A broker that does not lead the fault's partition."""
        leader = self.leader()
        return self.any_of(each for each in self.cluster.running if each != leader)

    def controller(self) -> int:
        eventually(lambda: self.cluster.controller() >= 0, "there is a controller", 60.0)
        return self.cluster.controller()

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        return self._coordinator(FindCoordinatorRequest(coordinator_keys=[GROUP]))

    def transaction_coordinator(self) -> int:
        """The broker that coordinates the transactions of one of the clients."""
        key = TRANSACTIONAL_IDS[self.fault.pick % len(TRANSACTIONAL_IDS)]
        return self._coordinator(FindCoordinatorRequest(key_type=1, coordinator_keys=[key]))

    def _coordinator(self, request: FindCoordinatorRequest) -> int:
        found: list[int] = []

        def is_found() -> bool:
            with self.cluster.peer(self.any_of(self.cluster.running)) as peer:
                answer = peer.ask(ApiKey.FIND_COORDINATOR, 4, request)
            found[:] = [each.node_id for each in answer.coordinators if each.error_code == 0]
            return bool(found)

        eventually(is_found, "there is a coordinator", 60.0)
        return found[0]

    def any_of(self, ids: Iterable[int]) -> int:
        choice = sorted(ids)
        return choice[self.fault.pick % len(choice)]


# ---- processes


def _killed(victim: Callable[[Scene], int]) -> Callable[[Scene], None]:
    def carry_out(scene: Scene) -> None:
        node_id = victim(scene)
        scene.note(f"broker {node_id}")
        scene.cluster.kill(node_id)
        scene.hold()
        scene.cluster.start_broker(node_id)

    return carry_out


def _stopped(victim: Callable[[Scene], int]) -> Callable[[Scene], None]:
    def carry_out(scene: Scene) -> None:
        node_id = victim(scene)
        scene.note(f"broker {node_id}")
        scene.cluster.stop_broker(node_id)
        scene.hold()
        scene.cluster.start_broker(node_id)

    return carry_out


def _paused(victim: Callable[[Scene], int]) -> Callable[[Scene], None]:
    def carry_out(scene: Scene) -> None:
        node_id = victim(scene)
        scene.note(f"broker {node_id}")
        scene.cluster.pause(node_id)
        scene.hold()
        scene.cluster.resume(node_id)

    return carry_out


def _kill_together(scene: Scene, victims: list[int]) -> None:
    scene.note(f"brokers {', '.join(map(str, victims))}")
    killers = [threading.Thread(target=scene.cluster.kill, args=(each,)) for each in victims]
    for killer in killers:
        killer.start()
    for killer in killers:
        killer.join()
    scene.hold()
    for each in victims[:-1]:
        scene.cluster.start_broker(each, wait=False)
    scene.cluster.start_broker(victims[-1])


def kill_all(scene: Scene) -> None:
    _kill_together(scene, scene.cluster.running)


def kill_majority(scene: Scene) -> None:
    spared = scene.any_of(scene.cluster.running)
    _kill_together(scene, [each for each in scene.cluster.running if each != spared])


def chase_the_leader(scene: Scene) -> None:
    """Kill each new leader, and bring the one before back."""
    for _ in range(CHASES):
        node_id = scene.leader()
        scene.note(str(node_id))
        scene.cluster.kill(node_id)
        time.sleep(scene.fault.hold_s / CHASES)
        scene.cluster.start_broker(node_id)


def rolling_restart(scene: Scene) -> None:
    """As an upgrade does it: the next one when the last one is in sync."""
    for node_id in scene.cluster.ids:
        scene.cluster.stop_broker(node_id)
        scene.cluster.start_broker(node_id)
        scene.cluster.await_in_sync(scene.topic)


# ---- the network


def cut_leader_from_follower(scene: Scene) -> None:
    leader, follower = scene.leader(), scene.follower()
    _cut(scene, leader, follower)


def cut_one_way(scene: Scene) -> None:
    """One hears the other, and is not heard: a leader its follower, or the other way round."""
    pair = (scene.leader(), scene.follower())
    source, target = pair if scene.fault.pick % 2 else pair[::-1]
    scene.note(f"{source} -/> {target}")
    scene.cluster.cut(source, target, one_way=True)
    scene.hold()
    scene.cluster.heal()


def _cut(scene: Scene, node_id: int, other: int) -> None:
    scene.note(f"{node_id} -/- {other}")
    scene.cluster.cut(node_id, other)
    scene.hold()
    scene.cluster.heal()


def _isolated(
    victim: Callable[[Scene], int], *, clients: bool, one_way: bool = False
) -> Callable[[Scene], None]:
    def carry_out(scene: Scene) -> None:
        node_id = victim(scene)
        scene.note(f"broker {node_id}")
        scene.cluster.cut(node_id, clients=clients, one_way=one_way)
        scene.hold()
        scene.cluster.heal()

    return carry_out


def slow_network(scene: Scene) -> None:
    """Everything to and from a broker takes longer."""
    node_id, delay_ms = scene.any_of(scene.cluster.running), 20 + scene.fault.pick % 180
    scene.note(f"broker {node_id}, {delay_ms} ms")
    scene.cluster.slow(node_id, delay_ms)
    scene.hold()
    scene.cluster.heal()


def reset_connections(scene: Scene) -> None:
    node_id = scene.leader()
    ended = scene.cluster.reset(node_id)
    scene.note(f"{ended} connections of broker {node_id}")


# ---- the disk


def _disk_full(victim: Callable[[Scene], int]) -> Callable[[Scene], None]:
    def carry_out(scene: Scene) -> None:
        node_id = victim(scene)
        scene.note(f"broker {node_id}")
        pid = scene.cluster.pid_of(node_id)
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        sizes = [
            path.stat().st_size
            for path in scene.cluster.directory_of(node_id).rglob("*.log")
            if path.is_file()
        ]
        limit = max(sizes, default=0) + _LAST_BYTES if scene.fault.pick % 2 else 0
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, before[1]))
        scene.hold()
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    return carry_out


# ---- what an operator does


def move_replicas(scene: Scene) -> None:
    """Take a replica away and bring it back, with another leader."""
    key = TopicPartition(scene.topic, scene.fault.partition)
    replicas = scene.cluster.partitions(scene.topic)[scene.fault.partition].replicas
    turned = (*replicas[1:], replicas[0])
    scene.note(f"{key} to {turned[:-1]} and back to {turned}")

    async def move(admin: Admin) -> None:
        for wanted in (turned[:-1], turned):
            succeeded(await admin.alter_reassignments({key: wanted}))
            deadline = time.monotonic() + _MOVE_DEADLINE_S
            while await admin.list_reassignments():
                assert time.monotonic() < deadline, f"{key} is not at {wanted} after {_MOVE_DEADLINE_S} s"
                await asyncio.sleep(0.1)

    with_admin(scene, move)


def elect_preferred_leaders(scene: Scene) -> None:
    partitions = [TopicPartition(scene.topic, each) for each in scene.cluster.partitions(scene.topic)]

    async def elect(admin: Admin) -> None:
        outcomes = await admin.elect_leaders(partitions)
        scene.note(f"{sum(each is None for each in outcomes.values())} of {len(outcomes)}")

    with_admin(scene, elect)


def with_admin(scene: Scene, work: Callable[[Admin], Awaitable[None]]) -> None:
    async def session() -> None:
        cluster = scene.cluster
        async with Admin(cluster.bootstrap, timeout_ms=60_000, security=cluster.security) as admin:
            await work(admin)

    asyncio.run(session())


class Kind(NamedTuple):
    """How often a kind of fault is drawn, how long it may last, and how it is carried out."""

    weight: int
    hold_s: tuple[float, float]
    carry_out: Callable[[Scene], None]


SHORT: Final = (0.0, 1.5)
LONG: Final = (1.0, 7.0)  # shorter and longer than a broker's session

KINDS: Final = {
    "kill -9 a leader": Kind(6, SHORT, _killed(Scene.leader)),
    "kill -9 a follower": Kind(4, SHORT, _killed(Scene.follower)),
    "kill -9 the controller": Kind(5, SHORT, _killed(Scene.controller)),
    "kill -9 the group's coordinator": Kind(3, SHORT, _killed(Scene.coordinator)),
    "kill -9 two of three": Kind(3, SHORT, kill_majority),
    "kill -9 all at once": Kind(3, SHORT, kill_all),
    "chase the leader": Kind(2, (0.5, 3.0), chase_the_leader),
    "stop a leader": Kind(4, SHORT, _stopped(Scene.leader)),
    "stop the controller": Kind(2, SHORT, _stopped(Scene.controller)),
    "rolling restart": Kind(2, SHORT, rolling_restart),
    "pause a leader": Kind(4, LONG, _paused(Scene.leader)),
    "pause a follower": Kind(2, LONG, _paused(Scene.follower)),
    "pause the controller": Kind(3, LONG, _paused(Scene.controller)),
    "cut leader from follower": Kind(3, LONG, cut_leader_from_follower),
    "cut one way": Kind(4, LONG, cut_one_way),
    "isolate a leader": Kind(4, LONG, _isolated(Scene.leader, clients=False)),
    "isolate a leader, clients too": Kind(2, LONG, _isolated(Scene.leader, clients=True)),
    "isolate the controller": Kind(3, LONG, _isolated(Scene.controller, clients=False)),
    "silence the controller": Kind(2, LONG, _isolated(Scene.controller, clients=False, one_way=True)),
    "slow network": Kind(2, LONG, slow_network),
    "reset connections": Kind(2, SHORT, reset_connections),
    "disk of a leader full": Kind(3, (0.5, 4.0), _disk_full(Scene.leader)),
    "disk of a follower full": Kind(2, (0.5, 4.0), _disk_full(Scene.follower)),
    "move replicas": Kind(2, SHORT, move_replicas),
    "elect preferred leaders": Kind(2, SHORT, elect_preferred_leaders),
}
# Those of a cluster under transactional clients.
TRANSACTION_KINDS: Final[Mapping[str, Kind]] = {
    **KINDS,
    "kill -9 a transaction coordinator": Kind(6, SHORT, _killed(Scene.transaction_coordinator)),
    "pause a transaction coordinator": Kind(4, LONG, _paused(Scene.transaction_coordinator)),
    "isolate a transaction coordinator": Kind(
        3, LONG, _isolated(Scene.transaction_coordinator, clients=False)
    ),
}


def plan(
    seed: int, count: int, partitions: int, kinds: Mapping[str, Kind] = KINDS, most_s: float = LONG[1]
) -> list[Fault]:
    """The faults of a seed, none longer than `most_s`. All kinds come before one comes again: a short run
    sees many.
    """
    rng = random.Random(seed)
    names = list(kinds)
    drawn = rng.sample(names, len(names))[:count]
    while len(drawn) < count:
        drawn += rng.choices(names, [kinds[name].weight for name in names])
    return [
        Fault(
            number=number,
            kind=kind,
            partition=rng.randrange(partitions),
            pick=rng.randrange(1 << 16),
            hold_s=min(rng.uniform(*kinds[kind].hold_s), most_s),
            waits=rng.random() < 0.7,
        )
        for number, kind in enumerate(drawn, 1)
    ]


def carry_out(cluster: ObservedCluster, topic: str, fault: Fault, kinds: Mapping[str, Kind] = KINDS) -> str:
    """Do it, and make everything whole again; answers whom it hit."""
    scene = Scene(cluster, topic, fault)
    try:
        kinds[fault.kind].carry_out(scene)
    except (ClusterError, KafkaError, OSError) as error:
        raise AssertionError(f"{fault.kind} ({' '.join(scene.notes)}): {error}") from error
    finally:
        make_whole(cluster)
    return " ".join(scene.notes)


def make_whole(cluster: ObservedCluster) -> None:
    """Heal, resume, start: whatever a fault left undone."""
    cluster.heal()
    for broker in cluster.state.brokers:
        with contextlib.suppress(ClusterError):
            if broker.condition == Condition.PAUSED:
                cluster.resume(broker.node_id)
            elif not broker.condition.has_process:
                cluster.start_broker(broker.node_id, wait=False)
