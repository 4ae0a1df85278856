"""The broker's settings about the cluster: which node is what, the metadata quorum, and who counts as alive.

`BrokerConfig` lists them with all others. Here too: what can be wrong with the voters, and the cluster's id where
nobody gave it one.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from ottla.config.listeners import Voter, parse_voter
from ottla.config.setting import ConfigError, ConfigType, setting

LONG, STRING, LIST = ConfigType.LONG, ConfigType.STRING, ConfigType.LIST

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
MAX_VOTERS: Final = 5  # more voters make commits slower and add nothing: five survive two failures
_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VOTERS: Final = "controller.quorum.voters"

PROCESS_ROLES: Final[Any] = setting(
    "process.roles",
    (BROKER, CONTROLLER),
    choices=(BROKER, CONTROLLER),
    doc="What this node does: 'broker' holds topics and serves clients, 'controller' votes in the metadata quorum.",
)
QUORUM_VOTERS: Final[Any] = setting(
    _VOTERS,
    (),
    type=LIST,
    doc="The nodes that vote in the metadata quorum, as id@host:port with commas between, the same on all nodes; "
    "a node's address here is the one it advertises. Not set: this node alone is the quorum.",
)
CLUSTER_ID: Final[Any] = setting(
    "ottla.cluster.id",
    None,
    type=STRING,
    doc="The id of the cluster, written to the data directory when that is first used; not set: made up by a node that "
    "is alone, and derived from controller.quorum.voters otherwise. Kafka formats directories with a tool of its own.",
)
ELECTION_TIMEOUT_MS: Final[Any] = setting(
    "controller.quorum.election.timeout.ms",
    1000,
    at_least=1,
    doc="How long a voter without a leader waits for one, or for votes, before it tries again; up to twice as long.",
)
ELECTION_BACKOFF_MAX_MS: Final[Any] = setting(
    "controller.quorum.election.backoff.max.ms",
    1000,
    at_least=1,
    doc="The longest pause between two elections that a voter lost.",
)
FETCH_TIMEOUT_MS: Final[Any] = setting(
    "controller.quorum.fetch.timeout.ms",
    2000,
    at_least=10,
    doc="A controller that is silent for this long is replaced, and one that hears of no majority for this long resigns. "
    "One whose process died is replaced sooner: its connections die with it.",
)
REQUEST_TIMEOUT_MS: Final[Any] = setting(
    "controller.quorum.request.timeout.ms",
    2000,
    at_least=1,
    doc="How long a node waits for another's answer in the metadata quorum.",
)
RETRY_BACKOFF_MS: Final[Any] = setting(
    "controller.quorum.retry.backoff.ms",
    20,
    at_least=1,
    doc="How long a node waits before it asks again in the metadata quorum.",
)
MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS: Final[Any] = setting(
    "metadata.log.max.record.bytes.between.snapshots",
    20 << 20,
    type=LONG,
    at_least=1,
    doc="A snapshot of the metadata is written, and its log begins behind it, when the log has grown by this much.",
)
HEARTBEAT_INTERVAL_MS: Final[Any] = setting(
    "broker.heartbeat.interval.ms",
    500,
    at_least=1,
    doc="How often a broker tells the controller that it lives. Kafka's default is 2000.",
)
SESSION_TIMEOUT_MS: Final[Any] = setting(
    "broker.session.timeout.ms",
    4000,
    at_least=1,
    doc="A broker that the controller has not heard of for this long is fenced: others lead its partitions. Kafka's "
    "default is 9000. A broker whose process died is fenced sooner, see ottla.broker.disconnect.grace.ms.",
)
DISCONNECT_GRACE_MS: Final[Any] = setting(
    "ottla.broker.disconnect.grace.ms",
    200,
    at_least=0,
    doc="A broker whose connection to the controller was closed has this long to come back before it is fenced. "
    "Kafka waits for the whole session.",
)
CAPACITY: Final[Any] = setting(
    "ottla.broker.capacity",
    1,
    at_least=1,
    at_most=1000,
    doc="How much this broker should hold beside the others: one with 2 gets twice the replicas of one with 1. "
    "In Kafka all brokers count the same.",
)
CONTROLLED_SHUTDOWN_ENABLE: Final[Any] = setting(
    "controlled.shutdown.enable",
    True,
    doc="Whether a broker that is stopped hands its leaderships over first.",
)
LEADER_REBALANCE_ENABLE: Final[Any] = setting(
    "auto.leader.rebalance.enable",
    True,
    doc="Whether partitions are given back to their preferred leaders, the first of their replicas, once these are in sync.",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS: Final[Any] = setting(
    "leader.imbalance.check.interval.seconds",
    300,
    type=LONG,
    at_least=1,
    doc="How often the controller looks for partitions to give back to their preferred leaders.",
)
LEADER_IMBALANCE_PER_BROKER_PERCENTAGE: Final[Any] = setting(
    "leader.imbalance.per.broker.percentage",
    10,
    at_least=0,
    at_most=100,
    doc="Leaders are given back when more than this share of the partitions that a broker should lead is led by others.",
)


def parse_voters(texts: Sequence[str]) -> tuple[Voter, ...]:
    """The voters in the order of their ids; ConfigError if they make no quorum."""
    voters = sorted((parse_voter(_VOTERS, text) for text in texts), key=lambda voter: voter.node_id)
    ids = [voter.node_id for voter in voters]
    twice = next((each for each in ids if ids.count(each) > 1), None)
    if twice is not None:
        raise ConfigError(f"{_VOTERS} names node {twice} twice: each voter stands there once.")
    if len(voters) > MAX_VOTERS:
        raise ConfigError(f"{_VOTERS} names {len(voters)} voters: a quorum has at most {MAX_VOTERS}.")
    return tuple(voters)


def refuse_role(node_id: int, roles: Sequence[str], voters: Sequence[Voter]) -> None:
    """ConfigError if a node of these roles has no place in this quorum."""
    if not roles:
        raise ConfigError("process.roles cannot be empty: it must be broker, controller, or both.")
    is_voter = any(voter.node_id == node_id for voter in voters)
    if CONTROLLER not in roles and not voters:
        raise ConfigError(
            f"Node {node_id} is only a broker: {_VOTERS} must name the controllers, for example 1@localhost:9092."
        )
    if CONTROLLER in roles and voters and not is_voter:
        raise ConfigError(
            f"Node {node_id} is a controller and not in {_VOTERS}: add it there, or set process.roles to broker."
        )
    if CONTROLLER not in roles and is_voter:
        raise ConfigError(
            f"Node {node_id} is in {_VOTERS} and not a controller: add controller to process.roles, or take it out there."
        )


def refuse_cluster_id(cluster_id: str | None) -> None:
    """ConfigError if it could not stand in a file and in messages."""
    if cluster_id is not None and _CLUSTER_ID.fullmatch(cluster_id) is None:
        raise ConfigError(
            f"ottla.cluster.id cannot be '{cluster_id}': it must be 1 to 64 letters, digits, '-' and '_'."
        )


def derived_cluster_id(voters: Sequence[Voter]) -> str:
    """An id that all nodes with the same voters agree on without a word."""
    digest = sha256(",".join(map(str, voters)).encode()).digest()
    return urlsafe_b64encode(digest[:16]).decode().rstrip("=")
