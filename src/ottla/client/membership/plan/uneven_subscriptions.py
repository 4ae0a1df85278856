"""Sticky assignment for members with different subscriptions: no formula gives each member's share.

Members keep their partitions. A free partition goes to the subscribed member with the fewest. Then partitions
move, one at a time, from members that have at least two more than another subscribed member, until no move
makes it more even. All of that happens in Java's order, so that the result is the same.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ottla.client.membership.plan.java_order import in_hash_order, partition_hash
from ottla.model import TopicPartition

Assignment = dict[str, list[TopicPartition]]


def assign_uneven(
    topics: Mapping[str, Sequence[str]],
    counts: Mapping[str, int],
    owned: Mapping[str, Sequence[TopicPartition]],
    older: Mapping[TopicPartition, str],
) -> Assignment:
    """Divide partitions: `topics` of each member, partitions `owned` by each, and their `older` owners."""
    balance = _Balance(topics, counts, owned, older)
    balance.even_out()
    return {member_id: balance.assignment[member_id] for member_id in topics}


class _Balance:
    def __init__(
        self,
        topics: Mapping[str, Sequence[str]],
        counts: Mapping[str, int],
        owned: Mapping[str, Sequence[TopicPartition]],
        older: Mapping[TopicPartition, str],
    ) -> None:
        self._counts = counts
        self._older = older
        self._topics = {
            member_id: [topic for topic in dict.fromkeys(wanted) if topic in counts]
            for member_id, wanted in topics.items()
        }
        self._candidates: dict[str, list[str]] = {topic: [] for topic in counts}
        for member_id, wanted in self._topics.items():
            for topic in wanted:
                self._candidates[topic].append(member_id)
        self.assignment = {
            member_id: [each for each in owned[member_id] if each.topic in wanted]
            for member_id, wanted in self._topics.items()
        }
        self._must_revoke = any(len(owned[each]) != len(self.assignment[each]) for each in self.assignment)
        self._owner = {
            each: member_id for member_id, partitions in self.assignment.items() for each in partitions
        }
        self._line = sorted((len(each), member_id) for member_id, each in self.assignment.items())
        self._moves = _Moves()

    def even_out(self) -> None:
        """Give away free partitions, then move partitions while that makes the division more even."""
        everything = [
            TopicPartition(topic, partition)
            for topic in sorted(self._counts, key=lambda each: (len(self._candidates[each]), each))
            for partition in range(self._counts[topic])
        ]
        is_first = self._line[-1][0] == 0
        free = [each for each in everything if each not in self._owner]
        for partition in free:
            self._give(partition)
        fixed = [each for each in self._topics if not self._can_change(each)]
        for member_id in fixed:
            self._line.remove((len(self.assignment[member_id]), member_id))
        before = {member_id: list(partitions) for member_id, partitions in self.assignment.items()}
        if not self._line:
            return
        if not self._must_revoke:
            self._move_while_uneven([each for each in free if self._is_contested(each.topic)])
        has_moved = self._move_while_uneven([each for each in everything if self._is_contested(each.topic)])
        moving = [each for each in self._topics if each not in fixed]
        if not is_first and has_moved and _unevenness(self.assignment, moving) >= _unevenness(before, moving):
            self.assignment = before

    def _give(self, partition: TopicPartition) -> None:
        """Give a partition to the subscribed member with the fewest."""
        for count, member_id in self._line:
            if partition.topic in self._topics[member_id]:
                self._line.remove((count, member_id))
                self.assignment[member_id].append(partition)
                self._owner[partition] = member_id
                insort(self._line, (count + 1, member_id))
                return

    def _is_contested(self, topic: str) -> bool:
        return len(self._candidates[topic]) >= 2

    def _most(self, member_id: str) -> int:
        return sum(self._counts[topic] for topic in self._topics[member_id])

    def _can_change(self, member_id: str) -> bool:
        """Whether a member could get more, or has something that another could get."""
        partitions = self.assignment[member_id]
        return len(partitions) < self._most(member_id) or any(
            self._is_contested(each.topic) for each in partitions
        )

    def _is_even(self) -> bool:
        """Whether no move could make it more even."""
        if self._line[0][0] >= self._line[-1][0] - 1:
            return True
        largest: dict[str, int] = defaultdict(int)  # by topic: how much the fullest of its owners has
        for partition, owner in self._owner.items():
            largest[partition.topic] = max(largest[partition.topic], len(self.assignment[owner]))
        return not any(
            largest[topic] > count + 1
            for count, member_id in self._line
            if count != self._most(member_id)
            for topic in self._topics[member_id]
        )

    def _move_while_uneven(self, movable: Sequence[TopicPartition]) -> bool:
        has_moved, goes_on = False, True
        while goes_on:
            goes_on = False
            for partition in movable:
                if self._is_even():
                    break
                receiver = self._better_owner(partition)
                if receiver is not None:
                    self._move(self._moves.instead_of(partition, self._owner[partition], receiver), receiver)
                    has_moved = goes_on = True
        return has_moved

    def _better_owner(self, partition: TopicPartition) -> str | None:
        """The member that should have the partition instead: its former owner, or the one with the fewest."""
        count = len(self.assignment[self._owner[partition]])
        before = self._older.get(partition)
        wants = before is not None and partition.topic in self._topics.get(before, ())
        if before is not None and wants and count > len(self.assignment[before]) + 1:
            return before
        if any(count > len(self.assignment[each]) + 1 for each in self._candidates[partition.topic]):
            return next(each for _, each in self._line if partition.topic in self._topics[each])
        return None

    def _move(self, partition: TopicPartition, receiver: str) -> None:
        giver = self._owner[partition]
        self._moves.moved(partition, giver, receiver)
        for member_id in {giver, receiver}:
            place = bisect_left(self._line, (len(self.assignment[member_id]), member_id))
            del self._line[place]
        self.assignment[giver].remove(partition)
        self.assignment[receiver].append(partition)
        self._owner[partition] = receiver
        for member_id in {giver, receiver}:
            insort(self._line, (len(self.assignment[member_id]), member_id))


class _Moves:
    """The moves so far, so that two partitions of a topic are not swapped where one could have stayed."""

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, tuple[str, str]] = {}
        self._by_topic: dict[str, dict[tuple[str, str], list[TopicPartition]]] = {}

    def instead_of(self, partition: TopicPartition, giver: str, receiver: str) -> TopicPartition:
        """The partition that should move: one that came the other way, if there is one."""
        moves = self._by_topic.get(partition.topic)
        if not moves:
            return partition
        giver = self._by_partition.get(partition, (giver, ""))[0]
        back = moves.get((receiver, giver))
        return in_hash_order(back, partition_hash)[0] if back else partition

    def moved(self, partition: TopicPartition, giver: str, receiver: str) -> None:
        earlier = self._by_partition.pop(partition, None)
        moves = self._by_topic.setdefault(partition.topic, {})
        if earlier is not None:
            moves[earlier].remove(partition)
            if not moves[earlier]:
                del moves[earlier]
            giver = earlier[0]
            if giver == receiver:
                return  # it is back
        self._by_partition[partition] = (giver, receiver)
        moves.setdefault((giver, receiver), []).append(partition)


def _unevenness(assignment: Assignment, members: Sequence[str]) -> int:
    """The differences between all pairs of members."""
    sizes = sorted(len(assignment[each]) for each in members)
    return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))
