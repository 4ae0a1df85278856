"""Features: the levels that brokers support and that the whole cluster works at (KIP-584). ApiVersions and
UpdateFeatures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.version import __version__

_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature: the levels that the broker that was asked supports, and the level that the cluster works at (0
    if the cluster does without the feature).
    """

    name: str
    min_supported: int
    max_supported: int
    level: int


def describe_features_request() -> ApiVersionsRequest:
    return ApiVersionsRequest("ottla", __version__)


def described_features(response: ApiVersionsResponse) -> dict[str, Feature]:
    if response.error_code != ErrorCode.NONE:
        raise error_of(response.error_code)
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    supported = {
        each.name: Feature(each.name, each.min_version, each.max_version, levels.get(each.name, 0))
        for each in response.supported_features
    }
    unsupported = {
        name: Feature(name, 0, 0, level) for name, level in levels.items() if name not in supported
    }
    return supported | unsupported


def update_feature_request(name: str, level: int, *, downgrades: bool) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(
        feature=name,
        max_version_level=level,
        allow_downgrade=downgrades,
        upgrade_type=_SAFE_DOWNGRADE if downgrades else _UPGRADE,
    )
    return UpdateFeaturesRequest(feature_updates=[update])


def updated_features(response: UpdateFeaturesResponse) -> KafkaError | None:
    errors = [outcome(each.error_code, None, each.error_message) for each in response.results]
    failed = next((error for error in errors if error is not None), None)
    return outcome(response.error_code, failed, response.error_message)
