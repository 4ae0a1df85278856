"""FindCoordinator, versions 0 to 6 (KIP-699 batches from 4).

A group's coordinator leads the partition of `__consumer_offsets` that the group's name hashes to, a transactional
id's coordinator the partition of `__transaction_state`; the first question creates the topic. There are no share
groups yet: their coordinators are refused in words.
"""

from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.codec import first_version
from ottla.protocol.messages.coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SEVERAL_KEYS_SINCE: Final = first_version(FindCoordinatorRequest, "coordinator_keys")


@api.handles(FindCoordinatorRequest)
async def find_coordinator(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Where to go with a group or a transactional id."""
    keys = request.coordinator_keys if context.version >= _SEVERAL_KEYS_SINCE else [request.key]
    found = [await _find(context, request.key_type, key) for key in keys]
    if context.version >= _SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


async def _find(context: RequestContext, key_type: int, key: str) -> Coordinator:
    services = context.services
    if key_type not in (_GROUP, _TRANSACTION):
        return _refused(key, ErrorCode.INVALID_REQUEST, "this broker has no share groups yet")
    topic = services.coordinators.topic if key_type == _GROUP else services.transactions.topic
    try:
        await topic.make()
        leader = services.quorum.image.brokers.get(topic.leader_of(key))
    except KafkaError as error:
        return _refused(key, error.code, error.message)
    endpoint = None if leader is None else leader.endpoint(context.session.advertised_listener)
    if leader is None or leader.is_fenced or endpoint is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE.message)
    return Coordinator(
        key=key, node_id=leader.node_id, host=endpoint.host, port=endpoint.port, error_message=None
    )


def _refused(key: str, error: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
