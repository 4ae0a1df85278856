"""Whether a node is alive, ready for clients, and its cluster well; each answer with its reasons.

live      the event loop answers, and the node has not given up. A supervisor restarts a node that is not live.
ready     clients are let in: the logs are open, the controller knows the broker. A load balancer asks this.
cluster   every partition has its leader and its replicas. For people and alerts: a restart would help nobody.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ottla.model import NO_NODE
from ottla.server.monitoring.subject import Subject
from ottla.server.monitoring.survey import Survey

_NAMES_SHOWN: Final = 10


class Health(NamedTuple):
    """The answer to a question about health."""

    status: str
    reasons: Sequence[str]

    @property
    def is_well(self) -> bool:
        return not self.reasons

    def shown(self, subject: Subject) -> dict[str, Any]:
        """For JSON."""
        return {
            "status": self.status,
            "reasons": list(self.reasons),
            "node": subject.node_id,
            "cluster": subject.quorum.image.cluster_id,
            "controller": subject.quorum.controller_id,
        }


def live(subject: Subject) -> Health:
    """Whether this node can go on."""
    halted = subject.halt_reason
    return Health("live", ()) if halted is None else Health("halted", (halted,))


def ready(subject: Subject) -> Health:
    """Whether this node serves clients."""
    reasons = tuple(_unready(subject))
    return Health("not ready" if reasons else "ready", reasons)


def _unready(subject: Subject) -> Iterator[str]:
    if (halted := subject.halt_reason) is not None:
        yield halted
    quorum = subject.quorum
    if not subject.listeners.is_gate_open:
        yield "The node is still starting: it recovers its logs, or waits for the quorum."
    if quorum.controller_id == NO_NODE:
        yield quorum.describe_trouble() or "No controller is known."
    own = quorum.image.brokers.get(subject.node_id)
    if subject.config.node.is_broker and subject.listeners.is_gate_open:
        if own is None or own.is_fenced:
            yield "The controller has fenced this broker: it does not hear its heartbeats."
        elif own.is_directory_offline:
            yield f"The data directory {subject.config.logs.directory} takes no writes."
        elif own.in_controlled_shutdown:
            yield "The broker is stopping, and hands its partitions over."


def cluster(subject: Subject, survey: Survey) -> Health:
    """Whether every partition of the cluster is where it should be, by the metadata that this node has."""
    reasons = tuple(_troubles(subject, survey))
    is_serving = subject.quorum.controller_id != NO_NODE and not survey.offline
    return Health("healthy" if not reasons else "degraded" if is_serving else "unavailable", reasons)


def _troubles(subject: Subject, survey: Survey) -> Iterator[str]:
    quorum = subject.quorum
    if quorum.controller_id == NO_NODE:
        yield quorum.describe_trouble() or "No controller is known."
    for broker in quorum.image.brokers.values():
        if broker.is_fenced:
            yield f"Broker {broker.node_id} does not answer: start it, or find out why it cannot reach the controller."
        elif broker.is_directory_offline:
            yield f"Broker {broker.node_id} cannot write to its disk."
    if survey.offline:
        yield f"{_partitions(survey.offline)} no leader: start a broker that has an in-sync replica."
    if survey.missing:
        yield f"{_partitions(survey.missing)} replicas out of sync."
    too_few = [f"{row.topic}-{row.partition}" for row in survey.partitions if row.is_under_min_isr]
    if too_few:
        yield f"{_partitions(too_few)} fewer in-sync replicas than min.insync.replicas: acks=all is refused."
    damaged = [f"{row.topic}-{row.partition}" for row in survey.partitions if row.is_damaged]
    if damaged:
        yield f"{_partitions(damaged)} records that cannot be read on this broker."


def _partitions(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return (
        f"1 partition ({shown}) has" if len(names) == 1 else f"{len(names)} partitions ({shown}{more}) have"
    )
