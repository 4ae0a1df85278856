"""The settings of the metadata quorum."""

from ottla.config.setting import ConfigType, family, setting


@family
class QuorumConfig:
    """How the nodes that vote on the cluster's metadata elect, replicate and take snapshots."""

    election_timeout_ms: int = setting(
        "controller.quorum.election.timeout.ms",
        1000,
        at_least=1,
        doc="How long a voter without a leader waits for one, or for votes, before it tries again; up to twice as long.",
    )
    election_backoff_max_ms: int = setting(
        "controller.quorum.election.backoff.max.ms",
        1000,
        at_least=1,
        doc="The longest pause between two elections that a voter lost.",
    )
    fetch_timeout_ms: int = setting(
        "controller.quorum.fetch.timeout.ms",
        1500,
        at_least=10,
        doc="A controller that is silent for this long is replaced, and one that hears of no majority for this long resigns. "
        "One whose process died is replaced sooner: its connections die with it.",
    )
    request_timeout_ms: int = setting(
        "controller.quorum.request.timeout.ms",
        2000,
        at_least=1,
        doc="How long a node waits for another's answer in the metadata quorum.",
    )
    retry_backoff_ms: int = setting(
        "controller.quorum.retry.backoff.ms",
        20,
        at_least=1,
        doc="How long a node waits before it asks again in the metadata quorum.",
    )
    max_record_bytes_between_snapshots: int = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        20 << 20,
        type=ConfigType.LONG,
        at_least=1,
        doc="A snapshot of the metadata is written, and the log before it is deleted, when the log has grown by this much.",
    )
