"""Markers that a broker writes into the partitions that it leads (EOS-1)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.server.group_shards import Hosted, wall_ms

from ottla.errors import ErrorCode, KafkaError
from ottla.records.control import TransactionMarker
from ottla.runtime.threads import OsThreads
from ottla.server.coordinators.marker_writer import MarkerWriter
from ottla.server.partitions.flushing import Flusher

MARKER = TransactionMarker(7, 1, 0, True, 2)


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path)
    yield made
    made.close()


def writer_of(hosted: Hosted) -> MarkerWriter:
    def found(topic: str, index: int) -> Any:
        if topic == "gone":
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return hosted.partition

    partitions: Any = SimpleNamespace(by_name=found)
    nobody: Any = SimpleNamespace()
    return MarkerWriter(partitions, nobody, Flusher(OsThreads()), wall_ms)


def test_a_marker_is_written_when_the_replicas_have_it_and_not_before(hosted: Hosted) -> None:
    async def scenario() -> None:
        hosted.hold_watermark()
        written = writer_of(hosted).write("t", 0, MARKER)
        await asyncio.sleep(0)
        assert hosted.partition.log.log_end_offset == 1
        assert not written.done()
        hosted.release_watermark()
        assert await asyncio.wait_for(written, 20) is ErrorCode.NONE

    asyncio.run(scenario())


def test_a_marker_that_a_partition_refuses_is_answered_with_its_error(hosted: Hosted) -> None:
    async def scenario() -> None:
        writer = writer_of(hosted)
        assert await writer.write("gone", 0, MARKER) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await writer.write("t", 0, MARKER) is ErrorCode.NONE
        older = dataclasses.replace(MARKER, producer_epoch=0)
        assert await writer.write("t", 0, older) is ErrorCode.INVALID_PRODUCER_EPOCH

    asyncio.run(scenario())
