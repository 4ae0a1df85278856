"""What one partition of this broker has taken in and given out since it is hosted here."""

from typing import Self


class PartitionCounts:
    """Records and bytes, each counted with an addition per append or answer. Bytes are those of record batches."""

    __slots__ = (
        "fetched_bytes",
        "leader_changes",
        "produced_bytes",
        "produced_records",
        "replicated_in_bytes",
        "replicated_out_bytes",
    )

    def __init__(self) -> None:
        self.produced_records = 0
        self.produced_bytes = 0
        self.fetched_bytes = 0
        self.replicated_in_bytes = 0
        self.replicated_out_bytes = 0
        self.leader_changes = 0

    def produced(self, records: int, size_bytes: int) -> None:
        """Producers' records were appended."""
        self.produced_records += records
        self.produced_bytes += size_bytes

    def fetched(self, size_bytes: int) -> None:
        """Records were sent to a consumer."""
        self.fetched_bytes += size_bytes

    def replicated_in(self, size_bytes: int) -> None:
        """Records of the leader were appended here."""
        self.replicated_in_bytes += size_bytes

    def replicated_out(self, size_bytes: int) -> None:
        """Records were sent to a follower."""
        self.replicated_out_bytes += size_bytes

    def leader_changed(self) -> None:
        """Another leader was elected, or the same one again."""
        self.leader_changes += 1

    def add(self, other: Self) -> None:
        """Count what another partition has counted, too."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
