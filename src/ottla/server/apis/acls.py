"""DescribeAcls, CreateAcls, DeleteAcls 1 to 3 (KIP-140, KIP-290, KIP-373).

ACLs are part of the cluster's metadata: descriptions are read off the image, changes are commands to the controller.
A broker without an authoriser refuses all three, as Kafka's does: ACLs that nobody asks would only seem to protect.
"""

from typing import Any, Final

from ottla.controller.describe.acls import describe_acls as described
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from ottla.server.apis.topics import refusal
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()

_DISABLED: Final = KafkaError(
    ErrorCode.SECURITY_DISABLED, "No authorizer is configured: set authorizer.class.name on every broker."
)


@api.handles(DescribeAclsRequest)
def describe_acls(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """The ACLs that a filter finds."""
    if context.services.rights is None:
        return DescribeAclsResponse(error_code=_DISABLED.code, error_message=_DISABLED.message)
    return described(context.services.quorum.image, request)


@api.handles(CreateAclsRequest, DeleteAclsRequest)
async def change_acls(context: RequestContext, request: Any) -> Any:
    """Answer the controller's decision, once it is durable and in force."""
    if context.services.rights is None:
        return refusal(request, _DISABLED)
    try:
        return await context.services.quorum.submit(request, version=context.version)
    except KafkaError as error:
        return refusal(request, error)
