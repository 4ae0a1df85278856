"""Which brokers hold a new partition: over racks, then over brokers, counting what they hold already (CTL-2).

- The replicas of a partition stand in as many racks as there are, and in no rack two more than in another.
  Racks count only if every broker that can be chosen names one: a lone broker without a rack would else hold
  half of everything.
- Of the racks, and of the brokers in one, those with least are chosen, measured by their capacity. So brokers
  that joined later fill up first, and of equal brokers that began empty none holds more than one replica more
  than another.
- The first replica is the preferred leader; these are evened out, too.
- The second one leads when the first is gone: for the partitions of one leader these are different brokers,
  so that not one of them inherits everything.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.controller.image import BrokerImage, ClusterImage


class Candidate(NamedTuple):
    """A broker that can take replicas."""

    node_id: int
    rack: str | None = None
    capacity: int = 1


class Load:
    """How many replicas each broker holds, of how many partitions it is the preferred leader, and who would
    inherit these.

    `heirs` counts partitions by their first and second replica.
    """

    def __init__(self, replica_lists: Iterable[tuple[int, ...]] = ()) -> None:
        self.held: Counter[int] = Counter()
        self.led: Counter[int] = Counter()
        self.heirs: Counter[tuple[int, int]] = Counter()
        # A cluster has many partitions and few different lists of replicas.
        for replicas, count in Counter(replica_lists).items():
            self.add(replicas, count)

    def add(self, replicas: Sequence[int], count: int = 1) -> None:
        """Count more partitions."""
        for node_id in replicas:
            self.held[node_id] += count
        self.led[replicas[0]] += count
        if len(replicas) > 1:
            self.heirs[replicas[0], replicas[1]] += count


def candidates(brokers: Iterable[BrokerImage]) -> list[Candidate]:
    """These brokers as candidates; without their racks, unless each of them has one."""
    chosen = list(brokers)
    has_racks = all(broker.rack for broker in chosen)
    return [
        Candidate(broker.node_id, broker.rack if has_racks else None, broker.capacity) for broker in chosen
    ]


def load_of(image: ClusterImage) -> Load:
    """The replicas of each broker once the moves under way are finished."""
    return Load(partition.target_replicas for _, partition in image.partitions())


def place(
    brokers: Sequence[Candidate], partition_count: int, replication_factor: int, load: Load
) -> list[list[int]]:
    """The replicas of each new partition, the preferred leader first; at most one replica per broker."""
    table = _Table(brokers, load)
    placed = [table.replicas(replication_factor) for _ in range(partition_count)]
    even_leaders(placed, table.led, table.capacity)
    for replicas in placed:
        table.choose_heir(replicas)
    return placed


class _Table:
    """The candidates with what they hold, while partitions are being placed."""

    def __init__(self, brokers: Sequence[Candidate], load: Load) -> None:
        self.led = {broker.node_id: load.led[broker.node_id] for broker in brokers}
        self.capacity = {broker.node_id: broker.capacity for broker in brokers}
        self._heirs = Counter(load.heirs)
        self._pairs: Counter[tuple[int | None, int]] = Counter(load.heirs)
        self._brokers = sorted(brokers)
        self._held = {broker.node_id: load.held[broker.node_id] for broker in brokers}
        self._rack_held: Counter[str | None] = Counter()
        self._rack_capacity: Counter[str | None] = Counter()
        for broker in brokers:
            self._rack_held[broker.rack] += self._held[broker.node_id]
            self._rack_capacity[broker.rack] += broker.capacity

    def replicas(self, replication_factor: int) -> list[int]:
        """The replicas of one more partition."""
        chosen: list[int] = []
        in_rack: Counter[str | None] = Counter()
        for _ in range(replication_factor):
            # Of equal brokers the first pick is the one that leads least, for it may lead; the later ones
            # those that lead most (the next leader must not have too much by then) and inherit least.
            sign = -1 if chosen else 1
            first = chosen[0] if chosen else None
            broker = min(
                (broker for broker in self._brokers if broker.node_id not in chosen),
                key=lambda broker: (
                    in_rack[broker.rack],
                    (self._rack_held[broker.rack] + 1) / self._rack_capacity[broker.rack],
                    (self._held[broker.node_id] + 1) / broker.capacity,
                    sign * self.led[broker.node_id] / broker.capacity,
                    self._pairs[first, broker.node_id],
                ),
            )
            if chosen:
                self._pairs[first, broker.node_id] += 1
            chosen.append(broker.node_id)
            in_rack[broker.rack] += 1
            self._held[broker.node_id] += 1
            self._rack_held[broker.rack] += 1
        return self._led_by_least(chosen)

    def choose_heir(self, replicas: list[int]) -> None:
        """Bring that follower to the second place which inherits least from the leader so far."""
        if len(replicas) > 1:
            leader, *followers = replicas
            heir = min(followers, key=lambda node_id: self._heirs[leader, node_id] / self.capacity[node_id])
            self._heirs[leader, heir] += 1
            replicas.remove(heir)
            replicas.insert(1, heir)

    def _led_by_least(self, chosen: list[int]) -> list[int]:
        leader = min(chosen, key=lambda node_id: (self.led[node_id] + 1) / self.capacity[node_id])
        self.led[leader] += 1
        return [leader, *(node_id for node_id in chosen if node_id != leader)]


def even_leaders(
    replica_lists: Sequence[list[int]], led: dict[int, int], capacity: Mapping[int, int]
) -> None:
    """Choose other first replicas in these lists until the preferred leaders are as even as they can be.

    `led` counts all partitions, also those that are not to be changed, and is kept up to date.
    """
    led_by: dict[int, set[int]] = {node_id: set() for node_id in capacity}
    for number, replicas in enumerate(replica_lists):
        if replicas[0] in led_by:
            led_by[replicas[0]].add(number)
    while True:
        path = _path(replica_lists, led, capacity, led_by)
        if path is None:
            return
        for number, leader, successor in path:
            replicas = replica_lists[number]
            replicas.remove(successor)
            replicas.insert(0, successor)
            led_by[leader].discard(number)
            led_by[successor].add(number)
            led[leader] -= 1
            led[successor] += 1


def _path(
    replica_lists: Sequence[list[int]],
    led: Mapping[int, int],
    capacity: Mapping[int, int],
    led_by: Mapping[int, set[int]],
) -> list[tuple[int, int, int]] | None:
    """The shortest way to hand leadership from a broker with too much, by way of others, to one with too
    little.
    """
    for first in sorted(capacity, key=lambda node_id: (-led[node_id] / capacity[node_id], node_id)):
        if not any(is_uneven(led, capacity, first, last) for last in capacity):
            return None  # the others lead even less
        steps: dict[int, tuple[int, int]] = {}
        waiting = deque([first])
        while waiting:
            leader = waiting.popleft()
            for number in sorted(led_by[leader]):
                for successor in replica_lists[number][1:]:
                    if successor in steps or successor == first or successor not in capacity:
                        continue
                    steps[successor] = (number, leader)
                    if is_uneven(led, capacity, first, successor):
                        return _steps_to(successor, first, steps)
                    waiting.append(successor)
    return None


def _steps_to(last: int, first: int, steps: Mapping[int, tuple[int, int]]) -> list[tuple[int, int, int]]:
    path = []
    while last != first:
        number, leader = steps[last]
        path.append((number, leader, last))
        last = leader
    return path


def is_uneven(counts: Mapping[int, int], capacity: Mapping[int, int], more: int, less: int) -> bool:
    """Whether it would be more even if one broker had one less and the other one more."""
    return counts[more] * capacity[less] > (counts[less] + 1) * capacity[more]
