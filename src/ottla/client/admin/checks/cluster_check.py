"""The decisions of `ottla doctor` about a running cluster: topics, replicas, disks, clocks.

Each `check_*` takes what somebody has asked for and reports what is wrong with it. `ottla doctor` asks every broker
over a connection of its own; `examine_cluster` asks as an administrator does, with the rights of its user.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.admin.checks.findings import Examination
from ottla.client.admin.checks.transaction_check import check_transactions
from ottla.client.admin.checks.waiting_partitions import damaged_replicas, reason_without_leader
from ottla.client.requests.brokers import LogDir
from ottla.client.requests.configs import ConfigEntry, ConfigResource, ResourceType
from ottla.client.requests.metadata import PartitionInfo, TopicInfo
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.errors import KafkaError
from ottla.model import TopicPartition

# A broker's read-only entry among its settings (server/load_metrics.py).
DAMAGED_REPLICAS: Final = "ottla.load.damaged.replicas"
_CLOCK_TOLERANCE_MS: Final = 5_000  # clocks that are synchronised at all agree better than that
_LITTLE_SPACE_SHARE: Final = 0.05
# Of each kind of finding about partitions, so many are named; a large cluster without a broker has thousands.
_MOST_NAMED: Final = 50


def check_controller(controller_id: int | None, brokers: Collection[int], report: Examination) -> None:
    """Whether there is a broker at all, and whether the controller is one of them."""
    if not brokers:
        report.error(
            report.subject, "the broker knows of no broker, not even itself", "Restart it, and read its log."
        )
    if controller_id is not None and controller_id not in brokers:
        report.warning(
            report.subject,
            f"the controller is node {controller_id}, which is not among the brokers",
            "Topics cannot be created or changed until there is one: start that node, or wait for an election.",
        )


def check_partition(
    place: TopicPartition, found: PartitionInfo, brokers: Collection[int], report: Examination
) -> bool:
    """Whether the partition can be written and read, and by whom it is replicated. Returns whether it has a leader."""
    if found.leader is not None and found.leader in brokers:
        _check_replicas(place, found, brokers, report)
        return True
    report.error(
        place,
        f"it has no leader, so it cannot be written or read (replicas {list(found.replicas)}, in sync "
        f"{list(found.isr)}, not running {list(found.offline_replicas)})",
        reason_without_leader(place, found.isr, found.offline_replicas),
    )
    return False


def _check_replicas(
    place: TopicPartition, found: PartitionInfo, brokers: Collection[int], report: Examination
) -> None:
    damaged = [node_id for node_id in found.offline_replicas if node_id in brokers]
    behind = sorted(set(found.replicas) - {*found.isr, *damaged})
    if damaged:
        report.error(place, *damaged_replicas(damaged))
    if behind:
        report.warning(
            place,
            f"the replicas on {behind} are not in sync",
            "Start these brokers, or look at what keeps them from following.",
        )


def check_log_dirs(node_id: int, directories: Iterable[LogDir], report: Examination) -> None:
    """Data directories that cannot be used, and disks that are nearly full."""
    place = f"broker {node_id}"
    for directory in directories:
        if directory.error is not None:
            report.error(
                place,
                f"{directory.path}: {directory.error.code.name}",
                "Read the broker's log: the disk may be full, or failing. Run `ottla doctor --data` on that machine.",
            )
        elif 0 <= directory.usable_bytes < directory.total_bytes * _LITTLE_SPACE_SHARE:
            report.warning(
                place,
                f"{directory.path}: only {directory.usable_bytes >> 20} MiB are free on its disk",
                "Make room: lower retention.ms or retention.bytes of large topics, or move other files.",
            )


def check_damage(node_id: int, damaged: str | None, report: Examination) -> None:
    """Replicas that a broker has found damaged: the value of its entry `DAMAGED_REPLICAS`."""
    if damaged not in (None, "0"):
        report.error(
            f"broker {node_id}",
            f"it has {damaged} replicas with records that cannot be read",
            "Read its log: it names them. A replica that another one can replace is repaired by itself; for the only "
            "one that is left, start the other replicas, or restore the segment from a backup.",
        )


def check_newest_record(
    place: TopicPartition, offset: int, timestamp_ms: int, now_ms: float, report: Examination
) -> None:
    """The protocol tells no time, but a record from the future shows that some clock is wrong."""
    ahead_ms = timestamp_ms - now_ms
    if ahead_ms > _CLOCK_TOLERANCE_MS:
        report.warning(
            place,
            f"the record at offset {offset} is {ahead_ms / 1000:.0f} s in the future",
            "Compare the clocks of this machine, the broker's and the producer's. Records from the future keep "
            "their segment from being deleted by age.",
        )


# ---- as an administrator


async def examine_cluster(admin: Admin, subject: str) -> tuple[Examination, list[TopicPartition]]:
    """Examine brokers, topics and replicas, and return the partitions that have a leader.

    It asks what the administrator's user may ask; a question that is refused becomes a note.
    """
    report = Examination(subject)
    cluster = await admin.describe_cluster(include_fenced=True)
    alive = {each.node_id for each in cluster.brokers if not each.is_fenced}
    check_controller(cluster.controller_id, alive, report)
    for broker in cluster.brokers:
        if broker.is_fenced:
            report.error(
                f"broker {broker.node_id}",
                f"it is registered at {broker.address}, and not alive",
                "Start it, and read its log. If it is gone for good, move its replicas and forget it.",
            )
    topics = await admin.list_topics(include_internal=True)
    report.facts |= {
        "cluster_id": cluster.cluster_id,
        "brokers": len(alive),
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
    }
    led = _check_topics(topics, alive, report)
    await _check_brokers(admin, sorted(alive), report)
    return report, led


async def examine_records(admin: Admin, subject: str, led: list[TopicPartition], now_ms: int) -> Examination:
    """Examine clocks and transactions, for which every partition is asked: slow in a large cluster."""
    report = Examination(subject)
    try:
        newest = await admin.list_offsets(dict.fromkeys(led, int(OffsetSpec.MAX_TIMESTAMP)))
        for place, listed in newest.items():
            if isinstance(listed, ListedOffset):
                check_newest_record(place, listed.offset, listed.timestamp_ms, now_ms, report)
        await check_transactions(admin, led, report, now_ms)
    except KafkaError as refusal:
        report.note(
            "transactions", f"they could not be asked about: {refusal.message}", "Ask as a user who may."
        )
    return report


def _check_topics(
    topics: Iterable[TopicInfo], alive: Collection[int], report: Examination
) -> list[TopicPartition]:
    """Reports the first findings in full and counts the others; returns the partitions with a leader."""
    led: list[TopicPartition] = []
    found = Examination(report.subject)
    for topic in topics:
        for each in topic.partitions:
            place = TopicPartition(topic.name, each.index)
            if check_partition(place, each, alive, found):
                led.append(place)
    ordered = sorted(found.findings, key=lambda finding: -finding.severity)
    report.findings.extend(ordered[:_MOST_NAMED])
    if more := ordered[_MOST_NAMED:]:
        report.note("partitions", f"{len(more)} more are like this", "See the topics that they belong to.")
    return led


async def _check_brokers(admin: Admin, node_ids: list[int], report: Examination) -> None:
    try:
        for node_id, directories in (await admin.describe_log_dirs(node_ids)).items():
            if not isinstance(directories, KafkaError):
                check_log_dirs(node_id, directories, report)
        resources = [ConfigResource(ResourceType.BROKER, str(node_id)) for node_id in node_ids]
        described: Mapping[ConfigResource, dict[str, ConfigEntry] | KafkaError]
        described = await admin.describe_configs(resources)
        for resource, entries in described.items():
            if not isinstance(entries, KafkaError) and DAMAGED_REPLICAS in entries:
                check_damage(int(resource.name), entries[DAMAGED_REPLICAS].value, report)
    except KafkaError as refusal:
        report.note(
            "brokers", f"their disks could not be asked about: {refusal.message}", "Ask as a user who may."
        )
