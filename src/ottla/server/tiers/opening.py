"""Tiered storage, for brokers that have it."""

from typing import TYPE_CHECKING

from ottla.config import BrokerConfig
from ottla.runtime.runtime import Runtime
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.quorum import Quorum

if TYPE_CHECKING:
    from ottla.server.tiers.tiers import Tiers


def open_tiers(
    config: BrokerConfig, quorum: Quorum, partitions: Partitions, runtime: Runtime
) -> "Tiers | None":
    """The tiered storage of a broker; None if its settings have none."""
    if not config.tiers.enable:
        return None
    # Imported here: most brokers have no tiered storage.
    from ottla.server.tiers.tiers import Tiers

    return Tiers(config, quorum, partitions, runtime)
