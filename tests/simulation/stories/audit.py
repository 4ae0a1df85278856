"""What must be true when everything is healed: all promises kept, all replicas equal, every partition writable."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulation.stories.ledger import Promise, content_of, name_of
from tests.simulation.world.sockets import Socket

from ottla.records.batch import BatchView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.stories.ledger import Ledger, Partition
    from tests.simulation.world.node import Node
    from tests.simulation.world.node_disk import NodeDisk


def log_bytes(disk: NodeDisk, root: str, partition: Partition) -> bytes:
    """The records of one replica as they lie on its disk."""
    topic, index = partition
    directory = f"{root}/{topic}-{index}"
    paths = [path for path in disk.paths(directory) if path.endswith(".log")]
    return b"".join(bytes(disk.content(path)) for path in paths)


def names_of(data: bytes) -> dict[int, str]:
    """Offset → name of all records in a log."""
    found: dict[int, str] = {}
    for batch in _batches(data):
        for record in batch.records():
            found[record.offset] = name_of(record.value)
    return found


def _batches(data: bytes) -> Iterator[BatchView]:
    position = 0
    while position < len(data):
        batch = BatchView(data, position)
        yield batch
        position += batch.size_bytes


def leftovers(nodes: list[Node]) -> list[str]:
    """What brokers still hold of clients that are gone (connections, and readers that wait for a partition), and
    replicas that were moved away.
    """
    hosts = {node.host for node in nodes}
    found: list[str] = []
    for node in nodes:
        if node.broker is None or node.process is None:
            continue
        sockets = [socket for socket in node.process.sockets.values() if isinstance(socket, Socket)]
        strangers = {socket.peer.host for socket in sockets} - hosts
        found += [f"{node.host}: a connection of {host}" for host in sorted(strangers)]
        found += [
            f"{node.host}: a reader of {each.name}" for each in node.broker.partitions if each.waiters.readers
        ]
        found += [f"{node.host}: {name}, which was moved away" for name in _misplaced(node)]
    return found


def _misplaced(node: Node) -> list[str]:
    """The partitions on a node that the metadata places on others."""
    assert node.broker is not None
    topics = node.broker.quorum.image.topics_by_id
    placed = {
        (topic.topic_id, each.index)
        for topic in topics.values()
        for each in topic.partitions
        if node.number in each.replicas
    }
    hosted = node.broker.partitions
    return [each.name for each in hosted if (each.topic_id, each.index) not in placed]


class Audit:
    """Compares what clients were told with what the logs hold."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.broken = ledger.broken

    def compare_replicas(
        self, partition: Partition, replicas: dict[int, bytes], *, may_begin_later: bool = False
    ) -> None:
        """All replicas hold the same bytes; some may have kept more of what is deleted at the beginning."""
        first, *others = replicas
        for other in others:
            shorter, longer = sorted((replicas[first], replicas[other]), key=len)
            if shorter != longer and not (may_begin_later and longer.endswith(shorter)):
                self.broken.append(
                    f"{partition}: the logs of n{first} and n{other} differ "
                    f"({len(replicas[first])} and {len(replicas[other])} bytes)"
                )

    def check_partition(self, partition: Partition, found: dict[int, str]) -> None:
        """Nothing lost, doubled, moved or changed."""
        ledger = self._ledger
        for offset, name in ledger.acknowledged[partition].items():
            if found.get(offset) != name:
                self.broken.append(
                    f"{partition}: {name} was acknowledged at {offset}, where now is {found.get(offset)}"
                )
        for offset, name in ledger.names[partition].items():
            if found.get(offset) != name:
                self.broken.append(
                    f"{partition}: {name} was seen at {offset}, where now is {found.get(offset)}"
                )
        places: dict[str, int] = {}
        for offset, name in found.items():
            sent = ledger.sent.get(name)
            if sent is None or sent.partition != partition:
                self.broken.append(f"{partition}: {name} at {offset} was never sent there")
            elif name in places and sent.promise is Promise.ONCE:
                self.broken.append(f"{partition}: {name} is there twice, at {places[name]} and {offset}")
            places[name] = offset
        if list(found) != list(range(len(found))):
            self.broken.append(f"{partition}: offsets have a hole")

    def check_compacted(self, partition: Partition, replicas: dict[int, dict[int, str]], keys: int) -> None:
        """The last record of each key is in every replica, and what replicas still hold they agree on."""
        known = self._ledger.names[partition]
        last = {content_of(known[offset], keys).key: offset for offset in sorted(known)}
        together: dict[int, str] = dict(known)
        for number, found in replicas.items():
            for offset, name in found.items():
                if together.setdefault(offset, name) != name:
                    self.broken.append(
                        f"{partition}: n{number} holds {name} at {offset}, where was {together[offset]}"
                    )
            newest = {content_of(name, keys).key: offset for offset, name in found.items()}
            for key, offset in last.items():
                if newest.get(key, -1) < offset:
                    self.broken.append(
                        f"{partition}: {known[offset]} at {offset} is the last of {key!r}, "
                        f"and n{number} has compacted it away"
                    )

    def check_order(self) -> None:
        """Acknowledged records of one writer stand in a partition in the order in which they were sent."""
        last: dict[tuple[str, Partition], int] = defaultdict(lambda: -1)
        for name, sent in self._ledger.sent.items():
            if sent.offset is None or sent.promise is not Promise.ONCE:
                continue
            way = sent.writer, sent.partition
            if sent.offset <= last[way]:
                self.broken.append(
                    f"{sent.partition}: {name} at {sent.offset} stands before an earlier record at {last[way]}"
                )
            last[way] = sent.offset

    def check_group(self, group: str, partition: Partition, promised: int, committed: int) -> None:
        """Commits do not go back, and nothing below them was skipped. `promised` was committed before the question."""
        if committed < promised:
            self.broken.append(f"{group} of {partition}: {promised} was committed, and now {committed} is")
        processed = self._ledger.processed[group, partition]
        skipped = [offset for offset in range(committed) if offset not in processed]
        if skipped:
            self.broken.append(
                f"{group} of {partition}: {len(skipped)} records below {committed} were read by no member, "
                f"the first at {skipped[0]}"
            )
