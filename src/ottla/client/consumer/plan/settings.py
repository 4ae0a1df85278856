"""The settings of a consumer, checked once.

Names and meanings are Kafka's, with underscores for dots. Only the assignors differ from Java's defaults:
they are those that the other Python clients share, so that a group can be mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from ottla.client.calls import arguments
from ottla.client.fetching.plan.fetch_plan import FetchSettings
from ottla.client.membership.plan.assignors import ASSIGNORS
from ottla.client.requests.member_requests import MemberSettings

OffsetReset: TypeAlias = Literal["earliest", "latest", "none"]
IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]
DEFAULT_ASSIGNORS: Final = ("range", "roundrobin")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The settings of a `Consumer`, which documents them.

    Raises ValueError with a sentence that says what is wrong.
    """

    group_id: str | None
    group_instance_id: str | None
    auto_offset_reset: OffsetReset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    partition_assignment_strategy: Sequence[str]
    isolation_level: IsolationLevel
    max_poll_records: int
    max_poll_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    max_buffered_bytes: int
    check_crcs: bool
    metadata_max_age_ms: int
    request_timeout_ms: int
    default_api_timeout_ms: int
    client_rack: str

    def __post_init__(self) -> None:
        arguments.one_of("auto_offset_reset", self.auto_offset_reset, get_args(OffsetReset))
        arguments.one_of("isolation_level", self.isolation_level, get_args(IsolationLevel))
        assignors = arguments.names("partition_assignment_strategy", self.partition_assignment_strategy)
        if not assignors:
            raise ValueError("partition_assignment_strategy must name one assignor at least")
        for name in assignors:
            arguments.one_of("partition_assignment_strategy", name, ASSIGNORS)
        self._check_group()
        arguments.text("client_rack", self.client_rack)
        for name in ("enable_auto_commit", "check_crcs"):
            arguments.flag(name, getattr(self, name))
        for name, least in _LEAST.items():
            arguments.whole_number(name, getattr(self, name), least, arguments.MOST_INT32)
        arguments.whole_number("max_buffered_bytes", self.max_buffered_bytes, 1)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be less than session_timeout_ms "
                f"({self.session_timeout_ms}); a third of it is usual"
            )

    def _check_group(self) -> None:
        if self.group_id == "":
            raise ValueError("group_id must not be empty: leave it out to read without a group")
        if self.group_id is not None:
            arguments.text("group_id", self.group_id)
        if self.group_instance_id is not None:
            arguments.name_of("group_instance_id", self.group_instance_id)
            if self.group_id is None:
                raise ValueError("group_instance_id needs a group_id")

    @property
    def commit_interval_ms(self) -> int | None:
        """None if commits are not automatic."""
        return self.auto_commit_interval_ms if self.enable_auto_commit else None

    @property
    def is_read_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    @property
    def fetch(self) -> FetchSettings:
        return FetchSettings(
            max_wait_ms=self.fetch_max_wait_ms,
            min_bytes=self.fetch_min_bytes,
            max_bytes=self.fetch_max_bytes,
            partition_max_bytes=self.max_partition_fetch_bytes,
            max_buffered_bytes=self.max_buffered_bytes,
            request_timeout_ms=self.request_timeout_ms,
            is_read_committed=self.is_read_committed,
            check_crcs=self.check_crcs,
            rack=self.client_rack,
            nearby_ms=self.metadata_max_age_ms,
        )

    @property
    def member(self) -> MemberSettings:
        return MemberSettings(
            group_id=self.group_id or "",
            group_instance_id=self.group_instance_id,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            rebalance_timeout_ms=self.max_poll_interval_ms,
            request_timeout_ms=self.request_timeout_ms,
        )


_LEAST: Final = {
    "auto_commit_interval_ms": 1,
    "max_poll_records": 1,
    "max_poll_interval_ms": 1,
    "session_timeout_ms": 1,
    "heartbeat_interval_ms": 1,
    "fetch_min_bytes": 0,
    "fetch_max_wait_ms": 0,
    "fetch_max_bytes": 1,
    "max_partition_fetch_bytes": 1,
    "metadata_max_age_ms": 1,
    "request_timeout_ms": 1,
    "default_api_timeout_ms": 1,
}
