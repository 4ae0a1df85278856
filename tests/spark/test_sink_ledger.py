"""`delivery` exactly-once where brokers commit transactions one by one: each batch is written once, whatever ends in
between (PIPE-3).

Against Ottla without its extension, and under `make compat` against Apache Kafka.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType
from tests.conftest import start
from tests.repository import ROOT
from tests.spark.conftest import produce
from tests.spark.ledgered_sink import (
    PARTITIONS,
    Brokers,
    CrashError,
    Sink,
    crash_after_the_decision,
    rows_of,
    transaction_of,
)
from tests.spark.test_sink_exactly_once import ROWS, copy_and_die, of_source, origins, write_and_commit

from ottla import KafkaError, succeeded, testing
from ottla.blocking import Admin, Producer
from ottla.client.requests.topics import NewTopic
from ottla.client.sync.machine.ledger_entries import LEDGER, Entry, Participant
from ottla.client.sync.transaction_group import Progress
from ottla.client.sync.transaction_ledger import RecordsGoneError, TransactionLedger
from ottla.errors import ErrorCode
from ottla.localcluster.broker_process import running
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition
from ottla.protocol.messages.api_versions import GROUP_COMMIT_FEATURE
from ottla.security.acl.rules import Acl, AclFilter, Operation, Pattern, PatternType, ResourceType
from ottla.server.apis import api_versions
from ottla.spark.sink import exactly_once
from ottla.spark.sink.columns import sink_columns
from ottla.spark.sink.write_identity import SinkNameError

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

PAGE = (ROOT / "docs" / "spark-sink.md").read_text()
_numbers = count(1)

# Before version 2 of transactions, the end of one has no epoch of its own.
VERSION_1 = "ottla, transaction.version 1"


@pytest.fixture(scope="module", params=["ottla", VERSION_1, pytest.param("apache", marks=pytest.mark.compat)])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    if request.param == "apache":
        with running(start("apache", tmp_path_factory.mktemp("apache") / "data")) as process:
            yield Brokers(process.bootstrap)
        return
    with pytest.MonkeyPatch.context() as patch, testing.broker() as embedded:
        patch.delitem(vars(api_versions)["_ANNOUNCED"], GROUP_COMMIT_FEATURE)
        if request.param == VERSION_1:
            with Admin(embedded.bootstrap) as admin:
                admin.update_feature("transaction.version", 1, downgrades=True)
        yield Brokers(embedded.bootstrap, embedded)


def test_batches_are_written_once_and_repeated_ones_write_nothing(brokers: Brokers) -> None:
    """Also with another number of tasks."""
    sink = Sink(brokers)
    for number, tasks in ((0, 2), (1, 3), (4, 1)):
        sink.commit(sink.batch(number, tasks))
        again = sink.batch(number, tasks + 1)
        assert [each.transaction for each in again] == [None] * (tasks + 1)
        sink.commit(again)
    assert sink.rows(12) == sorted(rows_of(0) + rows_of(1, tasks=3) + rows_of(4, tasks=1))
    assert sink.entry() == Entry(Progress(4, "query"))


def test_a_batch_is_known_however_many_others_were_written_since(brokers: Brokers) -> None:
    sink = Sink(brokers)
    sink.commit(sink.batch(0))
    with Producer(brokers.bootstrap) as producer:
        for number in range(300):
            producer.send_soon(LEDGER.topic, b"{}", f"another {number}", partition=0)
    assert [each.transaction for each in sink.batch(0)] == [None, None]


def test_a_topic_may_get_more_partitions_between_batches(brokers: Brokers) -> None:
    """Also between a decision and the driver that finishes it."""
    sink = Sink(brokers)
    sink.commit(sink.batch(0))
    outcomes = sink.batch(1)
    crash_after_the_decision(sink, outcomes, 1)
    brokers.end(outcomes[1])
    with Admin(brokers.bootstrap) as admin:
        succeeded(admin.create_partitions({sink.topic: PARTITIONS + 1}))
    wait_until(lambda: len(sink.ends(PARTITIONS + 1)) == PARTITIONS + 1, "the new partition is known")
    sink.commit(sink.batch(1))
    sink.commit([sink.write(2, 0, partitions=[PARTITIONS, 0])])
    found = sink.rows(10, PARTITIONS + 1)
    assert [row for row in found if row[2] != b"2/0"] == rows_of(0, 1)
    assert sorted(row[0] for row in found if row[2] == b"2/0") == [0, PARTITIONS]


@pytest.mark.parametrize("committed", [0, 1])
def test_a_driver_that_ends_after_the_decision_has_its_batch_committed_by_the_next(
    brokers: Brokers, committed: int
) -> None:
    sink = Sink(brokers)
    sink.commit(sink.batch(0))
    outcomes = sink.batch(1)
    crash_after_the_decision(sink, outcomes, committed)
    states = [brokers.state(transaction_of(each).transactional_id) for each in outcomes]
    assert states[1] == "Ongoing"
    assert (states[0] == "Ongoing") is (committed == 0)
    ends = sink.ends()
    again = sink.batch(1, tasks=3)
    assert [each.transaction for each in again] == [None] * 3
    assert sink.ends() == ends
    sink.commit(again)
    sink.commit(sink.batch(2))
    assert sink.rows(12) == rows_of(0, 1, 2)


@pytest.mark.parametrize("committed", [0, 1])
def test_what_was_aborted_after_the_decision_is_written_again(brokers: Brokers, committed: int) -> None:
    """The query has come back after the timeout of its transactions: the rows that are lacking are copied, as they
    were.
    """
    sink = Sink(brokers)
    outcomes = sink.batch(0)
    crash_after_the_decision(sink, outcomes, committed)
    for each in outcomes[committed:]:
        brokers.end(each)
    assert sink.rows(2 * committed) == rows_of(0, tasks=committed)
    sink.commit(sink.batch(0))
    sink.commit(sink.batch(1))
    assert sink.rows(8) == rows_of(0, 1)


def test_a_driver_that_ends_while_it_writes_again_leaves_nothing_twice(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(brokers)
    outcomes = sink.batch(0)
    crash_after_the_decision(sink, outcomes)
    for each in outcomes:
        brokers.end(each)

    def crash(self: TransactionLedger, participant: Participant, partition: TopicPartition) -> Iterator[Any]:
        yield from records(self, participant, partition)
        if participant.transaction == outcomes[1].transaction:
            raise CrashError

    records = TransactionLedger.records
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(TransactionLedger, "records", crash)
            repeated = sink.batch(0)
            with pytest.raises(CrashError):
                sink.commit(repeated)
    sink.commit(sink.batch(0))
    assert sink.rows(4) == rows_of(0)


def test_rows_that_can_neither_be_committed_nor_read_fail_loudly(brokers: Brokers) -> None:
    """Until somebody takes the entry back: then the batch is written as a whole."""
    sink = Sink(brokers)
    outcomes = sink.batch(0)
    crash_after_the_decision(sink, outcomes)
    for each in outcomes:
        brokers.end(each)
    with Admin(brokers.bootstrap) as admin:
        succeeded(admin.delete_records({TopicPartition(sink.topic, 1): 1}))
    for _ in range(2):
        repeated = sink.batch(0)
        with pytest.raises(
            RecordsGoneError, match="cannot be written again: the log begins at offset 1 now"
        ) as gone:
            sink.commit(repeated)
    assert sink.rows(0) == []
    (command,) = re.findall(r"echo .*--json$", str(gone.value))
    assert command.replace(sink.name, "ottla-sink-counts") in PAGE
    run_shell(f"{command} --bootstrap {brokers.bootstrap}")
    sink.commit(sink.batch(0))
    assert sink.rows(4) == rows_of(0)


def test_a_transaction_that_took_too_long_fails_its_batch_as_a_whole(brokers: Brokers) -> None:
    sink = Sink(brokers)
    outcomes = sink.batch(0)
    brokers.end(outcomes[1])
    with pytest.raises(
        KafkaError, match=r"nothing of the batch was committed: the task took longer"
    ) as failed:
        sink.commit(outcomes)
    assert failed.value.code is ErrorCode.PRODUCER_FENCED
    assert sink.rows(0) == []
    assert sink.entry() is None
    sink.commit(sink.batch(0))
    assert sink.rows(4) == rows_of(0)


def test_of_two_drivers_one_decides(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier one has read the ledger when the later one takes the name over."""
    sink = Sink(brokers)
    outcomes = sink.batch(0)
    participants = TransactionLedger.participants

    def slowly(self: TransactionLedger, records: Any) -> Any:
        with Producer(brokers.bootstrap, transactional_id=sink.name):
            return participants(self, records)

    with monkeypatch.context() as patch:
        patch.setattr(TransactionLedger, "participants", slowly)
        with pytest.raises(KafkaError, match="nothing of the batch was committed"):
            exactly_once.commit(sink.options(), outcomes)
    sink.commit(outcomes)
    assert sink.rows(4) == rows_of(0)


def test_a_decision_that_has_not_ended_is_aborted_by_the_next_driver(brokers: Brokers) -> None:
    sink = Sink(brokers)
    outcomes = sink.batch(0)
    with (
        Producer(brokers.bootstrap, transactional_id=sink.name) as gone,
        contextlib.suppress(CrashError),
        gone.transaction(),
    ):
        gone.send(LEDGER.topic, Entry(Progress(0, "query")).encoded(), sink.name, partition=0)
        gone.hand_over()
        raise CrashError
    sink.commit(outcomes)
    assert sink.rows(4) == rows_of(0)


def test_of_speculative_copies_the_one_that_counts_is_committed(brokers: Brokers) -> None:
    sink = Sink(brokers)
    outcomes = sink.batch(0)
    other = sink.write(0, 1, attempt=1, says=" again")
    sink.commit([outcomes[0], other])
    left = transaction_of(outcomes[1]).transactional_id
    wait_until(partial(brokers.is_aborted, left), "the other copy is aborted")
    late = sink.write(0, 1, attempt=2)
    assert late.transaction is None
    values = [value or b"" for _, _, value, _ in sink.rows(4)]
    assert sorted(values) == sorted([b"0/0", b"0/1 again"] * PARTITIONS)


def test_an_attempt_of_a_retried_stage_leaves_the_one_that_counts_alone(brokers: Brokers) -> None:
    """A stage that is retried counts attempts from 0 again, while tasks of the stage before may still be running."""
    sink = Sink(brokers)
    outcomes = sink.batch(0)
    again = sink.write(0, 1, says=" again")
    sink.commit(outcomes)
    left = transaction_of(again).transactional_id
    wait_until(partial(brokers.is_aborted, left), "the other attempt is aborted")
    assert sink.rows(4) == rows_of(0)


def test_what_a_failed_batch_has_left_open_is_aborted(brokers: Brokers) -> None:
    sink = Sink(brokers)
    outcomes = sink.batch(0)
    exactly_once.abort(sink.options(), sink.identity(0), outcomes[:1])
    for each in outcomes:
        left = transaction_of(each).transactional_id
        wait_until(partial(brokers.is_aborted, left), "it is aborted")
    assert sink.rows(0) == []


def test_names_are_kept_apart_as_with_one_decision(brokers: Brokers) -> None:
    sink = Sink(brokers)
    sink.commit(sink.batch(3))
    with pytest.raises(SinkNameError, match="belongs to the query query, and the query other must not") as no:
        sink.write(4, 0, owner="other")
    assert f'hand the name over: echo \'{{"key": "{sink.name}"' in str(no.value)
    with pytest.raises(SinkNameError, match="its checkpoint is older than the topics"):
        sink.write(2, 0)
    assert sink.rows(4) == rows_of(3)


def test_what_cannot_be_exact_is_refused_in_words(brokers: Brokers) -> None:
    sink = Sink(brokers)
    with pytest.raises(KafkaError, match="give the write a name, with the options txnAppId and txnVersion"):
        sink.write(None, 0)
    two_phase = sink.options(**{"kafka.transaction.two.phase.commit.enable": "true"})
    rows = pa.record_batch({"value": pa.array([b"a"])})
    columns = sink_columns(StructType([StructField("value", BinaryType())]), sink.topic)
    with pytest.raises(KafkaError, match=r"two\.phase\.commit\.enable needs brokers of Ottla"):
        exactly_once.write_task([rows], two_phase, columns, sink.identity(0), "0.0")
    assert sink.rows(0) == []


def test_auto_delivers_at_least_once(brokers: Brokers) -> None:
    sink = Sink(brokers)
    options = sink.options(delivery="auto")
    assert not exactly_once.is_possible(options, sink.identity(0))


def run_shell(command: str) -> None:
    """Run a command line with the `ottla` of this environment."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(command, shell=True, check=True, env={**os.environ, "PATH": path}, timeout=120)


RIGHTS = [
    Acl(pattern, "User:alice", "*", operation)
    for pattern, operation in (
        (Pattern.topic(LEDGER.topic), Operation.CREATE),
        (Pattern.topic(LEDGER.topic), Operation.READ),
        (Pattern.topic(LEDGER.topic), Operation.WRITE),
        (Pattern(ResourceType.TRANSACTIONAL_ID, "ottla-sink-", PatternType.PREFIXED), Operation.WRITE),
        (Pattern.topic("guarded"), Operation.READ),
        (Pattern.topic("guarded"), Operation.WRITE),
        (Pattern.topic("__transaction_state"), Operation.DESCRIBE),
    )
]


def test_the_rights_that_the_page_lists_are_those_that_are_needed() -> None:
    """With all of them a batch is committed. Without any one of them the error says which there are."""
    settings = {"authorizer.class.name": "acl", "super.users": "User:admin"}
    with (
        pytest.MonkeyPatch.context() as patch,
        testing.broker(users={"alice": "secret", "admin": "secret"}, settings=settings) as secured,
    ):
        patch.delitem(vars(api_versions)["_ANNOUNCED"], GROUP_COMMIT_FEATURE, raising=False)
        topic = secured.create_topic("guarded")
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
        security = {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": login,
        }
        for lacking in [RIGHTS[0], None, *RIGHTS[1:]]:  # an empty ledger is created, but not read
            with Admin(secured.bootstrap, security=secured.security("admin")) as admin:
                succeeded(admin.delete_acls([AclFilter()]))
                succeeded(admin.create_acls(right for right in RIGHTS if right != lacking))
            name = f"ottla-sink-guarded-{uuid4().hex}"
            if lacking is None:
                write_and_commit(secured, topic, name, security)
            else:
                with pytest.raises(KafkaError, match=f"CREATE, READ and WRITE on the topic {LEDGER.topic}"):
                    write_and_commit(secured, topic, name, security)


@pytest.mark.parametrize("brokers", ["ottla"], indirect=True)
@pytest.mark.parametrize(
    "dies", ["when a task has written", "after the decision", "between two of the commits"]
)
def test_a_query_whose_process_ends_at_any_moment_writes_each_record_once(
    spark: SparkSession, brokers: Brokers, tmp_path: Path, dies: str
) -> None:
    """Against Apache Kafka: `tests/compat/test_spark_exactly_once.py`."""
    source, target = (f"{kind}-{next(_numbers)}" for kind in ("source", "target"))
    with Admin(brokers.bootstrap) as admin:
        succeeded(admin.create_topics([NewTopic(source, 2), NewTopic(target, 3)]))
    records = [{"value": b"%d" % each, "partition": each % 2} for each in range(ROWS)]
    produce(brokers.bootstrap, source, records)
    copy_and_die(spark, brokers.bootstrap, (source, target), tmp_path, dies)
    assert origins(partial(reader, spark, brokers.bootstrap), target, ROWS) == of_source(2)


def reader(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrameReader:
    return spark.read.format("ottla").options(**{"kafka.bootstrap.servers": bootstrap, **options})
