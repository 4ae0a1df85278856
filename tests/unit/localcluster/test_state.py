from __future__ import annotations

from pathlib import Path

import pytest

from ottla.localcluster.state import (
    BrokerState,
    ClusterError,
    ClusterState,
    Condition,
    numbers,
    quorum_sentence,
)


def cluster_of(*conditions: Condition, voters: tuple[int, ...] = (1, 2, 3)) -> ClusterState:
    brokers = [
        BrokerState(number, 9091 + number, 9091 + number, "a", condition)
        for number, condition in enumerate(conditions, 1)
    ]
    return ClusterState("c", "127.0.0.1", voters, tuple(brokers), {"num.partitions": "3"})


THREE = cluster_of(Condition.RUNNING, Condition.RUNNING, Condition.RUNNING)


def test_a_broker_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ClusterError, match="no broker 9: it has 1, 2, 3"):
        THREE.broker(9)


def test_brokers_stand_in_the_order_of_their_ids() -> None:
    grown = THREE.without_broker(2).with_broker(BrokerState(4, 1, 1)).with_broker(BrokerState(2, 2, 2))
    assert [each.node_id for each in grown.brokers] == [1, 2, 3, 4]
    assert THREE.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"


def test_clients_are_sent_to_the_brokers_that_serve() -> None:
    state = cluster_of(Condition.KILLED, Condition.RUNNING, Condition.STARTING)
    assert state.bootstrap_at_work == "127.0.0.1:9093"
    assert cluster_of(Condition.KILLED).bootstrap_at_work is None


@pytest.mark.parametrize(
    ("conditions", "missing"),
    [
        ((Condition.RUNNING, Condition.KILLED, Condition.STARTING), []),
        ((Condition.RUNNING, Condition.KILLED, Condition.PAUSED), [2, 3]),
        ((Condition.STOPPED, Condition.DIED, Condition.RUNNING), [1, 2]),
    ],
)
def test_a_quorum_is_a_majority_of_voters_at_work(
    conditions: tuple[Condition, ...], missing: list[int]
) -> None:
    state = cluster_of(*conditions, Condition.RUNNING)
    assert state.has_quorum == (not missing)
    if missing:
        assert state.missing_voters == missing


def test_a_lost_quorum_is_told_with_who_is_missing_and_what_to_do(tmp_path: Path) -> None:
    lost = cluster_of(Condition.RUNNING, Condition.PAUSED, Condition.KILLED)
    sentence = quorum_sentence(lost, tmp_path)
    assert sentence is not None
    assert "voters 2 and 3 are not at work, and 2 of 3 must be" in sentence
    assert sentence.endswith(f"ottla cluster resume 2 --data {tmp_path}")
    assert quorum_sentence(THREE, tmp_path) is None


def test_numbers_are_joined_as_people_do() -> None:
    assert [numbers([]), numbers([1]), numbers([1, 2]), numbers([1, 2, 3])] == [
        "none",
        "1",
        "1 and 2",
        "1, 2 and 3",
    ]
