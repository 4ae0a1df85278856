"""The group coordinator: a machine that decides on the groups of one partition of `__consumer_offsets` (GRP-1
to GRP-7).

    request                       records
    JoinGroup                     Group, when a static member takes its former place in a stable group
    SyncGroup of the leader       Group
    LeaveGroup, and deadlines     Group, when no member is left
    OffsetCommit                  Offset
    TxnOffsetCommit               Offset, within the producer's transaction
    OffsetDelete, TopicsDeleted   Offset tombstones
    DeleteGroups, and expiry      Offset tombstones, then the Group's
    Heartbeat, OffsetFetch, DescribeGroups, ListGroups: none

Two kinds of state. The state that is in the log (generation, protocol, members and assignments as of the last
completed sync; committed offsets) is changed by `replay` alone. All else (members that wait for a rebalance,
ends of sessions, member ids that were given out) is changed by `command` and `tick`, and is lost when the
coordinator moves: the next one begins with the last complete generation, in which members that were in the
middle of a rebalance join again.

How to run it: `replay` the log, then `loaded`. For every decision: append its records, `replay` them, and
give its answers when they are committed, before the next command. If they cannot be appended, give refusals
in place of the answers: what was decided did not happen, and members ask again. Call `tick` at
`next_deadline_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from ottla.config import GroupConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.group.admin import delete_groups, describe_groups, list_groups
from ottla.group.classic import ClassicGroup, GroupEvent
from ottla.group.decision import Decision, GroupRequestContext, Turn
from ottla.group.error_responses import join_refusal, refusal
from ottla.group.expiry import forget_expired
from ottla.group.joining import check_join, join_group
from ottla.group.membership import heartbeat, leave_group
from ottla.group.offset_fetch import fetch_offsets
from ottla.group.offsets import TopicsDeleted, check_commit, commit_offsets, delete_offsets, forget_topics
from ottla.group.rebalance import extend_session, prepare_rebalance
from ottla.group.records import GroupMetadataValue, OffsetCommitKey, decode_record
from ottla.group.syncing import sync_group
from ottla.group.timers import Timer, Timers
from ottla.group.transactional_offsets import check_transactional_commit, commit_transactional_offsets
from ottla.model import NO_PRODUCER_ID
from ottla.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from ottla.protocol.messages.transactions import TxnOffsetCommitRequest

__all__ = ["Decision", "GroupCoordinator", "GroupRequestContext", "TopicsDeleted", "refusal"]


# Offsets examined or deleted in one run of expiry: some milliseconds, so that members do not have to wait.
_EXPIRY_GROUPS: Final = 1000
_EXPIRY_RECORDS: Final = 1000


class GroupCoordinator:
    """The machine. `new_member_id` makes a unique id out of a client's or instance's name."""

    def __init__(self, settings: GroupConfig, new_member_id: Callable[[str], str]) -> None:
        self._settings = settings
        self._new_member_id = new_member_id
        self._groups: dict[str, ClassicGroup] = {}
        # By producer: the groups that have offsets of its open transaction.
        self._transactions: dict[int, set[str]] = {}
        self._timers = Timers()
        self._expiry = Timer()
        self._unchecked: list[str] = []  # groups that this round of expiry has not looked at yet
        self._decide: dict[type[Any], Callable[[Any, GroupRequestContext, Turn], Any]] = {
            JoinGroupRequest: self._join_group,
            SyncGroupRequest: self._sync_group,
            LeaveGroupRequest: self._leave_group,
            OffsetCommitRequest: self._commit_offsets,
            TxnOffsetCommitRequest: self._commit_transactional_offsets,
            OffsetFetchRequest: lambda request, context, turn: fetch_offsets(
                self._groups, request, context.version
            ),
            OffsetDeleteRequest: lambda request, context, turn: delete_offsets(
                self._groups.get(request.group_id), request, turn
            ),
            DescribeGroupsRequest: lambda request, context, turn: describe_groups(
                self._groups, request, context.version
            ),
            ListGroupsRequest: lambda request, context, turn: list_groups(self._groups.values(), request),
            DeleteGroupsRequest: lambda request, context, turn: delete_groups(self._groups, request, turn),
            TopicsDeleted: self._forget_topics,
        }

    @property
    def groups(self) -> Mapping[str, ClassicGroup]:
        """The groups, to look at."""
        return MappingProxyType(self._groups)

    @property
    def next_deadline_ms(self) -> int | None:
        """When to call `tick`; None if nothing will be due."""
        return self._timers.next_deadline_ms

    def command(self, request: Any, context: GroupRequestContext, now_ms: int) -> Decision:
        """Decide on a request; it may be answered by a later decision, with others."""
        if type(request) is HeartbeatRequest:  # by far the most frequent, and the only one that needs no turn
            return Decision((), HeartbeatResponse(0, self._heartbeat(request, now_ms)))
        decide = self._decide.get(type(request))
        if decide is None:
            raise TypeError(f"{type(request).__name__} is not a command of the group coordinator")
        turn = self._turn(now_ms)
        try:
            response = decide(request, context, turn)
        except KafkaError as error:
            response = refusal(request, error.code, context.version)
        return turn.decision(response, context.ticket)

    def tick(self, now_ms: int) -> Iterator[Decision]:
        """Carry out what is due. Each decision is made when it is asked for, so carry one out before the
        next.
        """
        for action in self._timers.due(now_ms):
            turn = self._turn(now_ms)
            action(turn)
            if turn.records or turn.completions or turn.notes:
                yield turn.decision()

    def loaded(self, now_ms: int) -> None:
        """The log is replayed: every member has one session timeout to be heard of."""
        turn = self._turn(now_ms)
        for group in self._groups.values():
            for member in group.members.values():
                extend_session(group, member, turn)
            if len(group.members) > self._settings.max_size:
                prepare_rebalance(group, "it has more members than are allowed now", turn)
        turn.after(self._expiry, self._settings.offsets_retention_check_interval_ms, self._expire)

    def unload(self) -> list[Decision]:
        """Another broker coordinates these groups now: redirect all waiting members there, and forget the
        groups.
        """
        error, turn = ErrorCode.NOT_COORDINATOR, self._turn(0)
        for member in (member for group in self._groups.values() for member in group.members.values()):
            if member.parked_join is not None:
                parked = member.parked_join
                turn.answer(parked, join_refusal(error, member.member_id, parked.version))
            if member.parked_sync is not None:
                turn.answer(member.parked_sync, SyncGroupResponse(error_code=error))
        self._groups.clear()
        self._transactions.clear()
        self._timers = Timers()
        return [turn.decision()]

    # The log

    def replay(
        self,
        key: bytes | memoryview | None,
        value: bytes | memoryview | None,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Take over a record of the log. A record of a transactional batch has its producer's id: the offset
        is pending until the producer's marker.
        """
        decoded = decode_record(key, value)
        if decoded is None:
            return
        record_key, record_value = decoded
        if isinstance(record_key, OffsetCommitKey):
            self._replay_offset(record_key, record_value, producer_id)
        else:
            self._replay_group(record_key.group, record_value)

    def replay_end_of_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Take over a transaction marker: the producer's pending offsets are in force, or forgotten."""
        for group_id in self._transactions.pop(producer_id, ()):
            group = self._groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, is_commit=is_commit)
                self._keep(group)

    def _replay_offset(self, key: OffsetCommitKey, value: Any, producer_id: int) -> None:
        group = self._groups.get(key.group) or ClassicGroup(key.group)
        if producer_id == NO_PRODUCER_ID or value is None:
            group.offsets.replay(key.topic, key.partition, value)
        else:
            group.offsets.replay_pending(producer_id, key.topic, key.partition, value)
            self._transactions.setdefault(producer_id, set()).add(key.group)
        self._keep(group)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        group = self._groups.get(group_id) or ClassicGroup(group_id)
        if value is not None:
            group.adopt(value)
        else:
            group.move(GroupEvent.DELETED)
            group.timer.cancel()
            # Offsets have tombstones of their own. Those that have none are kept, of a group that has no
            # members.
            remaining = group.offsets
            group = ClassicGroup(group_id)
            group.offsets = remaining
        self._keep(group)

    def _keep(self, group: ClassicGroup) -> None:
        """Remember a group, unless there is nothing to remember."""
        if group.is_bare:
            self._groups.pop(group.group_id, None)
        else:
            self._groups[group.group_id] = group

    # Requests

    def _turn(self, now_ms: int) -> Turn:
        return Turn(now_ms, self._settings, self._timers, self._new_member_id)

    def _heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        group = self._groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
        try:
            return heartbeat(group, request, now_ms)
        except KafkaError as error:
            return error.code

    def _join_group(self, request: JoinGroupRequest, context: GroupRequestContext, turn: Turn) -> Any:
        check_join(request, self._settings)
        group = self._groups.get(request.group_id)
        if group is None and request.member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        group = group or ClassicGroup(request.group_id)
        response = join_group(group, request, context, turn)
        self._keep(group)
        return response

    def _sync_group(self, request: SyncGroupRequest, context: GroupRequestContext, turn: Turn) -> Any:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return sync_group(group, request, context, turn)

    def _leave_group(self, request: LeaveGroupRequest, context: GroupRequestContext, turn: Turn) -> Any:
        group = self._groups.get(request.group_id)
        response = leave_group(group, request, context.version, turn)
        if group is not None and not turn.records:
            self._keep(group)
        return response

    def _commit_offsets(self, request: OffsetCommitRequest, context: GroupRequestContext, turn: Turn) -> Any:
        check_commit(self._groups.get(request.group_id), request, context.version, turn)
        return commit_offsets(request, turn)

    def _commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, context: GroupRequestContext, turn: Turn
    ) -> Any:
        check_transactional_commit(self._groups.get(request.group_id), request)
        return commit_transactional_offsets(request, turn)

    def _forget_topics(self, command: TopicsDeleted, context: GroupRequestContext, turn: Turn) -> ErrorCode:
        forget_topics(self._groups.values(), command, turn)
        return ErrorCode.NONE

    def _expire(self, turn: Turn) -> None:
        """Look through some of the groups for what is to be forgotten, and soon go on with the rest."""
        self._unchecked = self._unchecked or list(self._groups)
        for _ in range(min(_EXPIRY_GROUPS, len(self._unchecked))):
            group = self._groups.get(self._unchecked.pop())
            if group is not None and forget_expired(group, turn):
                self._keep(group)
            if len(turn.records) >= _EXPIRY_RECORDS:
                break
        is_done = not self._unchecked
        interval_ms = self._settings.offsets_retention_check_interval_ms
        turn.after(self._expiry, interval_ms if is_done else 1, self._expire)
