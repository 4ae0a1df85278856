"""A group's details, computed from a broker's answers, with a clock of the test's own (RET-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ottla.client.admin.admin import Admin
from ottla.client.admin.group_details import details_as_json, gather_group
from ottla.client.fetching.plan.partition_reader import ConsumerRecord
from ottla.client.requests.brokers import ClusterDescription
from ottla.client.requests.configs import ConfigEntry, ConfigResource, ConfigSource
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.groups import GroupDescription, MemberDescription
from ottla.client.requests.metadata import BrokerInfo
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

NOW_MS = 1_000_000
T0, T1, T2, T3 = (TopicPartition("t", index) for index in range(4))
MEMBER = MemberDescription("m", None, "client", "/host", (T0, T3))


class Oracle:
    """Logs from 10 to 100. A record at offset n is of time 900,000 + n; records are kept for 150 seconds."""

    def __init__(self, policy: str = "delete") -> None:
        self.policy = policy

    async def describe_groups(self, names: Iterable[str]) -> dict[str, GroupDescription]:
        return {name: GroupDescription(name, "Stable", "consumer", "range", 1, (MEMBER,)) for name in names}

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        return {T0: CommittedOffset(40), T1: CommittedOffset(100), T2: CommittedOffset(4)}

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        found = {
            OffsetSpec.EARLIEST: (10, -1),
            OffsetSpec.LATEST: (100, -1),
            OffsetSpec.MAX_TIMESTAMP: (99, 900_099),
        }
        gone = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {
            each: gone if each == T3 else ListedOffset(*found[OffsetSpec(when)], 0)
            for each, when in wanted.items()
        }

    async def peek(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ConsumerRecord]:
        return {
            each: ConsumerRecord(*each, offset, 900_000 + offset, None, None, ())
            for each, offset in offsets.items()
        }

    async def describe_configs(self, resources: Iterable[ConfigResource]) -> Any:
        settings = {"retention.ms": "150000", "cleanup.policy": self.policy}
        entries = {n: ConfigEntry(n, v, ConfigSource.DEFAULT, False, False) for n, v in settings.items()}
        return dict.fromkeys(resources, entries)

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 1, (BrokerInfo(1, "h", 9),))


def gathered(oracle: Oracle) -> dict[str, Any]:
    return details_as_json(asyncio.run(gather_group(cast(Admin, oracle), "g", NOW_MS)))


def test_a_group_that_is_behind_shows_by_how_much_and_how_long_it_has() -> None:
    details = gathered(Oracle())
    assert (details["state"], details["protocol"], details["coordinator_address"]) == (
        "Stable",
        "range",
        "h:9",
    )
    behind = details["partitions"][0]
    assert (behind["committed_offset"], behind["log_end_offset"], behind["lag_records"]) == (40, 100, 60)
    assert (behind["waiting_ms"], behind["lag_seconds"], behind["behind_newest_ms"]) == (99_960, 99.96, 59)
    assert (behind["log_start_offset"], behind["records_to_deletion"], behind["lost_records"]) == (10, 30, 0)
    assert behind["deletable_in_ms"] == 150_000 - 99_960
    assert (behind["member_id"], behind["client_id"], behind["client_host"]) == ("m", "client", "/host")


def test_a_group_at_the_end_has_no_lag_and_nothing_to_lose() -> None:
    done = gathered(Oracle())["partitions"][1]
    assert (done["lag_records"], done["lag_seconds"], done["behind_newest_ms"]) == (0, 0.0, 0)
    assert (done["deletable_in_ms"], done["member_id"]) == (None, None)


def test_a_group_whose_next_record_is_gone_has_lost_it() -> None:
    lost = gathered(Oracle())["partitions"][2]
    assert (lost["lost_records"], lost["records_to_deletion"], lost["lag_records"]) == (6, 0, 96)
    assert lost["waiting_ms"] == NOW_MS - 900_010


def test_what_nobody_can_tell_is_null() -> None:
    unknown = gathered(Oracle())["partitions"][3]
    assert unknown["partition"] == 3
    assert {unknown[name] for name in ("committed_offset", "log_end_offset", "lag_records")} == {None}


def test_a_compacted_topic_is_not_deleted_by_age() -> None:
    assert gathered(Oracle("compact"))["partitions"][0]["deletable_in_ms"] is None
    assert gathered(Oracle("compact,delete"))["partitions"][0]["deletable_in_ms"] is not None
