"""What a command comes to: records to commit, and the answer to give once they are committed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Decision:
    """Nothing has happened yet: the records say what will have, and they are committed together or not at all."""

    records: list[Any]
    response: Any
    timers: tuple[Any, ...] = ()


def repeated(names: Iterable[Any]) -> set[Any]:
    """What stands more than once in a request: Kafka refuses such items rather than to guess."""
    return {name for name, count in Counter(names).items() if count > 1}
