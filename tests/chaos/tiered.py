"""Tiered storage in the killing test: segments close within seconds and move to a directory that goes away and
changes bytes, while brokers are killed, paused and cut off. All other faults happen there, too.

At the end every record is read twice, by fetches and past the brokers.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.chaos.faults import KINDS, LONG, Kind, Scene
from tests.clusters import ObservedCluster, eventually

from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.scan import ScanSettings, scan

# Some ten segments of each partition in a minute; everything but the newest is in the store only.
TOPIC_SETTINGS: Final[Mapping[str, Any]] = {
    "remote_storage_enable": "true",
    "local_retention_bytes": 1,
    "segment_bytes": 32_768,
}

_COPIED_S: Final = 120.0  # a store that was away rests for half a minute
_HERE: Final = -100  # AT_FDCWD: paths are those of this process
_RENAME_EXCHANGE: Final = 2  # renameat2(2)


def store_of(data: Path) -> Path:
    """The directory that is the object store of a cluster with this directory."""
    return data.with_name("tier")


def broker_settings(data: Path) -> dict[str, str]:
    return {
        "remote.log.storage.system.enable": "true",
        "ottla.remote.store.url": f"file://{store_of(data)}",
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "500",
        "log.segment.delete.delay.ms": "0",
    }


def store_away(scene: Scene) -> None:
    """The store cannot be reached: a file stands where the directory was."""
    store = store_of(scene.cluster.data)
    other = store.with_name("no-directory")
    other.write_bytes(b"")
    _exchange(store, other)
    try:
        scene.hold()
    finally:
        _exchange(store, other)


def _exchange(one: Path, other: Path) -> None:
    """Let two paths change their places at once: a broker would make a directory that is missing for a moment."""
    names = (os.fsencode(one), os.fsencode(other))
    if ctypes.CDLL(None, use_errno=True).renameat2(_HERE, names[0], _HERE, names[1], _RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), f"{one} and {other} cannot be exchanged")


def store_damaged(scene: Scene) -> None:
    """One object has a wrong byte, and is whole again."""
    held = sorted(store_of(scene.cluster.data).glob("*/*/*.log"))
    if not held:
        return
    path = held[scene.fault.pick % len(held)]
    whole = path.read_bytes()
    at = len(whole) // 2
    scene.note(path.name)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    try:
        scene.hold()
    finally:
        path.write_bytes(whole)


TIERED_KINDS: Final[Mapping[str, Kind]] = {
    **KINDS,
    "the store away": Kind(8, LONG, store_away),
    "the store damaged": Kind(4, LONG, store_damaged),
}


def differing_scans(
    cluster: ObservedCluster, topic: str, log: Mapping[int, Sequence[tuple[int, str]]]
) -> list[str]:
    """Partitions that are not the same for who reads the store itself, when something of each is there."""
    store = store_of(cluster.data)
    eventually(
        lambda: all(any(store.glob(f"{topic}-*/{partition}/*.log")) for partition in log),
        "every partition has segments in the store",
        _COPIED_S,
    )
    found = []
    for partition, records in log.items():
        settings = ScanSettings(cluster.bootstrap, read_tier=True)
        batches = scan(OffsetRange(topic, partition, 0, len(records)), settings)
        rows = [(row["offset"], row["value"].decode()) for batch in batches for row in batch.to_pylist()]
        if rows != [*records]:
            found.append(
                f"{topic}-{partition}: {len(rows)} records past the brokers, {len(records)} through them"
            )
    return found
