"""The guard of Fetch: followers and nodes of the metadata quorum need the right to act for the cluster. The topics
of a consumer's fetch are checked while they are read, since a fetch session goes on while rights change.
"""

from typing import Any, Final

from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import first_version
from ottla.protocol.messages.fetch import FetchRequest
from ottla.security.acl.checks import CHECKS
from ottla.server.answers.send_queue import Part
from ottla.server.apis.fetch_response import PartitionResult, fetch_refusal, fetch_response_parts
from ottla.server.gate.handlers import RequestContext
from ottla.server.gate.rights import Rights
from ottla.server.guards.steps import Proceed

_REPLICA_STATE_SINCE: Final = first_version(FetchRequest, "replica_state")
_, _OF_FOLLOWER, _OF_NODE = CHECKS[ApiKey.FETCH]


def fetch(rights: Rights, context: RequestContext, request: FetchRequest, proceed: Proceed) -> Any:
    """Let consumers through, and nodes of the cluster."""
    if context.services.quorum.is_metadata_fetch(request):
        if rights.permits(context.session, _OF_NODE, ""):
            return proceed(request)
        return [fetch_refusal(context.version, context.header.correlation_id, _OF_NODE.error)]
    by_state = context.version >= _REPLICA_STATE_SINCE
    replica_id = request.replica_state.replica_id if by_state else request.replica_id
    if replica_id < 0 or rights.permits(context.session, _OF_FOLLOWER, ""):
        return proceed(request)
    return _refused(context, request)


def _refused(context: RequestContext, request: FetchRequest) -> list[Part]:
    """Every partition has the error, and there is no session."""
    results = [
        PartitionResult(topic.topic, topic.topic_id, each.partition, _OF_FOLLOWER.error)
        for topic in request.topics
        for each in topic.partitions
    ]
    return fetch_response_parts(context.version, context.header.correlation_id, 0, False, results)
