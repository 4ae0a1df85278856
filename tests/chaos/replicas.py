"""The records of the cluster at the end: read through its leaders, and compared, replica by replica,
on disk.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tests.clusters import ObservedCluster
from tests.integration.peer import Peer, fetch, list_offset, records_of

from ottla.errors import ErrorCode
from ottla.records.batch import iter_batches

LATEST = -1
# Longer than a store that failed rests (server/tiers/store_access.py).
_STORE_DEADLINE_S = 60.0


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
        records += _more(peer, topic, partition, position, end)
    return records


def _more(peer: Peer, topic: str, partition: int, position: int, end: int) -> list[tuple[int, str]]:
    """The next records. Those of an object store may need a moment, and a store that rests one more."""
    deadline = time.monotonic() + _STORE_DEADLINE_S
    while True:
        answer = fetch(peer, topic, position, partition=partition, max_wait_ms=500)
        is_resting = answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        where = f"{topic}-{partition} at {position}"
        assert is_resting or answer.error_code == 0, f"reading {where}: error {answer.error_code}"
        more = [each for each in records_of(answer) if each.offset >= position]
        if more:
            return [(each.offset, (each.value or b"").decode()) for each in more]
        assert time.monotonic() < deadline, f"nothing comes of {where}, its latest offset is {end}"


def differing_replicas(
    directories: Mapping[int, Path], topic: str, *, has_common_start: bool = True
) -> list[str]:
    """Partitions whose replicas do not have the same bytes at the same offsets; of brokers that are
    stopped. Without a common start, from the offset on that all of them have.
    """
    names = sorted({path.name for directory in directories.values() for path in directory.glob(f"{topic}-*")})
    found = []
    for name in names:
        logs = {node_id: _batches(directory / name) for node_id, directory in directories.items()}
        held = {node_id: batches for node_id, batches in logs.items() if batches is not None}
        if not has_common_start:
            start = max(min(batches, default=0) for batches in held.values())
            held = {
                node_id: {offset: data for offset, data in batches.items() if offset >= start}
                for node_id, batches in held.items()
            }
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
