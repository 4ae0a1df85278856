"""The metadata quorum: requests between its nodes, and questions of clients about it.

Vote 0 to 2, BeginQuorumEpoch and EndQuorumEpoch 0 to 1, FetchSnapshot 0 to 1 (KIP-595, KIP-630): served, not
advertised. Envelope 0 (KIP-590): a client's command that another broker hands on to the active controller.
DescribeQuorum 0 to 2 (KIP-836): any node may be asked; the leader answers. AddRaftVoter 0 to 1 and
RemoveRaftVoter 0 (KIP-853): any node takes them, the leader carries them out.
"""

from collections.abc import Awaitable
from typing import Any, Final

from ottla.controller.commands import OnBehalfOf
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.codec import DecodeError
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from ottla.protocol.messages.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ottla.security.quota.mutations import Asker
from ottla.server.apis.topics import refusal
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.quorum.commands import NotControllerError
from ottla.server.quorum.forwarding import asker_of, forward, open_envelope, seal_envelope

api = ApiFamily()

# A caller wants an answer at once, most of all when the leader is in trouble.
_DESCRIBE_MS: Final = 500


@api.handles(VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchSnapshotRequest)
def ask_member(context: RequestContext, request: Any) -> Awaitable[Any]:
    """The answer of the raft machine."""
    return context.services.quorum.answer(context, request)


@api.handles(EnvelopeRequest)
async def envelope(context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Carry out what another broker's client asked for.

    Only a node of the cluster speaks for somebody else. The envelope of anybody else is a request of the sender, and
    is refused if it asks for a token.
    """
    try:
        header, command = open_envelope(request)
        asker = asker_of(request, header)
        if not _is_of_node(context):
            asker = Asker(context.session.principal.name, context.session.client_id or "")
            if isinstance(command, OnBehalfOf):
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    except DecodeError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    quorum = context.services.quorum
    if isinstance(command, DescribeQuorumRequest):
        return seal_envelope(header, quorum.describe())
    try:
        return seal_envelope(header, await quorum.decide(command, header.api_version, asker))
    except NotControllerError:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    except KafkaError as error:
        return seal_envelope(header, _refusal(command, error))


def _is_of_node(context: RequestContext) -> bool:
    """Whether a request comes from another node: with an authoriser, its guard has asked for CLUSTER_ACTION. Without
    one, nodes use the listeners that are meant for them, and where these have logins a user that is meant for them.
    """
    services, session = context.services, context.session
    if services.rights is not None:
        return True
    config = services.config
    listeners = {config.node.advertised_listener.name, *map(str.upper, config.node.controller_listener_names)}
    if session.listener not in listeners:
        return False
    users = {f"User:{config.sasl.inter_broker_username}", *config.authorisation.super_user_names}
    return session.login is None or (str(session.principal) in users and not session.is_by_token)


def _refusal(command: Any, error: KafkaError) -> Any:
    if not isinstance(command, OnBehalfOf):
        return refusal(command, error)
    # Imported here: most clusters have no delegation tokens.
    from ottla.controller.delegation_tokens import token_refusal

    return token_refusal(command, error)


@api.handles(DescribeQuorumRequest)
async def describe_quorum(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """The leader, the voters, the observers, and the log end of each."""
    quorum = context.services.quorum
    if quorum.controller_id not in (-1, quorum.node_id):
        try:
            answer: DescribeQuorumResponse = await forward(
                quorum.peers, quorum.controller_id, request, context.version, _DESCRIBE_MS
            )
        except (NotControllerError, KafkaError):
            return quorum.describe()
        return answer
    return quorum.describe()


@api.handles(AddRaftVoterRequest, RemoveRaftVoterRequest)
async def change_voters(context: RequestContext, request: Any) -> Any:
    """Make a node a voter, or no voter any more."""
    quorum = context.services.quorum
    is_addition = isinstance(request, AddRaftVoterRequest)
    response = AddRaftVoterResponse if is_addition else RemoveRaftVoterResponse
    if request.cluster_id not in (None, quorum.image.cluster_id):
        return response(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None)
    try:
        return await quorum.submit(request, version=context.version)
    except KafkaError as error:
        return response(error_code=error.code, error_message=error.message)
