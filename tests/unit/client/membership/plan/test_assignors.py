from __future__ import annotations

from ottla.client.membership.plan.assignors import ASSIGNORS, is_cooperative
from ottla.client.requests.consumer_protocol import decode_generation, decode_previous
from ottla.model import TopicPartition

T0 = TopicPartition("t", 0)


def test_the_names_are_those_of_other_clients() -> None:
    assert list(ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]


def test_a_member_keeps_its_partitions_only_if_all_its_assignors_allow_that() -> None:
    assert is_cooperative(["cooperative-sticky"])
    assert not is_cooperative(["range", "cooperative-sticky"])
    assert not is_cooperative(["sticky"])


def test_each_assignor_is_told_what_it_needs() -> None:
    assert ASSIGNORS["range"].user_data([T0], 3) is None
    assert ASSIGNORS["sticky"].user_data([], -1) is None
    assert decode_previous(ASSIGNORS["sticky"].user_data([T0], 3)) == ((T0,), 3)
    assert decode_generation(ASSIGNORS["cooperative-sticky"].user_data([T0], 3)) == 3
