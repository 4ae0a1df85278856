"""The metadata compared with the objects of a store.

The store is listed first, and the metadata asked for afterwards: a segment is named in the metadata before its first
object is written, so an object that the metadata does not name then is an orphan, or was deleted meanwhile. A
listing may be stale: an object that it lacks is looked for by its name before it is called missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.admin.remote_logs import RemoteLogs, RemoteObjectInfo, RemotePartition, RemoteSegmentInfo
from ottla.log.tiers.object_names import object_name, segment_id_in
from ottla.log.tiers.segment_copy import CopiedObject, verify
from ottla.runtime.object_store import ObjectMissingError, ObjectStore, StoredObject, StoreError


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What was compared, and what is wrong. `strangers` are objects that are not named as ours are."""

    objects: int
    size_bytes: int
    damaged: tuple[tuple[str, str], ...]
    orphans: tuple[StoredObject, ...]
    strangers: int

    @property
    def is_healthy(self) -> bool:
        return not self.damaged and not self.orphans


def compare(
    store: ObjectStore, listed: Iterable[StoredObject], known: RemoteLogs, *, deep: bool
) -> StoreReport:
    """Compare a listing with the metadata of after it. `deep` reads every object. StoreError if the store fails."""
    found = {each.name: each for each in listed}
    named = {
        segment.segment_id: (partition, segment)
        for partition in known.partitions
        for segment in partition.segments
    }
    damaged = [
        (name, problem)
        for partition, segment in named.values()
        if segment.state == "copied"
        for each in segment.objects
        if (problem := _problem(store, found, name := _name(partition, segment, each), each, deep))
    ]
    ids = {name: segment_id_in(name) for name in found}
    return StoreReport(
        objects=len(found),
        size_bytes=sum(each.size_bytes for each in found.values()),
        damaged=tuple(damaged),
        orphans=tuple(
            found[name]
            for name, segment_id in ids.items()
            if segment_id is not None and segment_id not in named
        ),
        strangers=sum(segment_id is None for segment_id in ids.values()),
    )


def _name(partition: RemotePartition, segment: RemoteSegmentInfo, found: RemoteObjectInfo) -> str:
    place = partition.topic, partition.topic_id, partition.partition, segment.base_offset, segment.segment_id
    return object_name(*place, found.kind)


def _problem(
    store: ObjectStore, listed: dict[str, StoredObject], name: str, wanted: RemoteObjectInfo, deep: bool
) -> str | None:
    try:
        if deep:
            verify(store, name, CopiedObject(wanted.kind, wanted.size_bytes, wanted.crc))
            return None
        size_bytes = listed[name].size_bytes if name in listed else store.size(name)
    except ObjectMissingError:
        return "is missing"
    except StoreError as problem:
        return str(problem).removeprefix(f"{name}: ")
    if size_bytes != wanted.size_bytes:
        return f"has {size_bytes} bytes, and {wanted.size_bytes} were written"
    return None
