"""Metrics by the names of kafka_exporter, for dashboards and alerts that people have.

kafka_exporter asks the whole cluster. Here each node tells of the partitions that it leads and of the groups that it
coordinates, so that a query over all nodes sees each of them once.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from ottla.server.monitoring.subject import Subject
from ottla.server.monitoring.survey import PartitionRow, Survey, summed
from ottla.telemetry.families import Family, Labels, gauge, gauges
from ottla.telemetry.label_limit import OTHER


def exporter_families(subject: Subject, survey: Survey) -> Iterator[Family]:
    """All of them."""
    yield gauge("kafka_brokers", "Number of brokers in the cluster.", len(subject.quorum.image.live_brokers))
    yield gauges(
        "kafka_topic_partitions", "Number of partitions of a topic.", _partition_counts(subject, survey)
    )
    yield from _partition_families(survey)
    yield from _group_families(survey)


def _partition_counts(subject: Subject, survey: Survey) -> Iterator[tuple[Labels, float]]:
    """By the controller alone: every node knows them."""
    if subject.quorum.is_controller:
        counts: Counter[str] = Counter()
        for topic in subject.quorum.image.topics_by_name.values():
            counts[survey.topic_limit.label_of(topic.name)] += len(topic.partitions)
        for name, count in counts.items():
            yield (("topic", name),), count


def _partition_families(survey: Survey) -> Iterator[Family]:
    values: tuple[tuple[str, str, Callable[[PartitionRow], float]], ...] = (
        ("current_offset", "Newest offset that consumers may read up to.", lambda row: row.high_watermark),
        ("oldest_offset", "Oldest offset.", lambda row: row.start_offset),
        ("in_sync_replica", "Number of in-sync replicas.", lambda row: len(row.isr)),
        ("replicas", "Number of replicas.", lambda row: len(row.replicas)),
        ("under_replicated_partition", "1 if replicas are out of sync.", lambda row: row.is_under_replicated),
    )
    rows = [row for row in survey.partitions if row.is_leader]
    for name, about, value in values:
        pairs = ((row.labels, value(row)) for row in rows)
        yield gauges(f"kafka_topic_partition_{name}", about, summed(pairs))
    shown = [row for row in rows if row.labels[0][1] != OTHER]
    yield gauges(
        "kafka_topic_partition_leader", "Leader of a partition.", ((row.labels, row.leader) for row in shown)
    )
    yield gauges(
        "kafka_topic_partition_leader_is_preferred",
        "1 if the leader is the preferred replica.",
        ((row.labels, row.leader == row.replicas[0]) for row in shown),
    )


def _group_families(survey: Survey) -> Iterator[Family]:
    members: Counter[str] = Counter()
    for row in survey.groups:
        members[row.group] += row.members
    yield gauges(
        "kafka_consumergroup_members",
        "Members of a group.",
        (((("consumergroup", group),), count) for group, count in members.items()),
    )
    yield gauges(
        "kafka_consumergroup_current_offset",
        "Committed offset of a group in a partition.",
        summed((row.labels, row.offset) for row in survey.offsets),
    )
    yield gauges(
        "kafka_consumergroup_lag",
        "Lag of a group in a partition, where this node has a replica of it.",
        summed((row.labels, row.lag_records) for row in survey.offsets if row.lag_records is not None),
    )
    yield gauges("kafka_consumergroup_lag_sum", "Lag of a group in a topic.", _lag_sums(survey).items())


def _lag_sums(survey: Survey) -> dict[Labels, float]:
    sums: dict[Labels, float] = {}
    for row in survey.offsets:
        if row.lag_records is not None:
            sums[row.labels[:2]] = sums.get(row.labels[:2], 0) + row.lag_records
    return sums
