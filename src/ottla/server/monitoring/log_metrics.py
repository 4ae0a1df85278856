"""Metrics of partitions, topics, flushes and compaction."""

from collections.abc import Callable, Iterator
from functools import partial

from ottla.server.monitoring.subject import Subject
from ottla.server.monitoring.survey import PartitionRow, Survey, summed
from ottla.server.partitions.partition_counts import PartitionCounts
from ottla.telemetry.families import Family, Labels, counter, counters, gauge, gauges, histograms

_OF_TOPICS = (
    ("ottla_topic_records_in", "", "Records that producers appended here.", "produced_records"),
    ("ottla_topic_in_bytes", "bytes", "Bytes of record batches that producers appended here.", "produced_bytes"),
    ("ottla_topic_out_bytes", "bytes", "Bytes of record batches sent to consumers.", "fetched_bytes"),
    ("ottla_topic_replication_in_bytes", "bytes", "Bytes fetched from leaders.", "replicated_in_bytes"),
    ("ottla_topic_replication_out_bytes", "bytes", "Bytes sent to followers.", "replicated_out_bytes"),
)  # fmt: skip


def partition_families(survey: Survey) -> Iterator[Family]:
    """One family for each number of a partition."""
    led: Callable[[PartitionRow], bool] = lambda row: row.is_leader  # noqa: E731
    each: Callable[[PartitionRow], bool] = lambda row: True  # noqa: E731
    of = partial(_of_partitions, survey)
    yield of("log_start_offset", "The first offset of the log.", each, lambda row: row.start_offset)
    yield of("log_end_offset", "The offset after the last record.", each, lambda row: row.end_offset)
    yield of(
        "high_watermark",
        "The offset before which consumers may read, as known here.",
        each,
        lambda row: row.high_watermark,
    )
    yield of(
        "unreplicated_records",
        "Records of leaders above the high watermark.",
        led,
        lambda row: row.end_offset - row.high_watermark,
    )
    yield of(
        "unstable_records",
        "Records below the high watermark that an open transaction holds back from readers of committed records.",
        led,
        lambda row: row.high_watermark - row.last_stable_offset,
    )
    yield of(
        "follower_lag_records",
        "Records that a follower here lacks.",
        lambda row: not row.is_leader,
        lambda row: row.lag_records,
    )
    yield of("size_bytes", "Bytes on disk.", each, lambda row: row.size_bytes, "bytes")


def topic_families(survey: Survey) -> Iterator[Family]:
    """Counters by topic, of this node."""
    for name, unit, about, field in _OF_TOPICS:
        yield counters(name, about, _of_topics(survey.topics, field), unit)


def replica_families(subject: Subject, survey: Survey) -> Iterator[Family]:
    """How many partitions are here, and in which condition."""
    rows = survey.partitions
    yield gauge("ottla_partitions", "Partitions with a replica on this node.", len(rows))
    yield gauge(
        "ottla_partitions_led", "Partitions that this node leads.", sum(row.is_leader for row in rows)
    )
    yield gauge(
        "ottla_partitions_under_replicated",
        "Partitions led here with replicas out of sync.",
        sum(row.is_under_replicated for row in rows),
    )
    yield gauge(
        "ottla_partitions_under_min_isr",
        "Partitions led here that refuse acks=all: too few replicas are in sync.",
        sum(row.is_under_min_isr for row in rows),
    )
    yield gauge(
        "ottla_partitions_damaged",
        "Replicas here with records that cannot be read.",
        sum(row.is_damaged for row in rows),
    )
    yield gauge(
        "ottla_partitions_refusing_writes",
        "Replicas here whose log cannot be written.",
        sum(row.refuses_writes for row in rows),
    )
    yield counter(
        "ottla_leader_changes", "Elections of leaders of partitions here.", survey.totals.leader_changes
    )
    yield counter("ottla_isr_shrinks", "In-sync replicas that leaders here put out.", subject.isr.shrinks)
    yield counter(
        "ottla_isr_expansions", "In-sync replicas that leaders here let in.", subject.isr.expansions
    )


def disk_families(subject: Subject) -> Iterator[Family]:
    """Flushes, compaction, and the room that is left."""
    flusher, compaction = subject.services.flusher, subject.compaction
    yield histograms(
        "ottla_flush_duration_seconds",
        "How long fsyncs of logs took, the wait for a thread included.",
        [((), flusher.times_us, None)],
    )
    yield counter("ottla_flush_failures", "Flushes that failed: the log refuses writes.", flusher.failures)
    free_bytes = subject.runtime.disk.usage(subject.config.logs.directory).free_bytes
    yield gauge("ottla_disk_free_bytes", "The room left where the logs are.", free_bytes, unit="bytes")
    if compaction is not None:
        yield counter("ottla_cleaner_passes", "Logs that were compacted.", compaction.passes)
        yield counter(
            "ottla_cleaner_busy_seconds", "Time spent compacting.", compaction.busy_s, unit="seconds"
        )
        yield counter(
            "ottla_cleaner_read_bytes", "Bytes of segments before.", compaction.read_bytes, unit="bytes"
        )
        yield counter(
            "ottla_cleaner_kept_bytes", "Bytes of segments after.", compaction.kept_bytes, unit="bytes"
        )
        yield counter("ottla_cleaner_failures", "Passes that failed.", compaction.failures)
        yield gauge(
            "ottla_cleaner_set_aside_logs", "Logs left alone after a failure.", compaction.set_aside_count
        )


def limit_families(survey: Survey) -> Iterator[Family]:
    """The names that share series because there are too many."""
    yield gauge(
        "ottla_metrics_hidden_topics",
        "Topics that are counted together as __other__ (ottla.metrics.max.partitions).",
        survey.topic_limit.hidden_count,
    )
    yield gauge(
        "ottla_metrics_hidden_groups",
        "Groups that are counted together as __other__ (ottla.metrics.max.group.partitions).",
        survey.group_limit.hidden_count,
    )


def _of_partitions(
    survey: Survey,
    name: str,
    about: str,
    chosen: Callable[[PartitionRow], bool],
    value: Callable[[PartitionRow], float],
    unit: str = "",
) -> Family:
    rows = ((row.labels, value(row)) for row in survey.partitions if chosen(row))
    return gauges(f"ottla_partition_{name}", about, summed(rows), unit)


def _of_topics(topics: dict[str, PartitionCounts], field: str) -> Iterator[tuple[Labels, int]]:
    for topic, counts in topics.items():
        yield (("topic", topic),), getattr(counts, field)
