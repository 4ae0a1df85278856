"""What `ottla topics describe` says about a partition that has no leader."""

import pytest

from ottla.cli.admin.topic_details import PartitionDetails, reason_without_leader

Ids = tuple[int, ...]


@pytest.mark.parametrize(
    ("leader", "isr", "offline", "words"),
    [
        (1, (1,), (2,), None),
        (None, (3,), (2, 3), "start broker 3."),
        (None, (), (2, 3), "start broker 2 or broker 3."),
        (None, (), (), "--election-type unclean --topic t --partition 7"),
    ],
)
def test_a_partition_without_a_leader_says_what_it_waits_for(
    leader: int | None, isr: Ids, offline: Ids, words: str | None
) -> None:
    partition = PartitionDetails(7, leader, 4, (1, 2, 3), isr, offline, None, None, None)
    reason = reason_without_leader("t", partition)
    assert (reason is None) == (words is None)
    assert words is None or (reason is not None and words in reason and reason.startswith("t-7 waits"))
