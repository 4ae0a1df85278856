"""Settings of topics and brokers: DescribeConfigs (key 32, versions 1 to 4), AlterConfigs (33, 0 to 2),
IncrementalAlterConfigs (44, 0 to 1), ListConfigResources (74, 0 to 1).

DescribeConfigs: KIP-133, KIP-226 synonyms (v1), KIP-569 types and documentation (v3), KIP-482 flexible (v4).
AlterConfigs: KIP-133, flexible (v2); it replaces all settings of a resource. IncrementalAlterConfigs:
KIP-339, flexible (v1). ListConfigResources: KIP-714 client metrics only (v0), KIP-1142 every type of resource
(v1).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import Boolean, Int8, Int16, Int32, String, message, since, struct


@struct
class DescribeConfigsResource:
    resource_type: Int8 = 0  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    resource_name: String = ""
    configuration_keys: list[String] | None = field(default_factory=list)  # null: all of them


@message(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: Boolean = False
    include_documentation: Annotated[Boolean, since(3)] = False


@struct
class DescribeConfigsSynonym:
    name: String = ""
    value: String | None = ""
    source: Int8 = 0


@struct
class DescribeConfigsResourceResult:
    name: String = ""
    value: String | None = ""
    read_only: Boolean = False
    config_source: Int8 = -1
    is_sensitive: Boolean = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: Annotated[Int8, since(3)] = 0
    documentation: Annotated[String | None, since(3)] = ""


@struct
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@message(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)


@struct
class AlterableConfig:
    name: String = ""
    value: String | None = ""


@struct
class AlterConfigsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@message(key=33, versions=(0, 2), flexible=2)
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: Boolean = False


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@message(key=33, versions=(0, 2), flexible=2)
class AlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)


@struct
class IncrementalAlterableConfig:
    name: String = ""
    config_operation: Int8 = 0  # 0 set, 1 delete, 2 append, 3 subtract
    value: String | None = ""


@struct
class IncrementalAlterConfigsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[IncrementalAlterableConfig] = field(default_factory=list)


@message(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest:
    resources: list[IncrementalAlterConfigsResource] = field(default_factory=list)
    validate_only: Boolean = False


@struct
class IncrementalAlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@message(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[IncrementalAlterConfigsResourceResponse] = field(default_factory=list)


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest:
    resource_types: Annotated[list[Int8], since(1)] = field(
        default_factory=list
    )  # empty: all that are supported


@struct
class ConfigResource:
    resource_name: String = ""
    resource_type: Annotated[Int8, since(1)] = 16


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
