"""A segment in an object store: the same bytes as on disk, under other names (docs/tiers.md).

object_names     the names of a segment's objects
segment_copy     a closed segment written to a store, and verified
batch_run        whole batches that were read from a store, every checksum verified
"""
