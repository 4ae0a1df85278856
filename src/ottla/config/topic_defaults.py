"""The settings about topics as a whole: how they come and go, and what a new one gets."""

from ottla.config.setting import family, setting


@family
class TopicDefaultsConfig:
    """The defaults for topics whose creator left something out."""

    auto_create_enable: bool = setting(
        "auto.create.topics.enable",
        True,
        doc="Whether a client that asks for a topic that does not exist causes it to be created.",
    )
    delete_enable: bool = setting(
        "delete.topic.enable", True, doc="Whether topics can be deleted by a client."
    )
    num_partitions: int = setting(
        "num.partitions",
        1,
        at_least=1,
        doc="The partitions of a new topic whose creator did not say how many.",
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        1,
        at_least=1,
        at_most=2**15 - 1,
        doc="The replicas of each partition of a new topic whose creator did not say how many.",
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        1,
        at_least=1,
        dynamic=True,
        doc="An acks=all write is refused while fewer replicas than this are in sync. All brokers of a cluster have one value: "
        "what the controller was given at the first start, until it is changed.",
    )
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable",
        False,
        dynamic=True,
        doc="Whether a replica that is not in sync may become leader when no other is left; that loses records.",
    )
    unclean_recovery_strategy: str = setting(
        "unclean.recovery.strategy",
        "None",
        doc="What happens to a partition when every replica may miss acknowledged records, because all machines lost "
        "power or their disks. None: it waits for an operator. Balanced: when all replicas are back, the one with the "
        "most complete log leads.",
        choices=("None", "Balanced"),
        dynamic=True,
    )
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit",
        2000,
        at_least=1,
        doc="The most partitions that one answer to DescribeTopicPartitions holds.",
    )
