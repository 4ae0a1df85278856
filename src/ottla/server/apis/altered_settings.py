"""IncrementalAlterConfigs, versions 0 and 1 (KIP-226, KIP-339): changes of settings.

A change is a command to the controller, with one exception. Certificates change in place, as files: a broker that
is told the file that it has, in a setting such as `ssl.keystore.location`, loads the file at once, as Kafka does,
and answers why if it cannot. Nothing is written to the metadata log then.
"""

from dataclasses import replace
from typing import Final

from ottla.config import BrokerConfig, ConfigError
from ottla.config.setting import settings_by_name
from ottla.controller.configs import ConfigOperation
from ottla.controller.image import ResourceType
from ottla.errors import ErrorCode
from ottla.protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from ottla.server.apis.topics import submit
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.gate.services import Services

api = ApiFamily()

_FILES: Final = frozenset(
    {
        "ssl.keystore.location",
        "ssl.truststore.location",
        "ottla.ssl.certificate.file",
        "ottla.ssl.key.file",
        "ottla.ssl.key.password.file",
    }
)


@api.handles(IncrementalAlterConfigsRequest)
async def alter(context: RequestContext, request: IncrementalAlterConfigsRequest) -> object:
    """Load certificates again where that is asked for; answer what the controller decided about everything else."""
    services = context.services
    reloads = [each for each in request.resources if _is_reload(each, services.config)]
    if not reloads:
        return await submit(context, request)
    done = [_reload(each, services, only_checks=request.validate_only) for each in reloads]
    others = [each for each in request.resources if each not in reloads]
    if others:
        answer = await submit(context, replace(request, resources=others))
        done += answer.responses
    return IncrementalAlterConfigsResponse(responses=done)


def _is_reload(resource: IncrementalAlterConfigsResource, config: BrokerConfig) -> bool:
    """Whether a resource is this broker, and all that is set are files of certificates that it has already."""
    if (resource.resource_type, resource.resource_name) != (ResourceType.BROKER, str(config.node.id)):
        return False
    known = settings_by_name(BrokerConfig)
    return bool(resource.configs) and all(
        each.name in _FILES
        and each.config_operation == ConfigOperation.SET
        and each.value == known[each.name].value_in(config)
        for each in resource.configs
    )


def _reload(
    resource: IncrementalAlterConfigsResource, services: Services, *, only_checks: bool
) -> IncrementalAlterConfigsResourceResponse:
    outcome: tuple[ErrorCode, str | None] = ErrorCode.NONE, None
    try:
        services.reload_certificates(only_checks=only_checks)
    except ConfigError as error:
        outcome = ErrorCode.INVALID_REQUEST, str(error)
    return IncrementalAlterConfigsResourceResponse(*outcome, resource.resource_type, resource.resource_name)
