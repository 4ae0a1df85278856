"""What a broker tells of itself over HTTP: metrics, health, and pages for debugging.

monitor              the HTTP port: paths, who may see them, from a thread to the event loop and back
subject              the parts of the broker that are looked at
survey               one look at all partitions and groups, from which the pages are made
node_metrics         metrics of the process, its connections and its requests
log_metrics          metrics of partitions, topics, flushes and compaction
group_metrics        metrics of groups and transactions
cluster_metrics      metrics of the quorum and the cluster
exporter_names       the same numbers by the names of kafka_exporter
jmx_names            the same numbers by the names that the JMX exporter makes of Kafka's own
metrics              all of them as one text
otlp_push            all of them to a collector of OpenTelemetry
loop_delay           how late the event loop is
health               whether the node is alive, ready, and its cluster well
debug_pages          state, tasks and slow requests

Nothing here is imported by a broker that serves no HTTP and pushes no metrics.
"""
