"""Metrics by the names that the Prometheus JMX exporter makes of Kafka's own, with the rules most people use.

Of Kafka's names these are the ones whose numbers exist here and mean the same. A family of topics has one sample
without the label: the sum over all topics, as in Kafka.
"""

from collections.abc import Iterator
from typing import Final

from ottla.protocol.apis import ApiKey
from ottla.server.monitoring.node_metrics import error_rows
from ottla.server.monitoring.subject import Subject
from ottla.server.monitoring.survey import Survey
from ottla.telemetry.families import Family, Labels, counter, counters, gauge, gauges

_TOPIC_METRICS: Final = (
    ("messagesin", "Records appended by producers.", "produced_records"),
    ("bytesin", "Bytes appended by producers.", "produced_bytes"),
    ("bytesout", "Bytes sent to consumers.", "fetched_bytes"),
    ("replicationbytesin", "Bytes fetched from leaders.", "replicated_in_bytes"),
    ("replicationbytesout", "Bytes sent to followers.", "replicated_out_bytes"),
)
_TOPICS: Final = "kafka_server_brokertopicmetrics_"


def jmx_families(subject: Subject, survey: Survey) -> Iterator[Family]:
    """All of them."""
    yield from _topic_families(subject, survey)
    yield from _replica_families(subject, survey)
    yield from _controller_families(subject, survey)
    yield from _network_families(subject)


def _topic_families(subject: Subject, survey: Survey) -> Iterator[Family]:
    for name, about, field in _TOPIC_METRICS:
        yield counters(_TOPICS + name, about, _of_topics(survey, field))
    requests = subject.services.requests
    for name, key in (("produce", ApiKey.PRODUCE), ("fetch", ApiKey.FETCH)):
        times = requests.of(key)
        yield counter(f"{_TOPICS}total{name}requests", f"{name} requests.", times.histogram.count)
        yield counter(
            f"{_TOPICS}failed{name}requests", f"Errors in answers to {name} requests.", times.errors.total()
        )


def _of_topics(survey: Survey, field: str) -> Iterator[tuple[Labels, int]]:
    yield (), getattr(survey.totals, field)
    for topic, counts in survey.topics.items():
        yield (("topic", topic),), getattr(counts, field)


def _replica_families(subject: Subject, survey: Survey) -> Iterator[Family]:
    rows, name = survey.partitions, "kafka_server_replicamanager_"
    yield gauge(name + "partitioncount", "Partitions on this broker.", len(rows))
    yield gauge(name + "leadercount", "Partitions led by this broker.", sum(row.is_leader for row in rows))
    yield gauge(
        name + "underreplicatedpartitions",
        "Led partitions with replicas out of sync.",
        sum(row.is_under_replicated for row in rows),
    )
    yield gauge(
        name + "underminisrpartitioncount",
        "Led partitions with too few in-sync replicas.",
        sum(row.is_under_min_isr for row in rows),
    )
    yield gauge(
        name + "offlinereplicacount",
        "Replicas whose log cannot be written.",
        sum(row.refuses_writes for row in rows),
    )
    yield counter(name + "isrshrinks", "In-sync replicas put out.", subject.isr.shrinks)
    yield counter(name + "isrexpands", "In-sync replicas let in.", subject.isr.expansions)


def _controller_families(subject: Subject, survey: Survey) -> Iterator[Family]:
    """Kafka's controller alone has these; the others have 0, so that a sum over all nodes is right."""
    quorum, name = subject.quorum, "kafka_controller_kafkacontroller_"
    active, image = int(quorum.is_controller), quorum.image
    live = len(image.live_brokers)
    yield gauge(name + "activecontrollercount", "1 on the active controller.", active)
    yield gauge(name + "offlinepartitionscount", "Partitions without a leader.", active * len(survey.offline))
    yield gauge(name + "activebrokercount", "Brokers that answer.", active * live)
    yield gauge(name + "fencedbrokercount", "Brokers that do not.", active * (len(image.brokers) - live))
    yield gauge(name + "globaltopiccount", "Topics.", active * len(image.topics_by_name))
    yield gauge(name + "globalpartitioncount", "Partitions.", active * image.partition_count)
    yield gauge(
        name + "preferredreplicaimbalancecount",
        "Partitions that another replica leads than the preferred one.",
        active * survey.preferred_elsewhere,
    )


def _network_families(subject: Subject) -> Iterator[Family]:
    apis = subject.services.requests.all
    yield counters(
        "kafka_network_requestmetrics_requests",
        "Requests.",
        (((("request", each.api),), each.histogram.count) for each in apis),
    )
    yield counters(
        "kafka_network_requestmetrics_errors",
        "Errors in answers.",
        (((("request", labels[0][1]), labels[1]), count) for labels, count in error_rows(apis)),
    )
    yield gauges(
        "kafka_server_socketservermetrics_connection_count",
        "Open connections.",
        [((("listener", each.name),), each.connection_count) for each in subject.listeners.all],
    )
