"""How far a table is: for each partition of its topic the next offset that the table lacks.

This stands in the table's own metadata, in each commit, and nowhere else. A writer reads it from the table
before it plans; a reader takes it as the seam between table and log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PROPERTY: Final = "ottla.offsets"


@dataclass(frozen=True, slots=True)
class TableOffsets:
    """The next offset by partition. The id of the topic tells a topic from another one of the same name.

    A partition that is not named has no record in the table yet.
    """

    topic: str
    topic_id: str
    next_offsets: Mapping[int, int] = field(default_factory=dict)

    def as_json(self) -> str:
        numbers = {str(partition): offset for partition, offset in sorted(self.next_offsets.items())}
        return json.dumps({"topic": self.topic, "topic_id": self.topic_id, "next_offsets": numbers})

    def advanced(self, ends: Mapping[int, int]) -> TableOffsets:
        """After a commit of everything before these offsets. Offsets never go back."""
        for partition, end in ends.items():
            assert end >= self.next_offsets.get(partition, 0), f"partition {partition} would go back to {end}"
        return TableOffsets(self.topic, self.topic_id, {**self.next_offsets, **ends})


def offsets_of_json(text: str) -> TableOffsets:
    """From `as_json`; ValueError if it is something else."""
    try:
        given = json.loads(text)
        numbers = {int(partition): int(offset) for partition, offset in given["next_offsets"].items()}
        return TableOffsets(given["topic"], given["topic_id"], numbers)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the table's '{PROPERTY}' cannot be read: {text[:200]!r}") from error
