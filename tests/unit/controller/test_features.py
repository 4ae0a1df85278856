"""Which levels of features the cluster works at."""

import pytest
from tests.unit.controller.cluster import Cluster, registration

from ottla.controller import features
from ottla.controller.features import UpgradeType
from ottla.controller.records import FeatureLevelRecord
from ottla.errors import ErrorCode
from ottla.protocol.messages.brokers import Feature
from ottla.protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest


def update(name: str, level: int, kind: int = UpgradeType.UPGRADE) -> FeatureUpdateKey:
    return FeatureUpdateKey(name, level, upgrade_type=kind)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two brokers that know levels 1 to 3 of a feature; the controller knows them up to 4."""
    supported = {**features.SUPPORTED_FEATURES, "x.version": (0, 4)}
    made = Cluster(brokers=0)
    for node_id in (1, 2):
        request = registration(node_id)
        request.features = [Feature("x.version", 0, 3)]
        made.join(request)
    monkeypatch.setattr(features, "SUPPORTED_FEATURES", supported)
    assert made.commit(UpdateFeaturesRequest(feature_updates=[update("x.version", 2)])).error_code == 0
    return made


@pytest.mark.parametrize(
    ("updates", "level"),
    [
        ([update("x.version", 3)], 3),
        ([update("x.version", 2)], 2),
        ([update("x.version", 1, UpgradeType.SAFE_DOWNGRADE)], 1),
        ([update("x.version", 1, UpgradeType.UNSAFE_DOWNGRADE)], 1),
        ([FeatureUpdateKey("x.version", 1, allow_downgrade=True)], 1),
        ([update("x.version", 0, UpgradeType.SAFE_DOWNGRADE)], None),
        ([update("metadata.version", 23)], 2),
    ],
)
def test_a_level_that_all_know_is_taken(
    cluster: Cluster, updates: list[FeatureUpdateKey], level: int | None
) -> None:
    response = cluster.commit(UpdateFeaturesRequest(feature_updates=updates))
    assert (response.error_code, response.error_message) == (0, None)
    assert [(found.feature, found.error_code) for found in response.results] == [(updates[0].feature, 0)]
    assert cluster.image.features.get("x.version") == level


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (update("x.version", 4), "Broker 1 does not say that it supports level 4"),
        (update("x.version", 5), "from 0 to 4; 5 was asked for"),
        (update("x.version", 1), "would be a downgrade"),
        (update("x.version", 3, UpgradeType.SAFE_DOWNGRADE), "would be no downgrade"),
        (update("x.version", 3, 7), "7 is not a kind of change"),
        (update("y.version", 1), "'y.version' at no level"),
        (update("y.version", 0), "'y.version' at no level"),
        (update("metadata.version", 22, UpgradeType.SAFE_DOWNGRADE), "only from 23 to 23"),
        (update("metadata.version", 24), "only from 23 to 23"),
    ],
)
def test_a_level_that_somebody_does_not_know_is_refused_with_everything_else(
    cluster: Cluster, wanted: FeatureUpdateKey, words: str
) -> None:
    other = update("metadata.version" if wanted.feature == "x.version" else "x.version", 14)
    response = cluster.commit(UpdateFeaturesRequest(feature_updates=[wanted, other]))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert words in response.error_message
    assert cluster.image.features["x.version"] == 2


def test_a_feature_stands_once_in_a_request(cluster: Cluster) -> None:
    request = UpdateFeaturesRequest(feature_updates=[update("x.version", 3), update("x.version", 2)])
    assert cluster.commit(request).error_code == ErrorCode.INVALID_REQUEST


def test_a_trial_changes_nothing(cluster: Cluster) -> None:
    wanted = UpdateFeaturesRequest(feature_updates=[update("x.version", 3)], validate_only=True)
    assert cluster.commit(wanted).error_code == 0
    assert cluster.image.features["x.version"] == 2
    wanted.validate_only = False
    assert cluster.decide(wanted).records == [FeatureLevelRecord("x.version", 3)]
