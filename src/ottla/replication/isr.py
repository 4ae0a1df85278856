"""The in-sync replicas of a partition as its leader knows them, and the one change of them that is under way.
Pure.

Only the controller changes the ISR. The leader proposes, with the partition epoch it knows (compare and set);
until the answer is there, it is not known which ISR is in force, so the high watermark counts with the
*maximal* one: the committed members, those that are to leave, too, and every member that a proposal whose
fate is unknown would add.

    state          on                                             then
    settled        propose                                        pending
    pending        NONE                                           settled, with the new ISR
    pending        INELIGIBLE_REPLICA and other clear refusals    settled after a pause; what it would have added is not counted
    pending        INVALID_UPDATE_VERSION, no answer              uncertain after a pause; what it would have added is counted
    pending        FENCED_LEADER_EPOCH and other ends             nothing more until an assignment comes
    any            an assignment of a newer partition epoch       settled: no earlier proposal can be carried out any more

A proposal is refused as a whole. One that adds a member which the controller does not want must not keep another
member from leaving: after a refusal members leave first, and others join when that is decided.

An uncertain proposal may still be carried out, long after its sender gave it up. It is closed by moving the
partition epoch on: the leader proposes the ISR it wants then, even if that is the committed one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ottla.errors import ErrorCode

RETRY_BACKOFF_MS: Final = 50
RETRY_BACKOFF_MAX_MS: Final = 1000

# The controller has looked at the proposal and did not carry it out.
_REFUSALS: Final = frozenset(
    {
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
)
# This node does not lead the partition any more, or the partition is gone: metadata on its way will say so.
_ENDS: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask the controller (AlterPartition) to make this the ISR. Then IsrAnswered, exactly once.

    `broker_epochs` go with `isr`; -1 where none is known, and for this node itself: the shell knows its own.
    """

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class IsrAnswered:
    """The outcome of a proposal.

    With NONE, the partition as it is now; without any answer, REQUEST_TIMED_OUT.
    """

    proposal: ProposeIsr
    error: ErrorCode
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class Isr:
    """Committed members, and what may become of them."""

    __slots__ = (
        "_backoff_ms",
        "_is_over",
        "_is_refused",
        "committed",
        "is_uncertain",
        "maximal",
        "pending",
        "retry_at_ms",
    )

    def __init__(self) -> None:
        self.settle(())

    def settle(self, committed: tuple[int, ...]) -> None:
        """The controller has decided; nothing that was proposed before can still happen."""
        self.committed = committed
        self.maximal = frozenset(committed)
        self.pending: ProposeIsr | None = None
        self.is_uncertain = False
        self.retry_at_ms = 0
        self._backoff_ms = RETRY_BACKOFF_MS
        self._is_over = False
        self._is_refused = False

    @property
    def may_change(self) -> bool:
        """Whether a proposal makes sense, now or after a pause."""
        return self.pending is None and not self._is_over

    def propose(self, proposal: ProposeIsr) -> None:
        """The proposal is on its way: from now on it may be carried out at any time."""
        self.pending = proposal
        self.maximal |= frozenset(proposal.isr)

    def failed(self, error: ErrorCode, now_ms: int) -> bool:
        """The pending proposal was refused, or its answer is lost. Whether it was refused for certain."""
        self.pending = None
        self._is_over = error in _ENDS
        is_refused = self._is_refused = error in _REFUSALS
        if not is_refused:
            self.is_uncertain = True
        elif not self.is_uncertain:
            self.maximal = frozenset(self.committed)
        self.retry_at_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(self._backoff_ms * 2, RETRY_BACKOFF_MAX_MS)
        return is_refused

    def next_members(self, desired: tuple[int, ...]) -> tuple[int, ...]:
        """The members to propose next, on the way to the desired ones."""
        stay = tuple(member for member in desired if member in self.committed)
        return stay if self._is_refused and len(stay) < len(self.committed) else desired

    def differs_from(self, desired: Collection[int]) -> bool:
        """Whether there is something to propose."""
        return self.is_uncertain or set(desired) != set(self.committed)
