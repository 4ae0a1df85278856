"""What the markers in a log say about its records."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.stories.ledger import name_of

from ottla.records.batch import iter_batches
from ottla.records.control import marker_of


@dataclass(slots=True)
class Ended:
    """What one producer wrote between two markers, by offset."""

    is_commit: bool
    marker_offset: int
    values: dict[int, bytes]

    @property
    def first_offset(self) -> int:
        return min(self.values)


@dataclass(slots=True)
class Fates:
    """The transactions in one log."""

    ended: list[Ended] = field(default_factory=list)
    open: dict[int, dict[int, bytes]] = field(default_factory=dict)
    offsets_of: dict[str, list[int]] = field(default_factory=dict)

    @property
    def committed(self) -> dict[int, bytes]:
        """Offset → value of all records that a reader of committed records is given."""
        found = {
            offset: value for each in self.ended if each.is_commit for offset, value in each.values.items()
        }
        return dict(sorted(found.items()))

    @property
    def everything(self) -> dict[int, bytes]:
        """Offset → value of all records, whatever became of them."""
        found = {offset: value for each in self.ended for offset, value in each.values.items()}
        found |= {offset: value for values in self.open.values() for offset, value in values.items()}
        return dict(sorted(found.items()))


def fates_in(data: bytes) -> Fates:
    """Read a log from its beginning."""
    fates = Fates()
    for batch in iter_batches(data):
        producer = batch.producer_id
        if not batch.is_control:
            values = fates.open.setdefault(producer, {})
            for record in batch.records():
                values[record.offset] = record.value or b""
                fates.offsets_of.setdefault(name_of(record.value), []).append(record.offset)
        elif (marker := marker_of(batch)) is not None and (values := fates.open.pop(producer, {})):
            fates.ended.append(Ended(marker.is_commit, batch.base_offset, values))
    return fates
