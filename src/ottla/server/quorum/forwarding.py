"""Commands that this node cannot decide go to the active controller (CTL-6).

A broker's own request to the controller travels as it is. A client's request travels whole, header and body,
in an Envelope (KIP-590), in the version that the client chose; the answer comes back the same way.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.controller.commands import OnBehalfOf
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import INTERNAL_APIS, ApiKey, api_of
from ottla.protocol.codec import codec
from ottla.protocol.declaration import declaration_of
from ottla.protocol.frame import (
    SIZE_BYTES,
    RequestHeader,
    read_request_header,
    read_response,
    response_frame,
    write_request,
)
from ottla.protocol.messages.brokers import BrokerHeartbeatRequest, BrokerRegistrationRequest
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.security.principal import ANONYMOUS, Principal
from ottla.security.principal_data import read_principal, written_principal
from ottla.security.quota.mutations import Asker
from ottla.server.quorum.commands import NotControllerError
from ottla.server.quorum.peers import Peers, newest_version
from ottla.wire.connection import CannotConnectError

# Heartbeats must not wait behind a command that takes long, and brokers' commands not behind a client's.
HEARTBEATS: Final = "heartbeat"
_PURPOSE_OF_BROKERS: Final = "controller"
_PURPOSE_OF_CLIENTS: Final = "forward"
_FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_ACLS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    }
)
# Decided by who asks.
_ON_BEHALF: Final = frozenset(
    {ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN}
)


async def forward(
    peers: Peers,
    controller_id: int,
    request: Any,
    version: int | None,
    timeout_ms: int,
    asker: Asker | None = None,
) -> Any:
    """The controller's answer. `asker` is the client whose request this is.

    NotControllerError if it is certain that nothing was carried out; KafkaError with a reason if that is not
    known.
    """
    try:
        asked, principal = request, None
        if asker is not None:
            principal = Principal(ANONYMOUS.kind, asker.user)
        if isinstance(request, OnBehalfOf):
            asked, principal = request.request, request.requester
        if declaration_of(type(asked)).key in INTERNAL_APIS:
            return await _tell(peers, controller_id, asked, timeout_ms)
        chosen = newest_version(asked) if version is None else version
        client_id = peers.client_id if asker is None else asker.client_id
        return await _hand_on(peers, controller_id, asked, chosen, timeout_ms, principal, client_id)
    except CannotConnectError as error:
        raise NotControllerError from error
    except OSError as error:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"The controller, node {controller_id}, did not answer, and may or may not have done it: {error}.",
        ) from error


async def _tell(peers: Peers, controller_id: int, request: Any, timeout_ms: int) -> Any:
    is_of_membership = isinstance(request, BrokerHeartbeatRequest | BrokerRegistrationRequest)
    purpose = HEARTBEATS if is_of_membership else _PURPOSE_OF_BROKERS
    response = await peers.ask(controller_id, request, purpose=purpose, timeout_ms=timeout_ms)
    if response.error_code == ErrorCode.NOT_CONTROLLER:
        raise NotControllerError
    return response


async def _hand_on(
    peers: Peers,
    controller_id: int,
    request: Any,
    version: int,
    timeout_ms: int,
    principal: Principal | None,
    client_id: str,
) -> Any:
    key = declaration_of(type(request)).key
    frame = bytearray()
    write_request(RequestHeader(key, version, 0, client_id), request, frame)
    who = None if principal is None else written_principal(principal)
    envelope = EnvelopeRequest(request_data=bytes(frame[SIZE_BYTES:]), request_principal=who)
    response: EnvelopeResponse = await peers.ask(
        controller_id, envelope, purpose=_PURPOSE_OF_CLIENTS, timeout_ms=timeout_ms
    )
    if response.error_code == ErrorCode.NOT_CONTROLLER:
        raise NotControllerError
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "the controller does not take this broker for a node of its cluster: all nodes need the same "
            "inter.broker.listener.name, and log in as the same user or as one of super.users",
        )
    if response.error_code or response.response_data is None:
        raise KafkaError(ErrorCode(response.error_code), "the controller could not read the request")
    return read_response(key, version, memoryview(response.response_data))[1]


def open_envelope(envelope: EnvelopeRequest) -> tuple[RequestHeader, Any]:
    """The request inside. DecodeError or KafkaError if there is none that we know."""
    view = memoryview(envelope.request_data)
    header, position = read_request_header(view)
    api = api_of(header.api_key)
    if api is None or header.api_key not in _FORWARDED or not api.serves(header.api_version):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"there is no API {header.api_key} to forward")
    request = codec(api.request, header.api_version).read(view, position)[0]
    if header.api_key in _ON_BEHALF:
        if not envelope.request_principal:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the envelope does not say who asks")
        return header, OnBehalfOf(request, read_principal(bytes(envelope.request_principal)))
    return header, request


def asker_of(envelope: EnvelopeRequest, header: RequestHeader) -> Asker:
    """On whose behalf the request inside is made. DecodeError if that cannot be read."""
    principal, client_id = envelope.request_principal, header.client_id or ""
    if not principal:
        return Asker(ANONYMOUS.name, client_id)
    return Asker(read_principal(bytes(principal)).name, client_id)


def seal_envelope(header: RequestHeader, response: Any) -> EnvelopeResponse:
    """The answer to the request inside an envelope."""
    frame = response_frame(header.correlation_id, header.api_key, header.api_version, response)
    return EnvelopeResponse(response_data=bytes(frame[SIZE_BYTES:]))
