"""`delivery` exactly-once: each batch is in the topics once and as a whole, whatever ends in between (PIPE-3)."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructField, StructType
from tests.spark.conftest import NewTopic, produce

from ottla import KafkaError, succeeded, testing
from ottla.blocking import Admin, Consumer
from ottla.client.cluster.machine import transaction_group as questions
from ottla.client.sync import transaction_group
from ottla.client.sync.machine.ledger_entries import Participant
from ottla.client.sync.transaction_ledger import TransactionLedger
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition
from ottla.security.acl.rules import Acl, AclFilter, Operation, Pattern, PatternType, ResourceType
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.sink import exactly_once
from ottla.spark.sink.columns import sink_columns
from ottla.spark.sink.exactly_once import commit
from ottla.spark.sink.options import SinkOptions, sink_options
from ottla.spark.sink.write_identity import WriteIdentity
from ottla.spark.sink.writer import OttlaStreamWriter, OttlaWriter, SinkCommit
from ottla.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
    from pyspark.sql.datasource import WriterCommitMessage

EXACTLY_ONCE = {"delivery": "exactly-once"}
ROWS = 60
# The records that a reader of committed records sees, by where they came from.
ORIGIN = "transform(headers, h -> string(h.value))[0] as origin"
WITH_ORIGIN = "array(named_struct('key', 'from', 'value', binary(concat(partition, ':', offset)))) as headers"

RIGHTS = [
    Acl(pattern, "User:alice", "*", operation)
    for pattern, operation in (
        (Pattern(ResourceType.TRANSACTIONAL_ID, "ottla-sink-", PatternType.PREFIXED), Operation.WRITE),
        (Pattern(ResourceType.GROUP, "ottla-sink-", PatternType.PREFIXED), Operation.READ),
        (Pattern.topic("guarded"), Operation.READ),
        (Pattern.topic("guarded"), Operation.WRITE),
        (Pattern.topic("__transaction_state"), Operation.DESCRIBE),
    )
]

# Spark's Python processes do not have this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class MortalSource(OttlaDataSource):
    """The format with a process that ends once: the option `dies` names the moment, `marker` the file that says that
    it has happened.
    """

    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamWriter(self, schema: StructType, overwrite: bool) -> OttlaStreamWriter:  # noqa: N802 - Spark's name
        options = dict(self.options)
        dies, marker = options.pop("dies"), Path(options.pop("marker"))
        writer = MortalWriter.of(options, schema)
        assert isinstance(writer, MortalWriter)
        writer.dies, writer.marker = dies, marker
        return writer


class MortalWriter(OttlaStreamWriter):
    """Ends its process; a driver that is gone aborts nothing."""

    dies = ""
    marker = Path()
    # Where brokers commit transactions one by one: how many are committed by then.
    COMMITTED: ClassVar = {"after the decision": 0, "between two of the commits": 1}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        written = super().write(iterator)
        self._die("when a task has written")
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._die("before the commit")
        if self.dies == "between the progress and the decision" and not self.marker.exists():
            vars(transaction_group)["_COMMIT_TIMEOUT_MS"] = 1_000
            vars(questions)["commit_together"] = self._dead
        if self.dies in self.COMMITTED and not self.marker.exists():
            pytest.MonkeyPatch().setattr(
                TransactionLedger, "commit", self._commit_some(TransactionLedger.commit)
            )
        super().commit(messages, batchId)
        self._die("after the commit")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass

    def _commit_some(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def commit_some(ledger: TransactionLedger, participants: Sequence[Participant]) -> None:
            assert len(participants) > 1
            commit(ledger, participants[: self.COMMITTED[self.dies]])
            self._dead()

        return commit_some

    def _dead(self, *_: object) -> None:
        self._die(self.dies)

    def _die(self, moment: str) -> None:
        if self.dies == moment and not self.marker.exists():
            self.marker.touch()
            os._exit(1)


def copying(
    spark: SparkSession, bootstrap: str, source: str, target: str, *, tasks: int | None = None
) -> Callable[..., None]:
    """Run a query that copies a topic, batch by batch; each record has its origin in a header."""
    servers = {"kafka.bootstrap.servers": bootstrap}
    stream = spark.readStream.format("ottla").options(**servers, maxOffsetsPerTrigger=ROWS // 3)
    rows = stream.options(subscribe=source, startingOffsets="earliest").load()
    rows = rows if tasks is None else rows.repartition(tasks)
    copied = rows.selectExpr("value", WITH_ORIGIN)

    def run(checkpoint: Path, format_name: str = "ottla", **options: Any) -> None:
        writer = copied.writeStream.format(format_name).options(**servers, **EXACTLY_ONCE, topic=target)
        writer = writer.options(**options, checkpointLocation=str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    return run


def origins(ottla_read: Callable[..., DataFrameReader], topic: str, least: int) -> Counter[str]:
    """Where the committed records of a topic came from; a transaction that is open would hide later ones.

    A decision is durable when a write returns, and its markers follow: waits for so many records.
    """
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    found: Counter[str] = Counter()

    def are_all_there() -> bool:
        rows = ottla_read(**options, includeHeaders="true").load().selectExpr(ORIGIN).collect()
        found.clear()
        found.update(row.origin for row in rows)
        return found.total() >= least

    wait_until(are_all_there, f"{least} records are committed")
    return found


def of_source(partitions: int, records: int = ROWS) -> Counter[str]:
    return Counter(
        f"{partition}:{n}" for partition in range(partitions) for n in range(records // partitions)
    )


def copy_and_die(
    spark: SparkSession, bootstrap: str, topics: tuple[str, str], directory: Path, dies: str
) -> None:
    """Run a query that copies a topic of two partitions, and whose process ends; then go on with other tasks."""
    spark.dataSource.register(MortalSource)
    marker, checkpoint = directory / "died", directory / "checkpoint"
    with pytest.raises(Exception, match=r"exit|crash|EOF|Python worker|connection"):
        copying(spark, bootstrap, *topics)(checkpoint, "mortal", dies=dies, marker=marker)
    assert marker.exists()
    copying(spark, bootstrap, *topics, tasks=3)(checkpoint)


@pytest.mark.parametrize(
    "dies",
    [
        "when a task has written",
        "before the commit",
        "between the progress and the decision",
        "after the commit",
    ],
)
def test_a_query_whose_process_ends_at_any_moment_writes_each_record_once(
    spark: SparkSession,
    broker: EmbeddedBroker,
    new_topic: NewTopic,
    ottla_read: Callable[..., DataFrameReader],
    tmp_path: Path,
    dies: str,
) -> None:
    """The query goes on with another number of tasks."""
    source = new_topic(2, values=[b"%d" % number for number in range(ROWS)], stem="mortal-source")
    target = new_topic(3, stem="mortal-target")
    copy_and_die(spark, broker.bootstrap, (source, target), tmp_path, dies)
    assert origins(ottla_read, target, ROWS) == of_source(2)


def test_a_topic_may_get_more_partitions_between_batches(
    spark: SparkSession,
    broker: EmbeddedBroker,
    new_topic: NewTopic,
    ottla_read: Callable[..., DataFrameReader],
    tmp_path: Path,
) -> None:
    source, target = new_topic(2, values=[b"%d" % each for each in range(ROWS)], stem="grown"), new_topic(1)
    run = copying(spark, broker.bootstrap, source, target)
    run(tmp_path / "checkpoint")
    with Admin(broker.bootstrap) as admin:
        succeeded(admin.create_partitions({target: 3}))
    produce(broker.bootstrap, source, [{"value": b"more", "partition": each % 2} for each in range(ROWS)])
    run(tmp_path / "checkpoint")
    assert origins(ottla_read, target, 2 * ROWS) == of_source(2, 2 * ROWS)


def test_a_second_query_under_the_same_name_is_refused_in_words(
    spark: SparkSession,
    broker: EmbeddedBroker,
    new_topic: NewTopic,
    ottla_read: Callable[..., DataFrameReader],
    tmp_path: Path,
) -> None:
    source, target = new_topic(values=[b"%d" % number for number in range(ROWS)]), new_topic()
    run = copying(spark, broker.bootstrap, source, target)
    run(tmp_path / "first", txnAppId="mill")
    with pytest.raises(
        Exception, match=r"The sink 'ottla-sink-mill' belongs to the query .*ottla groups delete"
    ):
        run(tmp_path / "second", txnAppId="mill")
    with pytest.raises(Exception, match="Option 'txnVersion' is for batch writes"):
        run(tmp_path / "second", txnAppId="mill", txnVersion=1)
    assert origins(ottla_read, target, ROWS) == of_source(1)


def test_a_batch_job_is_written_as_a_whole_and_under_a_version_once(
    spark: SparkSession,
    broker: EmbeddedBroker,
    new_topic: NewTopic,
    ottla_read: Callable[..., DataFrameReader],
    ottla_write: Callable[..., DataFrameWriter],
) -> None:
    """As in `foreachBatch`, which gives its batches as versions."""
    topic = new_topic(2)

    def rows(first: int) -> DataFrame:
        made = spark.range(first, first + 30, numPartitions=3)
        return made.selectExpr(
            "array(named_struct('key', 'n', 'value', binary(string(id)))) as headers", "'x' as value"
        )

    failing = rows(900).selectExpr(
        "headers", "if(headers[0].value = binary('929'), raise_error('row 929 is bad'), value) as value"
    )
    # Spark does not wait for the other tasks of a failed job: one that begins after the abort has only its timeout.
    soon = {"kafka.transaction.timeout.ms": "3000"}
    with pytest.raises(Exception, match="row 929 is bad"):
        ottla_write(failing, topic=topic, **EXACTLY_ONCE, **soon).save()
    ottla_write(rows(0), topic=topic, **EXACTLY_ONCE).save()
    for version in (0, 1, 1, 2):
        named = {"txnAppId": "books", "txnVersion": str(version)}
        ottla_write(rows(100 * version + 100), topic=topic, **EXACTLY_ONCE, **named).save()
    with pytest.raises(Exception, match="The topics have batch 2 of the sink 'ottla-sink-books' already"):
        ottla_write(rows(500), topic=topic, **EXACTLY_ONCE, txnAppId="books", txnVersion="1").save()
    wanted = Counter(str(hundred + n) for hundred in (0, 100, 200, 300) for n in range(30))
    assert origins(ottla_read, topic, wanted.total()) == wanted
    with Admin(broker.bootstrap) as admin:
        assert admin.list_transactions(states=["Ongoing"]) == []


@pytest.mark.parametrize("kind", ["a job", "a version of a job", "a stream with a name"])
def test_what_tasks_have_left_open_is_aborted_though_no_task_has_told_the_driver(
    broker: EmbeddedBroker, new_topic: NewTopic, kind: str
) -> None:
    """The first task to end has failed, and Spark has ended the others: there is no message of any task."""
    named = {} if kind == "a job" else {"txnAppId": f"left-{uuid4().hex}", "txnVersion": "7"}
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": new_topic(1), **EXACTLY_ONCE}
    schema = StructType([StructField("value", BinaryType())])
    writer = OttlaWriter.of(options | named, schema, overwrite=False)
    written = writer.write(iter([pa.record_batch({"value": pa.array([b"a", b"b"])})]))
    assert written.outcome is not None
    assert written.outcome.transaction is not None
    transactional_id = written.outcome.transaction.transactional_id
    assert state_of(broker, transactional_id) == "Ongoing"
    if kind == "a stream with a name":
        del named["txnVersion"]
        OttlaStreamWriter.of(options | named, schema).abort([None], 7)
    else:
        writer.abort([None])
    wait_until(lambda: state_of(broker, transactional_id) == "CompleteAbort", "the transaction is aborted")


def test_of_speculative_copies_of_a_task_the_one_that_spark_counts_is_committed(
    broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    """A copy that is still open is aborted with the commit; one that begins later finds the batch written."""
    topic = new_topic(1, stem="speculative")
    name = f"speculative-{uuid4().hex}"
    first, second = (attempt(broker, topic, name, 0, number) for number in (0, 1))
    assert first is not None
    assert second is not None
    commit(parsed(broker, topic), [second])
    assert first.transaction is not None
    left = first.transaction.transactional_id
    wait_until(lambda: state_of(broker, left) == "CompleteAbort", "the other copy is aborted")
    late = attempt(broker, topic, name, 0, 2)
    assert late is not None
    assert late.transaction is None
    assert committed_values(broker, topic, 1) == [b"attempt 1"]


def test_an_attempt_of_a_retried_stage_leaves_the_one_that_counts_alone(
    broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    """A stage that is retried counts attempts from 0 again, while tasks of the stage before may still be running."""
    topic = new_topic(1, stem="retried")
    name = f"retried-{uuid4().hex}"
    counts, again = (attempt(broker, topic, name, 0, 0) for _ in range(2))
    assert counts is not None
    assert again is not None
    commit(parsed(broker, topic), [counts])
    assert again.transaction is not None
    left = again.transaction.transactional_id
    wait_until(lambda: state_of(broker, left) == "CompleteAbort", "the other attempt is aborted")
    assert committed_values(broker, topic, 1) == [b"attempt 0"]


def test_several_sinks_of_one_batch_are_independent(broker: EmbeddedBroker, new_topic: NewTopic) -> None:
    """The process ends between the writes of two sinks, and the batch is repeated: the first is not written again."""
    topics = [new_topic(1, stem=f"sink-{number}") for number in range(2)]
    names = [f"{topic}-{uuid4().hex}" for topic in topics]
    for end in (1, 2):
        for topic, name in list(zip(topics, names, strict=True))[:end]:
            outcome = attempt(broker, topic, name, 0, end)
            assert outcome is not None
            commit(parsed(broker, topic), [outcome])
    assert [committed_values(broker, topic, 1) for topic in topics] == [[b"attempt 1"], [b"attempt 2"]]


def test_the_rights_that_the_page_lists_are_those_that_are_needed() -> None:
    """With all of them a batch is committed. Without any one of them the error says which there are."""
    settings = {"authorizer.class.name": "acl", "super.users": "User:admin"}
    with testing.broker(users={"alice": "secret", "admin": "secret"}, settings=settings) as secured:
        topic = secured.create_topic("guarded")
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
        security = {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": login,
        }
        for lacking in [*RIGHTS, None]:
            with Admin(secured.bootstrap, security=secured.security("admin")) as admin:
                succeeded(admin.delete_acls([AclFilter()]))
                succeeded(admin.create_acls(right for right in RIGHTS if right != lacking))
            name = f"ottla-sink-guarded-{uuid4().hex}"
            if lacking is None:
                write_and_commit(secured, topic, name, security)
            else:
                with pytest.raises(KafkaError, match="READ on the group with the prefix ottla-sink-"):
                    write_and_commit(secured, topic, name, security)


def write_and_commit(broker: EmbeddedBroker, topic: str, name: str, security: dict[str, str]) -> None:
    outcome = attempt(broker, topic, name, 0, 0, **security)
    assert outcome is not None
    commit(parsed(broker, topic, **security), [outcome])


def parsed(broker: EmbeddedBroker, topic: str, **more: str) -> SinkOptions:
    servers = {"kafka.bootstrap.servers": broker.bootstrap}
    return sink_options({**servers, "topic": topic, **EXACTLY_ONCE, **more})


def attempt(
    broker: EmbeddedBroker, topic: str, name: str, batch: int, number: int, **more: str
) -> exactly_once.TaskOutcome | None:
    """An attempt of the only task of a batch: a row that says which attempt wrote it."""
    options = parsed(broker, topic, **more)
    columns = sink_columns(StructType([StructField("value", BinaryType())]), topic)
    rows = pa.record_batch({"value": pa.array([b"attempt %d" % number])})
    identity = WriteIdentity(name, batch)
    return exactly_once.write_task([rows], options, columns, identity, f"0.{number}")


def committed_values(broker: EmbeddedBroker, topic: str, count: int) -> list[bytes | None]:
    """All committed records; markers follow the decision, so waits for so many."""
    found: list[bytes | None] = []
    with Consumer(
        broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < count or any(consumer.lag().values()):
            found += [record.value for record in consumer.poll(timeout_ms=500)]
    return found


def state_of(broker: EmbeddedBroker, transactional_id: str) -> str:
    with Admin(broker.bootstrap) as admin:
        return succeeded(admin.describe_transactions([transactional_id]))[transactional_id].state
