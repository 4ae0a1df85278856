"""The settings of transactions and their coordinators."""

from ottla.config.setting import family, setting


@family
class TransactionConfig:
    """The limits for transactions, and the retention of transactional ids."""

    max_timeout_ms: int = setting(
        "transaction.max.timeout.ms",
        900_000,
        at_least=1,
        doc="The longest transaction timeout that a producer may ask for. Readers of committed records wait for a producer "
        "that died for as long as its timeout.",
    )
    two_phase_commit_enable: bool = setting(
        "transaction.two.phase.commit.enable",
        False,
        doc="Whether producers may have transactions without a timeout, for two-phase commit: once prepared, such a "
        "transaction stays open until its producer, or an administrator, ends it. Readers of committed records wait for it.",
    )
    abort_cleanup_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        at_least=1,
        doc="How often the coordinator looks for transactions that are open for longer than their timeout, and aborts them.",
    )
    id_expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        604_800_000,
        at_least=1,
        doc="How long a transactional id is remembered that is not used.",
    )
    expired_cleanup_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        at_least=1,
        doc="How often the coordinator looks for transactional ids to forget.",
    )
    partition_verification_enable: bool = setting(
        "transaction.partition.verification.enable",
        True,
        doc="Whether a partition asks the coordinator before it takes the first records of a transaction. Without the "
        "question, a record that comes late can open a transaction that nobody ends.",
    )
    state_log_num_partitions: int = setting(
        "transaction.state.log.num.partitions",
        50,
        at_least=1,
        doc="The partitions of the topic that holds transactions; it cannot be changed once the topic exists.",
    )
    state_log_replication_factor: int = setting(
        "transaction.state.log.replication.factor",
        3,
        at_least=1,
        at_most=2**15 - 1,
        doc="The replicas of each partition of the topic that holds transactions. Where Kafka waits until there are so many "
        "brokers, here the topic is created with as many replicas as there are brokers, so that one node is enough.",
    )
    state_log_min_isr: int = setting(
        "transaction.state.log.min.isr",
        2,
        at_least=1,
        doc="How many in-sync replicas must have a change of a transaction before it counts; no more than there are "
        "replicas.",
    )
    state_log_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        100 << 20,
        at_least=1,
        doc="The segment size of the topic that holds transactions; small ones are compacted and loaded sooner.",
    )
    retry_backoff_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        at_least=1,
        doc="How long a broker waits at most before it asks again whether a partition may join a transaction, while the "
        "producer's last transaction is still being ended; the first pauses are shorter.",
    )
    retry_backoff_max_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        at_least=0,
        doc="For how long a broker goes on asking whether a partition may join a transaction before the producer is told to "
        "ask again.",
    )
