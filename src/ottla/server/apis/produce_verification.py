"""Transactional batches in Produce: the coordinator is asked before the first of a transaction (KIP-890).

A batch whose transaction is open in its partition is appended without a question. For any other the coordinator
is asked whether the partition is in the transaction; from version 12 on the partition joins the transaction by
the same question. The answer is worth something only as long as nothing ends the transaction meanwhile
(log/producers/verification.py).

    outcome at the coordinator                         answer to the producer
    not in the transaction                             INVALID_TXN_STATE; TRANSACTION_ABORTABLE from version 11 on
    the producer was fenced                            INVALID_PRODUCER_EPOCH
    no coordinator was found, or it is loading         NOT_ENOUGH_REPLICAS, which every client repeats without a
                                                       look at the metadata
    the last transaction is still being ended          the same; CONCURRENT_TRANSACTIONS from version 12 on
"""

from collections.abc import Collection, Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers.verification import Verification
from ottla.log.writing.append import Appended
from ottla.model import TopicPartition
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.header import HEADER_BYTES, TRANSACTIONAL
from ottla.server.gate.services import Services
from ottla.server.partitions.hosted_partition import HostedPartition

# Where the low byte of the attributes stands in a batch.
ATTRIBUTES_LOW_BYTE: Final = 22
# Producer id, epoch and first sequence, from byte 43 of a batch on.
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_POSITION: Final = 43
_ABORTABLE_SINCE: Final = 11
_ADDS_SINCE: Final = 12
_NO_COORDINATOR: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


# A partition, and a place in what a read brought for it.
RecordSet = tuple[HostedPartition, int]
# Transactional id, producer id, epoch, whether partitions join the transaction.
_Transaction = tuple[str, int, int, bool]


class Claim(NamedTuple):
    """A transactional record set: its place in what a read brought for a partition, and its transaction."""

    partition: HostedPartition
    place: int
    transactional_id: str
    version: int
    producer_id: int
    epoch: int
    sequence: int

    @property
    def transaction(self) -> _Transaction:
        """What the coordinator is asked about, once for all its partitions."""
        return self.transactional_id, self.producer_id, self.epoch, self.adds

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.partition.topic, self.partition.index)

    @property
    def record_set(self) -> RecordSet:
        return self.partition, self.place

    @property
    def adds(self) -> bool:
        """Whether the partition joins the transaction by the question."""
        return self.version >= _ADDS_SINCE

    @property
    def is_ongoing(self) -> bool:
        """Whether the transaction is open in the partition."""
        return self.partition.log.producers.has_ongoing(self.producer_id, self.epoch)


class Verdict(NamedTuple):
    """The verifications that appends may present, and the record sets that must not be appended."""

    verified: Collection[Verification] | None
    refused: dict[RecordSet, KafkaError]

    def append(
        self, partition: HostedPartition, record_sets: Sequence[memoryview], acks: int, now_ms: int
    ) -> list[Appended | KafkaError]:
        """Append the record sets of a partition that may be appended; one outcome for each."""
        # Another leader may have been elected while the coordinator was asked.
        error = partition.append_error(acks)
        if error:
            return [KafkaError(error) for _ in record_sets]
        refused = [self.refused.get((partition, place)) for place in range(len(record_sets))]
        allowed = [records for records, error in zip(record_sets, refused, strict=True) if error is None]
        appended = iter(partition.append(allowed, now_ms, self.verified))
        return [error or next(appended) for error in refused]


def is_transactional(records: memoryview | None) -> bool:
    """Whether a record set says that it belongs to a transaction."""
    return (
        records is not None
        and len(records) >= HEADER_BYTES
        and bool(records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL)
    )


def has_transaction(request: ProduceRequest) -> bool:
    """Whether a record set of a request says that it belongs to a transaction."""
    return any(
        is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data
    )


def is_ongoing(partition: HostedPartition, records: memoryview) -> bool:
    """Whether the transaction of a record set is open in its partition."""
    producer_id, epoch, _ = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
    return partition.log.producers.has_ongoing(producer_id, epoch)


def claim_of(
    partition: HostedPartition, place: int, request: ProduceRequest, version: int, records: memoryview
) -> Claim:
    """The claim of a transactional record set."""
    assert request.transactional_id is not None, "refused before"
    fields = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
    return Claim(partition, place, request.transactional_id, version, *fields)


def refusal_of(request: ProduceRequest) -> KafkaError | None:
    """Why no record of a request may be appended: its transactional batches belong to no one transaction."""
    producer_ids = {
        _PRODUCER.unpack_from(data.records, _PRODUCER_POSITION)[0]
        for topic in request.topic_data
        for data in topic.partition_data
        if data.records is not None and is_transactional(data.records)
    }
    if not producer_ids:
        return None
    if request.transactional_id is None:
        return KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch needs a request with a transactional id",
        )
    if len(producer_ids) > 1:
        return KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"one request has transactional batches of the producers {sorted(producer_ids)}",
        )
    return None


class Verifier:
    """Asks coordinators about the transactional record sets that one connection brought."""

    __slots__ = ("_services", "none_verified")

    def __init__(self, services: Services) -> None:
        self._services = services
        is_enabled = services.config.transactions.partition_verification_enable
        self.none_verified: Collection[Verification] | None = () if is_enabled else None
        """What an append presents that nobody was asked about."""

    def unverified(self, claims: Iterable[Claim]) -> list[Claim]:
        """The claims that the coordinator has to be asked about."""
        is_enabled = self.none_verified is not None
        return [claim for claim in claims if (claim.adds or is_enabled) and not claim.is_ongoing]

    async def verdict(self, claims: Iterable[Claim]) -> Verdict:
        """Ask, and tell which record sets may be appended now."""
        unverified = self.unverified(claims)
        if not unverified:
            return Verdict(self.none_verified, {})
        verified = self._begin(unverified)
        asked: dict[_Transaction, list[Claim]] = {}
        for claim in unverified:
            asked.setdefault(claim.transaction, []).append(claim)
        refused: dict[RecordSet, KafkaError] = {}
        for transaction, claimed in asked.items():
            refused |= await self._ask(transaction, claimed)
        return Verdict(None if self.none_verified is None else verified, refused)

    def _begin(self, claims: Iterable[Claim]) -> list[Verification]:
        now_ms = self._services.now_ms()
        return [
            claim.partition.log.producers.verifications.begin(
                claim.producer_id, claim.epoch, claim.sequence, bumps_epoch=claim.adds, now_ms=now_ms
            )
            for claim in claims
        ]

    async def _ask(self, transaction: _Transaction, claims: Sequence[Claim]) -> dict[RecordSet, KafkaError]:
        """The record sets of one transaction that must not be appended."""
        transactional_id, producer_id, epoch, adds = transaction
        partitions = {claim.topic_partition for claim in claims}
        errors = await self._services.transactions.verify(
            transactional_id, producer_id, epoch, partitions, adds=adds
        )
        return {
            (claim.partition, claim.place): answer_to(error, claim.version)
            for claim in claims
            if (error := errors[claim.topic_partition]) is not ErrorCode.NONE
        }


def answer_to(code: ErrorCode, version: int) -> KafkaError:
    """The answer to a producer whose coordinator gave this one."""
    if code in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE):
        told = ErrorCode.TRANSACTION_ABORTABLE if version >= _ABORTABLE_SINCE else ErrorCode.INVALID_TXN_STATE
        return KafkaError(told, "the partition was not added to the transaction")
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "a newer producer has the transactional id")
    if code in _NO_COORDINATOR or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS_SINCE):
        reason = f"the transaction cannot be verified now: {code.name}"
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    return KafkaError(code)
