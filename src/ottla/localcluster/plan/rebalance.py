"""Plans to even a cluster out, or to empty brokers, with as few moves as possible.

`plan_rebalance`: racks first (a partition with several replicas in one rack spreads), then brokers, then
preferred leaders, which costs no copying. Afterwards no broker holds more than one replica more than another
of equal capacity, unless racks prevent that. Replicas on brokers that are fenced or shutting down stay: these
brokers may come back. `plan_drain`: every replica goes from the named brokers to those that hold least.
Nothing else moves, except to keep a cluster even that was even before. Both start from the replicas that the
moves under way will leave. A plan is carried out with AlterPartitionReassignments.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from ottla.controller.image import ClusterImage
from ottla.controller.placement import Candidate, Load, candidates, even_leaders, is_uneven
from ottla.errors import ErrorCode, KafkaError

_Key = tuple[str, int]  # topic and partition


class Move(NamedTuple):
    """A partition and the replicas that it should have."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


class _Step(NamedTuple):
    """One replica goes from one broker to another."""

    key: _Key
    leaves: int
    joins: int


def plan_rebalance(image: ClusterImage) -> list[Move]:
    """The moves that even out all active brokers."""
    plan = _Plan(image, ())
    plan.spread_over_racks()
    plan.even_replicas(lambda key, node_id: True)
    plan.even_leaders(plan.replicas)
    return plan.moves()


def plan_drain(image: ClusterImage, broker_ids: Collection[int]) -> list[Move]:
    """The moves that empty brokers; KafkaError where the other brokers are too few."""
    unknown = sorted(set(broker_ids) - set(image.brokers))
    if unknown:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker {unknown[0]} is registered.")
    plan = _Plan(image, broker_ids)
    plan.drain(set(broker_ids))
    plan.even_replicas(plan.is_new)
    if _Plan(image, ()).is_even():
        plan.even_replicas(lambda key, node_id: True)
    plan.even_leaders([key for key in plan.replicas if plan.is_changed(key)])
    return plan.moves()


class _Plan:
    """The replicas of all partitions as they should become; `excluded` brokers get none."""

    def __init__(self, image: ClusterImage, excluded: Collection[int]) -> None:
        self._before: dict[_Key, tuple[int, ...]] = {
            (topic.name, partition.index): partition.target_replicas
            for topic, partition in sorted(image.partitions(), key=lambda each: each[0].name)
        }
        self.replicas = {key: list(replicas) for key, replicas in self._before.items()}
        eligible = sorted(image.eligible_brokers - set(excluded))
        self._candidates = {
            each.node_id: each for each in candidates(image.brokers[node_id] for node_id in eligible)
        }
        self._capacity = {each.node_id: each.capacity for each in self._candidates.values()}
        self._racks = {node_id: broker.rack for node_id, broker in image.brokers.items()}
        self._has_racks = any(each.rack for each in self._candidates.values())
        load = Load(self._before.values())
        self._held = {node_id: load.held[node_id] for node_id in self._candidates}
        self._led = {node_id: load.led[node_id] for node_id in self._candidates}
        self._on: dict[int, dict[str, set[int]]] = {node_id: {} for node_id in self._candidates}
        for (topic, index), replicas in self.replicas.items():
            for node_id in replicas:
                self._on.setdefault(node_id, {}).setdefault(topic, set()).add(index)

    def moves(self) -> list[Move]:
        """The partitions whose replicas change."""
        return [Move(*key, tuple(self.replicas[key])) for key in self.replicas if self.is_changed(key)]

    def is_even(self) -> bool:
        """Whether no move would even out the number of replicas further."""
        nodes = self._capacity
        return not any(is_uneven(self._held, nodes, more, less) for more in nodes for less in nodes)

    def is_changed(self, key: _Key) -> bool:
        """Whether a partition is to be moved."""
        return tuple(self.replicas[key]) != self._before[key]

    def is_new(self, key: _Key, node_id: int) -> bool:
        """Whether the plan moved this replica to its broker: another broker instead costs nothing."""
        return node_id not in self._before[key]

    # ---- draining

    def drain(self, broker_ids: Collection[int]) -> None:
        """Replace every replica on these brokers."""
        for key, replicas in self.replicas.items():
            for node_id in [node_id for node_id in replicas if node_id in broker_ids]:
                joins = min(
                    (each for each in self._candidates.values() if each.node_id not in replicas),
                    key=lambda each: self._preference(key, node_id, each),
                    default=None,
                )
                if joins is None:
                    raise KafkaError(
                        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                        f"{key[0]}-{key[1]} has {len(replicas)} replicas and the other brokers that are there "
                        f"are {len(self._candidates)}: add a broker, or give the topic fewer replicas.",
                    )
                self._make(_Step(key, node_id, joins.node_id))
            if replicas[0] in self._candidates and self.is_new(key, replicas[0]):
                self._lead_by_one_in_place(key)

    def _preference(self, key: _Key, leaves: int, joins: Candidate) -> tuple[float, ...]:
        crowding = self._crowding(key, leaves, joins.node_id) if self._has_racks else 0
        in_topic = len(self._on[joins.node_id].get(key[0], ()))
        return (crowding, (self._held[joins.node_id] + 1) / joins.capacity, in_topic, joins.node_id)

    def _lead_by_one_in_place(self, key: _Key) -> None:
        """Prefer a leader that has the records already: a new replica has to copy them first."""
        replicas = self.replicas[key]
        in_place = [n for n in replicas if n in self._candidates and not self.is_new(key, n)]
        if in_place:
            leader = min(in_place, key=lambda node_id: self._led[node_id] / self._capacity[node_id])
            self._led[replicas[0]] -= 1
            self._led[leader] += 1
            replicas.remove(leader)
            replicas.insert(0, leader)

    # ---- racks

    def spread_over_racks(self) -> None:
        """Move replicas out of racks that hold more of a partition than others could."""
        if not self._has_racks:
            return
        for key in self.replicas:
            while True:
                step = min(self._steps_of(key), key=lambda step: self._crowding(*step), default=None)
                if step is None or self._crowding(*step) >= self._crowding(key):
                    break
                self._make(step)

    def _steps_of(self, key: _Key) -> Iterator[_Step]:
        by_load = sorted(self._candidates, key=lambda node_id: self._held[node_id] / self._capacity[node_id])
        for leaves in reversed(by_load):
            for joins in by_load:
                if leaves in self.replicas[key] and joins not in self.replicas[key]:
                    yield _Step(key, leaves, joins)

    def _crowding(self, key: _Key, leaves: int | None = None, joins: int | None = None) -> int:
        """How much replicas of a partition share racks, now or after a step: least where all racks differ."""
        racks = Counter(self._racks.get(node_id) for node_id in self.replicas[key] if node_id != leaves)
        if joins is not None:
            racks[self._racks.get(joins)] += 1
        return sum(count * count for count in racks.values())

    # ---- evening out

    def even_replicas(self, may_move: Callable[[_Key, int], bool]) -> None:
        """Move replicas, one at a time, from brokers with too many to brokers with too few."""
        while True:
            path = self._path(may_move)
            if path is None:
                return
            for step in path:
                self._make(step)

    def even_leaders(self, keys: Collection[_Key]) -> None:
        """Even out the preferred leaders by changing the order in these partitions."""
        even_leaders([self.replicas[key] for key in keys], self._led, self._capacity)

    def _path(self, may_move: Callable[[_Key, int], bool]) -> list[_Step] | None:
        """The shortest path of moves from a broker with too many replicas to one with too few."""
        for first in sorted(self._capacity, key=lambda n: (-self._held[n] / self._capacity[n], n)):
            if not any(is_uneven(self._held, self._capacity, first, last) for last in self._capacity):
                return None
            found: dict[int, _Step] = {}
            waiting = deque([first])
            while waiting:
                leaves = waiting.popleft()
                for joins in sorted(self._capacity, key=lambda n: (self._held[n] / self._capacity[n], n)):
                    if joins == first or joins in found:
                        continue
                    key = self._movable(leaves, joins, may_move)
                    if key is None:
                        continue
                    found[joins] = _Step(key, leaves, joins)
                    if is_uneven(self._held, self._capacity, first, joins):
                        return _steps_to(joins, first, found)
                    waiting.append(joins)
        return None

    def _movable(self, leaves: int, joins: int, may_move: Callable[[_Key, int], bool]) -> _Key | None:
        """A partition that could go from one broker to another without crowding a rack.

        Topics of which the first broker holds most and the second least come first, so that topics are spread
        evenly, too.
        """
        here, there = self._on[leaves], self._on[joins]

        def difference(topic: str) -> int:
            return len(here[topic]) - len(there.get(topic, ()))

        for topic in sorted(here, key=difference, reverse=True):
            for index in sorted(here[topic] - there.get(topic, set())):
                key = (topic, index)
                if may_move(key, leaves) and not self._would_crowd(key, leaves, joins):
                    return key
        return None

    def _would_crowd(self, key: _Key, leaves: int, joins: int) -> bool:
        return self._has_racks and self._crowding(key, leaves, joins) > self._crowding(key)

    def _make(self, step: _Step) -> None:
        replicas = self.replicas[step.key]
        place = replicas.index(step.leaves)
        replicas[place] = step.joins
        topic, index = step.key
        self._on[step.leaves][topic].remove(index)
        self._on[step.joins].setdefault(topic, set()).add(index)
        for counts in (self._held, self._led) if place == 0 else (self._held,):
            counts[step.joins] += 1
            if step.leaves in counts:
                counts[step.leaves] -= 1


def _steps_to(last: int, first: int, found: Mapping[int, _Step]) -> list[_Step]:
    path = []
    while last != first:
        path.append(found[last])
        last = found[last].leaves
    return path
