"""Metrics of the metadata quorum and the cluster, as this node knows them."""

from collections.abc import Iterator

from ottla.server.monitoring.subject import Subject
from ottla.server.monitoring.survey import Survey
from ottla.telemetry.families import Family, counter, gauge


def quorum_families(subject: Subject) -> Iterator[Family]:
    """This node's part in the quorum."""
    quorum = subject.quorum
    member = quorum.member
    yield gauge("ottla_quorum_leader_id", "The active controller; -1: none is known.", quorum.controller_id)
    yield gauge("ottla_quorum_epoch", "The epoch of the quorum.", member.replica.epoch)
    yield gauge(
        "ottla_quorum_high_watermark",
        "The committed end of the metadata log, as known here.",
        member.replica.high_watermark,
    )
    yield gauge("ottla_quorum_log_end_offset", "The end of the metadata log here.", member.log_end_offset)
    yield gauge(
        "ottla_quorum_replayed_offset", "The last record that is part of the image.", quorum.image.last_offset
    )
    yield gauge(
        "ottla_quorum_is_controller", "Whether this node is the active controller.", quorum.is_controller
    )
    yield counter("ottla_quorum_elections", "Elections that this node heard of.", quorum.elections)


def cluster_families(subject: Subject, survey: Survey) -> Iterator[Family]:
    """The cluster by the metadata: the same on all nodes, but for the last moments."""
    image = subject.quorum.image
    live = len(image.live_brokers)
    yield gauge("ottla_cluster_brokers", "Registered brokers that answer.", live)
    yield gauge(
        "ottla_cluster_brokers_fenced", "Registered brokers that do not answer.", len(image.brokers) - live
    )
    yield gauge("ottla_cluster_topics", "Topics.", len(image.topics_by_name))
    yield gauge("ottla_cluster_partitions", "Partitions of all topics.", image.partition_count)
    yield gauge("ottla_cluster_partitions_offline", "Partitions without a leader.", len(survey.offline))
    yield gauge(
        "ottla_cluster_partitions_led_elsewhere",
        "Partitions that another replica leads than the preferred one.",
        survey.preferred_elsewhere,
    )
