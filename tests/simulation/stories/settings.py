"""The settings of nodes and clients: Kafka's, with short times, so that much happens in few simulated seconds."""

from typing import Any, Final

from ottla.config.replication import RACK_SELECTOR

HOSTS_PORT: Final = 9000
# Of listeners without logins, in stories with security.
OPEN_PORT: Final = 9100
# A topic that is deleted and created again; nothing is promised about its records.
FLEETING: Final = "fleeting"

_NODE: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "400",
    "log.cleaner.backoff.ms": "300",
    "log.index.size.max.bytes": "2048",
    "log.index.interval.bytes": "256",
    "log.segment.bytes": "8192",
    "log.retention.ms": "-1",
    "ottla.log.scrub.interval.ms": "4000",
    "ottla.log.scrub.io.max.bytes.per.second": "1000000",
    "log.flush.offset.checkpoint.interval.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "1500",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.fetch.timeout.ms": "700",
    "controller.quorum.request.timeout.ms": "700",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "400",
    "replica.fetch.backoff.ms": "100",
    "group.initial.rebalance.delay.ms": "50",
    "group.min.session.timeout.ms": "500",
    "leader.imbalance.check.interval.seconds": "3",
    "replica.selector.class": RACK_SELECTOR,
}
RACKS: Final = ("r0", "r1", "r2")


COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1500",
    "min.cleanable.dirty.ratio": "0.1",
}


def node_settings(number: int, voters: int, *, flushes: bool, snapshot_bytes: int = 6_000) -> dict[str, str]:
    """The properties of one node; the first ones are voters. A cluster that flushes survives a loss of all power."""
    settings = {
        **_NODE,
        "metadata.log.max.record.bytes.between.snapshots": str(snapshot_bytes),
        "node.id": str(number),
        "listeners": f"PLAINTEXT://127.0.0.1:{HOSTS_PORT + number}",
        "log.dir": f"/data/{number}",
        "controller.quorum.voters": voters_setting(voters),
        "broker.rack": RACKS[number % len(RACKS)],
    }
    if number > voters:
        settings["process.roles"] = "broker"
    if flushes:
        settings["log.flush.interval.messages"] = "1"
    return settings


def voters_setting(voters: int) -> str:
    """The first nodes, as `controller.quorum.voters` names them."""
    return ",".join(f"{voter}@127.0.0.1:{HOSTS_PORT + voter}" for voter in range(1, voters + 1))


def bootstrap(nodes: int) -> str:
    """Where clients find the cluster."""
    return ",".join(f"127.0.0.1:{HOSTS_PORT + number}" for number in range(1, nodes + 1))


PRODUCER: Final[dict[str, Any]] = {
    "request_timeout_ms": 1_500,
    "delivery_timeout_ms": 10_000,
    "max_block_ms": 10_000,
    "metadata_max_age_ms": 2_000,
    "linger_ms": 5,
}
CONSUMER: Final[dict[str, Any]] = {
    "auto_offset_reset": "earliest",
    "request_timeout_ms": 2_000,
    "default_api_timeout_ms": 4_000,
    "metadata_max_age_ms": 2_000,
    "fetch_max_wait_ms": 700,
}
MEMBER: Final[dict[str, Any]] = {
    **CONSUMER,
    "auto_commit_interval_ms": 300,
    "session_timeout_ms": 2_000,
    "heartbeat_interval_ms": 500,
    "max_poll_interval_ms": 3_000,
}
