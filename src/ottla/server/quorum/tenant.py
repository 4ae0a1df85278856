"""What a member of the quorum is told at its start, and whom it tells what it commits."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ottla.errors import KafkaError
from ottla.raft.messages import ReplicaKey, SnapshotId
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import VoterSet


class Tenant(Protocol):
    """The consumer of committed records, called in order on the loop; it must not call back at once."""

    def committed(self, high_watermark: int) -> None:
        """Every record below is committed."""

    def led_by(self, leader_id: int | None, epoch: int) -> None:
        """Another leader, or none."""

    def established(self, epoch: int) -> None:
        """This node leads, and everything that was ever committed is below its high watermark."""

    def load(self, snapshot_id: SnapshotId) -> None:
        """Take the snapshot's state in place of one's own. ValueError or OSError if it cannot be read."""

    def failed(self, reason: KafkaError) -> None:
        """The disk failed under the log: nothing more is committed here."""

    def halted(self, reason: str) -> None:
        """Something happened that cannot: the process must end."""


class Quorate(NamedTuple):
    """Which quorum this is, and who of it is here."""

    cluster_id: str
    identity: ReplicaKey
    voters: VoterSet  # of the settings; the log may name others
    is_controller: bool  # whether this node votes, or may be made a voter
    settings: RaftSettings
