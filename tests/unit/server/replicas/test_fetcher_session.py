"""Which partitions a follower asks one leader for, without a network."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from ottla.config import BrokerConfig, TopicConfig
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.replication.events import Assigned
from ottla.replication.partition import PartitionReplica
from ottla.runtime.disk import OsDisk
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.replicas.fetcher_session import FetcherSession

NODE, LEADER, EPOCH = 2, 1, 5
KEY = (UUID(int=1), 0)


def followed(directory: Path) -> HostedPartition:
    """An empty replica of t-0 that follows node 1."""
    log = Log.open(
        OsDisk(),
        str(directory),
        TopicConfig(),
        recovery_point=0,
        log_start_offset=0,
        clean=True,
        now_ms=0,
        open_files=OpenFiles(),
    )
    partition = HostedPartition("t", KEY[0], KEY[1], log, PartitionReplica(NODE, 0))
    partition.assign(Assigned(LEADER, EPOCH, (LEADER, NODE), (LEADER, NODE)), 0)
    return partition


@pytest.fixture
def session() -> FetcherSession:
    return FetcherSession(BrokerConfig.from_properties({"node.id": str(NODE)}))


def test_a_partition_is_news_once_in_each_epoch(tmp_path: Path, session: FetcherSession) -> None:
    partition = followed(tmp_path / "t-0")
    assert session.follow(partition)
    assert not session.follow(partition)
    partition.assign(Assigned(LEADER, EPOCH + 1, (LEADER, NODE), (LEADER, NODE), 1), 0)
    assert session.follow(partition)


def test_a_partition_that_went_away_and_came_back_is_fetched_into_its_new_log(
    tmp_path: Path, session: FetcherSession
) -> None:
    session.follow(followed(tmp_path / "first"))
    again = followed(tmp_path / "second")
    assert session.follow(again)
    assert session.followed[KEY].partition is again
