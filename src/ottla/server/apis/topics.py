"""Changes of the cluster that clients ask for: CreateTopics 2 to 7, DeleteTopics 1 to 6, CreatePartitions 0
to 3, AlterConfigs 0 to 2, ElectLeaders 0 to 2, AlterPartitionReassignments 0
to 1, UpdateFeatures 0 to 2, UnregisterBroker 0. All of them are commands to the controller (CTL-6, CTL-7),
whichever broker is asked.
"""

from typing import Any

from ottla.errors import KafkaError
from ottla.protocol.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.protocol.messages.brokers import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
)
from ottla.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.messages.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.protocol.messages.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.messages.user_scram_credentials import AlterUserScramCredentialsRequest
from ottla.server.apis.user_scram_credentials import alteration_refusal
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()


@api.handles(
    CreateTopicsRequest,
    DeleteTopicsRequest,
    CreatePartitionsRequest,
    AlterConfigsRequest,
    ElectLeadersRequest,
    AlterPartitionReassignmentsRequest,
    UpdateFeaturesRequest,
    UnregisterBrokerRequest,
)
async def submit(context: RequestContext, request: Any) -> Any:
    """Answer what the controller decided, once it is durable and in force on this broker.

    A client that the controller throttles (KIP-599) is muted by the broker to which it is connected.
    """
    quorum, quotas = context.services.quorum, context.services.quotas
    try:
        response = await quorum.submit(request, version=context.version, asker=context.asker)
    except KafkaError as error:
        return refusal(request, error)
    if quotas.are_set and response.throttle_time_ms:
        quotas.mute(context.session, response.throttle_time_ms)
    return response


def refusal(request: Any, error: KafkaError) -> Any:
    """The answer when nothing could be decided: everything that was asked for has the same error."""
    failed: dict[str, Any] = {"error_code": error.code, "error_message": error.message}
    match request:
        case CreateTopicsRequest(topics=topics):
            return CreateTopicsResponse(
                topics=[CreatableTopicResult(name=topic.name, **failed) for topic in topics]
            )
        case DeleteTopicsRequest(topics=topics, topic_names=names):
            wanted = topics or [DeleteTopicState(name=name) for name in names]
            return DeleteTopicsResponse(
                responses=[
                    DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, **failed)
                    for topic in wanted
                ]
            )
        case CreatePartitionsRequest(topics=topics):
            return CreatePartitionsResponse(
                results=[CreatePartitionsTopicResult(name=topic.name, **failed) for topic in topics]
            )
        case AlterConfigsRequest(resources=resources):
            return AlterConfigsResponse(
                responses=[AlterConfigsResourceResponse(**_resource(item), **failed) for item in resources]
            )
        case IncrementalAlterConfigsRequest(resources=resources):
            return IncrementalAlterConfigsResponse(
                responses=[
                    IncrementalAlterConfigsResourceResponse(**_resource(item), **failed) for item in resources
                ]
            )
        case ElectLeadersRequest(topic_partitions=topics):
            # For each partition as well: version 0 has no other place for an error.
            return ElectLeadersResponse(
                error_code=error.code,
                replica_election_results=[
                    ReplicaElectionResult(
                        topic.topic, [PartitionResult(index, **failed) for index in topic.partitions]
                    )
                    for topic in topics or ()
                ],
            )
        case AlterPartitionReassignmentsRequest():
            return AlterPartitionReassignmentsResponse(**failed)
        case UpdateFeaturesRequest():
            return UpdateFeaturesResponse(**failed)
        case UnregisterBrokerRequest():
            return UnregisterBrokerResponse(**failed)
        case CreateAclsRequest(creations=creations):
            return CreateAclsResponse(results=[AclCreationResult(**failed) for _ in creations])
        case DeleteAclsRequest(filters=filters):
            return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(**failed) for _ in filters])
        case AlterClientQuotasRequest(entries=entries):
            return AlterClientQuotasResponse(
                entries=[AlteredEntryData(entity=entry.entity, **failed) for entry in entries]
            )
        case AlterUserScramCredentialsRequest():
            return alteration_refusal(request, error)
    raise error


def _resource(named: Any) -> dict[str, Any]:
    return {"resource_type": named.resource_type, "resource_name": named.resource_name}
