"""Metrics that clients push: GetTelemetrySubscriptions 0, PushTelemetry 0 (KIP-714).

Who may push what and when is decided in `telemetry/clients`. A payload is decompressed within a limit and read a
millisecond at a time.
"""

from typing import Final
from uuid import UUID

from ottla.errors import ErrorCode
from ottla.log.files.uuids import uuid_text
from ottla.protocol.messages.client_telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from ottla.records.compression import compression_of, decompress
from ottla.records.corruption import CorruptRecord
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.turns import in_turns
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.telemetry.clients.instances import ACCEPTED_COMPRESSIONS, Push
from ottla.telemetry.clients.otlp_metrics import MalformedMetricsError, MetricsReader
from ottla.telemetry.clients.subscriptions import Client

api = ApiFamily()

# Kafka's ids of nothing and of the metadata topic: no client has one of them.
_RESERVED: Final = frozenset({UUID(int=0), UUID(int=1)})


@api.handles(GetTelemetrySubscriptionsRequest)
def subscriptions(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """What a client should push, and how often; a client without an id is given one."""
    services = context.services
    if services.config.monitoring.client_metrics == "never":
        return GetTelemetrySubscriptionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    instance_id = request.client_instance_id
    if instance_id in _RESERVED:
        instance_id = services.client_metrics.new_id()
    error, wanted = services.client_metrics.ask(_client(context, instance_id), instance_id, monotonic_ms())
    if error is not ErrorCode.NONE:
        return GetTelemetrySubscriptionsResponse(error_code=error)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=list(ACCEPTED_COMPRESSIONS),
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=services.client_metrics.max_bytes,
        # Totals since a client's start: the latest push tells all, and a lost one does no harm.
        delta_temporality=False,
        requested_metrics=list(wanted.metrics),
    )


@api.handles(PushTelemetryRequest)
async def push(context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Take the metrics of a client."""
    services, instance_id = context.services, request.client_instance_id
    if services.config.monitoring.client_metrics == "never":
        return PushTelemetryResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if instance_id in _RESERVED:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    pushed = Push(
        request.subscription_id, request.terminating, request.compression_type, len(request.metrics)
    )
    known = services.client_metrics
    error = known.push(_client(context, instance_id), instance_id, pushed, monotonic_ms())
    if error is ErrorCode.NONE and request.metrics:
        reader = MetricsReader()
        try:
            codec = compression_of(request.compression_type)
            await in_turns(reader.read(decompress(codec, request.metrics, known.max_bytes)))
            known.keep(instance_id, reader.points, reader.hidden)
        except (CorruptRecord, MalformedMetricsError):
            known.cannot_read()
            error = ErrorCode.INVALID_RECORD
    return PushTelemetryResponse(error_code=error)


def _client(context: RequestContext, instance_id: UUID) -> Client:
    session = context.session
    return Client(
        uuid_text(instance_id),
        session.client_id or "",
        session.software.name,
        session.software.version,
        session.host,
        session.port,
        session.principal.name,
    )
