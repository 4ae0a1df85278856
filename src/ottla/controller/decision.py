"""The decision about a command: records to commit, and the response to give once they are committed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ottla.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Decision:
    """Nothing has happened yet: the records say what will have, and they are committed together or not at
    all.

    `unclean_elections` are partitions that will be led by a replica that may miss acknowledged records: the
    shell says so in its log. `waiting` are partitions that no replica can lead any more without such a loss.
    """

    records: list[Any]
    response: Any
    unclean_elections: tuple[TopicPartition, ...] = ()
    waiting: tuple[TopicPartition, ...] = ()


def repeated(names: Iterable[Any]) -> set[Any]:
    """Items that stand more than once in a request: Kafka refuses them rather than to guess."""
    return {name for name, count in Counter(names).items() if count > 1}
