"""FindCoordinator, versions 0 to 6 (KIP-699 batches from 4).

It is served before there are coordinators because librdkafka up to 2.11 takes its absence for a broker that cannot
read lz4. The answer is an error that clients wait on for groups, and one that they report for transactions.
"""

from ottla.errors import ErrorCode
from ottla.protocol.messages.coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.server.dispatch import RequestContext

_GROUP = 0
_FIRST_BATCH_VERSION = 4


def find_coordinator(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """No coordinator, in words."""
    if request.key_type == _GROUP:
        error, message = ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker has no consumer groups yet"
    else:
        error, message = ErrorCode.INVALID_REQUEST, "this broker has no transactions and share groups yet"
    if context.version < _FIRST_BATCH_VERSION:
        return FindCoordinatorResponse(error_code=error, error_message=message, node_id=-1, port=-1)
    coordinators = [
        Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
        for key in request.coordinator_keys
    ]
    return FindCoordinatorResponse(coordinators=coordinators)
