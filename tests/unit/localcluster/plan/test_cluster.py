from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.config import BrokerConfig
from ottla.localcluster.plan.cluster import (
    HTTP_SETTING,
    MEMORY_SETTING,
    ClusterOptions,
    broker_settings,
    plan_broker,
    plan_cluster,
    voter_count,
)
from ottla.localcluster.state import ClusterError, ClusterState, Condition


def free(count: int, taken: Sequence[int]) -> list[int]:
    """Ports from 20000 on, as if all were free but those."""
    return [port for port in range(20_000, 20_100) if port not in taken][:count]


def planned(former: ClusterState | None = None, **wanted: Any) -> ClusterState:
    return plan_cluster(former, ClusterOptions(**wanted), free, "new-id")


def test_a_new_cluster_has_three_brokers_from_kafkas_port_on() -> None:
    state = planned()
    assert [(each.node_id, each.port, each.advertised_port) for each in state.brokers] == [
        (1, 9092, 9092),
        (2, 9093, 9093),
        (3, 9094, 9094),
    ]
    assert state.voters == (1, 2, 3)
    assert state.host == "127.0.0.1"
    assert state.settings == {"default.replication.factor": "3", "min.insync.replicas": "2"}
    assert state.cluster_id == "new-id"


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 5), (6, 5), (32, 5)])
def test_three_vote_or_five_of_five(brokers: int, voters: int) -> None:
    assert voter_count(brokers) == voters
    assert planned(brokers=brokers).voters == tuple(range(1, voters + 1))


def test_one_broker_alone_replicates_nothing() -> None:
    assert planned(brokers=1).settings == {"default.replication.factor": "1", "min.insync.replicas": "1"}


def test_what_the_user_sets_comes_before_what_the_cluster_would() -> None:
    state = planned(settings={"min.insync.replicas": "3", "num.partitions": "8"})
    assert state.settings["min.insync.replicas"] == "3"
    assert state.settings["num.partitions"] == "8"


def test_a_cluster_in_memory_has_no_directories_and_takes_none_over() -> None:
    memory = {MEMORY_SETTING: "67108864"}
    state = planned(settings=memory)
    assert "log.dirs" not in broker_settings(Path("/data"), state, state.brokers[0])
    assert MEMORY_SETTING in planned(state, settings=memory).settings
    with pytest.raises(ClusterError, match="give a cluster in memory a directory of its own"):
        planned(planned(), settings=memory)


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ("localhost:9644", ["localhost:9644", "localhost:9645", "localhost:9646"]),
        ("[::1]:9644", ["[::1]:9644", "[::1]:9645", "[::1]:9646"]),
        ("localhost:0", ["localhost:0"] * 3),
        ("", [""] * 3),
    ],
)
def test_each_broker_has_an_http_port_of_its_own(given: str, addresses: list[str]) -> None:
    state = planned(settings={HTTP_SETTING: given})
    found = [broker_settings(Path("/data"), state, each)[HTTP_SETTING] for each in state.brokers]
    assert found == addresses


@pytest.mark.parametrize("name", ["node.id", "listeners", "controller.quorum.voters", "log.dirs"])
def test_what_each_broker_has_of_its_own_cannot_be_set_for_all(name: str) -> None:
    with pytest.raises(ClusterError, match=f"{name} cannot be set for all brokers"):
        planned(settings={name: "1"})


def test_with_port_zero_all_ports_are_free_ones() -> None:
    assert [each.port for each in planned(port=0).brokers] == [20_000, 20_001, 20_002]


def test_ports_end_at_65535() -> None:
    assert planned(port=65533).brokers[-1].port == 65535
    with pytest.raises(ClusterError, match="beyond 65535"):
        planned(port=65534)


def test_with_a_proxy_brokers_listen_elsewhere_than_they_are_reached() -> None:
    state = planned(port=9092, has_proxy=True)
    assert [each.advertised_port for each in state.brokers] == [9092, 9093, 9094]
    assert [each.port for each in state.brokers] == [20_000, 20_001, 20_002]


def test_racks_are_given_in_turn() -> None:
    assert [each.rack for each in planned(brokers=5, racks=["a", "b"]).brokers] == ["a", "b", "a", "b", "a"]


def test_a_cluster_comes_back_as_it_was() -> None:
    former = planned(port=0, racks=["a", "b", "c"], settings={"num.partitions": "8"})
    died = former.with_broker(replace(former.broker(2), condition=Condition.DIED, exit_status=1))
    assert planned(died) == former


def test_a_cluster_that_comes_back_may_get_new_settings_and_more_brokers() -> None:
    former = planned(port=9092, settings={"num.partitions": "8"})
    state = planned(former, brokers=5, settings={"num.partitions": "9"}, host="127.0.0.2")
    assert [each.node_id for each in state.brokers] == [1, 2, 3, 4, 5]
    assert [each.port for each in state.brokers] == [9092, 9093, 9094, 20_000, 20_001]
    assert state.voters == (1, 2, 3)
    assert (state.settings["num.partitions"], state.host) == ("9", "127.0.0.2")
    assert state.cluster_id == former.cluster_id


def test_a_cluster_does_not_come_back_with_fewer_brokers() -> None:
    with pytest.raises(ClusterError, match="has 3 brokers"):
        planned(planned(), brokers=2)


def test_a_broker_that_is_added_does_not_vote() -> None:
    state = planned(port=20_000)
    broker = plan_broker(state, "b", free)
    assert (broker.node_id, broker.port, broker.advertised_port, broker.rack) == (4, 20_003, 20_003, "b")
    settings = broker_settings(Path("/c"), state.with_broker(broker), broker)
    assert settings["process.roles"] == "broker"
    assert settings["broker.rack"] == "b"


def test_a_broker_that_is_added_behind_a_proxy_has_two_ports() -> None:
    broker = plan_broker(planned(port=9092, has_proxy=True), None, free)
    assert (broker.advertised_port, broker.port) == (20_003, 20_004)


def test_a_cluster_has_an_end() -> None:
    with pytest.raises(ClusterError, match="at most 32"):
        plan_broker(planned(brokers=32), None, free)


def test_every_broker_is_told_what_a_broker_must_know() -> None:
    state = planned(port=9092, has_proxy=True, settings={"num.partitions": "8"})
    for broker in state.brokers:
        config = BrokerConfig.from_properties(broker_settings(Path("/c"), state, broker))
        assert config.node.id == broker.node_id
        assert config.node.listener.port == broker.port
        assert config.node.advertised_listener.port == broker.advertised_port
        assert config.topics.num_partitions == 8
        assert config.logs.directory == f"/c/broker-{broker.node_id}"
    settings = broker_settings(Path("/c"), state, state.brokers[0])
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:9092,2@127.0.0.1:9093,3@127.0.0.1:9094"
    assert settings["ottla.cluster.id"] == state.cluster_id


def test_a_secured_cluster_has_a_listener_for_clients_and_one_for_brokers() -> None:
    state = planned(is_secure=True)
    settings = broker_settings(Path("/data"), state, state.brokers[1])
    assert settings["listeners"] == "SASL_SSL://127.0.0.1:9093,SSL://127.0.0.1:20001"
    voters = "1@127.0.0.1:20000,2@127.0.0.1:20001,3@127.0.0.1:20002"
    assert settings["controller.quorum.voters"] == voters
    assert settings["advertised.listeners"] == settings["listeners"]
    assert planned(state) == state, "it comes back secured, at the same ports"
    grown = planned(state, brokers=4)
    assert [each.inner_port for each in grown.brokers] == [20_000, 20_001, 20_002, 20_004]
    added = plan_broker(state, None, free)
    assert (added.port, added.inner_port) == (20_003, 20_004)


def test_a_cluster_can_be_secured_later() -> None:
    state = planned(planned(), is_secure=True)
    assert next((each.port, each.inner_port) for each in state.brokers) == (9092, 20_000)


def test_a_secured_cluster_with_a_proxy_has_a_door_for_clients_and_one_for_brokers() -> None:
    state = planned(is_secure=True, has_proxy=True)
    for broker in state.brokers:
        settings = broker_settings(Path("/data"), state, broker)
        own, reached = settings["listeners"], settings["advertised.listeners"]
        assert own == f"SASL_SSL://127.0.0.1:{broker.port},SSL://127.0.0.1:{broker.own_inner_port}"
        assert reached == f"SASL_SSL://127.0.0.1:{broker.advertised_port},SSL://127.0.0.1:{broker.inner_port}"
        assert f"{broker.node_id}@127.0.0.1:{broker.inner_port}" in settings["controller.quorum.voters"]
    added = plan_broker(state, None, free)
    ports = [port for each in (*state.brokers, added) for port in each.ports]
    assert len(ports) == len(set(ports)) == 16
