"""Numbers about a running node, and the text in which they leave. Pure.

histogram     durations in exponential buckets, recorded with additions of integers
families      a metric: its name, kind, help and samples
openmetrics   families as text, of OpenMetrics and of Prometheus
label_limit   which topics and groups have series of their own, and which are counted together
slowest       the slowest of many requests
clients       metrics that clients push: subscriptions, what is kept, OpenTelemetry's form read

The rooms above own their numbers; `server/monitoring` collects them when somebody asks.
"""
