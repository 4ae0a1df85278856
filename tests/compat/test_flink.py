"""Flink's Kafka sink with exactly-once delivery: the job is killed, and goes on from its last checkpoint (EOS-1, EOS-2).

Flink commits the transactions of a checkpoint when the checkpoint is complete; a job that goes on commits those that
were left open, by producers that take transactions over, and aborts all later ones.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from bench.apache.maven import CACHE, CannotFetchError, dependency, fetch_jars
from tests.conftest import start

from ottla import succeeded
from ottla.blocking import Admin, Consumer, Producer
from ottla.client.requests.topics import NewTopic
from ottla.localcluster.broker_process import BrokerProcess, running
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition

VERSION, CONNECTOR = "2.0.1", "4.0.1-2.0"
SOURCE = Path(__file__).with_name("flink") / "Copy.java"
HOME = CACHE / f"flink-{VERSION}"
DEPENDENCIES = (
    *(
        dependency("org.apache.flink", name, VERSION)
        for name in ("flink-clients", "flink-streaming-java", "flink-connector-base")
    ),
    dependency("org.apache.flink", "flink-connector-kafka", CONNECTOR),
    dependency("org.slf4j", "slf4j-simple", "1.7.36"),
)
JAVA = (
    *("-Xms128m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    *("--add-opens", "java.base/java.util=ALL-UNNAMED", "--add-opens", "java.base/java.lang=ALL-UNNAMED"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
SETTINGS = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}
PARTITIONS, RECORDS, KILLS = 2, 200, 2
DEADLINE_S = 150.0

pytestmark = pytest.mark.timeout(600)


def compiled() -> str:
    """The class path of the compiled job."""
    jars, classes = fetch_jars(f"Flink {VERSION}", HOME, DEPENDENCIES), HOME / "classes"
    if shutil.which("javac") is None:
        raise CannotFetchError("the job needs javac; it is not on the PATH")
    program = classes / "Copy.class"
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S)
    return f"{jars}/*:{classes}"


class Job:
    """The job as a process, which begins where its last checkpoint was complete."""

    def __init__(self, class_path: str, bootstrap: str, directory: Path) -> None:
        checkpoints = directory / "checkpoints"
        self.output = directory / "output"
        complete = sorted(checkpoints.glob("*/chk-*/_metadata"), key=lambda each: each.stat().st_mtime_ns)
        last = [str(complete[-1].parent)] if complete else []
        command = ["java", *JAVA, f"-Djava.io.tmpdir={directory}", "-cp", class_path, "Copy"]
        with self.output.open("ab") as sink:
            self._process = subprocess.Popen(
                [*command, bootstrap, "from", "to", str(checkpoints), *last], stdout=sink, stderr=sink
            )

    def check(self) -> None:
        assert self._process.poll() is None, self.output.read_text()[-6_000:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def broker(target: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(start(target, tmp_path / "data", SETTINGS)) as process:
        yield process


def test_each_record_is_copied_once_by_a_job_that_is_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    try:
        class_path = compiled()
    except CannotFetchError as reason:
        pytest.skip(f"NO FLINK: {reason}")
    with Admin(broker.bootstrap) as admin:
        succeeded(admin.create_topics([NewTopic(name, PARTITIONS) for name in ("from", "to")]))
    fed = 0
    job: Job | None = None
    try:
        for is_last in (*[False] * KILLS, True):
            fed = feed(broker.bootstrap, fed)
            job = Job(class_path, broker.bootstrap, tmp_path)
            wait_until(partial(has_copied, broker.bootstrap, job, fed), "all is copied", DEADLINE_S)
            if not is_last:
                fed = feed(broker.bootstrap, fed)  # some of these are in open transactions
            job.kill()
    finally:
        if job is not None:
            job.kill()
    assert committed(broker.bootstrap) == Counter(str(number) for number in range(fed))


def feed(bootstrap: str, first: int) -> int:
    """More records; how many there are now."""
    with Producer(bootstrap) as producer:
        for number in range(first, first + RECORDS):
            producer.send_soon("from", str(number), partition=number % PARTITIONS)
    return first + RECORDS


def has_copied(bootstrap: str, job: Job, wanted: int) -> bool:
    job.check()
    return committed(bootstrap).total() >= wanted


def committed(bootstrap: str) -> Counter[str]:
    """All records up to the last stable offsets."""
    found: Counter[str] = Counter()
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("to", partition) for partition in range(PARTITIONS)])
        is_over = False
        while not is_over:
            records = consumer.poll(timeout_ms=300)
            found.update(bytes(each.value or b"").decode() for each in records)
            is_over = not records and not any(consumer.lag().values())
    return found
