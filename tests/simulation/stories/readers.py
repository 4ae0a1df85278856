"""Clients that read: alone, going back and reading again; and as members of a group that commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.stories.clients import Client
from tests.simulation.stories.ledger import Content
from tests.simulation.stories.settings import CONSUMER, MEMBER, RACKS

import ottla
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.simulation.stories.ledger import Ledger, Partition
    from tests.simulation.world.process import ProcessLoop
    from tests.simulation.world.scheduler import World

    from ottla.client.fetching.plan.record_batch import ConsumerRecord

# A commit that took longer was sent more than once, or stood still on its way.
_SURE_WITHIN_S: Final = 0.5


class Reader(Client):
    """Reads all partitions without a group; goes back at times, and must find the same again."""

    def __init__(
        self, world: World, name: str, servers: str, ledger: Ledger, partitions: Callable[[], list[Partition]]
    ) -> None:
        self._partitions = partitions
        self._assigned: list[Partition] = []
        self._expected: dict[Partition, int] = {}
        self._goes_back = True
        super().__init__(world, name, servers, ledger)

    def read_to_the_end(self) -> None:
        """Go back no more."""
        self._goes_back = False

    @property
    def is_at_the_end(self) -> bool:
        """Whether it was handed all that anybody knows of in its partitions."""
        ends = self.ledger.known_end
        return all(self._expected.get(each, 0) >= ends[each] for each in self._assigned)

    async def live(self, process: ProcessLoop, life: int) -> None:
        dice = self.world.dice
        limit = dice.choice((200, 2_000, 1 << 20))
        # In a rack, it reads from followers where they hold what it asks for.
        rack = dice.choice(("", *RACKS))
        async with ottla.Consumer(
            self.servers, max_partition_fetch_bytes=limit, client_rack=rack, **CONSUMER, **self.access
        ) as consumer:
            expected: dict[Partition, int] = {}
            self._assigned = self._partitions()
            self._expected = expected
            consumer.assign([ottla.TopicPartition(*each) for each in self._assigned])
            while not self.is_stopping:
                records = await consumer.poll(max_records=dice.randrange(1, 400), timeout_ms=1_000)
                self._check(records, expected)
                if expected and dice.random() < 0.05 and self._goes_back:
                    place = dice.choice(list(expected))
                    expected[place] = int(expected[place] * dice.random())
                    consumer.seek(ottla.TopicPartition(*place), expected[place])

    def _check(self, records: Iterable[ConsumerRecord], expected: dict[Partition, int]) -> None:
        ledger = self.ledger
        for record in records:
            place = record.topic, record.partition
            ledger.read(place, record.offset, content_in(record))
            if record.offset != expected.get(place, 0):
                ledger.skipped(self.name, place, expected.get(place, 0), record.offset)
            expected[place] = record.offset + 1


class _Share:
    """The partitions that a group gave to one member, and what the member was handed of them."""

    def __init__(self, name: str, group: str, ledger: Ledger) -> None:
        self._name = name
        self._group = group
        self._ledger = ledger
        self._promised: dict[Partition, int] = {}
        self._expected: dict[Partition, int] = {}
        self.uncommitted: dict[ottla.TopicPartition, int] = {}

    def assigned(self, partitions: frozenset[ottla.TopicPartition]) -> None:
        for topic, index in partitions:
            self._expected.pop((topic, index), None)
            committed = self._ledger.committed.get((self._group, (topic, index)), 0)
            self._promised[topic, index] = committed

    def revoked(self, partitions: frozenset[ottla.TopicPartition]) -> None:
        for partition in partitions:
            self.uncommitted.pop(partition, None)
            self._promised.pop((partition.topic, partition.partition), None)
            self._expected.pop((partition.topic, partition.partition), None)

    def take(self, record: ConsumerRecord) -> None:
        """The member was handed a record: the next one of a partition that it has."""
        place, offset, ledger = (record.topic, record.partition), record.offset, self._ledger
        expected = self._expected.get(place)
        if expected is not None:
            if offset != expected:
                ledger.skipped(self._name, place, expected, offset)
        elif place in self._promised:
            ledger.begins(self._group, place, self._promised.pop(place), offset)
        else:
            ledger.broken.append(f"{self._name} was given offset {offset} of {place}, which it does not have")
        self._expected[place] = offset + 1
        ledger.process(self._group, place, offset, content_in(record))
        self.uncommitted[ottla.TopicPartition(*place)] = offset + 1


class Member(Client):
    """A member of a group: reads its share, and commits what it has read, or has it committed automatically."""

    def __init__(
        self,
        world: World,
        name: str,
        servers: str,
        ledger: Ledger,
        *,
        group: str,
        topics: list[str],
        strategy: str,
        is_static: bool,
        is_automatic: bool,
    ) -> None:
        self._group = group
        self._topics = topics
        self._strategy = strategy
        self._instance = name if is_static else None
        self._is_automatic = is_automatic
        super().__init__(world, name, servers, ledger)

    async def live(self, process: ProcessLoop, life: int) -> None:
        dice = self.world.dice
        async with ottla.Consumer(
            self.servers,
            group_id=self._group,
            group_instance_id=self._instance,
            partition_assignment_strategy=[self._strategy],
            client_id=self.name,
            enable_auto_commit=self._is_automatic,
            **MEMBER,
            **self.access,
        ) as consumer:
            share = _Share(self.name, self._group, self.ledger)
            consumer.subscribe(self._topics, on_assigned=share.assigned, on_revoked=share.revoked)
            while not self.is_stopping:
                for record in await consumer.poll(max_records=dice.randrange(1, 100), timeout_ms=700):
                    share.take(record)
                if not self._is_automatic:
                    await self._commit(consumer, share.uncommitted)

    async def _commit(self, consumer: ottla.Consumer, uncommitted: dict[ottla.TopicPartition, int]) -> None:
        """Commit, and try again later what is refused, as long as the partitions are this member's."""
        if not uncommitted:
            return
        offsets = {(each.topic, each.partition): offset for each, offset in uncommitted.items()}
        began = self.world.now
        before = self.ledger.begin_commit(self._group, offsets)
        try:
            await consumer.commit(uncommitted)
        except KafkaError:
            self.ledger.counts["refused commits"] += 1
            return
        self.ledger.commit(self._group, offsets, before, is_sure=self.world.now - began < _SURE_WITHIN_S)
        uncommitted.clear()


def content_in(record: ConsumerRecord) -> Content:
    """What a consumer was handed."""
    return Content(
        record.key, record.value or b"", tuple((name, value or b"") for name, value in record.headers)
    )
