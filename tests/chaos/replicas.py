"""The records of the cluster at the end: read through its leaders, and compared, replica by replica,
on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.clusters import ObservedCluster
from tests.integration.peer import Peer, fetch, list_offset, records_of

from ottla.records.batch import iter_batches

LATEST = -1


def read_log(cluster: ObservedCluster, topic: str) -> dict[int, list[tuple[int, str]]]:
    """Every record of every partition, from its leader, up to the high watermark."""
    found = {}
    for partition in sorted(cluster.partitions(topic)):
        with cluster.peer(cluster.leader_of(topic, partition)) as peer:
            found[partition] = read_partition(peer, topic, partition)
    return found


def read_partition(peer: Peer, topic: str, partition: int) -> list[tuple[int, str]]:
    end = list_offset(peer, topic, LATEST, partition=partition).offset
    records: list[tuple[int, str]] = []
    while (position := records[-1][0] + 1 if records else 0) < end:
        answer = fetch(peer, topic, position, partition=partition)
        assert answer.error_code == 0, f"reading {topic}-{partition} at {position}: error {answer.error_code}"
        more = [each for each in records_of(answer) if each.offset >= position]
        assert more, f"{topic}-{partition} ends at {position}, its latest offset is {end}"
        records += [(each.offset, (each.value or b"").decode()) for each in more]
    return records


def differing_replicas(directories: Mapping[int, Path], topic: str) -> list[str]:
    """Partitions whose replicas do not have the same bytes at the same offsets; of brokers that are
    stopped.
    """
    names = sorted({path.name for directory in directories.values() for path in directory.glob(f"{topic}-*")})
    found = []
    for name in names:
        logs = {node_id: _batches(directory / name) for node_id, directory in directories.items()}
        held = {node_id: batches for node_id, batches in logs.items() if batches is not None}
        if len({tuple(sorted(batches.items())) for batches in held.values()}) > 1:
            found.append(f"{name}: {_difference(held)}")
    return found


def _batches(directory: Path) -> dict[int, bytes] | None:
    """Each batch by its base offset; None if the broker does not hold the partition."""
    if not directory.is_dir():
        return None
    return {
        batch.base_offset: bytes(batch.view())
        for segment in sorted(directory.glob("*.log"))
        for batch in iter_batches(segment.read_bytes())
    }


def _difference(held: Mapping[int, Mapping[int, bytes]]) -> str:
    ends = {node_id: max(batches, default=-1) for node_id, batches in held.items()}
    first = min(
        (
            offset
            for offset in {offset for batches in held.values() for offset in batches}
            if len({batches.get(offset) for batches in held.values()}) > 1
        ),
        default=-1,
    )
    return f"from the batch at {first} on; last batches at {ends}"
