"""The answer to a request that is refused: an error for all that it asks for, and nothing else."""

from collections.abc import Callable
from typing import Any, Final

from ottla.errors import ErrorCode, KafkaError
from ottla.group.error_responses import refusal as group_refusal
from ottla.model import NO_PRODUCER_ID
from ottla.protocol.apis import api_of
from ottla.protocol.codec import first_version
from ottla.protocol.declaration import declaration_of
from ottla.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from ottla.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from ottla.protocol.messages.groups import JoinGroupRequest
from ottla.protocol.messages.leader_epochs import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from ottla.protocol.messages.partitions import ElectLeadersRequest
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.remote_logs import (
    ListRemoteSegmentsRequest,
    ListRemoteSegmentsResponse,
    RemoteRangeData,
    RemoteRangeTopicData,
)
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    DeleteTopicsRequest,
)
from ottla.protocol.messages.transaction_admin import (
    DescribedTransactionState,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    PartitionResponse,
    TopicResponse,
)
from ottla.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.messages.user_scram_credentials import AlterUserScramCredentialsRequest
from ottla.server.apis.topics import refusal as command_refusal

_SEVERAL_KEYS_SINCE: Final = first_version(FindCoordinatorRequest, "coordinator_keys")
_OF_GROUPS: Final = (
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
    DescribeGroupsRequest,
    DeleteGroupsRequest,
)
_COMMANDS: Final = (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    CreatePartitionsRequest,
    AlterConfigsRequest,
    IncrementalAlterConfigsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    ElectLeadersRequest,
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
)


def refusal(request: Any, error: ErrorCode, version: int) -> Any:
    """The response to a request of this version that says nothing but an error, as often as it has places for it."""
    if isinstance(request, _OF_GROUPS):
        return group_refusal(request, error, version)
    if isinstance(request, _COMMANDS):
        return command_refusal(request, KafkaError(error))
    own = _OWN.get(type(request))
    if own is not None:
        return own(request, error, version)
    api = api_of(declaration_of(type(request)).key)
    assert api is not None, "every request belongs to an API"
    has_message = "error_message" in api.response.__slots__
    return api.response(error_code=error, **({"error_message": error.message} if has_message else {}))


def _list_offsets(request: ListOffsetsRequest, error: ErrorCode, version: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name,
                [ListOffsetsPartitionResponse(each.partition_index, error) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _leader_epochs(
    request: OffsetForLeaderEpochRequest, error: ErrorCode, version: int
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [EpochEndOffset(error, each.partition) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete_records(request: DeleteRecordsRequest, error: ErrorCode, version: int) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [DeleteRecordsPartitionResult(each.partition_index, -1, error) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _describe_producers(
    request: DescribeProducersRequest, error: ErrorCode, version: int
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name,
                [PartitionResponse(index, error, error.message) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _remote_segments(
    request: ListRemoteSegmentsRequest, error: ErrorCode, version: int
) -> ListRemoteSegmentsResponse:
    return ListRemoteSegmentsResponse(
        topics=[
            RemoteRangeTopicData(
                topic.name,
                partitions=[RemoteRangeData(each.partition_index, error) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _describe_configs(
    request: DescribeConfigsRequest, error: ErrorCode, version: int
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(error, error.message, each.resource_type, each.resource_name)
            for each in request.resources
        ]
    )


def _describe_transactions(
    request: DescribeTransactionsRequest, error: ErrorCode, version: int
) -> DescribeTransactionsResponse:
    states = [DescribedTransactionState(error, each) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _find_coordinator(
    request: FindCoordinatorRequest, error: ErrorCode, version: int
) -> FindCoordinatorResponse:
    if version < _SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(error_code=error, error_message=error.message, node_id=-1, port=-1)
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key, -1, "", -1, error, error.message) for key in request.coordinator_keys]
    )


def _init_producer_id(
    request: InitProducerIdRequest, error: ErrorCode, version: int
) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=-1)


def _describe_quotas(
    request: DescribeClientQuotasRequest, error: ErrorCode, version: int
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error, error_message=error.message, entries=None)


def _markers(request: WriteTxnMarkersRequest, error: ErrorCode, version: int) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=[_marker(each, error) for each in request.markers])


def _marker(marker: WritableTxnMarker, error: ErrorCode) -> WritableTxnMarkerResult:
    topics = [
        WritableTxnMarkerTopicResult(
            topic.name, [WritableTxnMarkerPartitionResult(index, error) for index in topic.partition_indexes]
        )
        for topic in marker.topics
    ]
    return WritableTxnMarkerResult(marker.producer_id, topics)


_OWN: Final[dict[type[Any], Callable[[Any, ErrorCode, int], Any]]] = {
    ListOffsetsRequest: _list_offsets,
    OffsetForLeaderEpochRequest: _leader_epochs,
    DeleteRecordsRequest: _delete_records,
    DescribeProducersRequest: _describe_producers,
    ListRemoteSegmentsRequest: _remote_segments,
    DescribeConfigsRequest: _describe_configs,
    DescribeTransactionsRequest: _describe_transactions,
    FindCoordinatorRequest: _find_coordinator,
    InitProducerIdRequest: _init_producer_id,
    WriteTxnMarkersRequest: _markers,
    DescribeClientQuotasRequest: _describe_quotas,
}
