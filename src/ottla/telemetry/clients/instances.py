"""The clients that are known: what each may do now, and the metrics that it pushed last (KIP-714).

The rules are Kafka's. A client asks for its subscription, with an id that the broker chose for it, and pushes its
metrics once in an interval; the last push before it ends may come early. A push for another subscription than the
client has now is refused, and the client asks again. A broker that does not know an id takes it over: clients may
change brokers, and brokers restart.

Memory is bounded: the clients that were heard of least recently are forgotten first, and their metrics before them.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from ottla.errors import ErrorCode
from ottla.telemetry.clients.otlp_metrics import Point
from ottla.telemetry.clients.subscriptions import Client, Subscription, Wanted, wanted_of

# Kafka's numbers of the compressions that are read, in the order in which clients should choose: zstd, lz4, gzip,
# snappy. A push without compression is always taken.
ACCEPTED_COMPRESSIONS: Final = (4, 3, 1, 2)
# A client takes about a kilobyte, a number a quarter of one: all of them together some 35 MB at most.
_MOST_CLIENTS: Final = 10_000
_MOST_POINTS: Final = 100_000
# What a client said is kept for three of its intervals, and for this long at least.
_KEPT_MS: Final = 900_000
_INTERVALS_KEPT: Final = 3
# After these errors a client asks for its subscription at once, as it should.
_ASK_AGAIN: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

Subscriptions = tuple[Subscription, ...]


class Push(NamedTuple):
    """A push, without its metrics."""

    subscription_id: int
    is_terminating: bool
    compression_type: int
    size_bytes: int


class ClientInstance:
    """One client. Times are of the monotonic clock; what it pushed last is in `points`."""

    def __init__(self, client: Client, instance_id: UUID) -> None:
        self.client = client
        self.instance_id = instance_id
        self.wanted = wanted_of((), client, instance_id)
        self.points: tuple[Point, ...] = ()
        self.hidden = 0
        self.pushes = 0
        self.pushed_ms: int | None = None
        self.is_terminating = False
        self.heard_ms = 0
        self._subscriptions: Subscriptions | None = None
        self._asked_ms: int | None = None
        self._may_push_at_once = True
        self._last_error = ErrorCode.NONE

    def is_asked_for(self, client: Client, subscriptions: Subscriptions) -> Wanted:
        """What the client is asked for now; it follows changes of the subscriptions and of the connection."""
        if subscriptions is not self._subscriptions or client != self.client:
            self.client, self._subscriptions = client, subscriptions
            self.wanted = wanted_of(subscriptions, client, self.instance_id)
        return self.wanted

    def ask(self, now_ms: int) -> ErrorCode:
        """Whether the client may ask for its subscription now."""
        latest_ms = max(self._asked_ms or 0, self.pushed_ms or 0)
        is_first = self._asked_ms is None and self.pushed_ms is None
        is_sent_back = self._last_error in _ASK_AGAIN
        if not (is_first or is_sent_back or now_ms - latest_ms >= self.wanted.interval_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self._asked_ms, self._last_error = now_ms, ErrorCode.NONE
        self._may_push_at_once = True
        return ErrorCode.NONE

    def push(self, push: Push, max_bytes: int, now_ms: int) -> ErrorCode:
        """Whether the client may push now, and this."""
        self._last_error = self._refusal(push, max_bytes, now_ms)
        if self._last_error is ErrorCode.NONE:
            self.pushes += 1
        if self._last_error is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            self.pushed_ms, self._may_push_at_once = now_ms, False
            self.is_terminating |= push.is_terminating
        return self._last_error

    def _refusal(self, push: Push, max_bytes: int, now_ms: int) -> ErrorCode:
        if self.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not push.is_terminating and not self._is_due(now_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != self.wanted.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression_type and push.compression_type not in ACCEPTED_COMPRESSIONS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if push.size_bytes > max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _is_due(self, now_ms: int) -> bool:
        is_over = self.pushed_ms is None or now_ms - self.pushed_ms >= self.wanted.interval_ms
        return is_over or self._may_push_at_once

    def take(self, points: tuple[Point, ...], hidden: int) -> None:
        """Keep the metrics of the latest push."""
        self.points, self.hidden = points, hidden

    def is_heard(self, now_ms: int) -> None:
        """Note that the client has sent something."""
        self.heard_ms = now_ms

    def is_gone(self, now_ms: int) -> bool:
        """Whether the client has been silent for so long that what it said is of no use any more."""
        return now_ms - self.heard_ms > max(_KEPT_MS, _INTERVALS_KEPT * self.wanted.interval_ms)


class ClientInstances:
    """All clients of one broker. `new_id` makes the id of a client that has none."""

    def __init__(
        self, subscriptions: Callable[[], Subscriptions], new_id: Callable[[], UUID], max_bytes: int
    ) -> None:
        self._subscriptions = subscriptions
        self.new_id = new_id
        self.max_bytes = max_bytes
        # The client that was heard of least recently comes first.
        self._known: OrderedDict[UUID, ClientInstance] = OrderedDict()
        self.point_count = 0
        self.pushes = 0
        self.refused = 0
        self.unreadable = 0

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[ClientInstance]:
        """The clients now; those that come or go meanwhile do not matter."""
        return iter(tuple(self._known.values()))

    @property
    def is_subscribed(self) -> bool:
        """Whether some subscription asks for metrics."""
        return bool(self._subscriptions())

    def find(self, instance_id: UUID) -> ClientInstance | None:
        """A client by its id."""
        return self._known.get(instance_id)

    def ask(self, client: Client, instance_id: UUID, now_ms: int) -> tuple[ErrorCode, Wanted]:
        """A client asks what it should push."""
        instance = self._heard(client, instance_id, now_ms)
        wanted = instance.is_asked_for(client, self._subscriptions())
        return instance.ask(now_ms), wanted

    def push(self, client: Client, instance_id: UUID, push: Push, now_ms: int) -> ErrorCode:
        """A client pushes its metrics: whether they are taken."""
        instance = self._heard(client, instance_id, now_ms)
        instance.is_asked_for(client, self._subscriptions())
        error = instance.push(push, self.max_bytes, now_ms)
        if error is ErrorCode.NONE:
            self.pushes += 1
        else:
            self.refused += 1
        return error

    def keep(self, instance_id: UUID, points: Iterable[Point], hidden: int) -> None:
        """Keep the metrics of a push that was taken."""
        instance = self._known.get(instance_id)
        if instance is not None:
            before = len(instance.points)
            instance.take(tuple(points), hidden)
            self.point_count += len(instance.points) - before
            self._forget_points(instance)

    def cannot_read(self) -> None:
        """Count a push that was taken and cannot be read."""
        self.unreadable += 1

    def _heard(self, client: Client, instance_id: UUID, now_ms: int) -> ClientInstance:
        self._forget_clients(now_ms)
        instance = self._known.get(instance_id)
        if instance is None:
            instance = self._known[instance_id] = ClientInstance(client, instance_id)
        instance.is_heard(now_ms)
        self._known.move_to_end(instance_id)
        return instance

    def _forget_clients(self, now_ms: int) -> None:
        while self._known:
            oldest = next(iter(self._known.values()))
            if len(self._known) < _MOST_CLIENTS and not oldest.is_gone(now_ms):
                return
            self.point_count -= len(oldest.points)
            del self._known[oldest.instance_id]

    def _forget_points(self, latest: ClientInstance) -> None:
        for each in self._known.values():
            if self.point_count <= _MOST_POINTS or each is latest:
                return
            self.point_count -= len(each.points)
            each.take((), 0)
