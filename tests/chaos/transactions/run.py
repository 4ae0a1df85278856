"""One run: a cluster, transactional clients at work, faults one after the other, and an audit of it all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chaos.replicas import differing_replicas
from tests.chaos.run import IN_SYNC_DEADLINE_S, Injected, Options, await_work, chaos_cluster, inject_all
from tests.chaos.transactions.client import SOURCE, TARGET, Places, SharedBook, TransactionalClient
from tests.chaos.transactions.confluent import ConfluentProcessor, ConfluentReader, ConfluentWriter
from tests.chaos.transactions.java import JavaWriter
from tests.chaos.transactions.own import OwnProcessor, OwnReader, OwnWriter
from tests.chaos.workload import GROUP, TRANSACTIONAL_IDS
from tests.clusters import ObservedCluster, eventually
from tests.simulation.stories.ledger import Partition
from tests.simulation.stories.transactions.audit import TransactionAudit
from tests.simulation.stories.transactions.fates import Fates, fates_in

from ottla.blocking import Admin
from ottla.client.requests.group_offsets import CommittedOffset

_STOP_DEADLINE_S: Final = 150.0  # longer than any call of a client that is under way
_END_DEADLINE_S: Final = 120.0
Reader = ConfluentReader | OwnReader


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a verdict rests on."""

    options: Options
    injected: tuple[Injected, ...]
    transactions: Mapping[str, int]  # by their end, as their producers were told
    records: int
    read: int
    failures: Mapping[str, int]
    broken: tuple[str, ...]
    differing: tuple[str, ...]
    seconds: float

    @property
    def is_clean(self) -> bool:
        return not self.broken and not self.differing


class _Cast:
    """All clients of a run."""

    def __init__(self, places: Places, journals: Path, *, with_java: bool) -> None:
        self.book = SharedBook()
        shared = (places, self.book, journals)
        self.writers: list[TransactionalClient] = [
            ConfluentWriter(TRANSACTIONAL_IDS[0], *shared),
            OwnWriter(TRANSACTIONAL_IDS[1], *shared),
            *([JavaWriter(TRANSACTIONAL_IDS[4], *shared)] if with_java else []),
        ]
        self.processors: list[TransactionalClient] = [
            ConfluentProcessor(TRANSACTIONAL_IDS[2], *shared, group=GROUP),
            OwnProcessor(TRANSACTIONAL_IDS[3], *shared, group=GROUP),
        ]
        self.readers: list[Reader] = [
            ConfluentReader("confluent-committed", *shared, committed=True),
            ConfluentReader("confluent-uncommitted", *shared, committed=False),
            OwnReader("own-committed", *shared, committed=True),
        ]

    @property
    def all(self) -> list[TransactionalClient]:
        return [*self.writers, *self.processors, *self.readers]


def run(directory: Path, options: Options, say: Callable[[str], None]) -> Report:
    """Do it all. Raises AssertionError where something cannot go on."""
    begun = time.monotonic()
    journals = directory / "journals"
    journals.mkdir(parents=True)
    with chaos_cluster(directory / "cluster", options) as cluster:
        for topic in (SOURCE, TARGET):
            cluster.create_topic(topic, options.partitions, min(options.brokers, 3))
        cast = _Cast(Places(cluster.bootstrap, options.partitions), journals, with_java=options.with_java)
        try:
            injected, offsets = _work(cluster, cast, options, say)
        except BaseException:
            for client in cast.all:
                client.abandon()
            raise
        directories = {node_id: cluster.directory_of(node_id) for node_id in cluster.ids}
    differing = [each for topic in (SOURCE, TARGET) for each in differing_replicas(directories, topic)]
    logs = logs_in(directories.values(), options.partitions)
    return Report(
        options=options,
        injected=tuple(injected),
        transactions=Counter(each.end.name.lower() for each in cast.book.transactions),
        records=len(cast.book.of_record),
        read=sum(len(each.names) for each in (*cast.book.runs, *cast.book.uncommitted_runs)),
        failures=cast.book.failures,
        broken=tuple(broken_in(cast.book, logs, offsets)),
        differing=tuple(differing),
        seconds=time.monotonic() - begun,
    )


def _work(
    cluster: ObservedCluster, cast: _Cast, options: Options, say: Callable[[str], None]
) -> tuple[list[Injected], dict[int, int]]:
    """Let the clients work and the faults happen; the faults, and the offsets of the group at the end."""
    for client in cast.all:
        client.start()
    await_work(cluster, options.partitions)
    injected = inject_all(cluster, options, say)
    say("The faults are over; waiting for the writers.")
    _stop(cast.writers)
    for topic in (SOURCE, TARGET):
        cluster.await_in_sync(topic, IN_SYNC_DEADLINE_S)
    say("Waiting for the processors.")
    end = _EndOfWork(cluster, options.partitions)
    _await(end.is_processed, "everything is processed", cast.processors)
    _stop(cast.processors)
    _await(lambda: not end.open_transactions(), "no transaction is open", [])
    ends = end.ends_of_committed()
    say("Waiting for the readers.")
    for reader in cast.readers:
        _await(lambda reader=reader: reader.readings.has_read(ends), f"{reader.name} has read all", [reader])  # type: ignore[misc]
    _stop(cast.readers)
    return injected, end.committed_offsets()


def _await(condition: Callable[[], bool], what: str, needed: Iterable[TransactionalClient]) -> None:
    """Wait for a condition, or for the failure of a client that it needs."""

    def holds() -> bool:
        for client in needed:
            assert client.worker.failure is None, f"{client.name}: {client.worker.failure}"
        return condition()

    eventually(holds, what, _END_DEADLINE_S)


def _stop(clients: Iterable[TransactionalClient]) -> None:
    for client in clients:
        client.abandon()
    for client in clients:
        client.stop(_STOP_DEADLINE_S)


class _EndOfWork:
    """How far a cluster is whose faults are over: its leaders' files, and the offsets of the group."""

    def __init__(self, cluster: ObservedCluster, partitions: int) -> None:
        self._cluster = cluster
        self._partitions = partitions

    def is_processed(self) -> bool:
        """Whether the group has committed offsets past every committed record of the source."""
        offsets, ends = self.committed_offsets(), self.ends_of_committed()
        return not self.open_transactions() and all(
            offsets.get(partition, 0) >= end for (topic, partition), end in ends.items() if topic == SOURCE
        )

    def ends_of_committed(self) -> dict[Partition, int]:
        """The end offset of the last committed record of each partition."""
        return {place: max(fates.committed, default=-1) + 1 for place, fates in self._fates().items()}

    def open_transactions(self) -> list[Partition]:
        return [place for place, fates in self._fates().items() if fates.open]

    def committed_offsets(self) -> dict[int, int]:
        with Admin(self._cluster.bootstrap) as admin:
            found = admin.list_group_offsets(GROUP)
        return {
            each.partition: committed.offset
            for each, committed in found.items()
            if isinstance(committed, CommittedOffset)
        }

    def _fates(self) -> dict[Partition, Fates]:
        cluster = self._cluster
        return {
            (topic, index): fates_in(
                log_bytes(cluster.directory_of(cluster.leader_of(topic, index)), (topic, index))
            )
            for topic in (SOURCE, TARGET)
            for index in range(self._partitions)
        }


def log_bytes(directory: Path, place: Partition) -> bytes:
    """The segments of a partition in the data directory of a broker."""
    segments = sorted((directory / f"{place[0]}-{place[1]}").glob("*.log"))
    return b"".join(segment.read_bytes() for segment in segments)


def logs_in(directories: Iterable[Path], partitions: int) -> dict[Partition, Fates]:
    """Each partition as a broker that holds it has it; the brokers are stopped, and their replicas equal."""
    places = [(topic, index) for topic in (SOURCE, TARGET) for index in range(partitions)]
    found: dict[Partition, Fates] = {}
    for place in places:
        copies = (log_bytes(directory, place) for directory in directories)
        found[place] = fates_in(max(copies, key=len))
    return found


def broken_in(book: SharedBook, logs: Mapping[Partition, Fates], offsets: Mapping[int, int]) -> list[str]:
    """Everything that the audit finds."""
    audit = TransactionAudit(book, logs)
    audit.check()
    audit.check_outputs(SOURCE, TARGET, offsets)
    for reading in book.uncommitted_runs:
        audit.check_uncommitted(reading)
    return audit.broken
