"""Metrics that clients push to the broker (KIP-714). Pure.

subscriptions   what administrators ask of which clients, and what that makes for one client
instances       the clients that are known: what each may do now, and the metrics it pushed last
otlp_metrics    OpenTelemetry's MetricsData, read from its Protobuf form
"""
