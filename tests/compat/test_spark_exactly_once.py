"""A Spark query with exactly-once delivery copies a topic of Apache Kafka, and its process ends at any moment; Java's
consumer reads each record once (PIPE-3).

The same steps of the commit, one by one and without Spark: `tests/spark/test_sink_ledger.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bench.apache.maven import CannotFetchError
from tests.compat.foreign_clients import java_driver
from tests.compat.transactional_client import TransactionalClient
from tests.conftest import start
from tests.spark.conftest import produce, start_session
from tests.spark.test_sink_exactly_once import ROWS, copy_and_die

import ottla.spark
from ottla.blocking import Admin
from ottla.client.requests.topics import NewTopic
from ottla.localcluster.broker_process import BrokerProcess, running
from ottla.localcluster.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A test that is broken off leaves the session, and so all later tests, in pieces.
pytestmark = pytest.mark.timeout(400)

_numbers = count(1)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_session(tmp_path_factory.mktemp("exactly-once"))
    yield session
    ottla.spark.stop(session)


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start("apache", tmp_path_factory.mktemp("apache") / "data")) as process:
        yield process


@pytest.fixture(scope="module")
def java(apache: BrokerProcess) -> Iterator[TransactionalClient]:
    try:
        driver = java_driver()
    except CannotFetchError as reason:
        pytest.skip(f"NO CLIENT OF JAVA: {reason}")
    try:
        yield TransactionalClient(driver, apache.bootstrap)
    finally:
        driver.kill()


@pytest.mark.parametrize(
    "dies",
    [
        "when a task has written",
        "before the commit",
        "after the decision",
        "between two of the commits",
        "after the commit",
    ],
)
def test_a_query_whose_process_ends_at_any_moment_writes_each_record_once(
    spark: SparkSession, apache: BrokerProcess, java: TransactionalClient, tmp_path: Path, dies: str
) -> None:
    source, target = (f"{kind}-{next(_numbers)}" for kind in ("source", "target"))
    with Admin(apache.bootstrap) as admin:
        admin.create_topics([NewTopic(source, 2), NewTopic(target, 3)])
    produce(
        apache.bootstrap, source, [{"value": b"%d" % each, "partition": each % 2} for each in range(ROWS)]
    )
    copy_and_die(spark, apache.bootstrap, (source, target), tmp_path, dies)
    wait_until(lambda: len(java.values(target)) >= ROWS, "all rows are committed")
    assert Counter(java.values(target)) == Counter(str(each) for each in range(ROWS))
