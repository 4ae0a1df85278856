"""What must be true when everything is healed: all promises kept, all replicas equal, every partition writable."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ottla.records.batch import BatchView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.stories.ledger import Ledger, Partition
    from tests.simulation.world.node_disk import NodeDisk


def log_bytes(disk: NodeDisk, root: str, partition: Partition) -> bytes:
    """The records of one replica as they lie on its disk."""
    topic, index = partition
    directory = f"{root}/{topic}-{index}"
    paths = [path for path in disk.paths(directory) if path.endswith(".log")]
    return b"".join(bytes(disk.content(path)) for path in paths)


def values_of(data: bytes) -> dict[int, str]:
    """Offset → value of all records in a log."""
    found: dict[int, str] = {}
    for batch in _batches(data):
        for record in batch.records():
            found[record.offset] = (record.value or b"").decode()
    return found


def _batches(data: bytes) -> Iterator[BatchView]:
    position = 0
    while position < len(data):
        batch = BatchView(data, position)
        yield batch
        position += batch.size_bytes


class Audit:
    """Compares what clients were told with what the logs hold."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.broken = ledger.broken

    def compare_replicas(self, partition: Partition, replicas: dict[int, bytes]) -> None:
        """All replicas hold the same bytes."""
        first, *others = replicas
        for other in others:
            if replicas[other] != replicas[first]:
                self.broken.append(
                    f"{partition}: the logs of n{first} and n{other} differ "
                    f"({len(replicas[first])} and {len(replicas[other])} bytes)"
                )

    def check_partition(self, partition: Partition, found: dict[int, str]) -> None:
        """Nothing lost, doubled, moved or changed."""
        ledger = self._ledger
        for offset, value in ledger.acknowledged[partition].items():
            if found.get(offset) != value:
                self.broken.append(
                    f"{partition}: {value} was acknowledged at {offset}, where now is {found.get(offset)}"
                )
        for offset, value in ledger.values[partition].items():
            if found.get(offset) != value:
                self.broken.append(
                    f"{partition}: {value} was seen at {offset}, where now is {found.get(offset)}"
                )
        places: dict[str, int] = {}
        for offset, value in found.items():
            if value in places:
                self.broken.append(f"{partition}: {value} is there twice, at {places[value]} and {offset}")
            places[value] = offset
            sent = ledger.sent.get(value)
            if sent is None or sent.partition != partition:
                self.broken.append(f"{partition}: {value} at {offset} was never sent there")
        if list(found) != list(range(len(found))):
            self.broken.append(f"{partition}: offsets have a hole")

    def check_order(self) -> None:
        """Acknowledged records of one writer stand in a partition in the order in which they were sent."""
        last: dict[tuple[str, Partition], int] = defaultdict(lambda: -1)
        for value, sent in self._ledger.sent.items():
            if sent.offset is None:
                continue
            way = sent.writer, sent.partition
            if sent.offset <= last[way]:
                self.broken.append(
                    f"{sent.partition}: {value} at {sent.offset} stands before an earlier record at {last[way]}"
                )
            last[way] = sent.offset

    def check_group(self, group: str, partition: Partition, committed: int) -> None:
        """Commits do not go back, and nothing below them was skipped."""
        promised = self._ledger.committed.get((group, partition), 0)
        if committed < promised:
            self.broken.append(f"{group} of {partition}: {promised} was committed, and now {committed} is")
        processed = self._ledger.processed[group, partition]
        skipped = [offset for offset in range(committed) if offset not in processed]
        if skipped:
            self.broken.append(
                f"{group} of {partition}: {len(skipped)} records below {committed} were read by no member, "
                f"the first at {skipped[0]}"
            )
