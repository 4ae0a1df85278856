"""Changes of topics and settings: CreateTopics 2 to 7, DeleteTopics 1 to 6, CreatePartitions 0 to 3,
AlterConfigs 0 to 2, IncrementalAlterConfigs 0 to 1. All of them are commands to the controller (CTL-6, CTL-7).
"""

from typing import Any

from ottla.server.dispatch import RequestContext


async def submit(context: RequestContext, request: Any) -> Any:
    """Answer what the controller decided, once it is durable and in force on this broker."""
    return await context.services.quorum.submit(request)
