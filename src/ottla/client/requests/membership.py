"""The identity under which a member of a consumer group speaks to a coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.model import NO_GENERATION

NO_MEMBER_ID: Final = ""


@dataclass(frozen=True, slots=True)
class Membership:
    """A member id and a generation of the group. The default is that of a client that is no member."""

    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer group, and the member of it for whom a producer commits offsets in a transaction.

    The coordinator refuses the offsets of a member that the group has replaced since. Without a member, the
    offsets of a group that has no members can be committed.
    """

    group_id: str
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    group_instance_id: str | None = None
