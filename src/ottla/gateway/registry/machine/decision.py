"""What a command comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.schemas.registry.records import RegistryRecord


class Decision(NamedTuple):
    """Records to write, all or none, and the answer to give once they are written and replayed."""

    records: Sequence[RegistryRecord]
    answer: Any
