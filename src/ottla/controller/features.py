"""UpdateFeatures, versions 0 to 2 (KIP-584, KIP-778): which level of a feature the whole cluster works at.

A level is taken only if this version and every registered broker can work at it. The updates of a request are
made together or not at all.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from ottla.controller.decision import Decision, repeated
from ottla.controller.image import ClusterImage
from ottla.controller.records import (
    ELR_FEATURE,
    ELR_LEVEL,
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_LEVEL,
    TRANSACTION_VERSION_FEATURE,
    TRANSACTION_VERSION_LEVEL,
    FeatureLevelRecord,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

# The levels that this version's records can make up, by feature: the first and the last.
SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        METADATA_VERSION_FEATURE: (METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
        ELR_FEATURE: (ELR_LEVEL, ELR_LEVEL),
        TRANSACTION_VERSION_FEATURE: (0, TRANSACTION_VERSION_LEVEL),
    }
)


class UpgradeType(IntEnum):
    """Kafka's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def levels_to_raise(image: ClusterImage) -> list[FeatureLevelRecord]:
    """The levels that a registration raises: those that the records of this version need.

    The level of transactions is an operator's decision once a cluster has one or does without.
    """
    is_new = METADATA_VERSION_FEATURE not in image.features
    return [
        FeatureLevelRecord(name, level)
        for name, (_, level) in SUPPORTED_FEATURES.items()
        if image.features.get(name, 0) < level and (is_new or name != TRANSACTION_VERSION_FEATURE)
    ]


def update_features(image: ClusterImage, request: UpdateFeaturesRequest) -> Decision:
    """Raise or lower levels, or only say whether it could be done."""
    try:
        twice = repeated(update.feature for update in request.feature_updates)
        if twice:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"The feature '{min(twice)}' stands more than once in the request."
            )
        for update in request.feature_updates:
            _check(image, update)
    except KafkaError as error:
        return Decision([], UpdateFeaturesResponse(error_code=error.code, error_message=error.message))
    records = [
        FeatureLevelRecord(update.feature, max(0, update.max_version_level))
        for update in request.feature_updates
        if image.features.get(update.feature, 0) != max(0, update.max_version_level)
    ]
    results = [
        UpdatableFeatureResult(update.feature, error_message=None) for update in request.feature_updates
    ]
    response = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision([] if request.validate_only else records, response)


def _check(image: ClusterImage, update: FeatureUpdateKey) -> None:
    name, level = update.feature, max(0, update.max_version_level)
    now = image.features.get(name, 0)
    if level == now and name in SUPPORTED_FEATURES:
        return
    if update.upgrade_type not in tuple(UpgradeType):
        raise _refused(f"{update.upgrade_type} is not a kind of change: 1 is up, 2 and 3 are down.")
    first, last = SUPPORTED_FEATURES.get(name, (0, 0))
    if not first <= level <= last or not last:
        known = f"only from {first} to {last}" if last else "at no level"
        raise _refused(f"The controller supports the feature '{name}' {known}; {level} was asked for.")
    is_downgrade = update.allow_downgrade or update.upgrade_type != UpgradeType.UPGRADE
    if level < now and not is_downgrade:
        raise _refused(f"'{name}' is at level {now}; {level} would be a downgrade, which was not asked for.")
    if level > now and is_downgrade:
        raise _refused(f"'{name}' is at level {now}; {level} would be no downgrade, which was asked for.")
    for node_id, broker in sorted(image.brokers.items()):
        supported = broker.supported(name)
        if supported is None or not supported.min_version <= level <= supported.max_version:
            raise _refused(f"Broker {node_id} does not say that it supports level {level} of '{name}'.")


def _refused(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, sentence)
