"""DescribeClientQuotas and AlterClientQuotas, versions 0 to 1 (KIP-546)."""

from __future__ import annotations

from dataclasses import field

from ottla.protocol.declaration import Boolean, Float64, Int8, Int16, Int32, String, message, struct


@struct
class EntityData:
    entity_type: String = ""
    entity_name: String | None = ""


@struct
class ComponentData:
    entity_type: String = ""
    match_type: Int8 = 0  # 0 the name, 1 the default, 2 any
    match: String | None = ""


@message(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field(default_factory=list)
    strict: Boolean = False


@struct
class ValueData:
    key: String = ""
    value: Float64 = 0.0


@struct
class DescribedEntryData:
    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


@message(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: list[DescribedEntryData] | None = field(default_factory=list)


@struct
class OpData:
    key: String = ""
    value: Float64 = 0.0
    remove: Boolean = False


@struct
class EntryData:
    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


@message(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasRequest:
    entries: list[EntryData] = field(default_factory=list)
    validate_only: Boolean = False


@struct
class AlteredEntryData:
    error_code: Int16 = 0
    error_message: String | None = ""
    entity: list[EntityData] = field(default_factory=list)


@message(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    entries: list[AlteredEntryData] = field(default_factory=list)
