"""A sink as Spark's tasks and driver use it, on a cluster that commits transactions one by one, and its driver that
ends at any moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from ottla import KafkaError, succeeded
from ottla.blocking import Admin, Consumer
from ottla.client.requests.group_commit import MemberTransaction
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.topics import NewTopic
from ottla.client.sync.machine.ledger_entries import Entry, Participant
from ottla.client.sync.transaction_ledger import TransactionLedger
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition
from ottla.spark.sink import exactly_once
from ottla.spark.sink.columns import HEADERS, sink_columns
from ottla.spark.sink.exactly_once import TaskOutcome
from ottla.spark.sink.options import SinkOptions, sink_options
from ottla.spark.sink.write_identity import WriteIdentity
from ottla.testing import EmbeddedBroker

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
        """Empty: aborted by a producer of `transaction.version` 1 that took the id over."""
        return self.state(transactional_id) in ("CompleteAbort", "Empty")


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
        self,
        number: int | None,
        task: int,
        *,
        attempt: int = 0,
        says: str = "",
        owner: str | None = None,
        partitions: Sequence[int] = range(PARTITIONS),
    ) -> TaskOutcome:
        """A task with a row for each of these partitions."""
        rows = pa.record_batch(
            {
                "value": pa.array([f"{number}/{task}{says}".encode()] * PARTITIONS),
                "key": pa.array([f"key {each}" for each in range(PARTITIONS)]),
                "partition": pa.array(partitions, pa.int32()),
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

    def rows(self, count: int, partitions: int = PARTITIONS) -> list[Row]:
        """The rows that readers of committed records see, once there are so many; fails if there are more later."""
        found: list[Row] = []
        places = [TopicPartition(self.topic, each) for each in range(partitions)]
        with Admin(self.brokers.bootstrap) as admin:
            wanted = dict.fromkeys(places, int(OffsetSpec.LATEST))
            wait_until(
                lambda: (
                    admin.list_offsets(wanted) == admin.list_offsets(wanted, read_committed=True)
                    or len(found) > count
                ),
                "no transaction is open",
            )
        ends = self.ends(partitions)
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

    def ends(self, partitions: int = PARTITIONS) -> dict[TopicPartition, int]:
        """Where the partitions end that are known."""
        places = [TopicPartition(self.topic, each) for each in range(partitions)]
        with Admin(self.brokers.bootstrap) as admin:
            listed = admin.list_offsets(dict.fromkeys(places, int(OffsetSpec.LATEST)))
        return {place: each.offset for place, each in listed.items() if not isinstance(each, KafkaError)}

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
