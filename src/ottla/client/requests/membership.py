"""The identity under which a member of a consumer group speaks to its coordinator."""

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
