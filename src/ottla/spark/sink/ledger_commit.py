"""Exactly-once delivery where brokers cannot commit the transactions of all tasks by one decision: Apache Kafka.

    driver    take the sink's name over; then read the ledger: is the batch decided already? If not, write the decision,
              with the transactions of all tasks and the places of their records, in a transaction of the driver.
              Then commit the transactions one after the other, and write that the batch is done.

Why each batch is written exactly once
- The decision is one record. Before it nothing is committed, and a batch that is repeated is written anew. After it
  the transactions are committed, by this driver or by one that comes later, and nothing else is written for the batch.
- A driver that comes later takes the name over first: from then on the earlier one cannot decide.
- A transaction that was aborted after the decision (its timeout was over before a driver came back) is written again
  from the records that are still in the partitions, in one transaction with the note that the batch is done.

Readers may see a part of a batch between the first commit and the last: a moment, or until a driver comes back.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.blocking import Admin, Producer
from ottla.client.requests.group_commit import MemberTransaction
from ottla.client.requests.topics import NewTopic
from ottla.client.sync.machine.ledger_entries import LEDGER, Entry, Participant
from ottla.client.sync.transaction_group import PATIENCE_MS
from ottla.client.sync.transaction_ledger import RecordsGoneError, TransactionLedger
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.write_identity import WriteIdentity, forgotten

if TYPE_CHECKING:
    from ottla.client.requests.metadata import TopicInfo

logger = logging.getLogger(__name__)

_TRANSACTIONS_TOPIC: Final = "__transaction_state"
# The decision is two requests. Whoever reads the ledger waits as long for a driver that ended in between.
_DECISION_TIMEOUT_MS: Final = 20_000
_SEGMENT_BYTES: Final = 2 << 20  # tasks read it: old entries should be compacted away soon
_REQUEST_BYTES: Final = 16 << 20  # records that are written again may be larger than the producer's default
_BUFFER_BYTES: Final = 64 << 20
_KEPT: Final = ("client_id", "security", "request_timeout_ms")


def check(options: SinkOptions, identity: WriteIdentity) -> None:
    """Raise KafkaError for what cannot be exact on such brokers."""
    if identity.number is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "these brokers, which are not Ottla's, cannot commit the transactions of all tasks together, so a write that "
            "a crash leaves half committed has to be finished by its next run: give the write a name, with the options "
            "txnAppId and txnVersion",
        )
    if options.producer.get("two_phase_commit"):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "the option kafka.transaction.two.phase.commit.enable needs brokers of Ottla, which keep prepared transactions",
        )


def commit(
    ledger: TransactionLedger,
    options: SinkOptions,
    identity: WriteIdentity,
    members: Mapping[MemberTransaction, Mapping[TopicPartition, int]],
    *,
    is_whole: bool,
) -> None:
    """Commit the members' transactions, unless the batch was decided already: then finish that.

    Without `is_whole`, a task has found the batch written, and wrote nothing.
    """
    assert identity.progress is not None
    _create_ledger(ledger, options)
    with _driver(options, identity, _DECISION_TIMEOUT_MS) as producer:
        entry = ledger.read(exists=True)
        is_written = identity.is_written(None if entry is None else entry.progress, in_ledger=True)
        if entry is not None and entry.participants:
            _finish(ledger, options, identity, producer, entry)
        if is_written:
            return
        if not is_whole:
            raise RuntimeError(
                f"Batch {identity.number} of '{identity.name}' was written, and is not any more."
            )
        entry = Entry(identity.progress, ledger.participants(members))
        with producer.transaction():
            _note(producer, identity, entry)
        _finish(ledger, options, identity, producer, entry)


def decided(ledger: TransactionLedger, options: SinkOptions, identity: WriteIdentity) -> Sequence[str]:
    """The transactional ids that the next run of the batch is going to commit. From now on no other driver that has
    begun before decides.
    """
    with _driver(options, identity, _DECISION_TIMEOUT_MS):
        entry = ledger.read()
    return () if entry is None else [each.transaction.transactional_id for each in entry.participants]


def _finish(
    ledger: TransactionLedger,
    options: SinkOptions,
    identity: WriteIdentity,
    producer: Producer,
    entry: Entry,
) -> None:
    """Have all rows of a batch committed that was decided, and note that."""
    aborted = ledger.commit(entry.participants)
    if not aborted:
        with producer.transaction():
            _note(producer, identity, Entry(entry.progress))
        return
    logger.warning(
        "batch %d of '%s' was decided, and %d of its transactions were aborted after that: their records are written again",
        entry.progress.number,
        identity.name,
        len(aborted),
    )
    timeout_ms: int = options.producer["transaction_timeout_ms"]
    try:
        with _driver(options, identity, timeout_ms) as again, again.transaction():
            for each in aborted:
                _write_again(ledger, again, each)
            _note(again, identity, Entry(entry.progress))
    except RecordsGoneError as error:
        raise RecordsGoneError(
            f"Batch {entry.progress.number} of '{identity.name}' is in the topics in part. {error} To have the whole batch "
            f"written, with those of its rows that are there a second time: {forgotten(identity.name)}"
        ) from error


def _write_again(ledger: TransactionLedger, producer: Producer, participant: Participant) -> None:
    for partition in participant.written:
        for record in ledger.records(participant, partition):
            producer.send_soon(
                partition.topic,
                record.value,
                record.key,
                partition=partition.partition,
                headers=record.headers,
                timestamp_ms=record.timestamp,
            )
            producer.drain()


def _note(producer: Producer, identity: WriteIdentity, entry: Entry) -> None:
    producer.send_soon(LEDGER.topic, entry.encoded(), identity.name, partition=LEDGER.partition)


def _driver(options: SinkOptions, identity: WriteIdentity, timeout_ms: int) -> Producer:
    """The producer that has the sink's name: those that had it before are fenced."""
    kept: dict[str, Any] = {name: options.producer[name] for name in _KEPT if name in options.producer}
    return Producer(
        options.bootstrap_servers,
        transactional_id=identity.name,
        transaction_timeout_ms=timeout_ms,
        max_block_ms=PATIENCE_MS,
        max_request_size=max(_REQUEST_BYTES, options.producer.get("max_request_size", 0)),
        buffer_memory=_BUFFER_BYTES,
        compression="gzip",
        allow_auto_create_topics=False,
        **kept,
    )


def _create_ledger(ledger: TransactionLedger, options: SinkOptions) -> None:
    """Create the ledger's topic if there is none, as safe as the coordinators' own."""
    found = ledger.describe(LEDGER.topic)
    if not isinstance(found, KafkaError):
        return
    if found.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise found
    model = ledger.describe(_TRANSACTIONS_TOPIC)
    if isinstance(model, KafkaError):
        raise model
    with Admin(options.bootstrap_servers, security=options.producer.get("security")) as admin:
        created = admin.create_topics([_ledger_like(model)])[LEDGER.topic]
    if isinstance(created, KafkaError) and created.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise created


def _ledger_like(model: TopicInfo) -> NewTopic:
    replicas = model.replication_factor
    return NewTopic(
        LEDGER.topic,
        partitions=1,
        replication_factor=replicas,
        configs={
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.1",
            "min.insync.replicas": "2" if replicas > 2 else "1",
            "segment.bytes": str(_SEGMENT_BYTES),
        },
    )
