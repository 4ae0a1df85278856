"""A classic group: its states, its members, and the choice of its protocol and leader (GRP-1, GRP-2, GRP-7).

Nothing here answers, waits or writes: `rebalance` and its siblings move a group through its states. The
group's latest record (`recorded`) is replaced by `adopt` only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.group.committed_offsets import CommittedOffsets
from ottla.group.consumer_protocol import CONSUMER_PROTOCOL_TYPE, all_subscribed_topics
from ottla.group.decision import Parked
from ottla.group.member import Member, Protocols, recorded_member
from ottla.group.records import GroupMetadataValue
from ottla.group.timers import Timer
from ottla.model import NO_TIMESTAMP


class GroupState(Enum):
    """Kafka's names, as DescribeGroups and ListGroups give them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


STATE_MEANINGS: Final[Mapping[GroupState, str]] = {
    GroupState.EMPTY: "no members; perhaps committed offsets, perhaps member ids that were not used yet",
    GroupState.PREPARING_REBALANCE: "all members are to join again",
    GroupState.COMPLETING_REBALANCE: "a generation is formed, and its leader assigns the partitions",
    GroupState.STABLE: "every member can have its assignment",
    GroupState.DEAD: "deleted",
}


class GroupEvent(Enum):
    """The reasons for which a group goes from one state to another."""

    REBALANCE = "a member joins, leaves, is lost or changes its metadata"
    JOINED = "all members have joined, or the time to join is over"
    ABANDONED = "no member joined, or all members left"
    RECORDED = "the log has a generation with its assignments"
    RECORDED_EMPTY = "the log has the group without members"
    DELETED = "the log has the group's tombstone"


_E, _S = GroupEvent, GroupState
TRANSITIONS: Final[Mapping[GroupState, Mapping[GroupEvent, GroupState]]] = {
    _S.EMPTY: {
        _E.REBALANCE: _S.PREPARING_REBALANCE,
        _E.RECORDED: _S.STABLE,  # while loading
        _E.RECORDED_EMPTY: _S.EMPTY,
        _E.DELETED: _S.DEAD,
    },
    _S.PREPARING_REBALANCE: {
        _E.JOINED: _S.COMPLETING_REBALANCE,
        _E.ABANDONED: _S.EMPTY,
    },
    _S.COMPLETING_REBALANCE: {
        _E.REBALANCE: _S.PREPARING_REBALANCE,
        _E.RECORDED: _S.STABLE,
    },
    _S.STABLE: {
        _E.REBALANCE: _S.PREPARING_REBALANCE,
        _E.RECORDED: _S.STABLE,  # a static member took the place of its former self; or while loading
        _E.RECORDED_EMPTY: _S.EMPTY,  # while loading
        _E.DELETED: _S.DEAD,  # while loading
    },
    _S.DEAD: {},
}


class ClassicGroup:
    """One group. Without a protocol type it never had members: it only keeps offsets."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = NO_TIMESTAMP
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.subscribed_topics: frozenset[str] | None = frozenset()  # None: it cannot be known
        self.members: dict[str, Member] = {}  # the longest-standing first
        self.offsets = CommittedOffsets()
        self.recorded: GroupMetadataValue | None = None
        # Not in the log:
        self.pending: dict[str, Timer] = {}  # ids that were given out and not used yet (KIP-394)
        self.unsynced: set[str] = (
            set()
        )  # members of this generation that did not ask for their assignment yet
        self.arriving: dict[str, Member] = {}  # members that the next record brings
        self.timer = Timer()  # of the phase that the group is in
        self.is_initial_rebalance = False
        self.initial_delay_left_ms = 0
        self.rebalances = 0  # since this coordinator answers for the group
        self.has_new_members = False  # since the initial delay began or was extended
        self._instances: dict[str, str] = {}
        self._joined_count = 0
        self._speakers: Counter[str] = Counter()  # by protocol: how many members speak it

    def move(self, event: GroupEvent) -> None:
        """Go where the table says; KeyError for what cannot happen."""
        self.state = TRANSITIONS[self.state][event]

    # Rebalances

    def begin_rebalance(self) -> None:
        """All members are to join again."""
        self.rebalances += 1
        self.unsynced.clear()
        self.is_initial_rebalance = self.state is GroupState.EMPTY
        self.move(GroupEvent.REBALANCE)

    def begin_initial_delay(self, delay_ms: int) -> None:
        """An empty group waits `delay_ms` for more members, and may wait again within their rebalance
        timeout.
        """
        self.has_new_members = False
        self.initial_delay_left_ms = max(self.rebalance_timeout_ms - delay_ms, 0)

    def extend_initial_delay(self, delay_ms: int) -> int:
        """How long to wait on, at most `delay_ms`; 0 if no member came meanwhile or no time is left."""
        if not self.has_new_members:
            return 0
        extension_ms = min(delay_ms, self.initial_delay_left_ms)
        self.has_new_members = False
        self.initial_delay_left_ms -= extension_ms
        return extension_ms

    def begin_generation(self) -> None:
        """The members that joined are the next generation; its leader is to assign."""
        self.generation += 1
        self.protocol = self.voted_protocol()
        self.move(GroupEvent.JOINED)
        self.refresh_subscribed_topics()

    def enter_generation(self, member: Member) -> None:
        """A member that joined is in the new generation, and is to ask for its assignment."""
        self.park_join(member, None)
        member.enter_generation()
        self.unsynced.add(member.member_id)

    def become_empty(self, now_ms: int) -> None:
        """No member is left: a generation without protocol and leader begins."""
        self.generation += 1
        self.protocol = self.leader = None
        self.move(GroupEvent.ABANDONED)
        self.state_timestamp_ms = now_ms
        self.refresh_subscribed_topics()

    # Properties

    @property
    def is_bare(self) -> bool:
        """Whether nothing would be lost with it."""
        is_known = self.recorded is not None or not self.offsets.is_empty
        return self.state is GroupState.EMPTY and not self.pending and not is_known

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits: as long as the most patient member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def joined_count(self) -> int:
        """How many members wait for the next generation."""
        return self._joined_count

    @property
    def all_joined(self) -> bool:
        return self._joined_count == len(self.members) and not self.pending

    # Members

    def instance(self, group_instance_id: str | None) -> Member | None:
        """The member that holds an instance id now."""
        return (
            None
            if group_instance_id is None
            else self.members.get(self._instances.get(group_instance_id, ""))
        )

    def identified(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member with the claimed identity; KafkaError if there is none, or another one took its
        place.
        """
        if group_instance_id is not None:
            holder = self._instances.get(group_instance_id)
            if holder is not None and holder != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
            if holder is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def add_new(self, member: Member, protocol_type: str) -> None:
        """Take in a member that joins; the first one sets the group's protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.add(member)
        self.has_new_members = True

    def add(self, member: Member) -> None:
        """Take a member in; the first one leads until it is gone."""
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self._instances[member.group_instance_id] = member.member_id
        self._speakers.update(member.spoken)
        self._joined_count += member.parked_join is not None
        if self.leader is None:
            self.leader = member.member_id

    def expect(self, member: Member) -> None:
        """The next record of the group brings this member."""
        self.arriving = {member.member_id: member}

    def remove(self, member: Member) -> None:
        """Let a member go; if it led, the one that is there longest leads."""
        del self.members[member.member_id]
        if self._instances.get(member.group_instance_id or "") == member.member_id:
            del self._instances[member.group_instance_id or ""]
        self._speakers -= Counter(member.spoken)
        self._joined_count -= member.parked_join is not None
        self.unsynced.discard(member.member_id)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, former: Member, member: Member) -> None:
        """Put a static member where its former self stood, leadership included."""
        others = list(self.members.values())
        leader = member.member_id if self.leader == former.member_id else self.leader
        for other in others:
            self.remove(other)
        for other in others:
            self.add(member if other is former else other)
        self.leader = leader

    def park_join(self, member: Member, parked: Parked | None) -> None:
        """A member waits for the next generation; or, with None, does no longer."""
        self._joined_count += (parked is not None) - (member.parked_join is not None)
        member.park_join(parked)

    def update_protocols(self, member: Member, protocols: Protocols) -> None:
        """Take over the protocols and timeouts that a member sent with its latest join."""
        self._speakers -= Counter(member.spoken)
        member.speak(protocols)
        self._speakers.update(member.spoken)

    # Protocols and leaders

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can be in the group: one of them is spoken by all."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        candidates = self._common_protocols()
        return protocol_type == self.protocol_type and any(name in candidates for name, _ in protocols)

    def voted_protocol(self) -> str:
        """The one that most members like best among those that all speak; the older members' choice if it is
        even.
        """
        candidates = self._common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def _common_protocols(self) -> set[str]:
        return {name for name, speakers in self._speakers.items() if speakers == len(self.members)}

    def elect_leader(self) -> bool:
        """Keep the leader if it has joined, else take the longest-standing one that has; False if none
        has.
        """
        current = self.members.get(self.leader or "")
        if current is None or current.parked_join is None:
            joined = (member.member_id for member in self.members.values() if member.parked_join is not None)
            self.leader = next(joined, self.leader)
        leader = self.members.get(self.leader or "")
        return leader is not None and leader.parked_join is not None

    def refresh_subscribed_topics(self) -> None:
        """Look up what the members subscribe to under the chosen protocol."""
        if self.uses_consumer_protocol:
            subscriptions = (member.metadata(self.protocol) for member in self.members.values())
            self.subscribed_topics = all_subscribed_topics(subscriptions)
        else:
            self.subscribed_topics = None

    # The log

    def value(
        self, members: Iterable[tuple[Member, bytes]], timestamp_ms: int, leader: str | None
    ) -> GroupMetadataValue:
        """The group's record, with these members, their assignments and their leader."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=leader,
            current_state_timestamp=timestamp_ms,
            members=[member.recorded(self.protocol, assignment) for member, assignment in members],
        )

    def adopt(self, value: GroupMetadataValue) -> None:
        """Become what a record says. Members that it was made of keep what is not in it: sessions, and who
        waits.
        """
        self.move(GroupEvent.RECORDED if value.members else GroupEvent.RECORDED_EMPTY)
        self.recorded = value
        self.protocol_type = value.protocol_type or None
        self.generation = value.generation
        self.protocol = value.protocol
        self.state_timestamp_ms = value.current_state_timestamp
        members, unsynced = list(self._recorded_members(value)), set(self.unsynced)
        for member in list(self.members.values()):
            self.remove(member)
        for member in members:
            self.add(member)
        self.arriving.clear()
        self.unsynced = unsynced & self.members.keys()
        self.leader = value.leader
        self.refresh_subscribed_topics()

    def _recorded_members(self, value: GroupMetadataValue) -> Iterator[Member]:
        for recorded in value.members:
            member = self.members.get(recorded.member_id) or self.arriving.get(recorded.member_id)
            assignment = bytes(recorded.assignment)
            # While loading, the member that is known is the one of an older record.
            if member is None or member.recorded(value.protocol, assignment) != recorded:
                member = recorded_member(recorded, value.protocol)
            member.assign(assignment)
            yield member
