"""The settings about the brokers of a cluster: which of them count as alive, and which of them lead."""

from ottla.config.setting import ConfigType, family, setting


@family
class MembershipConfig:
    """How a broker shows that it is alive, and how it leaves."""

    heartbeat_interval_ms: int = setting(
        "broker.heartbeat.interval.ms",
        500,
        at_least=1,
        doc="How often a broker sends a heartbeat to the controller. Kafka's default is 2000.",
    )
    session_timeout_ms: int = setting(
        "broker.session.timeout.ms",
        2500,
        at_least=1,
        doc="A broker without a heartbeat for this long is fenced: other brokers lead its partitions. Kafka's "
        "default is 9000. A broker whose process died is fenced sooner, see ottla.broker.disconnect.grace.ms. Shorter: a "
        "broker that hangs is replaced sooner, and one that stands still for a moment loses its leaderships. Keep at least "
        "four heartbeats in it.",
    )
    disconnect_grace_ms: int = setting(
        "ottla.broker.disconnect.grace.ms",
        200,
        at_least=0,
        doc="A broker whose connection to the controller was closed has this long to come back before it is fenced. "
        "Kafka waits for the whole session.",
    )
    capacity: int = setting(
        "ottla.broker.capacity",
        1,
        at_least=1,
        at_most=1000,
        doc="How much this broker should hold beside the others: one with 2 gets twice the replicas of one with 1. "
        "In Kafka all brokers count the same.",
    )
    controlled_shutdown_enable: bool = setting(
        "controlled.shutdown.enable",
        True,
        doc="Whether a broker that is stopped hands its leaderships over first.",
    )


@family
class LeaderBalanceConfig:
    """When the controller gives partitions back to their preferred leaders."""

    enable: bool = setting(
        "auto.leader.rebalance.enable",
        True,
        doc="Whether partitions are given back to their preferred leaders, the first of their replicas, once these are in sync.",
    )
    check_interval_seconds: int = setting(
        "leader.imbalance.check.interval.seconds",
        300,
        type=ConfigType.LONG,
        at_least=1,
        doc="How often the controller looks for partitions to give back to their preferred leaders.",
    )
    imbalance_per_broker_percentage: int = setting(
        "leader.imbalance.per.broker.percentage",
        10,
        at_least=0,
        at_most=100,
        doc="Leaders are given back when more than this share of the partitions that a broker should lead is led by others.",
    )
