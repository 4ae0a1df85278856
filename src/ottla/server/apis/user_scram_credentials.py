"""SCRAM credentials of users: DescribeUserScramCredentials 0, AlterUserScramCredentials 0 (KIP-554).

Descriptions are read off the image; changes are commands to the controller, whichever broker is asked.
"""

from ottla.controller.scram import describe_user_scram_credentials
from ottla.errors import KafkaError
from ottla.protocol.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()


@api.handles(DescribeUserScramCredentialsRequest)
def describe(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Which mechanisms users have credentials for."""
    return describe_user_scram_credentials(context.services.quorum.image, request)


@api.handles(AlterUserScramCredentialsRequest)
async def alter(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Answer what the controller decided, once it is durable and in force on this broker."""
    try:
        answer: AlterUserScramCredentialsResponse = await context.services.quorum.submit(
            request, version=context.version
        )
        return answer
    except KafkaError as error:
        return alteration_refusal(request, error)


def alteration_refusal(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    """The answer when nothing could be decided: every user has the same error."""
    users = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    failed = [
        AlterUserScramCredentialsResult(user, error.code, error.message) for user in dict.fromkeys(users)
    ]
    return AlterUserScramCredentialsResponse(results=failed)
