"""Transactions from outside (KIP-664): DescribeProducers (key 61, version 0), DescribeTransactions (65, 0),
ListTransactions (66, 0 to 2).

ListTransactions by duration (v1, KIP-994), by a pattern of transactional ids (v2, KIP-1152).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import Int16, Int32, Int64, String, message, since, struct


@struct
class TopicRequest:
    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest:
    topics: list[TopicRequest] = field(default_factory=list)


@struct
class ProducerState:
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


@struct
class TopicResponse:
    name: String = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = field(default_factory=list)


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest:
    transactional_ids: list[String] = field(default_factory=list)


@struct
class TopicData:
    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class DescribedTransactionState:
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = field(default_factory=list)


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribedTransactionState] = field(default_factory=list)


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsRequest:
    state_filters: list[String] = field(default_factory=list)
    producer_id_filters: list[Int64] = field(default_factory=list)
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[String | None, since(2)] = None


@struct
class ListedTransactionState:
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = field(default_factory=list)
    transaction_states: list[ListedTransactionState] = field(default_factory=list)
