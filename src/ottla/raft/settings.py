"""The settings of the quorum: the operator's, and the numbers that no operator needs to choose."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.config import QuorumConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """The times that a member of the quorum waits, and the bytes that it sends at once."""

    quorum: QuorumConfig = field(default=QuorumConfig())
    election_backoff_ms: int = 20  # the pause after the first round that was lost; it doubles
    fetch_max_wait_ms: int = 500  # how long a fetch may wait at the leader; well below the fetch timeout
    fetch_max_bytes: int = 8 << 20
    snapshot_chunk_bytes: int = 1 << 20
    disconnect_grace_ms: int = 100  # how long a leader whose connection died may take to come back
    # A voter whose disk was full stands for election again after this. All voters may be full: then each tries in turn.
    full_disk_pause_ms: int = 5_000
    observer_session_ms: int = 300_000  # an observer that is silent this long is not described any more

    @property
    def election_spread_ms(self) -> int:
        """The time over which candidates that could stand at the same moment are spread, so that one wins."""
        return max(self.quorum.election_timeout_ms // 4, 1)

    @property
    def begin_interval_ms(self) -> int:
        """How often a leader announces itself to voters that do not fetch: before they lose patience."""
        return max(self.quorum.fetch_timeout_ms // 2, 1)

    @property
    def first_begin_interval_ms(self) -> int:
        """The pause after the first announcement, which may have gone to a connection that was closing; it doubles."""
        return max(self.begin_interval_ms // 16, 1)
