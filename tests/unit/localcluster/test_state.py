from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.localcluster.state import (
    BrokerState,
    ClusterError,
    ClusterState,
    Condition,
    SupervisorState,
    is_alive,
    lock,
    numbers,
    process_started,
    quorum_sentence,
    read_state,
    write_state,
)


def cluster_of(*conditions: Condition, voters: tuple[int, ...] = (1, 2, 3)) -> ClusterState:
    brokers = [
        BrokerState(number, 9091 + number, 9091 + number, "a", condition)
        for number, condition in enumerate(conditions, 1)
    ]
    return ClusterState("c", "127.0.0.1", voters, tuple(brokers), {"num.partitions": "3"})


THREE = cluster_of(Condition.RUNNING, Condition.RUNNING, Condition.RUNNING)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    broker = BrokerState(4, 9095, 29095, None, Condition.DIED, exit_status=-9)
    state = replace(THREE.with_broker(broker), has_proxy=True, supervisor=SupervisorState(7, 8, "t"))
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    write_state(tmp_path, THREE)
    assert stat.S_IMODE((tmp_path / "cluster.json").stat().st_mode) == 0o600


def test_where_nothing_was_written_there_is_no_cluster(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    assert read_state(tmp_path / "nowhere") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1}', "null"])
def test_a_file_that_is_no_cluster_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(ClusterError, match=r"cluster\.json cannot be read"):
        read_state(tmp_path)


def test_only_one_can_have_the_lock(tmp_path: Path) -> None:
    first = lock(tmp_path / "new")
    assert first is not None
    assert lock(tmp_path / "new") is None
    first.close()
    again = lock(tmp_path / "new")
    assert again is not None
    again.close()


def test_a_broker_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ClusterError, match="no broker 9: it has 1, 2, 3"):
        THREE.broker(9)


def test_brokers_stand_in_the_order_of_their_ids() -> None:
    grown = THREE.without_broker(2).with_broker(BrokerState(4, 1, 1)).with_broker(BrokerState(2, 2, 2))
    assert [each.node_id for each in grown.brokers] == [1, 2, 3, 4]
    assert THREE.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"


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


def test_a_process_is_known_by_its_number_and_its_beginning() -> None:
    own = BrokerState(1, 1, 1, pid=os.getpid(), process_started=process_started(os.getpid()))
    assert is_alive(own)
    assert not is_alive(replace(own, process_started="long ago"))
    assert not is_alive(replace(own, pid=None))


def test_a_process_that_ended_is_not_alive_even_before_its_parent_looked() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE)
    broker = BrokerState(1, 1, 1, pid=process.pid, process_started=process_started(process.pid))
    assert process.stdout is not None
    assert process.stdout.read() == b""  # its end
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(broker)
    process.wait()
    process.stdout.close()
    assert not is_alive(broker)
