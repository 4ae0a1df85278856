"""The planner's questions to the cluster: which partitions there are, and where they begin and end.

Rules
- A question that fails is asked again, `fetchOffset.numRetries` times in all; then there is one error in
  words.
- A partition that has vanished is left out of an answer: what that means is for the caller to say.
- The latest offset of a reader of committed records is the last stable one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.client.sync.planner_admin import PlannerAdmin
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.spark.source.plan.offsets import EARLIEST, LATEST, PartitionOffsets, in_words
from ottla.spark.source.plan.options import Partitions, SourceOptions, TopicPattern, Topics
from ottla.spark.source.plan.positions import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest, Position

if TYPE_CHECKING:
    from ottla.client.requests.remote_segments import ReadableSegment

T = TypeVar("T")

# Before data count as lost, a broker that has just come back gets this many chances, a second apart if
# nothing else is said.
_LEAST_LOOKS: Final = 6
# A password that is wrong now is wrong in a second, too.
_REFUSED_LOGINS: Final = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)
_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class ClusterError(RuntimeError):
    """The cluster cannot be asked, or does not have what the query is to read; the message says what to
    do.
    """


class TopicOffsets:
    """Connects when it is first asked; `close` ends that, and asking again connects again."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._admin: PlannerAdmin | None = None
        self._cached: frozenset[TopicPartition] = frozenset()
        self._cached_until: float | None = None

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    # ---- partitions

    def partitions(self) -> frozenset[TopicPartition]:
        """All that the query reads; ClusterError if a topic or partition that it names is not there."""
        return self._asked(lambda admin: self._find(admin, must_exist=True))

    def partitions_left(self) -> frozenset[TopicPartition]:
        """All that the query reads and that are there at the moment, perhaps as of
        `partition.metadata.cache.ttl.ms` ago.
        """
        now = time.monotonic()
        if self._cached_until is None or now >= self._cached_until:
            self._cached = self._asked(lambda admin: self._find(admin, must_exist=False))
            ttl_ms = self._options.metadata_cache_ttl_ms
            self._cached_until = now + ttl_ms / 1000 if ttl_ms > 0 else None
        return self._cached

    def _find(self, admin: PlannerAdmin, *, must_exist: bool) -> frozenset[TopicPartition]:
        match self._options.subscription:
            case Topics(names):
                return _all_partitions(_described(admin, names, must_exist=must_exist))
            case TopicPattern(pattern):
                listed = [topic for topic in admin.list_topics() if re.search(pattern, topic.name)]
                if must_exist and not listed:
                    raise ClusterError(
                        f"No topic matches 'subscribePattern' '{pattern}': create one or check the pattern."
                    )
                return _all_partitions(listed)
            case Partitions(wanted):
                topics = _described(admin, {each.topic for each in wanted}, must_exist=must_exist)
                there = _all_partitions(topics)
                if must_exist and not wanted <= there:
                    raise ClusterError(
                        f"Option 'assign' names partitions that do not exist: {in_words(wanted - there)}. "
                        f"There are: {in_words(there)}."
                    )
                return wanted & there

    # ---- offsets

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._offsets(dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))

    def latest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._offsets(dict.fromkeys(partitions, int(OffsetSpec.LATEST)))

    def latest_not_before(self, known: Mapping[TopicPartition, int]) -> PartitionOffsets:
        """The latest offsets of all partitions that are left.

        If one lies before what is known, or has vanished, all are asked for again: a broker that has just
        come back, or a new leader, may not know everything yet.
        """
        latest = self.latest(self.partitions_left())
        for _ in range(max(self._options.num_retries, _LEAST_LOOKS) - 1):
            if all(latest.get(partition, -1) >= offset for partition, offset in known.items()):
                break
            time.sleep(self._options.retry_interval_ms / 1000)
            self._cached_until = None
            latest = self.latest(self.partitions_left())
        return latest

    def resolve(
        self, position: Position, partitions: frozenset[TopicPartition], *, side: str
    ) -> PartitionOffsets:
        """Real offsets for each partition. `side` is "starting" or "ending"."""
        match position:
            case Earliest():
                return self.earliest(partitions)
            case Latest():
                return self.latest(partitions)
            case AtOffsets(offsets):
                _check_same(offsets, partitions, f"{side}Offsets")
                return self._without_symbols(offsets)
            case AtTimestamps(timestamps_ms):
                _check_same(timestamps_ms, partitions, f"{side}OffsetsByTimestamp")
                return self._at_timestamps(timestamps_ms, side)
            case AtTimestamp(timestamp_ms):
                return self._at_timestamps(dict.fromkeys(partitions, timestamp_ms), side)

    def first_at(self, timestamps_ms: Mapping[TopicPartition, int]) -> PartitionOffsets:
        """The offset of the first record at or after a time; -1 (LATEST) where no record is as late as
        that.
        """
        return self._offsets(timestamps_ms)

    def remote_segments(
        self, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, list[ReadableSegment]]:
        """The segments in the brokers' object store with records of some ranges, in order."""
        return self._asked(lambda admin: admin.remote_segments(ranges))

    def _at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int], side: str) -> PartitionOffsets:
        found = self.first_at(timestamps_ms)
        late = [partition for partition, offset in found.items() if offset == LATEST]
        if late and side == "starting" and self._options.strategy == "error":
            when = ", ".join(f"{each} ({timestamps_ms[each]} ms)" for each in sorted(late))
            raise ClusterError(
                f"No record is as late as the starting timestamp of {when}. To start at the end of such partitions, set the "
                "option 'startingOffsetsByTimestampStrategy' to latest."
            )
        return self._without_symbols(found)

    def _without_symbols(self, offsets: Mapping[TopicPartition, int]) -> PartitionOffsets:
        specs = {LATEST: int(OffsetSpec.LATEST), EARLIEST: int(OffsetSpec.EARLIEST)}
        symbols = {partition: specs[offset] for partition, offset in offsets.items() if offset in specs}
        return {**offsets, **self._offsets(symbols)}

    def _offsets(self, wanted: Mapping[TopicPartition, int]) -> PartitionOffsets:
        if not wanted:
            return {}
        return self._asked(lambda admin: self._list(admin, wanted))

    def _list(self, admin: PlannerAdmin, wanted: Mapping[TopicPartition, int]) -> PartitionOffsets:
        listed = admin.list_offsets(wanted, read_committed=self._options.read_committed)
        offsets: PartitionOffsets = {}
        for partition, outcome in listed.items():
            match outcome:
                case ListedOffset(offset=offset):
                    offsets[partition] = offset
                case KafkaError(code=code) if code in _ABSENT:
                    pass
                case KafkaError():
                    raise outcome
        return offsets

    # ---- asking

    def _asked(self, question: Callable[[PlannerAdmin], T]) -> T:
        attempts = self._options.num_retries
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            attempts -= 1
            try:
                return question(self._connected())
            except (ConnectionError, TimeoutError, KafkaError) as error:
                self.close()
                is_final = isinstance(error, KafkaError) and error.code in _REFUSED_LOGINS
                if is_final or attempts < 1 or time.monotonic() >= deadline:
                    raise self._in_words(error) from None
            time.sleep(self._options.retry_interval_ms / 1000)

    def _connected(self) -> PlannerAdmin:
        if self._admin is None:
            client_id = self._options.client.get("client.id", "ottla-spark-driver")
            servers = self._options.bootstrap_servers
            self._admin = PlannerAdmin(
                servers, client_id=client_id, timeout_ms=self._timeout_ms, security=self._options.security
            )
        return self._admin

    @property
    def _timeout_ms(self) -> int:
        client = self._options.client
        return int(client.get("default.api.timeout.ms", client.get("request.timeout.ms", "30000")))

    def _in_words(self, error: Exception) -> ClusterError:
        servers = self._options.bootstrap_servers
        if isinstance(error, KafkaError):
            return ClusterError(
                f"The brokers at {servers} cannot answer for '{self._options.subscription}': {error}"
            )
        return ClusterError(
            f"Cannot reach the brokers at {servers} (option 'kafka.bootstrap.servers'): {error}. "
            "Check the address, and that a broker runs there."
        )


def _described(admin: PlannerAdmin, names: Iterable[str], *, must_exist: bool) -> list[TopicInfo]:
    described = admin.describe_topics(names)
    topics: list[TopicInfo] = []
    missing: list[str] = []
    for name, outcome in described.items():
        if isinstance(outcome, TopicInfo):
            topics.append(outcome)
        elif outcome.code in _ABSENT:
            missing.append(name)
        elif outcome.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise ClusterError(
                f"'{name}' cannot be the name of a topic: use letters, digits, '.', '_' and '-'."
            )
        else:
            raise outcome
    if missing and must_exist:
        raise ClusterError(
            f"Topic {', '.join(map(repr, sorted(missing)))} does not exist: create it or check the name."
        )
    return topics


def _all_partitions(topics: Iterable[TopicInfo]) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.name, partition.index) for topic in topics for partition in topic.partitions
    )


def _check_same(named: Mapping[TopicPartition, int], read: frozenset[TopicPartition], option: str) -> None:
    if named.keys() == read:
        return
    absent, extra = read - named.keys(), named.keys() - read
    symbols = (
        " Use -1 for latest and -2 for earliest where you do not care." if option.endswith("Offsets") else ""
    )
    complaints = [
        *([f"{in_words(absent)} not named"] if absent else []),
        *([f"{in_words(extra)} not read by this query"] if extra else []),
    ]
    raise ClusterError(
        f"Option '{option}' must name every partition and no other: {'; '.join(complaints)}.{symbols}"
    )
