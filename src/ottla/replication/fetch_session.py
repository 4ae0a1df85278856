"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only what changed. Pure.

    session id   epoch   the request means
    0            -1      no session: all partitions are in the request (librdkafka, aiokafka: nearly all fetches)
    0            0       all partitions are in the request; remember them, if there is room
    id           0       the same, and forget the old session
    id           -1      the same as no session, and forget the old one
    id           n       the session's partitions, with these added or moved and the forgotten ones dropped

The answer to the last kind leaves out partitions about which there is nothing new. A broker may refuse to
remember (session id 0 in the answer), so the cache is simple: bounded, and a session makes room only when it
has not been used for two minutes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from ottla.errors import ErrorCode
from ottla.model import NO_OFFSET
from ottla.protocol.codec import first_version
from ottla.protocol.messages.fetch import FetchRequest, FetchTopic

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_TOPIC_IDS_SINCE: Final = first_version(FetchTopic, "topic_id")

# As in Kafka: a client that polls at all is never that slow, so what is older was left behind by a crash.
EVICTION_MS: Final = 120_000
# A session's partition takes some 400 bytes. This many bound the cache at about 40 MB, whatever clients send.
CACHED_PARTITIONS_MAX: Final = 100_000

_MAX_EPOCH: Final = 2**31 - 1

PartitionKey = tuple[str, UUID, int]


class FetchPartitionData(NamedTuple):
    """The fetch of one partition, as a client asks for it.

    Before version 13 it names the topic, from then on the topic id.
    """

    topic: str
    topic_id: UUID
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class FetchResult(Protocol):
    """The fields of one partition's answer that sessions need."""

    topic: str
    topic_id: UUID
    partition: int
    error_code: ErrorCode
    high_watermark: int
    log_start_offset: int
    diverging_epoch: int
    preferred_read_replica: int

    @property
    def size_bytes(self) -> int:
        """How many bytes of records go out; 0 for none."""


Result = TypeVar("Result", bound=FetchResult)


class CachedPartition:
    """A partition of a session: what the client wants of it and what it was told last."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartitionData) -> None:
        self.wanted = wanted
        self.high_watermark = NO_OFFSET
        self.log_start_offset = NO_OFFSET

    def is_news(self, result: FetchResult) -> bool:
        """Whether the client must hear of this answer; and remember that it did."""
        news = (
            result.size_bytes > 0
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
            or result.error_code != ErrorCode.NONE
            or result.diverging_epoch >= 0
            or result.preferred_read_replica >= 0
        )
        failed = result.error_code != ErrorCode.NONE
        # After an error the next good answer is news even if nothing moved: it says that the error is over.
        self.high_watermark = NO_OFFSET if failed else result.high_watermark
        self.log_start_offset = result.log_start_offset
        return news


class FetchSession:
    """One client's partitions, in the order in which they are read next."""

    __slots__ = ("epoch", "last_used_ms", "partitions", "session_id", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms
        self.epoch = INITIAL_EPOCH
        self.partitions: dict[PartitionKey, CachedPartition] = {}

    def update(self, request: FetchRequest, now_ms: int) -> None:
        """Take over what a request adds, moves and forgets; the next request has the next epoch."""
        self.epoch = next_epoch(self.epoch)
        self.last_used_ms = now_ms
        for wanted in _partitions_of(request):
            key = (wanted.topic, wanted.topic_id, wanted.partition)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(wanted)
            else:
                cached.wanted = wanted
        for forgotten in request.forgotten_topics_data:
            for partition in forgotten.partitions:
                self.partitions.pop((forgotten.topic, forgotten.topic_id, partition), None)

    def wanted(self) -> list[FetchPartitionData]:
        """The partitions to fetch, in order."""
        return [cached.wanted for cached in self.partitions.values()]

    def news(self, results: Sequence[Result], everything: bool) -> list[Result]:
        """The answers that the client must hear of. Partitions with records go to the end of the line."""
        told = []
        for result in results:
            key = (result.topic, result.topic_id, result.partition)
            cached = self.partitions.get(key)
            if cached is None or cached.is_news(result) or everything:
                told.append(result)
            if cached is not None and result.size_bytes:
                self.partitions[key] = self.partitions.pop(key)
        return told


class FetchContext:
    """The partitions of one request: read `partitions` in order, then `filter` the results."""

    __slots__ = ("_is_full", "_session", "partitions")

    def __init__(
        self,
        partitions: Sequence[FetchPartitionData],
        session: FetchSession | None = None,
        is_full: bool = True,
    ) -> None:
        self.partitions = partitions
        self._session = session
        self._is_full = is_full

    @property
    def session_id(self) -> int:
        """The id to answer with; 0 when there is no session."""
        return self._session.session_id if self._session is not None else NO_SESSION_ID

    @property
    def is_full(self) -> bool:
        """Whether the request names all partitions, so that its answer has them all."""
        return self._is_full

    def filter(self, results: list[Result]) -> list[Result]:
        """The results to send. Call it once, with a result for every partition."""
        if self._session is None:
            return results
        return self._session.news(results, everything=self._is_full)


class FetchSessions:
    """The sessions of one broker.

    `new_session_id` draws a random int32; what is not positive or taken is redrawn.
    """

    def __init__(self, slots: int, new_session_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_session_id = new_session_id
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self._cached_partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, request: FetchRequest, version: int, now_ms: int) -> FetchContext | ErrorCode:
        """The partitions of a request, or the reason why its session cannot be used."""
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._incremental(request, version, now_ms)
        if request.session_id != NO_SESSION_ID:
            self._remove(request.session_id)
        partitions = list(_partitions_of(request))
        if request.session_epoch != INITIAL_EPOCH:
            return FetchContext(partitions)
        return FetchContext(partitions, self._created(request, version, now_ms, len(partitions)))

    def _incremental(self, request: FetchRequest, version: int, now_ms: int) -> FetchContext | ErrorCode:
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != (version >= _TOPIC_IDS_SINCE):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        del self._sessions[session.session_id]
        self._cached_partitions -= len(session.partitions)
        session.update(request, now_ms)
        return self._continued(session)

    def _continued(self, session: FetchSession) -> FetchContext:
        """Keep a session that was just used.

        One without partitions, or grown too large, ends here instead.
        """
        partitions = session.wanted()
        if not partitions or self._cached_partitions + len(partitions) > CACHED_PARTITIONS_MAX:
            return FetchContext(partitions)
        self._sessions[session.session_id] = session
        self._cached_partitions += len(partitions)
        return FetchContext(partitions, session, is_full=False)

    def _created(self, request: FetchRequest, version: int, now_ms: int, size: int) -> FetchSession | None:
        if not size or not self._has_room(size, now_ms):
            return None
        session = FetchSession(self._free_id(), version >= _TOPIC_IDS_SINCE, now_ms)
        session.update(request, now_ms)
        self._sessions[session.session_id] = session
        self._cached_partitions += len(session.partitions)
        return session

    def _has_room(self, size: int, now_ms: int) -> bool:
        """Whether a session of `size` partitions fits; unused sessions are removed for it."""
        while len(self._sessions) >= self._slots or self._cached_partitions + size > CACHED_PARTITIONS_MAX:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms <= EVICTION_MS:
                return False
            self._remove(oldest.session_id)
        return True

    def _free_id(self) -> int:
        while True:
            session_id = self._new_session_id()
            if session_id > NO_SESSION_ID and session_id not in self._sessions:
                return session_id

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._cached_partitions -= len(session.partitions)


def next_epoch(epoch: int) -> int:
    """The epoch of the request after this one; it never comes back to 0, which would begin a session."""
    return 1 if epoch == _MAX_EPOCH else epoch + 1


def _partitions_of(request: FetchRequest) -> Iterator[FetchPartitionData]:
    for topic in request.topics:
        name, topic_id = topic.topic, topic.topic_id
        for want in topic.partitions:
            yield FetchPartitionData(
                name,
                topic_id,
                want.partition,
                want.fetch_offset,
                want.partition_max_bytes,
                want.current_leader_epoch,
                want.last_fetched_epoch,
                want.log_start_offset,
            )
