"""The broker's settings about replication between brokers; `BrokerConfig` lists them with all others."""

from typing import Any, Final

from ottla.config.setting import LONG_MAX, ConfigType, setting

LONG = ConfigType.LONG

LAG_TIME_MAX_MS: Final[Any] = setting(
    "replica.lag.time.max.ms",
    30_000,
    type=LONG,
    at_least=1,
    doc="A follower that has not caught up with the leader for this long is no longer in sync; writes with acks=all do not "
    "wait for it any more. One whose process died is taken out sooner.",
)
FETCH_WAIT_MAX_MS: Final[Any] = setting(
    "replica.fetch.wait.max.ms",
    500,
    at_least=0,
    doc="How long a follower's fetch waits at the leader for something new.",
)
FETCH_MIN_BYTES: Final[Any] = setting(
    "replica.fetch.min.bytes",
    1,
    at_least=0,
    doc="How much a follower's fetch waits for, up to replica.fetch.wait.max.ms.",
)
FETCH_MAX_BYTES: Final[Any] = setting(
    "replica.fetch.max.bytes",
    1 << 20,
    at_least=0,
    doc="How much a follower fetches of one partition at once while others wait, too; alone, a partition may fill the response. "
    "A single larger batch still comes.",
)
FETCH_RESPONSE_MAX_BYTES: Final[Any] = setting(
    "replica.fetch.response.max.bytes",
    10 << 20,
    at_least=0,
    doc="How much a follower fetches of all partitions of one leader at once; a single larger batch still comes.",
)
FETCH_BACKOFF_MS: Final[Any] = setting(
    "replica.fetch.backoff.ms",
    100,
    at_least=0,
    doc="How long a follower waits after a fetch that failed. Kafka's default is 1000.",
)
LEADER_THROTTLED_RATE: Final[Any] = setting(
    "leader.replication.throttled.rate",
    LONG_MAX,
    type=LONG,
    at_least=0,
    dynamic=True,
    doc="The most bytes per second that this broker sends to replicas that are being moved.",
)
FOLLOWER_THROTTLED_RATE: Final[Any] = setting(
    "follower.replication.throttled.rate",
    LONG_MAX,
    type=LONG,
    at_least=0,
    dynamic=True,
    doc="The most bytes per second that this broker fetches for replicas that are being moved to it.",
)
