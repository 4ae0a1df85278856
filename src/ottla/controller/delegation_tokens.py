"""Decisions about delegation tokens: CreateDelegationToken 1 to 3, RenewDelegationToken and ExpireDelegationToken 1 to
2, and the removal of those that have expired (KIP-48). DescribeDelegationToken 1 to 3 is read off the image.

A token is named by its HMAC, which whoever changes it has to know. Its owner, its requester and its renewers may
prolong it, up to its longest life, and end it.
"""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from ottla.config import DelegationTokenConfig
from ottla.controller.commands import ExpireTokens, OnBehalfOf
from ottla.controller.decision import Decision
from ottla.controller.image import ClusterImage
from ottla.controller.records import RemoveDelegationTokenRecord
from ottla.controller.token_records import token_record
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.security.principal import USER, Principal
from ottla.security.sasl.delegation_token import DelegationToken, hmac_of


def decide_on_tokens(
    image: ClusterImage,
    command: OnBehalfOf | ExpireTokens,
    config: DelegationTokenConfig,
    new_uuid: Callable[[], UUID],
    now_ms: int,
) -> Decision:
    """Make, prolong and end tokens."""
    if isinstance(command, ExpireTokens):
        expired = [each for each in image.delegation_tokens.values() if each.has_expired(now_ms)]
        return Decision([RemoveDelegationTokenRecord(each.token_id) for each in expired], None)
    request, requester = command.request, command.requester
    try:
        if config.secret_key is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        if isinstance(request, CreateDelegationTokenRequest):
            return _create(request, requester, config, config.secret_key, _token_id(new_uuid()), now_ms)
        token = _found(image, bytes(request.hmac), config.secret_key)
        if not token.belongs_to([requester]):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        if isinstance(request, RenewDelegationTokenRequest):
            return _renew(request, token, config, now_ms)
        assert isinstance(request, ExpireDelegationTokenRequest)
        return _expire(request, token, now_ms)
    except KafkaError as error:
        return Decision([], token_refusal(command, error))


def token_refusal(command: OnBehalfOf, error: KafkaError) -> object:
    """The answer to a request about a token that could not be carried out."""
    request, requester = command.request, command.requester
    if isinstance(request, RenewDelegationTokenRequest):
        return RenewDelegationTokenResponse(error.code, expiry_timestamp_ms=-1)
    if isinstance(request, ExpireDelegationTokenRequest):
        return ExpireDelegationTokenResponse(error.code, expiry_timestamp_ms=-1)
    owner = owner_of(request, requester)
    return CreateDelegationTokenResponse(error.code, *owner, *requester, -1, -1, -1)


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Whose token is asked for: the requester's own, unless the request names another."""
    kind, name = request.owner_principal_type, request.owner_principal_name
    return Principal(kind or USER, name) if name else requester


def _create(
    request: CreateDelegationTokenRequest,
    requester: Principal,
    config: DelegationTokenConfig,
    secret_key: str,
    token_id: str,
    now_ms: int,
) -> Decision:
    renewers = tuple(Principal(each.principal_type, each.principal_name) for each in request.renewers)
    owner = owner_of(request, requester)
    if any(each.kind != USER for each in (owner, *renewers)):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    wanted_ms = request.max_lifetime_ms if request.max_lifetime_ms > 0 else config.max_lifetime_ms
    max_ms = now_ms + min(wanted_ms, config.max_lifetime_ms)
    expires_ms = min(max_ms, now_ms + config.expiry_time_ms)
    token = DelegationToken(token_id, owner, requester, renewers, now_ms, max_ms, expires_ms)
    response = CreateDelegationTokenResponse(
        ErrorCode.NONE,
        *owner,
        *requester,
        issue_timestamp_ms=now_ms,
        expiry_timestamp_ms=expires_ms,
        max_timestamp_ms=max_ms,
        token_id=token_id,
        hmac=hmac_of(token_id, secret_key),
    )
    return Decision([token_record(token)], response)


def _renew(
    request: RenewDelegationTokenRequest, token: DelegationToken, config: DelegationTokenConfig, now_ms: int
) -> Decision:
    _refuse_expired(token, now_ms)
    wanted_ms = request.renew_period_ms if request.renew_period_ms > 0 else config.expiry_time_ms
    expires_ms = min(token.max_ms, now_ms + min(wanted_ms, config.expiry_time_ms))
    prolonged = token_record(replace(token, expires_ms=expires_ms))
    return Decision([prolonged], RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms))


def _expire(request: ExpireDelegationTokenRequest, token: DelegationToken, now_ms: int) -> Decision:
    """A negative period ends the token at once."""
    if request.expiry_time_period_ms < 0:
        gone = RemoveDelegationTokenRecord(token.token_id)
        return Decision([gone], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
    _refuse_expired(token, now_ms)
    expires_ms = min(token.max_ms, now_ms + request.expiry_time_period_ms)
    changed = token_record(replace(token, expires_ms=expires_ms))
    return Decision([changed], ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms))


def _found(image: ClusterImage, token_hmac: bytes, secret_key: str) -> DelegationToken:
    for token in image.delegation_tokens.values():
        if hmac.compare_digest(hmac_of(token.token_id, secret_key), token_hmac):
            return token
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def _refuse_expired(token: DelegationToken, now_ms: int) -> None:
    if token.has_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _token_id(uuid: UUID) -> str:
    """As Kafka writes uuids."""
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def describe_tokens(
    image: ClusterImage, request: DescribeDelegationTokenRequest, secret_key: str
) -> DescribeDelegationTokenResponse:
    """All tokens, or those that belong to the named principals. The guard takes out what the caller may not see."""
    wanted = None
    if request.owners is not None:
        wanted = [Principal(each.principal_type, each.principal_name) for each in request.owners]
    tokens = [
        _described(token, secret_key)
        for _, token in sorted(image.delegation_tokens.items())
        if wanted is None or token.belongs_to(wanted)
    ]
    return DescribeDelegationTokenResponse(tokens=tokens)


def _described(token: DelegationToken, secret_key: str) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        *token.owner,
        *token.requester,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac_of(token.token_id, secret_key),
        renewers=[DescribedDelegationTokenRenewer(*each) for each in token.renewers],
    )
