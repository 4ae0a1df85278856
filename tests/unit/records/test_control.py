"""Control batches and the markers that end transactions."""

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER
from aiokafka.record.control_record import ControlRecord as AiokafkaControlRecord
from tests.unit.records.other_clients import KafkaPythonBatch

from ottla.records.batch import BatchView, CorruptRecord
from ottla.records.builder import build_batch
from ottla.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_marker,
    control_key,
    control_type_of,
    marker_of,
    read_marker,
)
from ottla.records.record import Record


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_is_one_control_record_of_its_producer(is_commit: bool) -> None:
    marker = EndTransactionMarker(is_commit, coordinator_epoch=12)
    data = build_marker(marker, producer_id=7, producer_epoch=3, timestamp=99, base_offset=40)
    batch = BatchView(data)
    assert batch.attributes == 0x30
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, -1)
    assert (batch.base_offset, batch.last_offset, batch.records_count) == (40, 40, 1)
    assert batch.crc_is_valid()
    assert marker_of(batch) == marker


def test_other_clients_see_the_same_marker() -> None:
    commit = build_marker(EndTransactionMarker(True, 5), producer_id=1, producer_epoch=0, timestamp=0)
    abort = build_marker(EndTransactionMarker(False, 5), producer_id=1, producer_epoch=0, timestamp=0)
    for data, theirs in ((commit, COMMIT_MARKER), (abort, ABORT_MARKER)):
        (record,) = BatchView(data).records()
        assert record.key is not None
        assert AiokafkaControlRecord.parse(record.key) == theirs
    (seen,) = KafkaPythonBatch(bytes(commit))
    assert (seen.commit, seen.abort) == (True, False)


def test_a_control_record_that_ends_no_transaction_is_no_marker() -> None:
    leader_change = Record(0, 0, control_key(ControlRecordType.LEADER_CHANGE), b"\0\0")
    assert read_marker(leader_change) is None
    assert marker_of(BatchView(build_batch([leader_change], is_control=True))) is None


def test_a_type_from_the_future_is_a_number() -> None:
    assert control_type_of(b"\0\0\0\x63") == 99
    assert read_marker(Record(0, 0, b"\0\0\0\x63", None)) is None


def test_a_newer_version_of_the_key_is_read() -> None:
    assert control_type_of(b"\0\x05\0\x01more") is ControlRecordType.COMMIT


def test_a_batch_that_compaction_emptied_has_no_marker() -> None:
    data = build_batch([], last_offset_delta=0, is_control=True, is_transactional=True)
    assert marker_of(BatchView(data)) is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_damaged_key_is_corrupt(key: bytes | None) -> None:
    with pytest.raises(CorruptRecord, match="control record's key"):
        control_type_of(key)


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\1"])
def test_a_damaged_marker_is_corrupt(value: bytes | None) -> None:
    with pytest.raises(CorruptRecord, match="transaction marker's value"):
        read_marker(Record(0, 0, control_key(ControlRecordType.COMMIT), value))
