"""One run: a cluster, clients at work, faults one after the other, and a verdict over all that the clients
saw.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.chaos.checker import Anomaly, Counts, Log, count, judge
from tests.chaos.faults import KINDS, LONG, Fault, Kind, carry_out, plan
from tests.chaos.history import Acked, History, read_journal
from tests.chaos.java_workload import JOURNALS, JavaWorkload
from tests.chaos.machines.cluster import MachineCluster, machine_cluster
from tests.chaos.replicas import LATEST, differing_replicas, read_log
from tests.chaos.secured import READER, WRITER, SecuredCluster, reach_of, secured_cluster
from tests.chaos.tiered import TOPIC_SETTINGS, broker_settings, differing_scans, store_of
from tests.chaos.workload import GROUP, Client, ConfluentMember, ConfluentProducer, ConfluentReader
from tests.clusters import ObservedCluster, eventually, observed_cluster
from tests.integration.peer import list_offset

TOPIC: Final = "chaos"
IN_SYNC_DEADLINE_S: Final = 60.0  # the published bound for a cluster whose faults are over
_FINISH_DEADLINE_S: Final = 90.0
_BETWEEN_FAULTS_S: Final = 0.3
_USUAL_GAP_NS: Final = 10_000_000  # what lies between two acknowledgements when nothing is wrong
# The one setting that differs from the defaults: segments roll within a run of minutes.
SETTINGS: Final = {"log.segment.bytes": "1048576"}
# What a run of seconds needs besides: followers leave the ISR, and groups begin, while it lasts.
_SHORT_SETTINGS: Final = {
    "replica.lag.time.max.ms": "5000",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}

SHORT_KINDS: Final = (
    "kill -9 a leader",
    "kill -9 the controller",
    "kill -9 the group's coordinator",
    "kill -9 two of three",
    "kill -9 all at once",
    "stop a leader",
    "pause a leader",
    "cut one way",
    "isolate a leader",
    "disk of a leader full",
)


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of a run. Records per second are of each producer, over all partitions."""

    faults: int
    seed: int
    brokers: int = 3
    partitions: int = 6
    producers: int = 2
    rate: float = 150.0
    with_java: bool = False
    kinds: Mapping[str, Kind] = field(default_factory=lambda: KINDS)
    most_s: float = LONG[1]  # that one fault lasts
    settings: Mapping[str, str] = field(default_factory=dict)
    on_machines: bool = False  # brokers with networks and file systems of their own
    is_secure: bool = False  # certificates, logins and rights, which change meanwhile
    is_tiered: bool = False  # an object store, which goes away and changes bytes


def short_options(*, with_java: bool = False) -> Options:
    """A run of ten short faults, for a test suite."""
    kinds = {name: KINDS[name] for name in SHORT_KINDS}
    return Options(
        faults=len(SHORT_KINDS),
        seed=11,
        partitions=3,
        with_java=with_java,
        kinds=kinds,
        most_s=1.0,
        settings=_SHORT_SETTINGS,
    )


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault as it went: from when to when, whom it hit, and how long until all replicas were in sync
    again.
    """

    fault: Fault
    victims: str
    begun_ns: int
    ended_ns: int
    in_sync_s: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a verdict rests on."""

    options: Options
    injected: tuple[Injected, ...]
    counts: Counts
    anomalies: tuple[Anomaly, ...]
    differing: tuple[str, ...]
    interruptions_s: tuple[float, ...]  # of writes, one for each fault
    seconds: float
    histories: tuple[History, ...]

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept. A record that a producer gave up was never promised."""
        return not self.anomalies and not self.differing


def run(directory: Path, options: Options, say: Callable[[str], None]) -> Report:
    """Do it all. Raises AssertionError where something cannot go on; the report says what was wrong
    otherwise.
    """
    begun = time.monotonic()
    journals = directory / "journals"
    journals.mkdir(parents=True)
    with chaos_cluster(directory / "cluster", options) as cluster:
        topic_settings = TOPIC_SETTINGS if options.is_tiered else {}
        cluster.create_topic(TOPIC, options.partitions, min(options.brokers, 3), **topic_settings)
        if isinstance(cluster, SecuredCluster):
            cluster.give_rights(TOPIC)
        clients = _clients(cluster, options, journals)
        try:
            injected, log = _work(cluster, clients, options, say)
            differing = differing_scans(cluster, TOPIC, log) if options.is_tiered else []
        except BaseException:
            _each(clients, lambda client: client.abandon())
            raise
        directories = {node_id: cluster.directory_of(node_id) for node_id in cluster.ids}
        if isinstance(cluster, MachineCluster):  # whose disks end with the block
            cluster.stop_all()
            differing += differing_replicas(directories, TOPIC)
    if not options.on_machines:
        differing += differing_replicas(directories, TOPIC, has_common_start=not options.is_tiered)
    histories = _histories(journals, options)
    return Report(
        options=options,
        injected=tuple(injected),
        counts=count(histories),
        anomalies=tuple(judge(log, histories)),
        differing=tuple(differing),
        interruptions_s=tuple(interruptions(histories, injected)),
        seconds=time.monotonic() - begun,
        histories=tuple(histories),
    )


def _work(
    cluster: ObservedCluster, clients: list[Client], options: Options, say: Callable[[str], None]
) -> tuple[list[Injected], Log]:
    """Let the clients work and the faults happen; the faults, and the records that are there at the end."""
    for client in clients:
        client.start()
    await_work(cluster, options.partitions)
    injected = inject_all(cluster, options, say)
    say("The faults are over; waiting for the producers.")
    _each(clients, lambda client: client.stop_producing())
    cluster.await_in_sync(TOPIC, IN_SYNC_DEADLINE_S)
    log = read_log(cluster, TOPIC)
    ends = {partition: len(records) for partition, records in log.items()}
    _each(clients, lambda client: client.finish(ends, _FINISH_DEADLINE_S))
    return injected, log


def chaos_cluster(data: Path, options: Options) -> contextlib.AbstractContextManager[ObservedCluster]:
    settings = {**SETTINGS, **options.settings}
    if options.is_tiered:
        store_of(data).mkdir(parents=True)
        settings |= broker_settings(data)
    if options.on_machines:
        return machine_cluster(data, options.brokers, settings)
    if options.is_secure:
        return secured_cluster(data, options.brokers, settings)
    return observed_cluster(data, brokers=options.brokers, has_proxy=True, settings=settings)


def _clients(cluster: ObservedCluster, options: Options, journals: Path) -> list[Client]:
    topic, partitions = TOPIC, options.partitions
    writes, reads = (reach_of(cluster, user) for user in (WRITER, READER))
    producers = [
        ConfluentProducer(f"producer{number}", writes, topic, partitions, options.rate, journals)
        for number in range(1, options.producers + 1)
    ]
    readers: list[ConfluentReader | ConfluentMember] = [
        ConfluentReader("reader", reads, topic, partitions, journals),
        ConfluentMember("member", reads, topic, journals),
    ]
    if isinstance(cluster, SecuredCluster):
        cluster.tell(WRITER, *(each.log_in_as for each in producers))
        cluster.tell(READER, *(each.log_in_as for each in readers))
    clients: list[Client] = [*producers, *readers]
    if options.with_java:
        clients.append(JavaWorkload(cluster.bootstrap, topic, partitions, options.rate, journals))
    return clients


def _each(clients: Iterable[Client], do: Callable[[Client], None]) -> None:
    """All of them, also if one fails; the first failure counts."""
    failures: list[BaseException] = []
    for client in clients:
        try:
            do(client)
        except (AssertionError, OSError) as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def await_work(cluster: ObservedCluster, partitions: int) -> None:
    """Until every partition has records: a fault before that could not take any."""

    def is_at_work() -> bool:
        with cluster.peer(cluster.leader_of(TOPIC, partitions - 1)) as peer:
            return list_offset(peer, TOPIC, LATEST, partition=partitions - 1).offset > 0

    eventually(is_at_work, "the producers have written")


def inject_all(cluster: ObservedCluster, options: Options, say: Callable[[str], None]) -> list[Injected]:
    injected = []
    faults = plan(options.seed, options.faults, options.partitions, options.kinds, options.most_s)
    for fault in faults:
        injected.append(_inject(cluster, fault, options.kinds))
        say(_line(injected[-1], len(faults)))
        time.sleep(_BETWEEN_FAULTS_S)  # so that there is something between two faults that could be lost
    return injected


def _inject(cluster: ObservedCluster, fault: Fault, kinds: Mapping[str, Kind]) -> Injected:
    begun = time.monotonic_ns()
    victims = carry_out(cluster, TOPIC, fault, kinds)
    in_sync_s = cluster.await_in_sync(TOPIC, IN_SYNC_DEADLINE_S) if fault.waits else None
    return Injected(fault, victims, begun, time.monotonic_ns(), in_sync_s)


def _line(injected: Injected, total: int) -> str:
    in_sync = f", in sync {injected.in_sync_s:.1f} s later" if injected.in_sync_s is not None else ""
    return f"{injected.fault.number:>4}/{total} {injected.fault.kind}: {injected.victims}{in_sync}"


def _histories(journals: Path, options: Options) -> list[History]:
    groups: dict[str, str | None] = {f"producer{number}": None for number in range(1, options.producers + 1)}
    groups |= {"reader": None, "member": GROUP, **(JOURNALS if options.with_java else {})}
    return [read_journal(journals / f"{name}.journal", group) for name, group in groups.items()]


def interruptions(histories: Iterable[History], injected: Sequence[Injected]) -> list[float]:
    """For each fault, the longest time that some partition went without an acknowledgement, in seconds."""
    acks: dict[int, list[int]] = defaultdict(list)
    for history in histories:
        for event in history.events:
            if isinstance(event, Acked):
                acks[event.partition].append(event.at_ns)
    gaps: list[tuple[int, int]] = []
    for times in acks.values():
        ordered = sorted(times)
        gaps += [gap for gap in pairwise(ordered) if gap[1] - gap[0] > _USUAL_GAP_NS]
    return [
        max((end - begin for begin, end in gaps if begin < each.ended_ns and end > each.begun_ns), default=0)
        / 1e9
        for each in injected
    ]
