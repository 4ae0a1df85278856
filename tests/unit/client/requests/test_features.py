"""Features as an administrator sees them."""

import pytest

from ottla.client.requests.features import (
    Feature,
    described_features,
    update_feature_request,
    updated_features,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.api_versions import (
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.protocol.messages.features import UpdatableFeatureResult, UpdateFeaturesResponse


def test_supported_and_finalized_levels_stand_together() -> None:
    response = ApiVersionsResponse(
        supported_features=[SupportedFeatureKey("a", 0, 2), SupportedFeatureKey("b", 1, 1)],
        finalized_features=[FinalizedFeatureKey("a", 1, 1), FinalizedFeatureKey("c", 3, 3)],
    )
    assert list(described_features(response).values()) == [
        Feature("a", 0, 2, 1),
        Feature("b", 1, 1, 0),
        Feature("c", 0, 0, 3),
    ]
    with pytest.raises(KafkaError):
        described_features(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))


def test_a_change_says_whether_it_may_lower() -> None:
    (update,) = update_feature_request("a", 1, downgrades=True).feature_updates
    assert (update.feature, update.max_version_level) == ("a", 1)
    assert (update.allow_downgrade, update.upgrade_type) == (True, 2)
    (update,) = update_feature_request("a", 1, downgrades=False).feature_updates
    assert (update.allow_downgrade, update.upgrade_type) == (False, 1)


def test_a_refusal_stands_at_the_top_or_at_the_feature() -> None:
    assert updated_features(UpdateFeaturesResponse(results=[UpdatableFeatureResult("a")])) is None
    code = ErrorCode.INVALID_UPDATE_VERSION
    top = updated_features(UpdateFeaturesResponse(error_code=code, error_message="no"))
    one = updated_features(UpdateFeaturesResponse(results=[UpdatableFeatureResult("a", code, "no")]))
    assert [(error.code, error.message) for error in (top, one) if error is not None] == [(code, "no")] * 2
