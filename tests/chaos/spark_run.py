"""One run: a cluster, producers, a streaming query on Spark, kills one after the other, and a verdict over
the table.

Three judges look at the end: the journals of the producers beside the log (`checker.py`), the table's files
beside the journals without Spark, and `ottla audit`, the command that a user would run. Where the query writes to a
topic, its committed records stand in the place of the table, and the two topics are compared record by record.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.chaos.checker import judge
from tests.chaos.history import Acked, History, Sent, read_journal
from tests.chaos.replicas import differing_replicas, read_log
from tests.chaos.spark_checkpoint import Checkpoint, table_rows
from tests.chaos.spark_driver import Driver, Job
from tests.chaos.spark_kills import KINDS, Kill, Scene, carry_out, make_whole, plan
from tests.chaos.spark_query import TO_TOPIC
from tests.chaos.spark_sink import SinkCheckpoint, committed_rows, compared
from tests.chaos.workload import ConfluentProducer
from tests.clusters import ObservedCluster, observed_cluster
from tests.repository import ROOT

TOPIC: Final = "chaos"
OUTPUT: Final = "chaos-output"
RECOVERY_DEADLINE_S: Final = 180.0  # a driver, its executors and a cluster that start on two busy cores
_AUDIT_DEADLINE_S: Final = 300.0
SETTINGS: Final = {"log.segment.bytes": "1048576", "replica.lag.time.max.ms": "5000"}

# A driver's start is most of a short run: one is enough.
SHORT_KINDS: Final = (
    "the driver and its executors",
    "an executor",
    "the Python workers",
    "a leader",
    "two brokers of three",
)

Audit = Callable[[str, str, Path], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of a run. Records per second are of each producer, over all partitions."""

    kills: int
    seed: int
    partitions: int = 3
    producers: int = 2
    rate: float = 150.0
    master: str = "local-cluster[2,1,640]"
    kinds: tuple[str, ...] = tuple(KINDS)
    to_topic: bool = False  # exactly once into a topic, instead of a table


@dataclass(frozen=True, slots=True)
class Injected:
    """A kill as it went. `back_s` is how long it took until the query had ended a batch that began after
    it.
    """

    kill: Kill
    victims: str
    is_hit: bool
    back_s: float | None
    failures: int  # how often the query ended by itself, and was started again as an operator would


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a verdict rests on."""

    options: Options
    injected: tuple[Injected, ...]
    batches: int
    starts: int
    sent: int
    acked: int
    rows: int
    anomalies: tuple[str, ...]  # in the log, as producers see it
    table_faults: tuple[str, ...]  # in the table, beside the journals
    audit: Mapping[str, Any]
    seconds: float

    @property
    def is_clean(self) -> bool:
        return not self.anomalies and not self.table_faults and bool(self.audit["equal"])


class Story:
    """The run while it goes on."""

    def __init__(
        self, directory: Path, cluster: ObservedCluster, options: Options, say: Callable[[str], None]
    ):
        self.table, checkpoint = directory / "table", directory / "checkpoint"
        self._cluster, self._options, self._say = cluster, options, say
        self.files = Checkpoint(checkpoint, self.table)
        output = str(self.table)
        if options.to_topic:
            self.files, output = SinkCheckpoint(checkpoint, cluster.bootstrap), TO_TOPIC + OUTPUT
        job = Job(cluster.bootstrap, TOPIC, output, checkpoint, options.master)
        self.driver = Driver(job, directory / "driver.output")

    def kill_all(self) -> list[Injected]:
        """All kills, and the time to get over each of them."""
        self.driver.start()
        self._await_batch(self.files.ended)
        injected = []
        for kill in plan(self._options.seed, self._options.kills, self._options.kinds):
            injected.append(self._inject(kill))
            self._say(_line(injected[-1], self._options.kills))
        return injected

    def drain(self, ends: Mapping[int, int]) -> None:
        """Let the query reach the end of the log, and stop it."""
        deadline = time.monotonic() + RECOVERY_DEADLINE_S
        while self.files.processed(TOPIC) != ends:
            assert time.monotonic() < deadline, f"the query is at {self.files.processed(TOPIC)} of {ends}"
            self._restart_if_ended()
            time.sleep(0.05)
        assert self.driver.stop() == 0, self.driver.said()[-2000:]

    def _inject(self, kill: Kill) -> Injected:
        scene = Scene(self._cluster, TOPIC, self.driver, self.files)
        carry_out(scene, kill)
        begun, batch, failures = time.monotonic(), self.files.begun, 0
        if kill.waits:
            make_whole(self._cluster)
            failures = self._await_batch(batch)
        back_s = time.monotonic() - begun if kill.waits else None
        return Injected(kill, " ".join(scene.notes), scene.is_hit, back_s, failures)

    def _await_batch(self, batch: int) -> int:
        """Wait until a later batch is over; answers how often the query had to be started for that."""
        failures, deadline = 0, time.monotonic() + RECOVERY_DEADLINE_S
        while self.files.ended <= batch:
            assert time.monotonic() < deadline, f"no batch after {batch}:\n{self.driver.said()[-3000:]}"
            failures += self._restart_if_ended()
            time.sleep(0.02)
        return failures

    def _restart_if_ended(self) -> bool:
        if not self.driver.has_ended:
            return False
        last = [line for line in self.driver.said().splitlines() if "THE QUERY FAILED" in line]
        self._say(f"     the query ended by itself: {last[-1] if last else self.driver.said()[-300:]}")
        self.driver.end()
        self.driver.start()
        return True


def run(directory: Path, options: Options, say: Callable[[str], None], audit: Audit | None = None) -> Report:
    """Do it all. Raises AssertionError where something cannot go on; the report says what was wrong
    otherwise.
    """
    begun = time.monotonic()
    journals = directory / "journals"
    journals.mkdir(parents=True)
    with observed_cluster(directory / "cluster", settings=SETTINGS) as cluster:
        for name in (TOPIC, OUTPUT)[: 1 + options.to_topic]:
            cluster.create_topic(name, options.partitions)
        story = Story(directory, cluster, options, say)
        reach = {"bootstrap.servers": cluster.bootstrap}
        producers = [
            ConfluentProducer(name, reach, TOPIC, options.partitions, options.rate, journals)
            for name in _names(options)
        ]
        for producer in producers:
            producer.start()
        try:
            try:
                injected = story.kill_all()
            finally:
                for producer in producers:
                    producer.stop_producing()
            make_whole(cluster)
            cluster.await_in_sync(TOPIC)
            log = read_log(cluster, TOPIC)
            say("The kills are over; draining.")
            story.drain({partition: len(records) for partition, records in log.items()})
        finally:
            story.driver.end()
            for producer in producers:
                producer.finish({}, 30.0)
        say("Auditing.")
        if options.to_topic:
            rows = list(committed_rows(cluster.bootstrap, OUTPUT, options.partitions))
            audited = compared(log, rows)
        else:
            rows = list(table_rows(story.table))
            audited = (audit or audit_command)(cluster.bootstrap, TOPIC, story.table)
        directories = {node_id: cluster.directory_of(node_id) for node_id in cluster.ids}
    histories = [read_journal(journals / f"{name}.journal") for name in _names(options)]
    anomalies = [str(each) for each in judge(log, histories)] + differing_replicas(directories, TOPIC)
    return Report(
        options=options,
        injected=tuple(injected),
        batches=story.files.ended + 1,
        starts=story.driver.starts,
        sent=_count(histories, Sent),
        acked=_count(histories, Acked),
        rows=len(rows),
        anomalies=tuple(anomalies),
        table_faults=tuple(table_faults(rows, histories)),
        audit=audited,
        seconds=time.monotonic() - begun,
    )


def _names(options: Options) -> list[str]:
    return [f"producer{number}" for number in range(1, options.producers + 1)]


def audit_command(bootstrap: str, topic: str, table: Path) -> Mapping[str, Any]:
    """`ottla audit`, as its user runs it."""
    command = [sys.executable, "-m", "ottla.cli.main", "audit", topic, str(table)]
    done = subprocess.run(
        [*command, "--bootstrap", bootstrap, "--json"],
        capture_output=True,
        text=True,
        timeout=_AUDIT_DEADLINE_S,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode in (0, 1), f"{done.returncode}: {done.stdout}{done.stderr}"
    found: Mapping[str, Any] = json.loads(done.stdout)
    assert found["equal"] == (done.returncode == 0)
    return found


def table_faults(rows: Iterable[tuple[int, int, str]], histories: Iterable[History]) -> list[str]:
    """What was acknowledged and is not in the table exactly once, at its place. What nobody answered may be
    there, once.
    """
    found = Counter(rows)
    acked = {
        (event.partition, event.offset, event.value)
        for history in histories
        for event in history.events
        if isinstance(event, Acked)
    }
    values = Counter(value for _, _, value in found.elements())
    faults = [f"{each} was acknowledged, and is not in the table" for each in sorted(acked - set(found))]
    faults += [f"{value} is in the table {times} times" for value, times in values.items() if times > 1]
    return faults


def _count(histories: Iterable[History], kind: type[Sent] | type[Acked]) -> int:
    """Different records: one that had no room in the client is written down as sent again."""
    return len({event.value for history in histories for event in history.events if isinstance(event, kind)})


def _line(injected: Injected, total: int) -> str:
    kill = injected.kill
    missed = "" if injected.is_hit else " (missed)"
    back = f", back after {injected.back_s:.1f} s" if injected.back_s is not None else ""
    return f"{kill.number:>4}/{total} {kill.kind}, {kill.moment}{missed}: {injected.victims or '-'}{back}"


def short_options() -> Options:
    """Five kills for a test suite: one of each thing that can be killed, with no more starts of a driver than
    that takes.
    """
    return Options(
        kills=5, seed=3, partitions=2, producers=1, master="local-cluster[1,2,640]", kinds=SHORT_KINDS
    )
