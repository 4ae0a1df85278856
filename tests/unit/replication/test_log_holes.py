"""A replica's decisions about records that a crash took from the middle of its log."""

import pytest

from ottla.replication.log_holes import AcceptHole, HoleFound, TruncateTo, settle_hole


@pytest.mark.parametrize(
    ("hole", "effects"),
    [
        (HoleFound(5, leader=2, replicas=(1, 2)), [TruncateTo(5)]),
        (HoleFound(5, leader=2, replicas=(2,)), [TruncateTo(5)]),
        (HoleFound(5, leader=1, replicas=(1, 2)), [TruncateTo(5)]),
        (HoleFound(5, leader=1, replicas=(1,), acks_are_durable=True), [TruncateTo(5)]),
        (HoleFound(5, leader=1, replicas=(1,)), [AcceptHole()]),
        (HoleFound(5, leader=-1, replicas=(1, 2)), []),
    ],
)
def test_what_the_replica_on_node_1_does_about_a_hole(hole: HoleFound, effects: list[object]) -> None:
    assert settle_hole(hole, node_id=1) == effects
