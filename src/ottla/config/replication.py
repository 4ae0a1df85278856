"""The settings of replication between brokers."""

from typing import Final

from ottla.config.setting import LONG_MAX, ConfigType, family, setting

LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@family
class ReplicationConfig:
    """How followers fetch, and when a follower is no longer in sync."""

    lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        30_000,
        type=ConfigType.LONG,
        at_least=1,
        doc="A follower that has not caught up with the leader for this long is no longer in sync; writes with acks=all do not "
        "wait for it any more. One whose process died is taken out sooner.",
    )
    silence_max_ms: int = setting(
        "ottla.replica.silence.max.ms",
        3_000,
        type=ConfigType.LONG,
        at_least=1,
        doc="A follower that lacks records and has not fetched for this long is no longer in sync, although its broker is "
        "alive: the network between the two brokers is cut, or it stands still. Shorter: writes with acks=all go on sooner, "
        "and a follower that is merely busy leaves and joins again. In Kafka such a follower has replica.lag.time.max.ms.",
    )
    fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms",
        500,
        at_least=0,
        doc="How long a follower's fetch waits at the leader for something new.",
    )
    fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes",
        1,
        at_least=0,
        doc="How much a follower's fetch waits for, up to replica.fetch.wait.max.ms.",
    )
    fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes",
        1 << 20,
        at_least=0,
        doc="How much a follower fetches of one partition at once while others wait, too; alone, a partition may fill the response. "
        "A single larger batch still comes.",
    )
    fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes",
        10 << 20,
        at_least=0,
        doc="How much a follower fetches of all partitions of one leader at once; a single larger batch still comes.",
    )
    fetch_backoff_ms: int = setting(
        "replica.fetch.backoff.ms",
        100,
        at_least=0,
        doc="How long a follower waits after a fetch that failed. Kafka's default is 1000.",
    )
    selector: str = setting(
        "replica.selector.class",
        LEADER_SELECTOR,
        choices=(LEADER_SELECTOR, RACK_SELECTOR),
        doc="Where consumers are sent that say in which rack they are (`client.rack`): with "
        "RackAwareReplicaSelector to an in-sync replica in their rack, otherwise to the leader.",
    )
    leader_throttled_rate: int = setting(
        "leader.replication.throttled.rate",
        LONG_MAX,
        type=ConfigType.LONG,
        at_least=0,
        dynamic=True,
        doc="The most bytes per second that this broker sends to replicas that are being moved.",
    )
    follower_throttled_rate: int = setting(
        "follower.replication.throttled.rate",
        LONG_MAX,
        type=ConfigType.LONG,
        at_least=0,
        dynamic=True,
        doc="The most bytes per second that this broker fetches for replicas that are being moved to it.",
    )

    @property
    def reads_from_followers(self) -> bool:
        """Whether consumers may read from followers."""
        return self.selector == RACK_SELECTOR
