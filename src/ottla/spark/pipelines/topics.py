"""A pipeline's questions to the brokers: are they there, are its topics there, and where do they end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.blocking import Admin
from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.model import TopicPartition
from ottla.security.settings import PLAINTEXT, Security
from ottla.spark.pipelines.flow_progress import Offsets

_CLIENT_ID: Final = "ottla-pipeline"
# Long enough for a leader that is being replaced.
_TIMEOUT_MS: Final = 15_000


def reach_brokers(bootstrap_servers: str, security: Security = PLAINTEXT) -> None:
    """Raise what an unanswered request raises. One that is refused takes milliseconds, Spark's start takes
    seconds.
    """
    with Admin(bootstrap_servers, client_id=_CLIENT_ID, timeout_ms=_TIMEOUT_MS, security=security) as admin:
        admin.describe_cluster()


def missing_topics(
    bootstrap_servers: str, topics: Iterable[str], security: Security = PLAINTEXT
) -> list[str]:
    """Those of the topics that there are not."""
    wanted = sorted(topics)
    if not wanted:
        return []
    with Admin(bootstrap_servers, client_id=_CLIENT_ID, timeout_ms=_TIMEOUT_MS, security=security) as admin:
        found = admin.describe_topics(wanted)
    return [topic for topic in wanted if not isinstance(found[topic], TopicInfo)]


def log_ends(bootstrap_servers: str, topics: Iterable[str], security: Security = PLAINTEXT) -> Offsets:
    """The end of each partition of the topics; those that do not answer are left out."""
    wanted = sorted(topics)
    if not wanted:
        return {}
    with Admin(bootstrap_servers, client_id=_CLIENT_ID, timeout_ms=_TIMEOUT_MS, security=security) as admin:
        described = [
            topic for topic in admin.describe_topics(wanted).values() if isinstance(topic, TopicInfo)
        ]
        partitions = [
            TopicPartition(topic.name, each.index) for topic in described for each in topic.partitions
        ]
        ends = admin.list_offsets(dict.fromkeys(partitions, int(OffsetSpec.LATEST)))
    return {(at.topic, at.partition): end.offset for at, end in ends.items() if isinstance(end, ListedOffset)}
