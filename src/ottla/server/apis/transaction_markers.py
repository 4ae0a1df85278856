"""WriteTxnMarkers, versions 1 to 2: a transaction coordinator ends a transaction in the partitions led here.

KIP-98 markers, KIP-664 markers of an administrator who aborts a hanging transaction, KIP-1228 the version of the
transaction (2), which decides about epochs (log/producers/producer_state.py).
"""

import asyncio

from ottla.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.records.control import TransactionMarker
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()


@api.handles(WriteTxnMarkersRequest)
async def write_txn_markers(
    context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Write all markers, and answer when the last one is replicated or refused."""
    markers = await asyncio.gather(*(_write(context, marker) for marker in request.markers))
    return WriteTxnMarkersResponse(markers=list(markers))


async def _write(context: RequestContext, asked: WritableTxnMarker) -> WritableTxnMarkerResult:
    marker = TransactionMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )
    write = context.services.markers.write
    # All are appended before the first is waited for.
    written = {
        topic.name: {index: write(topic.name, index, marker) for index in topic.partition_indexes}
        for topic in asked.topics
    }
    topics = [
        WritableTxnMarkerTopicResult(
            name=name,
            partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=await outcome)
                for index, outcome in outcomes.items()
            ],
        )
        for name, outcomes in written.items()
    ]
    return WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics)
