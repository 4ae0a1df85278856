"""Quotas of clients: DescribeClientQuotas 0 to 1, AlterClientQuotas 0 to 1 (KIP-546).

Descriptions are read off the image; changes are commands to the controller, whichever broker is asked.
"""

from ottla.controller.client_quotas import describe_client_quotas
from ottla.errors import KafkaError
from ottla.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.server.apis.topics import refusal
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()


@api.handles(DescribeClientQuotasRequest)
def describe(context: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """The quotas of the entities that a filter finds."""
    return describe_client_quotas(context.services.quorum.image, request)


@api.handles(AlterClientQuotasRequest)
async def alter(context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Answer what the controller decided, once it is durable and in force on this broker."""
    answer: AlterClientQuotasResponse
    try:
        answer = await context.services.quorum.submit(request, version=context.version)
    except KafkaError as error:
        answer = refusal(request, error)
    return answer
