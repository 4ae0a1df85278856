"""Kafka Streams with exactly_once_v2: the application is killed within transactions, and moves to another machine."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import signal
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from bench.apache.kafka import TEST_HEAP, VERSION
from bench.apache.maven import CACHE, CannotFetchError, dependency, fetch_jars
from tests.clients.families.driver_family import Driver
from tests.compat.foreign_clients import java_driver
from tests.compat.transactional_client import COMMITTED, UNCOMMITTED, TransactionalClient
from tests.conftest import start

import ottla
import ottla.blocking
from ottla.localcluster.broker_process import BrokerProcess
from ottla.localcluster.waiting import wait_until

SOURCE = Path(__file__).with_name("streams") / "WordCount.java"
HOME = CACHE / f"kafka-streams-{VERSION}"
DEPENDENCIES = (
    dependency("org.apache.kafka", "kafka-streams", VERSION),
    dependency("org.slf4j", "slf4j-simple", "1.7.36"),
)
DEADLINE_S = 90.0
APPLICATION, LINES, COUNTS = "word-count", "lines", "counts"
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
WORDS = ("of", "and", "the", "castle", "village", "surveyor", "Barnabas", "Frieda", "Klamm")


def compiled() -> str:
    """The class path of the compiled application."""
    jars, classes = fetch_jars(f"Kafka Streams {VERSION}", HOME, DEPENDENCIES), HOME / "classes"
    if shutil.which("javac") is None:
        raise CannotFetchError("the application needs javac; it is not on the PATH")
    program = classes / "WordCount.class"
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S)
    return f"{jars}/*:{classes}"


class Application:
    """A process with the word count in it; a machine is a directory with its state."""

    def __init__(self, bootstrap: str, machine: Path) -> None:
        machine.mkdir(exist_ok=True)
        self.output = machine / "output"
        command = ["java", *TEST_HEAP, f"-Djava.io.tmpdir={machine}"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", compiled(), "WordCount"]
        command += [bootstrap, APPLICATION, LINES, COUNTS, str(machine / "state")]
        with self.output.open("ab") as sink:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sink, stderr=sink)

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def close(self) -> int:
        """End in an orderly way; the exit status."""
        self._process.communicate(timeout=DEADLINE_S)
        return self._process.returncode


class Story:
    """A broker, an application and the words that it was given."""

    def __init__(self, target: str, directory: Path, driver: Driver) -> None:
        self._directory = directory
        self._lines = itertools.count()
        self._broker: BrokerProcess = start(target, directory / "data", SETTINGS)
        self.java = TransactionalClient(driver, self._broker.bootstrap)
        self.application: Application | None = None
        self.expected: Counter[str] = Counter()

    def end(self) -> None:
        if self.application is not None:
            self.application.kill()
        self._broker.kill()

    def run_application(self, machine: str) -> None:
        self.application = Application(self._broker.bootstrap, self._directory / machine)

    def feed(self, count: int) -> None:
        """More lines of three words each."""
        with ottla.blocking.Producer(self._broker.bootstrap) as producer:
            for number in itertools.islice(self._lines, count):
                words = [WORDS[(number * step) % len(WORDS)] for step in (1, 2, 5)]
                self.expected.update(words)
                producer.send_soon(LINES, " ".join(words).encode(), partition=number % 2)

    def until_all_is_counted(self) -> None:
        def is_counted() -> bool:
            assert self.application is not None
            assert self.application.is_running(), self.application.output.read_text()[-4_000:]
            return len(self.java.values(COUNTS)) >= self.expected.total()

        wait_until(is_counted, "every word is counted", DEADLINE_S)

    def freeze_within_a_transaction(self) -> None:
        """Feed lines until the application is stopped with counts in a transaction that is open."""
        assert self.application is not None

        def is_within() -> bool:
            return self.java.end(COUNTS, UNCOMMITTED) > self.java.end(COUNTS, COMMITTED)

        def is_frozen_within() -> bool:
            assert self.application is not None
            self.feed(5)
            if is_within():
                self.application.freeze()
                if is_within():
                    return True
                self.application.go_on()
            return False

        wait_until(is_frozen_within, "the application is frozen within a transaction", DEADLINE_S)

    def kill_application(self) -> None:
        assert self.application is not None
        self.application.kill()
        self.application = None

    def counts(self) -> Mapping[str | None, list[int]]:
        """The counts of each word, in the order in which readers of committed records see them."""
        found = defaultdict(list)
        for word, count in itertools.chain.from_iterable(self.java.read(COUNTS)):
            found[word].append(int(count))
        return found


@pytest.fixture
def story(target: str, tmp_path: Path) -> Iterator[Story]:
    with contextlib.ExitStack() as ends:
        try:
            compiled()
            driver = java_driver()
        except CannotFetchError as reason:
            pytest.skip(f"NO KAFKA STREAMS: {reason}")
        ends.callback(driver.kill)
        told = Story(target, tmp_path, driver)
        ends.callback(told.end)
        for topic in (LINES, COUNTS):
            told.java.create_topic(topic, 2)
        yield told


@pytest.mark.timeout(600)  # four JVMs start one after the other
def test_words_are_counted_exactly_once_by_an_application_that_is_killed(story: Story) -> None:
    story.feed(20)
    story.run_application("first machine")
    story.until_all_is_counted()

    story.freeze_within_a_transaction()
    story.kill_application()
    story.run_application("first machine")  # has the same transactional id, and fences itself
    story.until_all_is_counted()

    story.freeze_within_a_transaction()
    story.kill_application()
    story.run_application("second machine")  # a new one: the broker ends the transaction after its timeout
    story.until_all_is_counted()

    assert story.application is not None
    assert story.application.close() == 0

    assert story.counts() == {word: list(range(1, count + 1)) for word, count in story.expected.items()}
    assert len(story.java.values(COUNTS, UNCOMMITTED)) > story.expected.total()  # kills did abort counts
