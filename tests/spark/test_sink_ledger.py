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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType
from tests.conftest import start
from tests.repository import ROOT
from tests.spark.conftest import produce
from tests.spark.test_sink_exactly_once import ROWS, copy_and_die, of_source, origins, write_and_commit

from ottla import KafkaError, succeeded, testing
from ottla.blocking import Admin, Consumer, Producer
from ottla.client.requests.group_commit import MemberTransaction
from ottla.client.requests.offsets import OffsetSpec
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
from ottla.spark.sink.columns import HEADERS, sink_columns
from ottla.spark.sink.exactly_once import TaskOutcome
from ottla.spark.sink.options import SinkOptions, sink_options
from ottla.spark.sink.write_identity import SinkNameError, WriteIdentity
from ottla.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

PAGE = (ROOT / "docs" / "spark-sink.md").read_text()
PARTITIONS = 2
SCHEMA = StructType(
    [
        StructField("value", BinaryType()),
        StructField("key", StringType()),
        StructField("partition", IntegerType()),
        StructField("headers", HEADERS),
    ]
)
_numbers = count(1)

# Partition, key, value, headers.
Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class CrashError(Exception):
    """The driver ends here."""


@dataclass(frozen=True)
class Brokers:
    """A cluster that commits transactions one by one; `embedded` if it is ours."""

    bootstrap: str
    embedded: EmbeddedBroker | None = None

    def end(self, outcome: TaskOutcome) -> None:
        """Have the open transaction of a task aborted: by its timeout, or by another producer."""
        transactional_id = transaction_of(outcome).transactional_id
        if self.embedded is not None:
            self.embedded.time_out(transactional_id)
        else:
            with Admin(self.bootstrap) as admin:
                succeeded(admin.fence_producers([transactional_id]))
        wait_until(lambda: self.state(transactional_id) != "Ongoing", "the transaction is aborted")

    def state(self, transactional_id: str) -> str:
        with Admin(self.bootstrap) as admin:
            return succeeded(admin.describe_transactions([transactional_id]))[transactional_id].state

    def is_aborted(self, transactional_id: str) -> bool:
        return self.state(transactional_id) == "CompleteAbort"


@pytest.fixture(scope="module", params=["ottla", pytest.param("apache", marks=pytest.mark.compat)])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    if request.param == "apache":
        with running(start("apache", tmp_path_factory.mktemp("apache") / "data")) as process:
            yield Brokers(process.bootstrap)
        return
    with pytest.MonkeyPatch.context() as patch, testing.broker() as embedded:
        patch.delitem(vars(api_versions)["_ANNOUNCED"], GROUP_COMMIT_FEATURE)
        yield Brokers(embedded.bootstrap, embedded)


class Sink:
    """A sink of its own topic and name, as tasks and driver use it."""

    def __init__(self, brokers: Brokers, name: str | None = None, owner: str = "query") -> None:
        self.brokers = brokers
        self.topic = f"ledgered-{next(_numbers)}-{uuid4().hex[:6]}"
        self.name = f"ottla-sink-{self.topic}" if name is None else name
        self._owner = owner
        with Admin(brokers.bootstrap) as admin:
            succeeded(admin.create_topics([NewTopic(self.topic, PARTITIONS)]))

    def options(self, **more: str) -> SinkOptions:
        servers = {"kafka.bootstrap.servers": self.brokers.bootstrap}
        return sink_options({**servers, "topic": self.topic, "delivery": "exactly-once", **more})

    def identity(self, number: int | None, owner: str | None = None) -> WriteIdentity:
        return WriteIdentity(self.name, number, self._owner if owner is None else owner)

    def write(
        self, number: int | None, task: int, *, attempt: int = 0, says: str = "", owner: str | None = None
    ) -> TaskOutcome:
        """A task with a row for each partition."""
        rows = pa.record_batch(
            {
                "value": pa.array([f"{number}/{task}{says}".encode()] * PARTITIONS),
                "key": pa.array([f"key {each}" for each in range(PARTITIONS)]),
                "partition": pa.array(range(PARTITIONS), pa.int32()),
                "headers": pa.array(
                    [[{"key": "task", "value": b"%d" % task}]] * PARTITIONS,
                    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                ),
            }
        )
        identity, columns = self.identity(number, owner), sink_columns(SCHEMA, self.topic)
        outcome = exactly_once.write_task([rows], self.options(), columns, identity, f"{task}.{attempt}")
        assert outcome is not None
        return outcome

    def batch(self, number: int, tasks: int = 2) -> list[TaskOutcome]:
        return [self.write(number, task) for task in range(tasks)]

    def commit(self, outcomes: Sequence[TaskOutcome]) -> None:
        """As Spark does it: a commit that fails is followed by an abort."""
        try:
            exactly_once.commit(self.options(), outcomes)
        except Exception:
            exactly_once.abort(self.options(), None, outcomes)
            raise

    def rows(self, count: int) -> list[Row]:
        """The rows that readers of committed records see, once there are so many; fails if there are more later."""
        found: list[Row] = []
        places = [TopicPartition(self.topic, each) for each in range(PARTITIONS)]
        with Admin(self.brokers.bootstrap) as admin:
            wanted = dict.fromkeys(places, int(OffsetSpec.LATEST))
            wait_until(
                lambda: (
                    admin.list_offsets(wanted) == admin.list_offsets(wanted, read_committed=True)
                    or len(found) > count
                ),
                "no transaction is open",
            )
        ends = self.ends()
        with Consumer(
            self.brokers.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(places)
            while any((consumer.position(place) or 0) < ends[place] for place in places):
                found += [
                    (each.partition, each.key, each.value, tuple(each.headers))
                    for each in consumer.poll(timeout_ms=500)
                ]
        assert len(found) == count, found
        return sorted(found)

    def ends(self) -> dict[TopicPartition, int]:
        places = [TopicPartition(self.topic, each) for each in range(PARTITIONS)]
        with Admin(self.brokers.bootstrap) as admin:
            listed = succeeded(admin.list_offsets(dict.fromkeys(places, int(OffsetSpec.LATEST))))
        return {place: each.offset for place, each in listed.items()}

    def entry(self) -> Entry | None:
        group = vars(exactly_once)["_group"](self.options(), self.identity(0))
        with group:
            entry: Entry | None = group.ledger().read()
            return entry


def transaction_of(outcome: TaskOutcome) -> MemberTransaction:
    assert outcome.transaction is not None
    return outcome.transaction


def rows_of(*batches: int, tasks: int = 2) -> list[Row]:
    return sorted(
        (partition, b"key %d" % partition, b"%d/%d" % (number, task), (("task", b"%d" % task),))
        for number in batches
        for task in range(tasks)
        for partition in range(PARTITIONS)
    )


def crash_after_the_decision(sink: Sink, outcomes: Sequence[TaskOutcome], committed: int = 0) -> None:
    """The driver of a batch ends when so many transactions are committed."""
    commit = TransactionLedger.commit

    def crash(self: TransactionLedger, participants: Sequence[Participant]) -> list[Participant]:
        commit(self, participants[:committed])
        raise CrashError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionLedger, "commit", crash)
        with pytest.raises(CrashError):
            sink.commit(outcomes)


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
