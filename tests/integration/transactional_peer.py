"""Raw requests of transactions, one connection each."""

from typing import Any

from tests.integration.in_process import BrokerThread
from tests.integration.peer import Peer, batch, now_ms

from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.messages.transaction_admin import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from ottla.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.records.batch import iter_batches


def transactional(*values: bytes, producer_id: int, epoch: int = 0, sequence: int = 0) -> bytearray:
    """A batch of a transaction."""
    return batch(
        *values,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def open_transaction(
    served: BrokerThread, topic: str, *values: bytes, producer_id: int, epoch: int = 0, sequence: int = 0
) -> None:
    """Append records of a transaction that no coordinator knows."""
    records = transactional(*(values or (b"open",)), producer_id=producer_id, epoch=epoch, sequence=sequence)
    partition = served.partition(topic)
    (appended,) = served.call(lambda: partition.append([memoryview(records)], now_ms()))
    assert not isinstance(appended, Exception), appended


def marker_request(topic: str, **fields: Any) -> WriteTxnMarkersRequest:
    """One marker for partition 0 of a topic: a commit, unless `transaction_result` says otherwise."""
    wanted = WritableTxnMarkerTopic(name=topic, partition_indexes=[0])
    named: dict[str, Any] = {"producer_epoch": 0, "transaction_result": True} | fields
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(topics=[wanted], **named)])


def write_marker(peer: Peer, topic: str, *, version: int = 2, **fields: Any) -> ErrorCode:
    """Write one marker; the outcome of partition 0."""
    answer = peer.ask(ApiKey.WRITE_TXN_MARKERS, version, marker_request(topic, **fields))
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def describe_producers(peer: Peer, topic: str, partition: int = 0) -> PartitionResponse:
    """The producers of one partition."""
    request = DescribeProducersRequest([TopicRequest(topic, [partition])])
    answer = peer.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request)
    found: PartitionResponse = answer.topics[0].partitions[0]
    return found


def committed_values(found: PartitionData) -> list[bytes | None]:
    """The values that a reader of committed records takes from an answer."""
    begins = {(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()}
    aborted: set[int] = set()
    values: list[bytes | None] = []
    for stored in iter_batches(found.records or b""):
        if (stored.producer_id, stored.base_offset) in begins:
            aborted.add(stored.producer_id)
        if stored.is_control:
            aborted.discard(stored.producer_id)
        elif not (stored.is_transactional and stored.producer_id in aborted):
            values += [record.value for record in stored.records()]
    return values
