"""The settings of quotas: how much clients may do."""

from ottla.config.setting import family, setting


@family
class QuotaConfig:
    """Over how long a rate is measured. The quotas themselves are in the metadata."""

    window_num: int = setting(
        "quota.window.num",
        11,
        at_least=1,
        doc="Over how many windows of `quota.window.size.seconds` a client's rate is measured: a client that was silent "
        "may use as many windows' worth of its quota at once.",
    )
    window_size_seconds: int = setting(
        "quota.window.size.seconds",
        1,
        at_least=1,
        doc="The length of each of the windows over which a client's rate is measured.",
    )

    controller_window_num: int = setting(
        "controller.quota.window.num",
        11,
        at_least=1,
        doc="Over how many windows of `controller.quota.window.size.seconds` the partitions that a client creates and "
        "deletes are measured: a client that was silent may use as many windows' worth of its quota at once.",
    )
    controller_window_size_seconds: int = setting(
        "controller.quota.window.size.seconds",
        1,
        at_least=1,
        doc="The length of each of the windows over which created and deleted partitions are measured.",
    )

    @property
    def controller_burst_s(self) -> int:
        """How many seconds' worth of a quota of partitions may be used at once."""
        return self.controller_window_num * self.controller_window_size_seconds

    @property
    def window_ms(self) -> int:
        """The longest pause for request time and for connections, as in Kafka."""
        return self.window_size_seconds * 1000

    @property
    def burst_s(self) -> int:
        """How many seconds' worth of a quota may be used at once."""
        return self.window_num * self.window_size_seconds
