"""A cluster of one fake broker that coordinates one transactional id, for tests of the transactional producer.

It does what a transactional producer expects, in the protocol of the given `transaction.version`, and writes
down what happened. A test puts other answers into `faults`: they are given out one by one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from tests.unit.wire.fake_broker import HANG_UP, FakeBroker

from ottla.client.producer.producer import Producer
from ottla.errors import ErrorCode
from ottla.protocol.apis import DECLARED_APIS
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages import coordinator, metadata, produce, producer_ids, transactions
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.records.batch import iter_batches

TOPIC_ID = UUID(int=7)
PRODUCER_ID = 9


class TransactionalCluster:
    """Topic `t` with two partitions. `events` has what was asked, in short."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.epoch = -1
        self.events: list[tuple[Any, ...]] = []
        self.faults: defaultdict[type[Any], list[Any]] = defaultdict(list)
        self.broker = FakeBroker()
        answers: dict[type[Any], Callable[[Any], Any]] = {
            ApiVersionsRequest: self._api_versions,
            metadata.MetadataRequest: self._metadata,
            coordinator.FindCoordinatorRequest: self._find,
            producer_ids.InitProducerIdRequest: self._init,
            transactions.AddPartitionsToTxnRequest: self._add_partitions,
            transactions.AddOffsetsToTxnRequest: self._add_offsets,
            transactions.TxnOffsetCommitRequest: self._commit_offsets,
            transactions.EndTxnRequest: self._end,
            produce.ProduceRequest: self._produce,
        }
        for request_type, answer in answers.items():
            self.broker.on(request_type, self._faulty(answer))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker.port}"

    def versions_of(self, api_key: int) -> set[int]:
        return {header.api_version for header, _ in self.broker.asked if header.api_key == api_key}

    def _faulty(self, answer: Callable[[Any], Any]) -> Callable[[Any, RequestHeader], Any]:
        def answered(request: Any, header: RequestHeader) -> Any:
            planned = self.faults[type(request)]
            fault = planned.pop(0) if planned else None
            if fault is None or fault is HANG_UP:
                carried_out = answer(request)
                return carried_out if fault is None else HANG_UP
            return fault(request) if callable(fault) else fault

        return answered

    def _api_versions(self, _: Any) -> ApiVersionsResponse:
        levels = [FinalizedFeatureKey("transaction.version", self.version, self.version)]
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=each.key, min_version=each.min_version, max_version=each.max_version)
                for each in DECLARED_APIS.values()
            ],
            finalized_features_epoch=1,
            finalized_features=levels,
        )

    def _metadata(self, request: metadata.MetadataRequest) -> metadata.MetadataResponse:
        broker = metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.broker.port)
        partitions = [
            metadata.MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1])
            for index in range(2)
        ]
        topics = [
            metadata.MetadataResponseTopic(name=each.name, topic_id=TOPIC_ID, partitions=partitions)
            for each in request.topics or ()
        ]
        return metadata.MetadataResponse(brokers=[broker], controller_id=1, topics=topics)

    def _find(self, request: coordinator.FindCoordinatorRequest) -> coordinator.FindCoordinatorResponse:
        found = [
            coordinator.Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.broker.port)
            for key in request.coordinator_keys
        ]
        return coordinator.FindCoordinatorResponse(coordinators=found)

    def _init(self, request: producer_ids.InitProducerIdRequest) -> producer_ids.InitProducerIdResponse:
        self.epoch += 1
        self.events.append(("init", request.producer_epoch))
        return producer_ids.InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _add_partitions(
        self, request: transactions.AddPartitionsToTxnRequest
    ) -> transactions.AddPartitionsToTxnResponse:
        topics = request.v3_and_below_topics
        self.events.append(("add", sorted(each for topic in topics for each in topic.partitions)))
        return not_added(request, ErrorCode.NONE)

    def _add_offsets(
        self, request: transactions.AddOffsetsToTxnRequest
    ) -> transactions.AddOffsetsToTxnResponse:
        self.events.append(("add group", request.group_id))
        return transactions.AddOffsetsToTxnResponse()

    def _commit_offsets(
        self, request: transactions.TxnOffsetCommitRequest
    ) -> transactions.TxnOffsetCommitResponse:
        offsets = [each.committed_offset for topic in request.topics for each in topic.partitions]
        self.events.append(("offsets", request.group_id, request.generation_id, offsets))
        return offsets_refused(request, ErrorCode.NONE)

    def _end(self, request: transactions.EndTxnRequest) -> transactions.EndTxnResponse:
        self.events.append(("commit" if request.committed else "abort", request.producer_epoch))
        if self.version < 2:
            return transactions.EndTxnResponse()
        self.epoch = request.producer_epoch + 1
        return transactions.EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _produce(self, request: produce.ProduceRequest) -> produce.ProduceResponse:
        for topic in request.topic_data:
            for data in topic.partition_data:
                for batch in iter_batches(data.records or b""):
                    assert batch.is_transactional
                    header = batch.header
                    values = [each.value for each in batch.records()]
                    self.events.append((data.index, header.producer_epoch, header.base_sequence, values))
        assert request.transactional_id == "id"
        return refused(request, ErrorCode.NONE)


def refused(request: produce.ProduceRequest, code: ErrorCode) -> produce.ProduceResponse:
    """A leader's answer to Produce."""
    return produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    produce.PartitionProduceResponse(index=data.index, error_code=code, base_offset=0)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def not_added(
    request: transactions.AddPartitionsToTxnRequest, code: ErrorCode
) -> transactions.AddPartitionsToTxnResponse:
    """The coordinator's answer to AddPartitionsToTxn."""
    return transactions.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            transactions.AddPartitionsToTxnTopicResult(
                topic.name,
                [transactions.AddPartitionsToTxnPartitionResult(each, code) for each in topic.partitions],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def offsets_refused(
    request: transactions.TxnOffsetCommitRequest, code: ErrorCode
) -> transactions.TxnOffsetCommitResponse:
    """The group coordinator's answer to TxnOffsetCommit."""
    return transactions.TxnOffsetCommitResponse(
        topics=[
            transactions.TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    transactions.TxnOffsetCommitResponsePartition(each.partition_index, code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def with_transactions(
    cluster: TransactionalCluster, body: Callable[[Producer], Awaitable[None]], **settings: Any
) -> None:
    """Run with a deadline, and see that no task is left behind."""

    async def run() -> None:
        quick: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 5, "transactional_id": "id"} | settings
        async with asyncio.timeout(20), cluster.broker:
            async with Producer(cluster.bootstrap, **quick) as producer:
                await body(producer)
            left = asyncio.all_tasks() - cluster.broker.tasks - {asyncio.current_task()}
            assert not left, f"tasks left behind: {left}"

    asyncio.run(run())
