"""ApiVersions, versions 0 to 4 (KIP-35, KIP-511). A newer version is answered in version 0 with error 35.

With it comes which features this broker knows and at which level the cluster works (KIP-584).
"""

import re
from collections.abc import Iterable
from typing import Final

from ottla.controller.features import SUPPORTED_FEATURES
from ottla.errors import ErrorCode
from ottla.protocol.apis import APIS, CLIENT_METRICS_APIS, ApiKey
from ottla.protocol.codec import first_version
from ottla.protocol.messages.api_versions import (
    GROUP_COMMIT_FEATURE,
    REMOTE_SEGMENTS_FEATURE,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.gate.session import ClientSoftware

api = ApiFamily()

_SOFTWARE_NAME_SINCE: Final = first_version(ApiVersionsRequest, "client_software_name")
# An extension of the protocol is announced as a feature. The cluster has no level of it, as a broker can serve it
# whatever the others do.
_ANNOUNCED: Final = {**SUPPORTED_FEATURES, GROUP_COMMIT_FEATURE: (1, 1)}
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@api.handles(ApiVersionsRequest)
def api_versions(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The APIs and versions of this broker."""
    if context.version > APIS[ApiKey.API_VERSIONS].max_version:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_advertised(context))
    if context.version >= _SOFTWARE_NAME_SINCE:
        if not _is_well_named(request):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        software = ClientSoftware(request.client_software_name, request.client_software_version)
        context.session.runs(software)
    image = context.services.quorum.image
    return ApiVersionsResponse(
        api_keys=_advertised(context),
        supported_features=[SupportedFeatureKey(name, *levels) for name, levels in _announced(context)],
        finalized_features_epoch=image.last_offset,
        finalized_features=[
            FinalizedFeatureKey(name, level, level) for name, level in sorted(image.features.items())
        ],
    )


def _announced(context: RequestContext) -> Iterable[tuple[str, tuple[int, int]]]:
    yield from _ANNOUNCED.items()
    if context.services.config.tiers.enable:
        yield REMOTE_SEGMENTS_FEATURE, (1, 1)


def _advertised(context: RequestContext) -> list[ApiVersion]:
    services = context.services
    when = services.config.monitoring.client_metrics
    tells = when == "always" or (when == "subscribed" and services.client_metrics.is_subscribed)
    hidden = frozenset() if tells else CLIENT_METRICS_APIS
    return [
        ApiVersion(api_key=api.key, min_version=api.advertised_min_version, max_version=api.max_version)
        for api in APIS.values()
        if api.key not in hidden
    ]


def _is_well_named(request: ApiVersionsRequest) -> bool:
    names = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(name) for name in names)
