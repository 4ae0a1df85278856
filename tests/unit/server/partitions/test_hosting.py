"""What lies on disk follows the image, also what happened while the broker was down (STO-1)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from tests.integration.in_process import broker_thread
from tests.integration.replicas import reassignment, running, until

from ottla.config import BrokerConfig
from ottla.controller.image import ClusterImage
from ottla.log.directory import LogDirectory
from ottla.log.files.open_files import OpenFiles
from ottla.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from ottla.runtime.runtime import Runtime
from ottla.server.partitions.file_removal import Remover
from ottla.server.partitions.hosting import Hosting
from ottla.server.partitions.partition_table import Partitions

NODES = (1, 2, 3)


def test_a_replica_that_was_moved_away_while_the_broker_was_down_is_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", (1, 2))
            await cluster.create_topic("stays", (1, 2))
            await cluster.produce(b"a")
            await cluster.kill(2)
            await cluster.submit(reassignment("t", [1, 3]))
            await until(lambda: set(cluster.placed().replicas) == {1, 3}, "the move is complete")
            assert (tmp_path / "node-2" / "t-0").exists()
            node = await cluster.start_node(2)
            await until(lambda: not (tmp_path / "node-2" / "t-0").exists(), "it is removed")
            assert node.partitions.find("stays", 0) is not None

    asyncio.run(scenario())


def leave_a_log(directory: Path) -> Path:
    """A log of a topic that nobody knows."""
    log = directory / "ghost-0"
    log.mkdir(parents=True)
    (log / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAACQ\n")
    (log / "00000000000000000000.log").write_bytes(b"")
    return log


def test_a_node_that_is_alone_leaves_the_log_of_an_unknown_topic_alone(tmp_path: Path) -> None:
    """If it lost its metadata it must not throw the rest away with it."""
    log = leave_a_log(tmp_path)
    with broker_thread(tmp_path):
        assert log.exists()
    assert log.exists()


def test_a_topic_that_was_deleted_while_the_broker_was_down_is_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = leave_a_log(tmp_path / "node-1")
        async with running(tmp_path, 1):
            await until(lambda: not log.exists(), "it is removed")

    asyncio.run(scenario())


def test_a_topic_of_the_same_name_does_not_get_the_old_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", (1, 2))
            await cluster.produce(b"old")
            await cluster.kill(2)
            gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
            await cluster.submit(gone)
            await cluster.create_topic("t", (1, 2))
            await cluster.produce(b"new")
            node = await cluster.start_node(2)
            await cluster.until_isr(1, 2)
            assert node.values() == [b"new"]

    asyncio.run(scenario())


@contextmanager
def opened(config: BrokerConfig, image: ClusterImage) -> Iterator[tuple[Hosting, Partitions]]:
    """The directory of node 1, which is down, as its next process sees it; `image` knows the last one."""
    runtime = Runtime()
    directory = LogDirectory(runtime.disk, config.logs.directory, OpenFiles())
    directory.open(1, uuid4, image.cluster_id)
    partitions, remover = Partitions(lambda: image), Remover(runtime.threads)
    incarnation_id = image.brokers[1].incarnation_id
    yield (
        Hosting(config, directory, partitions, remover, runtime.clock.wall_ms, incarnation_id=incarnation_id),
        partitions,
    )
    remover.stop()
    for hosted in partitions:
        hosted.log.close(clean=False)
    directory.close(clean=False)


@pytest.mark.parametrize("is_damaged", [True, False])
@pytest.mark.parametrize("keeps_writes", [True, False])
def test_a_log_with_damage_before_whole_batches_counts_as_lost_also_after_a_loss_of_power(
    tmp_path: Path, keeps_writes: bool, is_damaged: bool
) -> None:
    """Story 377: all machines lost power, one disk had damaged records as well, and the others were truncated there.

    No checkpoint says yet what was committed.
    """

    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", (1, 2))
            for value in (b"a", b"b", b"c"):
                await cluster.produce(value)
            config = cluster.nodes[1].broker.config
            await cluster.kill(1)
            image = cluster.image
        segment = tmp_path / "node-1" / "t-0" / "00000000000000000000.log"
        data = bytearray(segment.read_bytes())
        if is_damaged:
            data[30] ^= 4
        else:
            del data[-1]  # a write that was not finished
        segment.write_bytes(data)
        with opened(config, image) as (hosting, partitions):
            hosting.open_all(image)
            lost = hosting.lost_replicas(keeps_writes=keeps_writes)
            assert lost == list(partitions) * is_damaged

    asyncio.run(scenario())


@pytest.mark.parametrize("is_created_again", [True, False])
def test_a_topic_that_is_deleted_while_the_broker_opens_its_logs_is_removed(
    tmp_path: Path, is_created_again: bool
) -> None:
    """Story 300361: the topic of the same name got the log of the deleted one."""

    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", (1, 2))
            await cluster.produce(b"old")
            config = cluster.nodes[1].broker.config
            await cluster.kill(1)
            before = cluster.image
            await cluster.submit(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
            if is_created_again:
                await cluster.create_topic("t", (1, 2))
            after = cluster.image
        with opened(config, after) as (hosting, partitions):
            hosting.open_all(before)
            await hosting.apply(ClusterImage(after.cluster_id), after)
            placed = [topic.topic_id for topic in after.topics_by_name.values()]
            assert [hosted.topic_id for hosted in partitions] == placed
            assert [hosted.log.log_end_offset for hosted in partitions] == [0] * is_created_again

    asyncio.run(scenario())


def test_a_broker_acts_on_no_image_from_before_its_start(tmp_path: Path) -> None:
    """Its log may have lost its tail since: who leads is said by an image that has this start's
    registration.
    """

    async def scenario() -> None:
        async with running(tmp_path, 1) as cluster:
            await cluster.create_topic("t", (1,))
            await cluster.produce(b"a")
            image, config = cluster.image, cluster.nodes[1].broker.config
            await cluster.kill(1)
        assert image.topics_by_name["t"].partitions[0].leader == 1
        runtime = Runtime()
        directory = LogDirectory(runtime.disk, config.logs.directory, OpenFiles())
        directory.open(1, uuid4, image.cluster_id)
        partitions, remover = Partitions(lambda: image), Remover(runtime.threads)
        hosting = Hosting(
            config, directory, partitions, remover, runtime.clock.wall_ms, incarnation_id=uuid4()
        )
        hosting.open_all(image)
        await hosting.apply(ClusterImage(image.cluster_id), image)
        (hosted,) = partitions
        assert hosted.log.log_end_offset == 1
        assert not hosted.replica.is_leader
        assert not hosting.is_active
        hosting.checkpoint()
        remover.stop()
        hosted.log.close(clean=False)
        directory.close(clean=False)

    asyncio.run(scenario())
    # The record was not flushed: the next start has to look at it again.
    recovery_points = (tmp_path / "node-1" / "recovery-point-offset-checkpoint").read_text()
    assert recovery_points.splitlines()[2:] == ["t 0 0"]
