"""Data directories for the tests of `ottla dump` and `ottla doctor`, made of known batches."""

from pathlib import Path

from ottla.log.directory import META_PROPERTIES
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.index_entries import OFFSET_ENTRY, TIME_ENTRY
from ottla.records.record import Record

NOW_MS = 1_700_000_000_000
TOPIC_ID = "HpKSCmN_SQOPmspjVBcwYg"
SEGMENT = "00000000000000000000.log"


def batch(base_offset: int, count: int = 2, compression: Compression = Compression.NONE) -> bytearray:
    """Records `base_offset` and the following, one millisecond apart."""
    records = [
        Record(offset, NOW_MS + offset, b"key-%d" % offset, b"value-%d" % offset)
        for offset in range(base_offset, base_offset + count)
    ]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=0, compression=compression)


def write_partition(directory: Path, batches: list[bytearray], base_offset: int = 0) -> Path:
    """A partition with one segment, indexed batch by batch (all but the first), and all that stands beside
    it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    stem = directory / f"{base_offset:020d}"
    index, times, position, offset = b"", b"", 0, base_offset
    for data in batches:
        last = int.from_bytes(data[0:8], "big") + int.from_bytes(data[23:27], "big")
        if position:
            index += OFFSET_ENTRY.pack(last - base_offset, position)
            times += TIME_ENTRY.pack(int.from_bytes(data[35:43], "big"), last - base_offset)
        position += len(data)
        offset = last + 1
    stem.with_suffix(".log").write_bytes(b"".join(batches))
    stem.with_suffix(".index").write_bytes(index)
    stem.with_suffix(".timeindex").write_bytes(times)
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    assert offset >= base_offset
    return stem.with_suffix(".log")


def write_data_directory(root: Path) -> Path:
    """A data directory after a clean stop, with the partition orders-0 in it: offsets 0 to 9."""
    write_partition(root / "orders-0", [batch(offset) for offset in range(0, 10, 2)])
    (root / META_PROPERTIES).write_text("#\nversion=1\ncluster.id=Some-cluster\nnode.id=1\n")
    for name, offset in (("recovery-point", 10), ("log-start", 0), ("replication", 10)):
        (root / f"{name}-offset-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    return root
