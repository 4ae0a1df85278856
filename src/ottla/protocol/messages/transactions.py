"""Transactions: AddPartitionsToTxn (key 24, versions 0 to 5), AddOffsetsToTxn (25, 0 to 4), EndTxn (26, 0 to 5),
WriteTxnMarkers (27, 1 to 2), TxnOffsetCommit (28, 0 to 5).

KIP-98 transactions, KIP-447 members of groups in TxnOffsetCommit (v3), KIP-588 PRODUCER_FENCED (v2 of the first
three), KIP-890 TRANSACTION_ABORTABLE, and its second part: EndTxn answers the next epoch (v5), TxnOffsetCommit
adds its own partition (v5), brokers ask the coordinator about several transactions (AddPartitionsToTxn from v4
on, which no client sends), KIP-1228 markers that say the transaction's version (WriteTxnMarkers v2).

Ottla's own: EndTxn commits the transactions of several transactional ids together (`GROUP_COMMIT_FEATURE`), and
TxnOffsetCommit asks for a retention time, as OffsetCommit 2 to 4 does.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    message,
    since,
    struct,
    tag,
    until,
)


@struct
class AddPartitionsToTxnTopic:
    name: String = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: Annotated[String, since(4)] = ""
    producer_id: Annotated[Int64, since(4)] = 0
    producer_epoch: Annotated[Int16, since(4)] = 0
    verify_only: Annotated[Boolean, since(4)] = False
    topics: Annotated[list[AddPartitionsToTxnTopic], since(4)] = field(default_factory=list)


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest:
    """Of clients up to version 3, of brokers from version 4 on."""

    transactions: Annotated[list[AddPartitionsToTxnTransaction], since(4)] = field(default_factory=list)
    v3_and_below_transactional_id: Annotated[String, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], until(3)] = field(default_factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@struct
class AddPartitionsToTxnResult:
    transactional_id: Annotated[String, since(4)] = ""
    topic_results: Annotated[list[AddPartitionsToTxnTopicResult], since(4)] = field(default_factory=list)


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4)] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since(4)] = field(default_factory=list)
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], until(3)] = field(
        default_factory=list
    )


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@struct
class TransactionToEnd:
    """One of several transactions that are ended together."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnRequest:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Boolean = False
    # These transactions are committed together, or none of them; the fields above are then "", -1 and -1. A broker
    # that does not know this field refuses the request, as it names no transactional id.
    ottla_transactions: Annotated[list[TransactionToEnd], tag(10_000, since=5)] = field(default_factory=list)


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnResponse:
    """From version 5 on with the producer id and epoch of the next transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, since(5)] = -1
    producer_epoch: Annotated[Int16, since(5)] = -1
    # Of transactions that were to be committed together: the one for whose sake none was.
    ottla_refused_id: Annotated[String, tag(10_000, since=5)] = ""


@struct
class WritableTxnMarkerTopic:
    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@struct
class WritableTxnMarker:
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Boolean = False  # whether the transaction is committed
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, since(2)] = 0


@message(key=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field(default_factory=list)


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@struct
class WritableTxnMarkerResult:
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@message(key=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field(default_factory=list)


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(2)] = -1
    committed_metadata: String | None = ""


@struct
class TxnOffsetCommitRequestTopic:
    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@message(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest:
    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, since(3)] = -1
    member_id: Annotated[String, since(3)] = ""
    group_instance_id: Annotated[String | None, since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)
    ottla_retention_time_ms: Annotated[Int64, tag(10_000, since=3)] = -1  # -1: as long as any other offset


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@message(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)
