"""Metrics that clients push: GetTelemetrySubscriptions (key 71, version 0), PushTelemetry (72, 0); KIP-714."""

from __future__ import annotations

from dataclasses import field

from ottla.protocol.codec import Boolean, Bytes, Int8, Int16, Int32, String, message
from ottla.protocol.declaration import ZERO_UUID, Uuid


@message(key=71, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: Uuid = ZERO_UUID  # zero: the broker should choose one


@message(key=71, versions=(0, 0), flexible=0)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = field(default_factory=list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Boolean = False
    requested_metrics: list[String] = field(default_factory=list)


@message(key=72, versions=(0, 0), flexible=0)
class PushTelemetryRequest:
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Boolean = False
    compression_type: Int8 = 0
    metrics: Bytes = b""  # OpenTelemetry's MetricsData, in Protobuf


@message(key=72, versions=(0, 0), flexible=0)
class PushTelemetryResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
