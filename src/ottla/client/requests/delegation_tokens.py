"""Delegation tokens as an administrator has them made, renewed, ended and listed: CreateDelegationToken and
DescribeDelegationToken 1 to 3, RenewDelegationToken and ExpireDelegationToken 1 to 2 (KIP-48).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.client.calls import arguments
from ottla.client.requests.outcomes import error_of
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.security.principal import Principal, principal_of
from ottla.security.sasl.delegation_token import password_of

# The broker's default; and, for the end of a token, at once.
_UNSAID = -1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token to log in with as its owner, by SCRAM: `token_id` is the user name, `password` the password.

    Its text does not show the HMAC. Principals are written as `User:alice`; times are milliseconds since 1970.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    @property
    def password(self) -> str:
        """The HMAC as a password."""
        return password_of(self.hmac)


def new_token(
    owner: object, renewers: object, max_lifetime_ms: object
) -> tuple[CreateDelegationTokenRequest, tuple[str, ...]]:
    """The request for a token, and its renewers, which the response does not repeat. Raises TypeError, ValueError."""
    whose = None if owner is None else _principal("owner", owner)
    renewing = [_principal("renewers", each) for each in arguments.names("renewers", renewers)]
    longest = max_lifetime_ms
    lifetime = _UNSAID if longest is None else arguments.whole_number("max_lifetime_ms", longest, 1)
    request = CreateDelegationTokenRequest(
        owner_principal_type=None if whose is None else whose.kind,
        owner_principal_name=None if whose is None else whose.name,
        renewers=[CreatableRenewers(*each) for each in renewing],
        max_lifetime_ms=lifetime,
    )
    return request, tuple(map(str, renewing))


def _principal(name: str, value: object) -> Principal:
    return principal_of(arguments.name_of(name, value))


def created_token(
    response: CreateDelegationTokenResponse, renewers: tuple[str, ...]
) -> DelegationToken | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code, None)
    owner = f"{response.principal_type}:{response.principal_name}"
    named = response.token_requester_principal_name
    return DelegationToken(
        response.token_id,
        bytes(response.hmac),
        owner,
        f"{response.token_requester_principal_type}:{named}" if named else owner,
        renewers,
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


def renew_token_request(token: object, period_ms: object) -> RenewDelegationTokenRequest:
    period = _UNSAID if period_ms is None else arguments.whole_number("period_ms", period_ms, 1)
    return RenewDelegationTokenRequest(_hmac(token), period)


def expire_token_request(token: object, after_ms: object) -> ExpireDelegationTokenRequest:
    period = _UNSAID if after_ms is None else arguments.whole_number("after_ms", after_ms)
    return ExpireDelegationTokenRequest(_hmac(token), period)


def _hmac(token: object) -> bytes:
    if isinstance(token, DelegationToken):
        return token.hmac
    if not isinstance(token, bytes):
        raise TypeError(f"token must be a DelegationToken or its HMAC in bytes, not a {type(token).__name__}")
    return token


def changed_token(response: RenewDelegationTokenResponse | ExpireDelegationTokenResponse) -> int | KafkaError:
    """When the token expires now."""
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code, None)
    return response.expiry_timestamp_ms


def describe_tokens_request(owners: object) -> DescribeDelegationTokenRequest:
    if owners is None:
        return DescribeDelegationTokenRequest(None)
    named = [_principal("owners", each) for each in arguments.names("owners", owners)]
    return DescribeDelegationTokenRequest([DescribeDelegationTokenOwner(*each) for each in named])


def described_tokens(response: DescribeDelegationTokenResponse) -> list[DelegationToken] | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code, None)
    return [_described(each) for each in response.tokens]


def _described(token: DescribedDelegationToken) -> DelegationToken:
    owner, named = f"{token.principal_type}:{token.principal_name}", token.token_requester_principal_name
    return DelegationToken(
        token.token_id,
        bytes(token.hmac),
        owner,
        f"{token.token_requester_principal_type}:{named}" if named else owner,
        tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )
