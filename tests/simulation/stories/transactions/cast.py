"""Which stories have transactions, who takes part in them, and how such a story ends.

Whether a story has transactions is drawn apart from everything else: other stories are told as if there were none.
In some of them epochs end after a few transactions instead of 32766, so that producer ids are exhausted again and
again; in some, writers also write to a topic that is deleted and created again.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from random import Random
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from tests.simulation.stories.audit import log_bytes
from tests.simulation.stories.transactions.audit import TransactionAudit
from tests.simulation.stories.transactions.book import Book
from tests.simulation.stories.transactions.fates import fates_in
from tests.simulation.stories.transactions.processors import Processor
from tests.simulation.stories.transactions.readers import CommittedReader
from tests.simulation.stories.transactions.stability import Stability
from tests.simulation.stories.transactions.writers import LastTransaction, TransactionalWriter

import ottla
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.transaction import ending, initialisation, metadata
from ottla.transaction.metadata import LAST_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.stories.clients import Client
    from tests.simulation.stories.ledger import Partition
    from tests.simulation.stories.story import Story
    from tests.simulation.stories.transactions.fates import Fates

_SHARE: Final = 0.25
_SOURCE: Final = "x0"
_TARGET: Final = "x1"
_GROUP: Final = "xg"
# The last epochs of stories: mostly Kafka's.
_LAST_EPOCHS: Final = (LAST_EPOCH, LAST_EPOCH, 4, 9)


class Cast:
    """The transactional part of one story; in most stories it is empty."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.is_there = Random(f"story with transactions {story.seed}").random() < _SHARE
        self.partition_counts = {_SOURCE: 2, _TARGET: 2} if self.is_there else {}
        rare = Random(f"rare transactions {story.seed}")
        self.last_epoch = rare.choice(_LAST_EPOCHS) if self.is_there else LAST_EPOCH
        self._reaches_fleeting = rare.random() < 0.5
        self.clients: list[Client] = []
        self.writers: list[Client] = []
        self._processors: list[Processor] = []
        self._readers: list[CommittedReader] = []
        self._book = Book()
        self._stability = Stability(story, (_SOURCE, _TARGET))
        self._offsets: dict[int, int] = {}

    @property
    def partitions(self) -> list[Partition]:
        """All partitions that are written in transactions."""
        return [(topic, index) for topic, count in self.partition_counts.items() for index in range(count)]

    @property
    def topics(self) -> list[ottla.NewTopic]:
        return [ottla.NewTopic(topic, partitions=count) for topic, count in self.partition_counts.items()]

    @contextmanager
    def epochs_end(self) -> Iterator[None]:
        """While a story is told, with the last epoch that was drawn for it."""
        with ExitStack() as patches:
            for module in (metadata, ending, initialisation):
                patches.enter_context(patch.object(module, "LAST_EPOCH", self.last_epoch))
            yield

    def enter(self) -> None:
        """Start the clients."""
        if not self.is_there:
            return
        story, book = self._story, self._book
        world, servers, ledger, dice = story.world, story.servers, story.ledger, story.world.dice
        sources = [place for place in self.partitions if place[0] == _SOURCE]
        targets = [place for place in self.partitions if place[0] == _TARGET]
        ids = dice.choice((("x0", "x1"), ("x0", "x0")))
        # The second writer mixes its records with those of processors.
        for number, places in enumerate((sources, self.partitions)):
            self.writers.append(
                TransactionalWriter(
                    world,
                    f"x{number}",
                    servers,
                    ledger,
                    book,
                    transactional_id=ids[number],
                    places=places,
                    reaches_fleeting=self._reaches_fleeting,
                )
            )
        self._processors = [
            Processor(
                world,
                f"xp{n}",
                servers,
                ledger,
                book,
                group=_GROUP,
                source=_SOURCE,
                places=targets,
                sources=sources,
            )
            for n in range(dice.randrange(1, 3))
        ]
        self._readers = [CommittedReader(world, "xr", servers, ledger, book, self.partitions)]
        self.clients = [*self.writers, *self._processors, *self._readers]
        self._stability.look()

    def leave(self, until: Callable[[Callable[[], bool], float, str, float], bool]) -> bool:
        """Writers are done: their transactions end by themselves, and what they wrote is processed and read."""
        if not self.is_there:
            return True
        story = self._story
        if not until(lambda: self._is_stable((_SOURCE,)), 30, "all transactions of writers end", 0.1):
            return False
        last = LastTransaction(
            story.world,
            "xlast",
            story.servers,
            story.ledger,
            self._book,
            transactional_id="x0",
            places=self.partitions,
        )
        if not until(lambda: last.is_done, 30, "a last transaction is committed", 0.02):
            return False
        if not until(self._is_processed, 60, "all committed records are processed", 0.5):
            return False
        for processor in self._processors:
            processor.stop()
        processors = self._processors
        if not until(lambda: all(each.is_done for each in processors), 30, "processors stop", 0.02):
            return False
        if not until(lambda: self._is_stable(None), 30, "no transaction stays open", 0.1):
            return False
        if not until(self._is_read, 30, "committed records are read to the end", 0.1):
            return False
        story.administrator.order(self._ask_offsets)
        return until(lambda: story.administrator.is_idle, 30, "offsets of transactions are told", 0.02)

    def check(self) -> None:
        """Compare what clients were told with the logs."""
        if not self.is_there:
            return
        logs = self._fates()
        audit = TransactionAudit(self._book, logs)
        audit.check()
        audit.check_outputs(_SOURCE, _TARGET, self._offsets)
        self._story.ledger.broken += [*audit.broken, *self._stability.compare(logs)]

    async def _ask_offsets(self, admin: ottla.Admin) -> None:
        for partition, committed in (await admin.list_group_offsets(_GROUP)).items():
            if isinstance(committed, CommittedOffset):
                self._offsets[partition.partition] = committed.offset

    def _is_stable(self, topics: tuple[str, ...] | None) -> bool:
        """Whether no leader of a partition of these topics, or of any, has an open transaction."""
        for node in self._story.nodes:
            assert node.broker is not None
            for hosted in node.broker.partitions:
                if topics is not None and hosted.topic not in topics:
                    continue
                if hosted.replica.is_leader and hosted.last_stable_offset < hosted.log.log_end_offset:
                    return False
        return True

    def _is_read(self) -> bool:
        return all(
            reader.positions.get(place, 0) >= self._end_of(place)
            for reader in self._readers
            for place in self.partitions
        )

    def _end_of(self, place: Partition) -> int:
        leader = self._story.leader_of(place)
        hosted = leader.broker.partitions.find(*place) if leader is not None and leader.broker else None
        return 0 if hosted is None else hosted.log.log_end_offset

    def _is_processed(self) -> bool:
        logs = self._fates()
        audit = TransactionAudit(self._book, logs)
        ends = dict.fromkeys(range(self.partition_counts[_SOURCE]), 1 << 60)
        audit.check_outputs(_SOURCE, _TARGET, ends)
        return not audit.broken

    def _fates(self) -> dict[Partition, Fates]:
        return {place: fates_in(self._log_of(place)) for place in self.partitions}

    def _log_of(self, place: Partition) -> bytes:
        leader = self._story.leader_of(place)
        return b"" if leader is None else log_bytes(leader.disk, f"/data/{leader.number}", place)
