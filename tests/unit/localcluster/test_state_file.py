from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.localcluster.state import BrokerState, ClusterError, ClusterState, Condition, SupervisorState
from ottla.localcluster.state_file import lock, read_state, write_state

THREE = ClusterState(
    "c",
    "127.0.0.1",
    (1, 2, 3),
    tuple(BrokerState(number, 9091 + number, 9091 + number, "a", Condition.RUNNING) for number in (1, 2, 3)),
    {"num.partitions": "3"},
)


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
