"""Exactly-once delivery: each task writes in a transaction of its own, the driver commits all of them together.

    task      a producer of its own (transactional id: sink, task and attempt), then: is the batch written already?
              If not, write, and leave the transaction open.
    driver    take the sink's name over, then: is the batch written already? If not, commit the transactions of all
              tasks and the batch's number by one decision of the coordinator. Then end what other attempts left.

Why each batch is written exactly once
- The decision is one batch of records in the coordinator's log: the number is stored if and only if all records are
  committed. Before it nothing can be read, after it the coordinator writes the markers whatever else is lost.
- A driver that comes later takes the name over first, so that the decision of an earlier one is refused from then on,
  and looks at the number after that. So no batch is committed twice.
- A transaction that was aborted in between (a timeout, another attempt) makes the decision fail as a whole.

Brokers of Apache Kafka cannot commit several transactions by one decision; for them see `ledger_commit`.

What is left open holds readers back, and is ended: attempts whose rows did not count are fenced after the commit, and
those that begin later find the batch written, because they look after their producer has begun. Nobody else needs to
come back: without two-phase commit each transaction has a timeout.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from ottla.blocking import Producer
from ottla.client.requests.group_commit import MemberTransaction
from ottla.client.sync.machine.ledger_entries import LEDGER
from ottla.client.sync.transaction_group import Progress, TransactionGroup
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.security.settings import PLAINTEXT
from ottla.spark.runtime.worker_heap import freeze_what_is_loaded
from ottla.spark.sink.columns import SinkColumns
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.task import TaskWriter, chunks, producer_arguments
from ottla.spark.sink.write_identity import WriteIdentity

logger = logging.getLogger(__name__)

_CLIENT_ID: Final = "ottla-spark-sink"
_RIGHTS: Final = (
    "the principal needs WRITE on the transactional ids and READ on the group with the prefix ottla-sink-, READ and "
    "WRITE on the topics, and DESCRIBE on the topic __transaction_state (ottla acls add); with Apache Kafka not the "
    f"group, but CREATE, READ and WRITE on the topic {LEDGER.topic}; or use "
    '.option("delivery", "at-least-once")'
)
_ADVICE: Final = {
    ErrorCode.UNSUPPORTED_VERSION: 'use .option("delivery", "at-least-once") with such brokers',
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "lower the option kafka.transaction.timeout.ms, or raise the brokers' "
    "transaction.max.timeout.ms",
    ErrorCode.PRODUCER_FENCED: "nothing of the batch was committed: the task took longer than the option "
    "kafka.transaction.timeout.ms, or another query writes under the same name",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _RIGHTS,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _RIGHTS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _RIGHTS,
}
_ADVICE_FOR = {
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE: ErrorCode.PRODUCER_FENCED,
}


@dataclass(frozen=True)
class TaskOutcome:
    """What a task with rows has done: the records that it wrote, in an open transaction, or None if the topics had the
    batch already. With `needs_ledger`, the brokers cannot commit the transactions of all tasks together.
    """

    identity: WriteIdentity
    records: Mapping[TopicPartition, int]
    transaction: MemberTransaction | None
    needs_ledger: bool = False


class _HandedOverError(Exception):
    """Leaves the block of a transaction, which stays open."""


def is_possible(options: SinkOptions, identity: WriteIdentity) -> bool:
    """Whether the brokers can commit all transactions by one decision; others than Ottla's cannot."""
    with _group(options, identity) as group:
        return group.is_supported()


def write_task(
    batches: Iterable[pa.RecordBatch],
    options: SinkOptions,
    columns: SinkColumns,
    identity: WriteIdentity,
    member: str,
) -> TaskOutcome | None:
    """Write the rows of a task, all of them delivered and none committed; None if there are no rows."""
    freeze_what_is_loaded()
    pieces = chunks(batches)
    first = next(pieces, None)
    if first is None:
        return None
    with _advised(), _group(options, identity) as group:
        transactional_id = group.member_id(member)
        needs_ledger = not group.commits_together
        nothing = TaskOutcome(identity, {}, None, needs_ledger)
        if needs_ledger:
            from ottla.spark.sink import ledger_commit

            ledger_commit.check(options, identity)
            # Before the producer begins: that would abort a transaction that was decided to be committed.
            if identity.is_written(_progress(group), in_ledger=True):
                return _counted(pieces, nothing)
        arguments = producer_arguments(options)
        with Producer(options.bootstrap_servers, transactional_id=transactional_id, **arguments) as producer:
            if options.producer.get("two_phase_commit"):
                producer.complete(None)  # what an earlier attempt has left
            # After the producer has begun: from now on it is fenced by the driver that commits the batch.
            if identity.number is not None and identity.is_written(_progress(group), in_ledger=needs_ledger):
                return _counted(pieces, nothing)
            writer = TaskWriter(producer, options, columns)
            transaction = MemberTransaction(
                transactional_id, *_written(producer, writer, chain([first], pieces))
            )
            return TaskOutcome(identity, writer.written, transaction, needs_ledger)


def _progress(group: TransactionGroup) -> Progress | None:
    """The last batch that the topics have."""
    if group.commits_together:
        return group.progress()
    entry = group.ledger().read()
    return None if entry is None else entry.progress


def _counted(pieces: Iterator[pa.RecordBatch], outcome: TaskOutcome) -> TaskOutcome:
    """The outcome of a task that writes nothing. Spark counts its rows."""
    for _ in pieces:
        pass
    return outcome


def _written(producer: Producer, writer: TaskWriter, pieces: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    """The producer id and epoch of a transaction that has all rows."""
    with contextlib.suppress(_HandedOverError), producer.transaction():
        for piece in pieces:
            writer.write(piece)
        transaction = producer.hand_over()
        raise _HandedOverError
    return transaction


def commit(options: SinkOptions, outcomes: Sequence[TaskOutcome]) -> None:
    """Commit what the tasks of a batch have written, unless the topics have the batch already."""
    if not outcomes:
        return  # no rows
    identity = outcomes[0].identity
    members = [each.transaction for each in outcomes if each.transaction is not None]
    with _advised(), _group(options, identity, waits=True) as group:
        if any(each.needs_ledger for each in outcomes):
            from ottla.spark.sink import ledger_commit

            written = {each.transaction: each.records for each in outcomes if each.transaction is not None}
            is_whole = len(members) == len(outcomes)
            ledger_commit.commit(group.ledger(), options, identity, written, is_whole=is_whole)
        elif identity.progress is None:
            group.commit_members(members)
        elif not _is_committed(group, identity, outcomes, members):
            own = group.take_over()
            if not identity.is_written(group.progress()):
                topics = {partition.topic for each in outcomes for partition in each.records}
                group.commit(own, identity.progress, topics, members)
        _end_others(group)


def _is_committed(
    group: TransactionGroup,
    identity: WriteIdentity,
    outcomes: Sequence[TaskOutcome],
    members: Sequence[MemberTransaction],
) -> bool:
    """Whether a task has found the batch written. Raises RuntimeError if it is not any more: then its rows are
    nowhere.
    """
    if len(members) == len(outcomes):
        return False
    if not identity.is_written(group.progress()):
        raise RuntimeError(f"Batch {identity.number} of '{identity.name}' was written, and is not any more.")
    return True


def abort(options: SinkOptions, known: WriteIdentity | None, outcomes: Sequence[TaskOutcome]) -> None:
    """The batch has failed: abort what its tasks have left open, as far as it can be found. The rest has a timeout.

    A batch whose first task to end has failed has no outcomes; then only the driver knows whose transactions are open.
    """
    identities = {each.identity for each in outcomes}
    if known is not None and not identities:
        identities.add(known)
    for identity in identities:
        with _logged(), _group(options, identity) as group:
            decided: Collection[str] = ()
            if identity.progress is not None and group.is_supported():
                group.take_over()
            elif identity.progress is not None:
                from ottla.spark.sink import ledger_commit

                decided = ledger_commit.decided(group.ledger(), options, identity)
            _end_others(group, but=decided)


def _end_others(group: TransactionGroup, *, but: Collection[str] = ()) -> None:
    """End what is left open. The outcome of the batch does not depend on it."""
    with _logged():
        for transactional_id in group.end_others(but=but):
            logger.info("ended the transaction that '%s' has left", transactional_id)


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """Pass over errors of the brokers."""
    try:
        yield
    except (KafkaError, ConnectionError, TimeoutError) as error:
        logger.warning("transactions of the sink may be open until their timeout: %s", error)


def _group(options: SinkOptions, identity: WriteIdentity, *, waits: bool = False) -> TransactionGroup:
    client_id: Any = options.producer.get("client_id", _CLIENT_ID)
    security = options.producer.get("security", PLAINTEXT)
    return TransactionGroup(
        options.bootstrap_servers, identity.name, client_id=client_id, security=security, waits=waits
    )


@contextlib.contextmanager
def _advised() -> Iterator[None]:
    """Say what to do about an error of the brokers."""
    try:
        yield
    except KafkaError as error:
        advice = _ADVICE.get(_ADVICE_FOR.get(error.code, error.code))
        if advice is None:
            raise
        raise KafkaError(
            error.code, f"Exactly-once delivery failed: {error.message.rstrip('.')}; {advice}."
        ) from error
