import os
from itertools import product
from pathlib import Path
from uuid import UUID

import pytest

from ottla.errors import ErrorCode
from ottla.log.reading.reader import FileRange
from ottla.log.status import Status
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.frame import read_response, response_frame
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from ottla.records.index_entries import AbortedEntry
from ottla.runtime.disk import File, OsDisk
from ottla.server.answers.send_queue import Part
from ottla.server.apis.fetch_response import PartitionResult, fetch_response_parts

VERSIONS = range(APIS[ApiKey.FETCH].min_version, APIS[ApiKey.FETCH].max_version + 1)
IDS = (UUID(int=7), UUID(int=8))


@pytest.fixture
def file(tmp_path: Path) -> File:
    opened = OsDisk().open(str(tmp_path / "segment"), create=True)
    opened.append([os.urandom(100_000)])
    return opened


def results(file: File) -> list[PartitionResult]:
    found = PartitionResult(
        "orders", IDS[0], 0, ErrorCode.NONE, 9, 8, 1, FileRange(file, 100, 70_000, 9, Status("orders-0"))
    )
    empty = PartitionResult("orders", IDS[0], 1, ErrorCode.NONE, 5, 5, 0)
    small = PartitionResult(
        "payments", IDS[1], 3, ErrorCode.NONE, 2, 2, 0, FileRange(file, 0, 61, 2, Status("orders-0"))
    )
    gone = PartitionResult("payments", IDS[1], 4, ErrorCode.OFFSET_OUT_OF_RANGE)
    return [found, empty, small, gone]


def joined(parts: list[Part]) -> bytes:
    return b"".join(
        part.file.read(part.position, part.size) if isinstance(part, FileRange) else bytes(part)
        for part in parts
    )


def compiled(version: int, read_committed: bool, given: list[PartitionResult]) -> bytes:
    topics: dict[str, FetchableTopicResponse] = {}
    for result in given:
        topic = topics.setdefault(
            result.topic, FetchableTopicResponse(topic=result.topic, topic_id=result.topic_id)
        )
        found = result.records
        topic.partitions.append(
            PartitionData(
                partition_index=result.partition,
                error_code=result.error_code,
                high_watermark=result.high_watermark,
                last_stable_offset=result.last_stable_offset,
                log_start_offset=result.log_start_offset,
                aborted_transactions=[AbortedTransaction(*entry[:2]) for entry in result.aborted]
                if read_committed
                else None,
                records=memoryview(b"" if found is None else found.file.read(found.position, found.size)),
            )
        )
    response = FetchResponse(session_id=42, responses=list(topics.values()))
    if version < 7:
        response.session_id = 0
    return bytes(response_frame(17, ApiKey.FETCH, version, response))


@pytest.mark.parametrize(("version", "read_committed"), list(product(VERSIONS, (False, True))))
def test_the_hand_written_layout_equals_the_compiled_codec(
    version: int, read_committed: bool, file: File
) -> None:
    given = results(file)
    parts = fetch_response_parts(version, 17, 42, read_committed, given)
    assert joined(parts) == compiled(version, read_committed, given)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [1, 200])
def test_aborted_transactions_stand_in_the_layout(version: int, count: int, file: File) -> None:
    given = results(file)
    given[0].aborted = [AbortedEntry(number, number * 3, number * 3 + 1, 0) for number in range(count)]
    given[2].aborted = [AbortedEntry(1 << 40, 1 << 41, 1 << 42, 0)]
    parts = fetch_response_parts(version, 17, 42, True, given)
    assert joined(parts) == compiled(version, True, given)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_response_equals_the_compiled_codec(version: int) -> None:
    assert joined(fetch_response_parts(version, 17, 42, False, [])) == compiled(version, False, [])


def test_records_leave_as_ranges_of_the_file_not_as_bytes(file: File) -> None:
    parts = fetch_response_parts(12, 17, 0, False, results(file))
    assert [part.size for part in parts if isinstance(part, FileRange)] == [70_000, 61]


def test_a_diverging_epoch_is_told_without_an_error(file: File) -> None:
    diverging = PartitionResult("orders", IDS[0], 0, ErrorCode.NONE, 9, 9, 0)
    diverging.diverging_epoch, diverging.diverging_end_offset = 3, 6
    frame = joined(fetch_response_parts(12, 17, 0, False, [diverging, results(file)[1]]))
    _, response = read_response(ApiKey.FETCH, 12, memoryview(frame)[4:])
    first = response.responses[0].partitions[0]
    assert (first.diverging_epoch.epoch, first.diverging_epoch.end_offset) == (3, 6)
    assert first.error_code == 0
