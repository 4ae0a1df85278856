"""The settings that the coordinator decides by, out of all settings of the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from ottla.config import INT_MAX, BrokerConfig

_MS_PER_MINUTE: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Each is the setting of `BrokerConfig` that its name recalls."""

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = INT_MAX
    offsets_retention_ms: int = 10_080 * _MS_PER_MINUTE
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4096

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """The part of a broker's settings that is about groups."""
        return cls(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            offsets_retention_ms=config.offsets_retention_minutes * _MS_PER_MINUTE,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        )
