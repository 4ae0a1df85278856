"""The events that the machine of a group member hears, and the effects that it returns.

The machine is `membership.machine.group_member`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ottla.errors import ErrorCode, KafkaError

# Names of assignors, the preferred one first, each with the member's subscription.
Protocols: TypeAlias = Mapping[str, bytes]


# ---- events


@dataclass(frozen=True, slots=True)
class Start:
    """Become a member."""

    protocols: Protocols


@dataclass(frozen=True, slots=True)
class Stop:
    """Leave the group and end."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class CoordinatorFound:
    """The coordinator is known; requests can be sent to it."""


@dataclass(frozen=True, slots=True)
class CoordinatorNotFound:
    """No broker could name the coordinator."""

    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The coordinator answered a request."""

    request: Any
    response: Any


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A request got no answer: the connection was lost, or the time was over."""

    request: Any


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """A request cannot be sent at all, for example because the broker does not know it."""

    request: Any
    error: KafkaError


@dataclass(frozen=True, slots=True)
class Prepared:
    """The application has given up the partitions that it must give up.

    The member may join (again), with these protocols.
    """

    protocols: Protocols


@dataclass(frozen=True, slots=True)
class Assigned:
    """The leader's answer to `Assign`: the assignment of each member."""

    generation_id: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class PollBegan:
    """The application asks for records, and waits for them."""


@dataclass(frozen=True, slots=True)
class PollEnded:
    """The application has the records it asked for, and works on them."""


@dataclass(frozen=True, slots=True)
class Rejoin:
    """The member's topics, or the partitions that the group divides, have changed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A commit of this generation was refused: the coordinator does not accept the membership any more."""

    generation_id: int
    error_code: ErrorCode


Event: TypeAlias = (
    Start
    | Stop
    | Tick
    | CoordinatorFound
    | CoordinatorNotFound
    | Answered
    | Unanswered
    | Unanswerable
    | Prepared
    | Assigned
    | PollBegan
    | PollEnded
    | Rejoin
    | Refused
)


# ---- effects


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Ask any broker who coordinates the group; the answer is CoordinatorFound or CoordinatorNotFound."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request to the coordinator; the answer is Answered, Unanswered or Unanswerable."""

    request: Any
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Prepare:
    """Let the application give up its partitions; the answer is Prepared.

    Lost partitions belong to other members already: nothing can be committed for them any more.
    """

    is_lost: bool


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member of the group, in the coordinator's answer to the leader."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Assign:
    """This member leads: divide the partitions among the members; the answer is Assigned.

    With `is_divided`, the group keeps the partitions that an earlier leader gave out (KIP-814): the member only has
    to watch whether these are still all.
    """

    generation_id: int
    protocol_name: str
    members: tuple[JoinedMember, ...]
    is_divided: bool = False


@dataclass(frozen=True, slots=True)
class Adopt:
    """The group has agreed: this is the member's assignment from now on."""

    generation_id: int
    protocol_name: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """The membership is over: the member has left, or the group will not have it."""

    error: KafkaError | None = None


Effect: TypeAlias = FindCoordinator | Ask | Prepare | Assign | Adopt | Ended
