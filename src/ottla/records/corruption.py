"""The one error of this room.

For any damage of record batches, be it a length, a checksum, a varint or a compressed block, the caller does
the same: it refuses the batch. So there is one error, and its text says what was found where.
"""


class CorruptRecord(ValueError):  # noqa: N818 - Kafka's word for it, and callers read better with it
    """The bytes are no record batch, or not a whole one."""
