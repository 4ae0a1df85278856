"""How a leader leaves its partition to another member. (The reasons are tested in test_partition.py.)"""

import pytest

from ottla.replication.isolation import StepDown, step_down
from ottla.replication.isr import ProposeIsr


@pytest.mark.parametrize(
    ("isr", "effect"),
    [
        ((1, 2, 3), StepDown(ProposeIsr((2, 3), (-1, -1), 4, 9))),
        ((3, 1), StepDown(ProposeIsr((3,), (-1,), 4, 9))),
        ((1,), None),
        ((), None),
    ],
)
def test_a_leader_steps_down_only_where_another_member_could_lead(
    isr: tuple[int, ...], effect: StepDown | None
) -> None:
    assert step_down(1, isr, leader_epoch=4, partition_epoch=9) == effect
