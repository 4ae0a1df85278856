"""A fetch session: the broker remembers the partitions of a fetch, so that only changes are sent (KIP-227).

The first request of a session names all partitions (epoch 0); the broker gives the session a number. Every
later request names only changes: partitions that are new or are fetched from another offset, and those that
are forgotten. A response then has only partitions with something new. Rules
- A request that was not answered, or that the broker refused, ends the session: the next one begins a new
  session, and names the old one, so that the broker can drop it.
- A broker that has no room for a session answers the number 0; then every request is a first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from ottla.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
_LAST_EPOCH: Final = 2**31 - 1


class SessionPartition(NamedTuple):
    """A partition as a session knows it: a topic that was deleted and made again is another one."""

    topic_id: UUID
    topic: str
    partition: int


class SessionRequest(NamedTuple):
    """The session's part of a fetch request."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """The session with one broker."""

    __slots__ = ("_epoch", "_id", "_known")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[SessionPartition, FetchPartition] = {}

    def request(self, wanted: Mapping[SessionPartition, FetchPartition]) -> SessionRequest:
        """The session's part of a request that makes the broker fetch exactly these partitions."""
        known, self._known = self._known, dict(wanted)
        if self._epoch == FIRST_EPOCH:
            return SessionRequest(self._id, FIRST_EPOCH, _by_topic(wanted), [])
        changed = {key: each for key, each in wanted.items() if known.get(key) != each}
        forgotten = known.keys() - wanted.keys()
        return SessionRequest(self._id, self._epoch, _by_topic(changed), _forgotten(sorted(forgotten)))

    def answered(self, response: FetchResponse) -> None:
        """The broker took the request, or refused it as a whole."""
        if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
        if response.error_code != ErrorCode.NONE:
            self.restart()
        else:
            self._id = response.session_id
            self._epoch = FIRST_EPOCH if self._id == NO_SESSION else self._epoch % _LAST_EPOCH + 1

    def restart(self) -> None:
        """The broker's memory is unknown: begin a new session with the next request."""
        self._epoch = FIRST_EPOCH
        self._known = {}


def _by_topic(partitions: Mapping[SessionPartition, FetchPartition]) -> list[FetchTopic]:
    topics: dict[tuple[UUID, str], FetchTopic] = {}
    for (topic_id, name, _), each in partitions.items():
        topic = topics.get((topic_id, name))
        if topic is None:
            topic = topics[topic_id, name] = FetchTopic(topic=name, topic_id=topic_id)
        topic.partitions.append(each)
    return list(topics.values())


def _forgotten(partitions: Iterable[SessionPartition]) -> list[ForgottenTopic]:
    topics: dict[tuple[UUID, str], ForgottenTopic] = {}
    for topic_id, name, partition in partitions:
        topic = topics.setdefault((topic_id, name), ForgottenTopic(topic=name, topic_id=topic_id))
        topic.partitions.append(partition)
    return list(topics.values())
