"""UpdateFeatures (key 57), versions 0 to 2: which levels of features the whole cluster uses (KIP-584).

Kinds of change and a trial run (v1, KIP-778); one error for the whole request instead of one for each feature
(v2).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import Boolean, Int8, Int16, Int32, String, message, since, struct, until


@struct
class FeatureUpdateKey:
    feature: String = ""
    max_version_level: Int16 = 0  # below 1: the cluster does without the feature
    allow_downgrade: Annotated[Boolean, until(0)] = False
    upgrade_type: Annotated[Int8, since(1)] = 1  # 1 only up, 2 down without loss, 3 down


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesRequest:
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: Annotated[Boolean, since(1)] = False


@struct
class UpdatableFeatureResult:
    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Annotated[list[UpdatableFeatureResult], until(1)] = field(default_factory=list)
