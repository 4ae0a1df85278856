"""The records that a caller has got and not acknowledged, of all partitions of a consumer instance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.subscriptions.machine.acknowledgements import Acknowledgements
from ottla.model import TopicPartition

# They are remembered here; a caller that acknowledges nothing gets no more.
MOST_OPEN: Final = 10_000


class OpenRecords:
    """Remembers records, if the caller acknowledges any."""

    def __init__(self, *, is_used: bool) -> None:
        self.is_used = is_used
        self._partitions: dict[TopicPartition, Acknowledgements] = {}
        self._committed: dict[TopicPartition, int] = {}

    @property
    def count(self) -> int:
        """How many records wait for an acknowledgement."""
        return sum(each.unacknowledged for each in self._partitions.values())

    def check_room(self) -> None:
        """Raises HttpError(409) if too many records wait for an acknowledgement."""
        if self.is_used and self.count >= MOST_OPEN:
            raise HttpError(409, f"{MOST_OPEN} records wait for an acknowledgement: acknowledge some first")

    def sent(self, records: Iterable[ConsumerRecord]) -> None:
        """The caller has got records."""
        for each in records if self.is_used else ():
            place = TopicPartition(each.topic, each.partition)
            self._partitions.setdefault(place, Acknowledgements()).sent(each.offset)

    def acknowledge(self, place: TopicPartition, offset: int, *, up_to: bool) -> None:
        """A record is done. Raises HttpError(422) for one that this caller did not get."""
        known = self._partitions.get(place)
        if known is None:
            raise unprocessable(f"no record of {place} is waiting for an acknowledgement")
        try:
            known.acknowledge(offset, up_to=up_to)
        except ValueError as error:
            raise unprocessable(f"{place}: {error}") from error

    def to_commit(self) -> dict[TopicPartition, int]:
        """The offsets that have moved since they were committed last."""
        return {
            place: each.done
            for place, each in self._partitions.items()
            if each.done is not None and self._committed.get(place) != each.done
        }

    def committed(self, offsets: dict[TopicPartition, int]) -> None:
        self._committed.update(offsets)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions are not read here any more, or from another place on."""
        for place in partitions:
            self._partitions.pop(place, None)
            self._committed.pop(place, None)

    def drop_all(self) -> None:
        self.drop(list(self._partitions))
