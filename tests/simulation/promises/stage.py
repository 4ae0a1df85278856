"""A cluster of shipped brokers with one partition on three of them, on which a tale is played."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from tests.simulation.stories.settings import CONSUMER, PRODUCER, bootstrap, node_settings
from tests.simulation.world.edge import runtime_of
from tests.simulation.world.node import Node
from tests.simulation.world.scheduler import World

import ottla
from ottla.controller.image import PartitionImage
from ottla.model import NO_LEADER

T = TypeVar("T")

TOPIC: Final = "promised"
PARTITION: Final = ottla.TopicPartition(TOPIC, 0)
VOTERS: Final = 3
# So long a partition must stay without a leader, with all brokers there, before it counts as waiting.
WAIT_S: Final = 5.0
_DEADLINE_S: Final = 60.0


class Stage:
    """`replicas` are the numbers of the nodes that hold the partition, the preferred leader first.

    With `voters_apart` the nodes that hold the partition have no vote: their disks hold no metadata.
    """

    def __init__(
        self,
        seed: int,
        topic_settings: Mapping[str, str],
        *,
        voters_apart: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.world = World(seed)
        self.world.network.late_share = 0.0
        count = 2 * VOTERS if voters_apart else VOTERS
        self.replicas = (4, 5, 6) if voters_apart else (1, 2, 3)
        self.written: list[int] = []  # acknowledged, in order
        self._nodes = {
            number: Node(
                self.world,
                number,
                {
                    **node_settings(number, VOTERS, flushes=False, snapshot_bytes=6_000),
                    **(settings or {}),
                },
            )
            for number in range(1, count + 1)
        }
        self._client = self.world.start("client", "client")
        self._servers = bootstrap(count)
        self.start(*self._nodes)
        self._complete(self._create(topic_settings))

    # ---- what tales do

    def write(self, count: int = 60, *, is_idempotent: bool = True) -> None:
        """Have records acknowledged by all in-sync replicas; an idempotent producer needs the controller to begin."""
        values = range(len(self.written), len(self.written) + count)
        self._complete(self._send(values, is_idempotent=is_idempotent))
        self.written += values

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            self._nodes[number].kill()

    def lose_power(self, *numbers: int) -> None:
        """Machines go dark at the same moment: writes that were not flushed may be gone."""
        for number in numbers:
            self._nodes[number].kill(loses_power=True)

    def lose_disk(self, *numbers: int) -> None:
        """Processes die, and their disks come back empty."""
        for number in numbers:
            self._nodes[number].kill()
            self._nodes[number].wipe()

    def damage_last_record(self, number: int) -> None:
        """A process dies, and the last byte that its log had is another one from then on."""
        node = self._nodes[number]
        node.kill()
        paths = [path for path in node.disk.files_named((".log",)) if f"/{TOPIC}-0/" in path]
        node.disk.content(max(path for path in paths if node.disk.content(path)))[-1] ^= 1

    def flush_on_acks_all(self, value: str) -> None:
        """Change the setting while the brokers run, and give them a second to act on it."""
        change = ottla.ConfigChange("ottla.flush.on.acks.all", value)
        self._complete(self._alter(change))
        self.world.run(lambda: False, self.world.now + 1)

    def start(self, *numbers: int) -> None:
        """Start nodes, and wait until all nodes that run are ready, if enough of them vote."""
        for number in numbers:
            self._nodes[number].start()
        voting = sum(self._nodes[number].is_running for number in range(1, VOTERS + 1))
        if voting > VOTERS // 2:
            self._await(lambda: all(node.is_ready for node in self._nodes.values() if node.is_running))

    def restart(self) -> None:
        """Start every node that is down."""
        self.start(*(number for number, node in self._nodes.items() if not node.is_running))

    def await_isr(self, *numbers: int) -> None:
        """Wait until exactly these replicas are in sync."""
        self._await(lambda: set(self._partition().isr) == set(numbers))

    def await_nobody(self) -> None:
        """The partition has no leader, and gets none while nothing changes."""
        self._await(lambda: self._partition().leader == NO_LEADER)
        ends = self._log_ends()
        is_led = self.world.run(lambda: self._partition().leader != NO_LEADER, self.world.now + WAIT_S)
        assert not is_led, f"led by {self._partition().leader}"
        assert self._log_ends() == ends, "a replica was truncated while nobody leads"

    def await_leader(self, *allowed: int) -> None:
        """Wait until a replica that is there leads; it must be one of these."""
        self._await(self._is_led)
        assert self._partition().leader in allowed

    def node(self, number: int) -> Node:
        return self._nodes[number]

    @property
    def leader(self) -> Node:
        """The node that leads the partition, as soon as one does."""
        self._await(self._is_led)
        return self._nodes[self._partition().leader]

    def leader_now(self) -> Node:
        """The node that leads the partition; for code that runs within the world."""
        return self._nodes[self._partition().leader]

    def await_that(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        self._await(condition)

    def delete_before(self, offset: int) -> None:
        """Delete records, as DeleteRecords does."""
        self._complete(self._delete(offset))

    def create_topic(self, name: str) -> None:
        """Change the metadata; who cannot have it changed is told after a few seconds."""
        self._complete(self._create_small(name))

    def read(self, start: int = 0) -> list[int]:
        """All records that a consumer gets from an offset on."""
        return self._complete(self._consume(start))

    # ---- how tales end

    def nothing_is_lost(self) -> None:
        """Every acknowledged record is there, all replicas come back in sync, and writes go on."""
        self.restart()
        self.await_isr(*self.replicas)
        assert self._read() == self.written
        self.write(10)
        assert self._read() == self.written

    def waits_for_an_operator(self) -> None:
        """Nobody leads until an operator elects the best replica; then its records are there, and writes go on."""
        self.restart()
        self.await_nobody()
        kept = self._complete(self._recover())
        self.await_isr(*self.replicas)
        self.written = self.written[:kept]
        assert self._read() == self.written
        self.write(10)
        assert self._read() == self.written

    def nothing_is_lost_once_decided(self) -> None:
        """Whether or not an operator has to elect the best replica, every acknowledged record is there."""
        self.restart()
        if not self.world.run(self._is_led, self.world.now + WAIT_S):
            self._complete(self._recover())
        self.nothing_is_lost()

    def the_most_complete_leads(self) -> None:
        """When all replicas are back the most complete one leads by itself, and writes go on."""
        self.restart()
        kept = max(self._log_ends())
        self._await(self._is_led)
        self.await_isr(*self.replicas)
        self.written = self.written[:kept]
        assert self._read() == self.written
        self.write(10)
        assert self._read() == self.written

    def end(self) -> None:
        """Throw the world away."""
        self.world.bury()

    # ---- the machinery

    def _partition(self) -> PartitionImage:
        images = [
            node.broker.quorum.image
            for node in self._nodes.values()
            if node.is_running and node.broker is not None and node.is_started
        ]
        return max(images, key=lambda image: image.last_offset).topics_by_name[TOPIC].partitions[0]

    def _is_led(self) -> bool:
        leader = self._partition().leader
        return leader != NO_LEADER and self._nodes[leader].is_ready

    def _log_ends(self) -> list[int]:
        ends = []
        for number in self.replicas:
            broker = self._nodes[number].broker
            if broker is not None and self._nodes[number].is_ready:
                hosted = broker.partitions.find(TOPIC, 0)
                ends.append(-1 if hosted is None else hosted.log.log_end_offset)
        return ends

    def _read(self) -> list[int]:
        """All records that a consumer gets, from the beginning."""
        return self._complete(self._consume())

    def _await(self, condition: Callable[[], bool]) -> None:
        assert self.world.run(condition, self.world.now + _DEADLINE_S), f"now {self._partition()}"

    def _complete(self, work: Coroutine[Any, Any, T]) -> T:
        result: T = self.world.complete(self._client, work, self.world.now + _DEADLINE_S)
        return result

    async def _create(self, settings: Mapping[str, str]) -> None:
        topic = ottla.NewTopic(TOPIC, configs=settings, assignments={0: self.replicas})
        async with ottla.Admin(self._servers) as admin:
            ottla.succeeded(await admin.create_topics([topic]))

    async def _create_small(self, name: str) -> None:
        async with ottla.Admin(self._servers, timeout_ms=3_000) as admin:
            ottla.succeeded(await admin.create_topics([ottla.NewTopic(name, partitions=1)]))

    async def _alter(self, change: ottla.ConfigChange) -> None:
        topic = ottla.ConfigResource(ottla.ResourceType.TOPIC, TOPIC)
        async with ottla.Admin(self._servers) as admin:
            ottla.succeeded(await admin.alter_configs({topic: [change]}))

    async def _send(self, values: range, *, is_idempotent: bool) -> None:
        runtime = runtime_of(self._client, None, lambda: 1.0)
        async with ottla.Producer(
            self._servers, runtime=runtime, enable_idempotence=is_idempotent, **PRODUCER
        ) as producer:
            for value in values:
                await producer.send(TOPIC, str(value), partition=0)

    async def _delete(self, offset: int) -> None:
        async with ottla.Admin(self._servers) as admin:
            ottla.succeeded(await admin.delete_records({PARTITION: offset}))

    async def _consume(self, start: int = 0) -> list[int]:
        values: list[int] = []
        async with ottla.Admin(self._servers) as admin:
            ends = await admin.list_offsets({PARTITION: ottla.OffsetSpec.LATEST})
        end = ottla.succeeded(ends)[PARTITION].offset
        async with ottla.Consumer(self._servers, **CONSUMER) as consumer:
            consumer.assign([PARTITION])
            if start:
                consumer.seek(PARTITION, start)
            while len(values) < end - start:
                values += [int(record.value or b"") for record in await consumer.poll(timeout_ms=500)]
        return values

    async def _recover(self) -> int:
        """Elect the best replica, as `ottla cluster recover --yes` does; the end of its log."""
        async with ottla.Admin(self._servers) as admin:
            found = (await admin.describe_leaderless([TOPIC]))[PARTITION]
            assert not found.silent
            ottla.succeeded(await admin.elect_replicas({PARTITION: found.candidates[0].node_id}))
        best = found.candidates[0]
        assert not any(best.gives_up.values())
        return best.log_end_offset
