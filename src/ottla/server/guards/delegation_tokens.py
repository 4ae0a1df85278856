"""Guards of delegation tokens: a token for another owner needs a right, and so does seeing somebody else's token."""

from dataclasses import replace
from typing import Any

from ottla.controller.delegation_tokens import owner_of
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.security.acl.checks import CHECKS
from ottla.security.acl.rules import ResourceType
from ottla.security.principal import Principal
from ottla.server.gate.handlers import RequestContext
from ottla.server.gate.rights import Rights
from ottla.server.guards.refusals import refusal
from ottla.server.guards.steps import Proceed, then


def create_token(
    rights: Rights, context: RequestContext, request: CreateDelegationTokenRequest, proceed: Proceed
) -> Any:
    """Everybody may ask for a token of their own."""
    (check,) = CHECKS[ApiKey.CREATE_DELEGATION_TOKEN]
    requester = context.session.principal
    owner = owner_of(request, requester)
    if owner == requester or rights.permits(context.session, check, str(owner)):
        return proceed(request)
    return refusal(request, check.error, context.version)


def describe_tokens(
    rights: Rights, context: RequestContext, request: DescribeDelegationTokenRequest, proceed: Proceed
) -> Any:
    """Owners, requesters and renewers see their tokens without a right."""
    (check,) = CHECKS[ApiKey.DESCRIBE_DELEGATION_TOKEN]
    caller = context.session.principal

    def is_shown(token: DescribedDelegationToken) -> bool:
        owner = Principal(token.principal_type, token.principal_name)
        requester = Principal(token.token_requester_principal_type, token.token_requester_principal_name)
        renewers = (Principal(each.principal_type, each.principal_name) for each in token.renewers)
        if caller in (owner, requester, *renewers):
            return True
        names = {ResourceType.DELEGATION_TOKEN: token.token_id, ResourceType.USER: str(owner)}
        return rights.permits(context.session, check, names)

    def without_hidden(answer: DescribeDelegationTokenResponse) -> DescribeDelegationTokenResponse:
        return replace(answer, tokens=[token for token in answer.tokens if is_shown(token)])

    return then(proceed(request), without_hidden)
