"""The coordinator's settings are the broker's."""

from __future__ import annotations

from ottla.config import BrokerConfig
from ottla.group.settings import GroupSettings


def test_the_defaults_of_both_agree() -> None:
    assert GroupSettings.of(BrokerConfig()) == GroupSettings()


def test_every_setting_is_taken_over() -> None:
    config = BrokerConfig.from_properties(
        {
            "group.initial.rebalance.delay.ms": "1",
            "group.min.session.timeout.ms": "2",
            "group.max.session.timeout.ms": "3",
            "group.max.size": "4",
            "offsets.retention.minutes": "5",
            "offsets.retention.check.interval.ms": "6",
            "offset.metadata.max.bytes": "7",
        }
    )
    assert GroupSettings.of(config) == GroupSettings(
        initial_rebalance_delay_ms=1,
        min_session_timeout_ms=2,
        max_session_timeout_ms=3,
        max_size=4,
        offsets_retention_ms=300_000,
        offsets_retention_check_interval_ms=6,
        offset_metadata_max_bytes=7,
    )
