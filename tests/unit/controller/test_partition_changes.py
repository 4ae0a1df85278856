"""Leaders, in-sync replicas and the end of a move: the rules as tables (CTL-3, REP-7)."""

from dataclasses import replace
from uuid import UUID

import pytest

from ottla.controller.delta import changed_partition
from ottla.controller.image import PartitionImage, TopicImage
from ottla.controller.partition_changes import change_record, elected, finished, uncleanly_elected
from ottla.model import NO_LEADER

TOPIC = TopicImage("a", UUID(int=1000))


def partition(replicas: str, isr: str, leader: int, adding: str = "", removing: str = "") -> PartitionImage:
    """Brokers as digits: "123"."""

    def ids(digits: str) -> tuple[int, ...]:
        return tuple(map(int, digits))

    return PartitionImage(0, ids(replicas), ids(isr), leader, 4, 7, ids(removing), ids(adding))


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "eligible", "new_isr", "new_leader"),
    [
        ("123", "123", 1, {1, 2, 3}, "123", 1),
        ("123", "123", 2, {1, 2, 3}, "123", 2),  # the leader stays, though another is preferred
        ("123", "123", 1, {2, 3}, "23", 2),
        ("123", "321", 1, {2, 3}, "32", 2),  # the order of the replicas decides
        ("123", "13", 1, {2, 3}, "3", 3),
        ("123", "1", 1, {2, 3}, "1", NO_LEADER),
        ("123", "12", NO_LEADER, {2}, "2", 2),
        ("123", "12", 1, set(), "12", NO_LEADER),
    ],
)
def test_the_leader_is_the_first_in_sync_that_can_lead(
    replicas: str, isr: str, leader: int, eligible: set[int], new_isr: str, new_leader: int
) -> None:
    after = elected(partition(replicas, isr, leader), eligible)
    assert after == replace(partition(replicas, new_isr, new_leader), replicas=tuple(map(int, replicas)))


def test_an_unclean_leader_is_in_sync_with_itself_only() -> None:
    lost = partition("123", "1", NO_LEADER)
    assert uncleanly_elected(lost, {2, 3}) == replace(partition("123", "2", 2), is_recovering=True)
    assert uncleanly_elected(lost, {4}) is None


@pytest.mark.parametrize(
    ("moving", "eligible", "expected"),
    [
        # not moving, nothing added in sync yet, one of two in sync
        (partition("123", "1", 1), {1, 2, 3}, None),
        (partition("3412", "12", 1, "34", "12"), {1, 2, 3, 4}, None),
        (partition("3412", "123", 1, "34", "12"), {1, 2, 3, 4}, None),
        # all added are in sync: the removed go, and leadership with them
        (partition("3412", "1234", 1, "34", "12"), {1, 2, 3, 4}, partition("34", "34", 3)),
        (partition("231", "123", 2, "3", "1"), {1, 2, 3}, partition("23", "23", 2)),
        # a replica that stays may lag: the move is not about it
        (partition("231", "13", 1, "3", "1"), {1, 3}, partition("23", "3", 3)),
        # only removing: at once, if a replica in sync is left
        (partition("123", "123", 3, "", "3"), {1, 2, 3}, partition("12", "12", 1)),
        (partition("123", "3", 3, "", "3"), {1, 2, 3}, None),
        # only adding
        (partition("123", "123", 1, "3", ""), {1, 2, 3}, partition("123", "123", 1)),
        # none of the replicas that would be left can lead
        (partition("21", "12", 1, "2", "1"), {1}, None),
    ],
)
def test_a_move_is_finished_when_all_that_was_added_is_in_sync(
    moving: PartitionImage, eligible: set[int], expected: PartitionImage | None
) -> None:
    assert finished(moving, eligible, min_isr=1) == (expected or moving)


@pytest.mark.parametrize(
    ("moving", "is_finished"),
    [
        # a removed replica may hold what was committed with it, until another one that stays is in sync
        (partition("231", "13", 3, "3", "1"), False),
        (partition("231", "123", 3, "3", "1"), True),
        (partition("21", "12", 2, "2", "1"), True),  # one replica will be all there is
    ],
)
def test_a_move_waits_for_as_many_in_sync_as_the_topic_asks_for(
    moving: PartitionImage, is_finished: bool
) -> None:
    assert finished(moving, {1, 2, 3}, min_isr=2).is_moving is not is_finished


@pytest.mark.parametrize(
    ("before", "after", "renews_leader", "epochs"),
    [
        (partition("123", "123", 1), partition("123", "12", 1), False, (4, 8)),
        (partition("123", "123", 1), partition("123", "123", 2), False, (5, 8)),
        (partition("123", "1", 1), partition("123", "1", NO_LEADER), False, (5, 8)),
        (partition("123", "1", 1), partition("123", "1", 1), True, (5, 8)),
        (partition("123", "1", 1), partition("123", "1", 1), False, (4, 8)),
        (partition("12", "12", 1), partition("1234", "12", 1, "34"), False, (4, 8)),
        (partition("123", "12", 1, "", "3"), partition("12", "12", 1), False, (5, 8)),  # replicas go
    ],
)
def test_a_record_makes_one_out_of_the_other_and_raises_the_epochs(
    before: PartitionImage, after: PartitionImage, renews_leader: bool, epochs: tuple[int, int]
) -> None:
    record = change_record(TOPIC, before, after, renews_leader=renews_leader)
    changed = changed_partition(before, record)
    assert changed == replace(after, leader_epoch=epochs[0], partition_epoch=epochs[1])
