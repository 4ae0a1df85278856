"""What a caller subscribes to, and where it wants to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ottla.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Wanted:
    """Push the records of these topics: as a member of a group, or all of them.

    `is_acknowledged`: the members of a group acknowledge each record, and what is acknowledged is committed. A caller
    that does not is held back by its connection only, and commits by itself. `by_schema`: keys and values are shown by the
    schemas that they name.
    """

    topics: tuple[str, ...]
    group_id: str | None = None
    reset: Literal["earliest", "latest"] = "latest"
    offsets: tuple[tuple[TopicPartition, int], ...] = ()
    credits: int | None = None
    is_acknowledged: bool = True
    by_schema: bool = False


@dataclass(frozen=True, slots=True)
class Seek:
    """Go on at another place of a partition."""

    partition: TopicPartition
    offset: int | Literal["earliest", "latest"]
