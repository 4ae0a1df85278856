"""Topics as tables with a real broker: exactly once in three formats, and one query over table and log.

Requirements: PIPE-5.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow.compute as pc
import pytest
from tests.integration.lake_place import FORMATS, LakePlace, all_of, orders

import ottla.lake
import ottla.testing
from ottla.blocking import Producer
from ottla.lake.plan.conditions import ConditionError
from ottla.lake.plan.next_commit import Cadence, LostRecordsError, WrongTopicError
from ottla.lake.topic import Cluster, NoTopicError
from ottla.lake.topic_queries import QueryError
from ottla.lake.writing.job import TableWriter


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.testing.EmbeddedBroker]:
    with ottla.testing.broker() as running:
        yield running


@pytest.fixture
def place(broker: ottla.testing.EmbeddedBroker, tmp_path: Path) -> LakePlace:
    return LakePlace(broker, tmp_path)


@pytest.mark.parametrize("table_format", FORMATS)
def test_table_and_log_are_one_whatever_is_committed(place: LakePlace, table_format: str) -> None:
    place.enable(format=table_format, value="json")
    place.produce(orders(0, 30))
    assert (place.rows(), place.table_rows()) == (all_of(30), 0)
    writer = place.writer(records_per_commit=16, records_per_task=5)
    assert [each.rows for each in writer.run()] == [16, 14]
    place.produce(orders(30, 40, country="SI"))
    assert (place.rows(), place.table_rows()) == (all_of(40), 30)
    assert place.sql("SELECT count(*) AS n, count(country) AS c, sum(id) AS s FROM TOPIC") == [
        {"n": 40, "c": 10, "s": 780}
    ]
    assert [each.rows for each in writer.run()] == [10]
    assert (place.rows(), place.table_rows()) == (all_of(40), 40)
    assert place.sql("SELECT count(country) AS c FROM TOPIC") == [{"c": 10}]


@pytest.mark.parametrize("table_format", FORMATS)
def test_bad_records_are_dead_letters_once_and_stop_nothing(place: LakePlace, table_format: str) -> None:
    place.enable(format=table_format, value="json")
    place.produce([*orders(0, 4), b"junk", None, b'{"id":"text"}'])
    (done,) = place.writer().run()
    assert (done.rows, done.dead_letters) == (5, 2)
    assert place.sql(
        "SELECT \"offset\", value, reason LIKE '%JSON%' AS r FROM TOPIC__dead_letters ORDER BY ALL"
    ) == [
        {"offset": 2, "value": b"junk", "r": True},
        {"offset": 3, "value": b'{"id":"text"}', "r": True},
    ]
    assert len(place.rows()) == 5


# Imports once, and forks a writer for each line: it is killed at the step that the line names.
WRITERS = """
import os, signal, sys
import deltalake, pyiceberg.catalog.sql, pyarrow.dataset, pyarrow.json
from ottla.lake.topic import Cluster
from ottla.lake.warehouse import Warehouse
from ottla.lake.writing.job import Limits, TableWriter

def write(place, topic, bootstrap, step):
    def die(name):
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    warehouse, limits = Warehouse(place), Limits(records_per_commit=10)
    definition = warehouse.definition(topic)
    list(TableWriter(warehouse, definition, Cluster(bootstrap), limits=limits, on_step=die).run())

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        write(*line.rstrip().split("|"))
        os._exit(0)
    print(-os.waitpid(child, 0)[1], flush=True)
"""


@pytest.fixture(scope="module")
def writers() -> Iterator[subprocess.Popen[str]]:
    """A process whose children write tables, and are killed."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_writer_that_is_killed_at_any_step_leaves_neither_gap_nor_duplicate(
    place: LakePlace, table_format: str, writers: subprocess.Popen[str]
) -> None:
    place.enable(format=table_format, value="json")
    place.produce([*orders(0, 20), b"junk", *orders(20, 25), b"junk"])
    assert writers.stdin is not None
    assert writers.stdout is not None
    for step in ("planned", "files written", "dead letters committed", "committed"):
        line = "|".join([place.warehouse.location, place.topic, place.broker.bootstrap, step])
        print(line, file=writers.stdin, flush=True)
        assert writers.stdout.readline() == f"{-signal.SIGKILL}\n"
        assert len(place.rows()) == 25
    list(place.writer(records_per_commit=10).run())
    assert len(set(place.rows())) == len(place.rows()) == place.table_rows() == 25
    assert place.sql("SELECT count(*) AS n FROM TOPIC__dead_letters") == [{"n": 2}]


def test_a_second_writer_loses_cleanly_and_goes_on(place: LakePlace) -> None:
    definition = place.enable()
    place.produce(orders(0, 20))
    other = place.writer()

    def meanwhile(step: str) -> None:
        if step == "files written" and place.table_rows() == 0:
            list(other.run())
            place.produce(orders(20, 30))

    writer = TableWriter(place.warehouse, definition, Cluster(place.broker.bootstrap), on_step=meanwhile)
    assert [each.rows for each in writer.run()] == [10]
    assert (place.rows(), place.table_rows()) == (all_of(30), 30)


def test_filters_columns_and_time_travel_work_on_both_sides_of_the_seam(place: LakePlace) -> None:
    place.enable(value="json")
    place.produce(orders(0, 20))
    list(place.writer().run())
    between = datetime.now(UTC) + timedelta(milliseconds=1)
    while datetime.now(UTC) <= between:  # the records after this have a later millisecond
        pass
    place.produce(orders(20, 30))
    assert place.rows(where="partition = 1 AND offset >= 8") == [(1, at) for at in range(8, 15)]
    assert len(place.rows(where="id >= 18 AND id < 22")) == 4
    assert len(place.rows(where=[("id", "in", [1, 29])])) == 2
    assert len(place.rows(where=pc.field("amount") > 14.0)) == 1
    assert len(place.rows(at=between)) == 20
    assert len(place.rows(where=[("timestamp", ">=", between)])) == 10
    assert place.rows(at={0: 3, 1: 12}) == [(0, at) for at in range(3)] + [(1, at) for at in range(12)]
    chosen = ottla.lake.scan(
        place.topic,
        bootstrap=place.broker.bootstrap,
        warehouse=place.warehouse.location,
        columns=["amount", "id"],
    )
    assert chosen.schema.names == ["amount", "id"]
    assert duckdb.execute("SELECT sum(id) FROM chosen").fetchall() == [(435,)]
    with pytest.raises(ConditionError, match="no column nope; there are topic"):
        place.rows(where="nope = 1")
    with pytest.raises(ConditionError, match="cannot be compared"):
        place.rows(where="id = 'text'")


def test_aborted_transactions_are_in_neither_table_nor_query(place: LakePlace) -> None:
    place.enable(format="parquet")
    with Producer(place.broker.bootstrap, transactional_id=place.topic) as producer:
        with producer.transaction():
            producer.send_soon(place.topic, b"kept", partition=0)
        with contextlib.suppress(KeyError), producer.transaction():
            producer.send_soon(place.topic, b"gone", partition=0)
            producer.flush()
            raise KeyError
        assert place.rows() == [(0, 0)]
        assert [each.rows for each in place.writer().run()] == [1]
        with producer.transaction():
            producer.send_soon(place.topic, b"open", partition=0)
            producer.flush()
            assert list(place.writer().run()) == []
    assert len(place.rows()) == 2


def test_a_topic_without_a_table_is_its_log(place: LakePlace) -> None:
    place.produce([b"a", b"b", b"c"])
    assert place.rows() == all_of(3)
    assert place.sql("SELECT decode(value) AS v FROM TOPIC WHERE partition = 1") == [{"v": "b"}]


def test_what_cannot_be_is_refused_in_words(place: LakePlace) -> None:
    with pytest.raises(QueryError, match="only queries that read"):
        place.sql("DROP TABLE TOPIC")
    with pytest.raises(QueryError, match="only queries that read"):
        place.sql("COPY TOPIC TO '/tmp/x.csv'")
    with pytest.raises(QueryError, match="one query, not 2"):
        place.sql("SELECT 1; SELECT 2")
    with pytest.raises(NoTopicError, match="no topic nothing_here"):
        place.sql("SELECT * FROM nothing_here")
    with pytest.raises(QueryError, match="nocolumn"):
        place.sql("SELECT nocolumn FROM TOPIC")
    with pytest.raises(QueryError, match="disabled"):
        place.sql("SELECT * FROM read_csv('/etc/passwd')")


def test_lost_records_and_another_topic_of_the_same_name_stop_the_writer(place: LakePlace) -> None:
    place.enable(format="parquet")
    place.produce(orders(0, 10))
    list(place.writer().run())
    place.produce(orders(10, 20))
    with ottla.blocking.Admin(place.broker.bootstrap) as admin:
        admin.delete_records({ottla.TopicPartition(place.topic, 0): 8})
        with pytest.raises(LostRecordsError, match="offsets 5 to 7"):
            list(place.writer().run())
        with pytest.raises(LostRecordsError, match="neither in the table nor in the log"):
            place.rows()
        assert sum(each.rows for each in place.writer(accept_loss=True).run()) == 7
        admin.delete_topics([place.topic])
        place.broker.create_topic(place.topic, 2)
    with pytest.raises(WrongTopicError, match="deleted and created again"):
        list(place.writer().run())


def test_a_table_from_the_latest_takes_only_what_comes_later(place: LakePlace) -> None:
    place.enable(start="latest")
    place.produce(orders(0, 10))
    assert list(place.writer().run()) == []
    place.produce(orders(10, 14))
    assert [each.rows for each in place.writer().run()] == [4]
    assert place.rows() == [(0, 5), (0, 6), (1, 5), (1, 6)]


def test_a_continuous_writer_waits_for_a_cluster_that_is_away(tmp_path: Path) -> None:
    with ottla.testing.broker(tmp_path / "data") as broker:
        place = LakePlace(broker, tmp_path / "lake")
        place.enable(format="parquet")
        place.produce(orders(0, 10))
        commits = place.writer().follow(Cadence(records=10, wait_ms=60_000), poll_s=0.05)
        assert next(commits).rows == 10
        place.produce(orders(10, 30))
        broker.stop()
        back = threading.Timer(0.5, broker.start)
        back.start()
        assert next(commits).rows == 20
        back.join()
