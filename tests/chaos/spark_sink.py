"""What a query with exactly-once delivery has written to a topic: the number of its last batch, and the committed
records with the offsets that they came from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.chaos.spark_checkpoint import Checkpoint

from ottla.blocking import Admin, Consumer
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.errors import KafkaError
from ottla.model import TopicPartition

# The sink's name, and the group that has the number of its last batch.
APP_ID: Final = "chaos"
GROUP: Final = f"ottla-sink-{APP_ID}"
_EXAMPLES: Final = 20
_ADMIN_TIMEOUT_MS: Final = 1_000

Row = tuple[int, int, str]


class SinkCheckpoint(Checkpoint):
    """The files of a query that writes to a topic: a batch is written when the group has its number."""

    def __init__(self, checkpoint: Path, bootstrap: str) -> None:
        super().__init__(checkpoint, checkpoint / "no table")
        self._bootstrap = bootstrap

    def is_in_table(self, batch: int) -> bool:
        """Whether the batch is committed; no if no broker says so now."""
        try:
            with Admin(self._bootstrap, timeout_ms=_ADMIN_TIMEOUT_MS) as admin:
                stored = succeeded(admin.list_group_offsets(GROUP))
        except (KafkaError, ConnectionError, TimeoutError):
            return False
        return max((each.offset for each in stored.values()), default=-1) >= batch


def committed_rows(bootstrap: str, topic: str, partitions: int) -> Iterator[Row]:
    """The partition and offset that each committed record came from, and its value."""
    places = [TopicPartition(topic, number) for number in range(partitions)]
    with Admin(bootstrap) as admin:
        latest = succeeded(admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST)))
    ends = {place: found.offset for place, found in latest.items()}
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        while any((consumer.position(place) or 0) < end for place, end in ends.items()):
            for record in consumer.poll(timeout_ms=1_000):
                (origin,) = (value for key, value in record.headers if key == "from")
                partition, offset = bytes(origin or b"").decode().split(":")
                yield int(partition), int(offset), bytes(record.value or b"").decode()


def compared(log: Mapping[int, list[tuple[int, str]]], rows: Iterable[Row]) -> Mapping[str, Any]:
    """The topic that was read beside the topic that was written, in the words of `ottla audit --json`."""
    wanted = Counter(
        (partition, offset, value) for partition, records in log.items() for offset, value in records
    )
    found = Counter(rows)
    missing, extra = wanted - found, found - wanted
    doubled = {each: times - 1 for each, times in found.items() if times > 1}
    partitions = [
        {
            "partition": partition,
            "missing": sum(times for each, times in missing.items() if each[0] == partition),
            "duplicates": sum(times for each, times in doubled.items() if each[0] == partition),
            "extra": sum(
                times for each, times in extra.items() if each[0] == partition and each not in wanted
            ),
            "altered": 0,
        }
        for partition in sorted(log)
    ]
    offenders = [f"missing {each}" for each in missing] + [f"too many {each}" for each in extra]
    return {
        "equal": wanted == found,
        "records": wanted.total(),
        "rows": found.total(),
        "partitions": partitions,
        "offenders": offenders[:_EXAMPLES],
    }
