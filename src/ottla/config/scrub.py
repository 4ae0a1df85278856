"""The settings of scrubbing: closed segments are read again, in search of records that the disk has damaged."""

from ottla.config.setting import ConfigType, family, setting


@family
class ScrubConfig:
    """How fast and how often closed segments are read again."""

    io_max_bytes_per_second: int = setting(
        "ottla.log.scrub.io.max.bytes.per.second",
        1 << 20,
        type=ConfigType.LONG,
        at_least=0,
        dynamic=True,
        doc="How much of the closed segments is read and checked per second, in search of damaged records; 0: nothing. A "
        "damaged segment is set aside and fetched again from another replica. Kafka finds damage when somebody reads it.",
    )
    interval_ms: int = setting(
        "ottla.log.scrub.interval.ms",
        604_800_000,
        type=ConfigType.LONG,
        at_least=1000,
        dynamic=True,
        doc="How much time lies at least between the beginnings of two passes over all closed segments.",
    )
