"""ApiVersions (key 18), versions 0 to 4.

KIP-35 the question itself (v0), KIP-511 the client's software and flexible versions (v3), KIP-584 features
(v3), KIP-1022 features whose minimum is 0 (v4). Its response header never has tagged fields, so that a client
can read the answer before it knows any version.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from ottla.protocol.codec import Boolean, Int16, Int32, Int64, String, message, since, struct, tag

# Announced as a supported feature by brokers that commit several transactions together (EndTxn).
GROUP_COMMIT_FEATURE: Final = "ottla.group.commit"
# And by brokers that tell consumers where records lie in the object store (ListRemoteSegments).
REMOTE_SEGMENTS_FEATURE: Final = "ottla.remote.segments"


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsRequest:
    client_software_name: Annotated[String, since(3)] = ""
    client_software_version: Annotated[String, since(3)] = ""


@struct
class ApiVersion:
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey:
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class FinalizedFeatureKey:
    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsResponse:
    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], tag(0, since=3)] = field(default_factory=list)
    finalized_features_epoch: Annotated[Int64, tag(1, since=3)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], tag(2, since=3)] = field(default_factory=list)
    zk_migration_ready: Annotated[Boolean, tag(3, since=3)] = False
