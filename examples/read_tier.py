"""Read a partition back from an object store, with nothing of Ottla: python read_tier.py file:///tmp/tier events 0

Prints offset, timestamp, key and value of every record. Needs obstore and crc32c; reads plain and gzip batches.
"""

import gzip
import struct
import sys

import obstore
from crc32c import crc32c
from obstore.store import from_url

HEADER = struct.Struct(">qiibIhiqqqhii")  # from the base offset to the number of records: 61 bytes


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
        if data[at - 1] < 128:
            return (value >> 1) ^ -(value & 1), at


def text(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


url, topic, partition = sys.argv[1:]
store, next_offset = from_url(url), 0
for name in sorted(found["path"] for page in obstore.list(store) for found in page):
    # <topic>-<22 characters of id>/<partition>/<20-digit base offset>-<id>.log
    if not name.endswith(".log") or name.split("/")[0][:-23] != topic or name.split("/")[1] != partition:
        continue
    log, at = bytes(obstore.get(store, name).bytes()), 0
    while at < len(log):
        base, length, _, _, crc, attributes, _, first_ms, _, _, _, _, count = HEADER.unpack_from(log, at)
        at, batch = at + 12 + length, log[at : at + 12 + length]
        assert crc32c(batch[21:]) == crc, f"{name} is damaged before byte {at}"
        records, place = gzip.decompress(batch[61:]) if attributes & 7 == 1 else batch[61:], 0
        for _ in range(0 if attributes & 32 else count):  # control batches end transactions
            size, start = varint(records, place)
            since_ms, place = varint(records, start + 1)
            offset, place = varint(records, place)
            key, place = text(records, place)
            if base + offset >= next_offset:  # a segment may begin with records of the one before
                print(base + offset, first_ms + since_ms, key, text(records, place)[0])
                next_offset = base + offset + 1
            place = start + size
