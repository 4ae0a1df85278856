"""One SparkSession and one broker for all tests of Spark: a JVM takes ten seconds to start, and most of a
gigabyte.

- `spark`: the session, `local[2]`; its temporary views are gone after each test, and no streaming query
  outlives one.
- `broker`: a broker in this process, in a thread of its own. Py4J waits without the interpreter's lock, so
  that the broker answers while a test waits for Spark. Tests keep apart by the names of their topics; who
  breaks a broker starts one of their own.
- `cluster_of_workers`: a standalone cluster, for those that run jobs on other machines.
- `new_topic`: makes a topic with a name of its own, filled or empty.
- `ottla_read`, `ottla_write`: Spark's reader and writer with the broker's address filled in.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from tests.spark.standalone import SHORT_LIVED_JVMS, StandaloneCluster, standalone_cluster

import ottla.spark
import ottla.testing
from ottla.blocking import Producer
from ottla.spark.runtime.class_archive import archive_path, make_archive
from ottla.spark.runtime.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

_numbers = count(1)
PATIENCE_S = 400


def pytest_configure(config: pytest.Config) -> None:
    """PySpark 4.3 warns of pandas 3 wherever a Python function meets Arrow; nothing here uses pandas."""
    config.addinivalue_line(
        "filterwarnings", "ignore:PySpark does not yet fully support pandas:FutureWarning"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Patience: a test that is broken off in the middle of a call leaves the session's connection, and so all
    later tests, in pieces.
    """
    for item in items:
        if "tests/spark/" in item.path.as_posix() and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


def start_session(directory: Path, master: str = "local[2]", **conf: Any) -> SparkSession:
    """A session for tests: all that it writes is below a directory."""
    settings = {
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.streaming.checkpointLocation": str(directory / "checkpoints"),
        "spark.local.dir": str(directory / "local"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory / 'derby'} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    return ottla.spark.session("ottla-tests", master, **{**settings, **conf})


@pytest.fixture(scope="module", autouse=True)
def _short_lived_jvms() -> Iterator[None]:
    """Commands under test start a JVM each: from an archive that is made once for an environment, with
    nothing prepared for a long life. (By module: a directory without `__init__.py` is no package to pytest,
    and the variable would stay for the tools of Kafka, which say that they have picked it up.)
    """
    java = find_java()
    if not archive_path(java).exists():
        make_archive(java)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SHORT_LIVED_JVMS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="package")
def cluster_of_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A standalone master with two workers: three JVMs, for all tests that need one."""
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of this run; its JVM is gone at the end."""
    running = start_session(tmp_path_factory.mktemp("spark"))
    try:
        yield running
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # Py4J leaves its sockets to the collector
            ottla.spark.stop(running)


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No streaming query outlives its test."""
    yield
    if "spark" in request.fixturenames:
        session: SparkSession = request.getfixturevalue("spark")
        for query in session.streams.active:
            query.stop()
        session.streams.resetTerminated()


@pytest.fixture(scope="session")
def broker() -> Iterator[ottla.testing.EmbeddedBroker]:
    """The broker of this run."""
    with ottla.testing.broker() as running:
        yield running


class NewTopic(Protocol):
    """Makes a topic, and answers its name; `values` go round its partitions, `records` are a producer's
    arguments.
    """

    def __call__(
        self,
        partitions: int = 1,
        *,
        values: Iterable[bytes] = (),
        records: Iterable[dict[str, Any]] = (),
        configs: dict[str, str] | None = None,
        stem: str | None = None,
    ) -> str: ...


@pytest.fixture
def new_topic(broker: ottla.testing.EmbeddedBroker, request: pytest.FixtureRequest) -> NewTopic:
    """A function that makes topics, named after the test."""
    named_after = re.sub(r"[^a-z0-9_]+", "-", request.node.name.lower())[:60].strip("-")

    def make(
        partitions: int = 1,
        *,
        values: Iterable[bytes] = (),
        records: Iterable[dict[str, Any]] = (),
        configs: dict[str, str] | None = None,
        stem: str | None = None,
    ) -> str:
        name = broker.create_topic(f"{stem or named_after}-{next(_numbers)}", partitions, configs=configs)
        placed = [{"value": value, "partition": at % partitions} for at, value in enumerate(values)]
        produce(broker.bootstrap, name, [*placed, *records])
        return name

    return make


def produce(bootstrap: str, topic: str, records: Iterable[dict[str, Any]]) -> None:
    """Send records, each given as a producer's arguments, and wait until the broker has them."""
    listed = list(records)
    if listed:
        with Producer(bootstrap) as producer:
            for record in listed:
                producer.send_soon(topic, **record)
                producer.drain()
            producer.flush()


def produce_transactions(bootstrap: str, topic: str, *transactions: tuple[Iterable[bytes], bool]) -> None:
    """Write the values of each transaction to partition 0, and commit or abort it."""
    with Producer(bootstrap, transactional_id=f"writer-of-{topic}") as producer:
        for some, is_committed in transactions:
            with contextlib.suppress(_AbortedError), producer.transaction():
                for value in some:
                    producer.send_soon(topic, value, partition=0)
                producer.flush()
                if not is_committed:
                    raise _AbortedError


class _AbortedError(Exception):
    """Leaves a transaction, which aborts it."""


@pytest.fixture
def ottla_read(spark: SparkSession, broker: ottla.testing.EmbeddedBroker) -> Callable[..., DataFrameReader]:
    """`ottla_read(subscribe="orders").load()`: a batch reader of the broker."""

    def reader(**options: Any) -> DataFrameReader:
        return spark.read.format("ottla").options(**{"kafka.bootstrap.servers": broker.bootstrap, **options})

    return reader


@pytest.fixture
def ottla_write(broker: ottla.testing.EmbeddedBroker) -> Callable[..., DataFrameWriter]:
    """`ottla_write(frame, topic="orders").save()`: a batch writer to the broker."""

    def writer(frame: DataFrame, **options: Any) -> DataFrameWriter:
        address = {"kafka.bootstrap.servers": broker.bootstrap}
        return frame.write.format("ottla").options(**address, **options).mode("append")

    return writer


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has no Java, and everything else: Spark's scripts and Hadoop run
    small tools.
    """
    tools = tmp_path / "bin"
    tools.mkdir()
    for directory in map(Path, os.environ["PATH"].split(os.pathsep)):
        for file in directory.iterdir() if directory.is_dir() else ():
            if not file.name.startswith("java") and not (tools / file.name).is_symlink():
                (tools / file.name).symlink_to(file)
    names = ("HOME", "LANG", "LC_ALL", "PYTHONPATH", "TMPDIR")
    kept = {name: value for name, value in os.environ.items() if name in names}
    return {**kept, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
