"""A master that does not answer is reported before Spark starts."""

from __future__ import annotations

import socket

import pytest

from ottla.spark.pipelines.failures import PipelineError
from ottla.spark.pipelines.master import is_cluster, reach_master


def test_a_master_that_does_not_answer_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(
        PipelineError, match=f"^No Spark master answers at spark://{address}: connection refused.$"
    ):
        reach_master(f"spark://{address}")
    with pytest.raises(PipelineError, match="'a:b' is no HOST:PORT"):
        reach_master("spark://a:b")
    reach_master("local[2]")
    reach_master("yarn")  # has its address from Hadoop's files


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        reach_master(f"spark://no.such.host.invalid:7077,{address}")


@pytest.mark.parametrize(
    ("master", "there"), [(None, False), ("local[2]", False), ("spark://a:7077", True), ("yarn", True)]
)
def test_executors_must_come_where_there_is_a_cluster(master: str | None, there: bool) -> None:
    assert is_cluster(master) is there
