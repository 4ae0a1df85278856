"""Delegation tokens: CreateDelegationToken and DescribeDelegationToken 1 to 3, RenewDelegationToken and
ExpireDelegationToken 1 to 2 (KIP-48).

Who does not log in, or logged in with a token, cannot ask for tokens. Descriptions are read off the image; changes
are commands to the controller, on behalf of the user who asked.
"""

from typing import Any

from ottla.controller.commands import OnBehalfOf
from ottla.controller.delegation_tokens import describe_tokens, token_refusal
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from ottla.security.principal import ANONYMOUS
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.gate.session import Session

api = ApiFamily()


@api.handles(CreateDelegationTokenRequest, RenewDelegationTokenRequest, ExpireDelegationTokenRequest)
async def change(context: RequestContext, request: Any) -> Any:
    """Answer what the controller decided, once it is durable and in force on this broker."""
    command = OnBehalfOf(request, context.session.principal)
    try:
        if not _may_ask_for_tokens(context.session):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        return await context.services.quorum.submit(command, version=context.version)
    except KafkaError as error:
        return token_refusal(command, error)


@api.handles(DescribeDelegationTokenRequest)
def describe(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """The tokens that the caller may see, with their HMACs."""
    secret_key = context.services.config.delegation_tokens.secret_key
    if not _may_ask_for_tokens(context.session):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if secret_key is None:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return describe_tokens(context.services.quorum.image, request, secret_key)


def _may_ask_for_tokens(session: Session) -> bool:
    is_open = session.protocol == "PLAINTEXT" or session.principal == ANONYMOUS
    return not (is_open or session.is_by_token)
