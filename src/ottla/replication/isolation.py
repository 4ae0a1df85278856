"""A leader that cannot do its part: cut off from the cluster, or with a log that takes no writes. Pure.

Cut off: no controller answered for `patience_ms`, and an in-sync follower was silent for as long. Such a
leader can commit nothing, and the controller, where there is one, has probably elected another leader. So the
leader refuses writes and ends the waits of producers. A leader without a controller that still has its
followers goes on.

Broken: the log refuses writes until it is opened again, or has refused them at two looks in a row (a full
disk may have room again by the second). The leader proposes the ISR without itself, and the controller elects
another member. Without another member it stays leader, refuses writes and serves reads.

Hanging: where only flushed records count, and a flush has not ended for long. The leader asks another member to
lead, unless too few would be in sync then: the disks of all may be busy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.model import LEAVING_BROKER_EPOCH, NO_BROKER_EPOCH
from ottla.replication.isr import ProposeIsr

# A log that refused writes at more looks than this is taken for broken.
_TOLERATED_FAILURES: Final = 1


@dataclass(frozen=True, slots=True)
class ControllerSilent:
    """No controller has answered this broker for `silent_ms`."""

    silent_ms: int


@dataclass(frozen=True, slots=True)
class LogBroken:
    """The log refused its last write; `is_lasting`, if it refuses all writes until it is opened again.

    The shell looks at regular times, and tells it at each look until the log works again: then LogWorks.
    """

    is_lasting: bool = False


@dataclass(frozen=True, slots=True)
class LogWorks:
    """The log takes writes again."""


@dataclass(frozen=True, slots=True)
class FlushHangs:
    """A flush that records wait for has not ended for long. The shell tells it at each look."""


@dataclass(frozen=True, slots=True)
class StepDown:
    """Ask the controller for an ISR without this node, so that another member leads.

    The answer comes as metadata.
    """

    proposal: ProposeIsr


class Isolation:
    """Whether one replica has a controller, and whether its log takes writes."""

    __slots__ = ("_failures", "_patience_ms", "is_cut_off")

    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._failures = 0
        self.is_cut_off = False

    def judge(self, silent_ms: int, last_fetches_ms: Iterable[int], now_ms: int) -> bool:
        """Whether a leader is cut off; `last_fetches_ms` are those of its followers in the ISR."""
        oldest_ms = now_ms - self._patience_ms
        self.is_cut_off = silent_ms > self._patience_ms and any(
            at_ms < oldest_ms for at_ms in last_fetches_ms
        )
        return self.is_cut_off

    def rejoined(self) -> None:
        """The controller decided about the partition: the broker is not cut off."""
        self.is_cut_off = False

    def failed(self, is_lasting: bool) -> bool:
        """The log refused writes at this look. Whether it counts as broken."""
        self._failures += 1
        return is_lasting or self._failures > _TOLERATED_FAILURES

    def works(self) -> None:
        """The log takes writes."""
        self._failures = 0


def step_down(
    node_id: int, isr: Sequence[int], leader_epoch: int, partition_epoch: int, *, is_whole: bool = False
) -> StepDown | None:
    """How the leader `node_id` leaves the partition to another member; None without another one.

    `is_whole`: the leader holds every committed record, so it may lead again if no other member can. It then names
    itself, with the epoch of a broker that leaves.
    """
    others = tuple(member for member in isr if member != node_id)
    if not others:
        return None
    epochs = (NO_BROKER_EPOCH,) * len(others)
    if is_whole:
        others, epochs = (*others, node_id), (*epochs, LEAVING_BROKER_EPOCH)
    return StepDown(ProposeIsr(others, epochs, leader_epoch, partition_epoch))
