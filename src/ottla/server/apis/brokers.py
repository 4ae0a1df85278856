"""Requests of brokers to the active controller: BrokerRegistration 0 to 4, BrokerHeartbeat 0 to 1 (KIP-631),
AlterPartition 2 to 3 (KIP-497), AllocateProducerIds 0 (KIP-730), AssignReplicasToDirs 0 (KIP-858),
AlterRemoteLog 0 (Ottla's own). Served, not advertised. A node that is not the controller answers NOT_CONTROLLER, and has done nothing.
"""

from typing import Any, Final

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import api_of
from ottla.protocol.declaration import declaration_of
from ottla.protocol.messages.brokers import (
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.protocol.messages.partitions import AlterPartitionRequest
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.remote_logs import AlterRemoteLogRequest
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.quorum.commands import NotControllerError

api = ApiFamily()

_HEARTBEATS: Final = "heartbeats"


@api.handles(
    AlterPartitionRequest, AllocateProducerIdsRequest, AssignReplicasToDirsRequest, AlterRemoteLogRequest
)
async def decide(context: RequestContext, request: Any) -> Any:
    """The controller's decision, if this node is the controller."""
    try:
        return await context.services.quorum.decide(request)
    except NotControllerError:
        error = ErrorCode.NOT_CONTROLLER
    except KafkaError as refused:
        error = refused.code
    declared = api_of(declaration_of(type(request)).key)
    assert declared is not None
    return declared.response(error_code=error)


@api.handles(BrokerRegistrationRequest)
async def register(context: RequestContext, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    """Take a broker in, unless one with its id is there."""
    if context.services.quorum.is_controller:
        refused = context.services.duties.registration_refusal(request)
        if refused is not None:
            return refused
    response: BrokerRegistrationResponse = await decide(context, request)
    return response


@api.handles(BrokerHeartbeatRequest)
async def heartbeat(context: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    """Hear a broker. When the connection that carries its heartbeats goes, the broker has probably gone with
    it.
    """
    duties, session = context.services.duties, context.session
    duties.heard(request, session)
    session.call_when_closed(_HEARTBEATS, lambda: duties.disconnected(request.broker_id, session))
    response: BrokerHeartbeatResponse = await decide(context, request)
    return response
