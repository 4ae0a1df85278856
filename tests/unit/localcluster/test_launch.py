from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.localcluster.launch import claim, launch
from ottla.localcluster.plan.cluster import ClusterOptions
from ottla.localcluster.process_identity import process_started
from ottla.localcluster.state import ClusterError, SupervisorState
from ottla.localcluster.state_file import lock, read_state, write_state

ONE = ClusterOptions(brokers=1, port=0)


def test_a_claim_writes_the_plan_and_holds_the_lock(tmp_path: Path) -> None:
    with claim(tmp_path / "c", ONE) as claimed:
        assert read_state(tmp_path / "c") == claimed.state
        assert lock(tmp_path / "c") is None
        with claim(tmp_path / "other", ONE) as other:
            assert other.state.cluster_id != claimed.state.cluster_id
    again = lock(tmp_path / "c")
    assert again is not None
    again.close()


def test_a_directory_whose_lock_is_held_belongs_to_a_cluster_that_runs(tmp_path: Path) -> None:
    with claim(tmp_path, ONE) as claimed:
        write_state(tmp_path, replace(claimed.state, supervisor=SupervisorState(71, 1, "t")))
        with pytest.raises(ClusterError, match=r"a cluster that runs \(supervisor: process 71\)"):
            launch(tmp_path, ONE)


def test_brokers_that_a_killed_supervisor_left_must_be_ended_first(tmp_path: Path) -> None:
    with claim(tmp_path, ONE) as claimed:
        (broker,) = claimed.state.brokers
    left = replace(broker, pid=os.getpid(), process_started=process_started(os.getpid()))
    write_state(tmp_path, claimed.state.with_broker(left))
    with pytest.raises(ClusterError, match="its brokers 1 still run"), claim(tmp_path, ONE):
        pass


def test_a_cluster_that_cannot_start_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    options = replace(ONE, settings={"num.partitions": "many"})
    with pytest.raises(ClusterError, match=r"did not start: Broker 1 ended with exit status 2\.") as refused:
        launch(tmp_path, options)
    assert "num.partitions cannot be 'many'" in str(refused.value)
    state = read_state(tmp_path)
    assert state is not None
    assert not any(each.condition.has_process for each in state.brokers)
