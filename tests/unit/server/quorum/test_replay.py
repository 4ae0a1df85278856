"""Committed metadata becomes an image, and each change of the image is carried out once, after the one before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from tests.unit.server.metadata import NOW_MS, eventually, metadata_log, opened

from ottla.config import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.image import ClusterImage
from ottla.controller.records import TopicRecord
from ottla.server.quorum.replay import MetadataReplay
from ottla.server.quorum.snapshot_writer import SnapshotWriter

EPOCH = 1


class Scene:
    """A log of three records, its replay, and changes that are carried out when the test lets them."""

    def __init__(self, path: Path) -> None:
        self.directory = opened(path)
        self.log = metadata_log(self.directory)
        for number in range(3):
            self.log.append([TopicRecord(name=f"t{number}", topic_id=UUID(int=number + 1))], EPOCH)
        controller = Controller(1, "cluster", BrokerConfig(), lambda: UUID(int=9))
        writer = SnapshotWriter(self.log, 1 << 30, lambda: NOW_MS)
        self.replay = MetadataReplay(self.log, controller, writer, self._on_image)
        self.changes: list[tuple[int, int]] = []
        self.may_carry_out = asyncio.Event()
        self.failures: list[str] = []

    async def _on_image(self, before: ClusterImage, after: ClusterImage) -> None:
        self.changes.append((before.last_offset, after.last_offset))
        await self.may_carry_out.wait()


@asynccontextmanager
async def replaying(path: Path) -> AsyncIterator[Scene]:
    scene = Scene(path)
    scene.replay.start(scene.failures.append)
    scene.replay.deliver(scene.replay.image)
    try:
        yield scene
    finally:
        await scene.replay.stop()
        scene.directory.close()


def test_what_is_not_committed_is_not_replayed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replaying(tmp_path) as scene:
            scene.may_carry_out.set()
            scene.replay.committed(1)
            await eventually(lambda: scene.replay.delivered.value == 1, "the first record is carried out")
            assert list(scene.replay.image.topics_by_name) == ["t0"]

    asyncio.run(scenario())


def test_what_is_committed_while_a_change_is_carried_out_comes_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replaying(tmp_path) as scene:
            scene.replay.committed(1)
            await eventually(lambda: scene.changes == [(-1, 0)], "the first change is under way")
            scene.replay.committed(3)
            await eventually(lambda: scene.replay.replayed.value == 3, "everything is replayed")
            assert scene.changes == [(-1, 0)]
            scene.may_carry_out.set()
            await eventually(lambda: scene.replay.delivered.value == 3, "everything is carried out")
            assert scene.changes == [(-1, 0), (0, 2)]
            assert not scene.failures

    asyncio.run(scenario())
