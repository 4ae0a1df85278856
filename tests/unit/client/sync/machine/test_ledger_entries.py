"""The ledger of writers whose transactions are committed one by one: which entry counts (PIPE-3)."""

from __future__ import annotations

import pytest

from ottla.client.requests.group_commit import MemberTransaction, Progress
from ottla.client.sync.machine.ledger_entries import Entry, LedgerReading, Participant, Written, parsed
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.batch import BatchView
from ottla.records.builder import build_batch
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.record import Record

NAME = "ottla-sink-mill"
MINE, OTHER = 1, 2  # producer ids
OPEN = (
    Participant(
        MemberTransaction("ottla-sink-mill/0.0/3", 7, 2),
        {TopicPartition("flour", 1): Written(10, 4), TopicPartition("bran", 0): Written(0, 1)},
    ),
    Participant(
        MemberTransaction("ottla-sink-mill/1.0/0", 8, 0), {TopicPartition("flour", 0): Written(3, 2)}
    ),
)


def entry(number: int, *, is_open: bool = False) -> Entry:
    return Entry(Progress(number, "query"), OPEN if is_open else ())


def note(
    value: Entry | None, producer_id: int = MINE, key: str = NAME, *, is_transactional: bool = True
) -> BatchView:
    encoded = None if value is None else value.encoded()
    return BatchView(
        build_batch(
            [Record(0, 0, key.encode(), encoded)],
            producer_id=producer_id if is_transactional else -1,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
    )


def end(producer_id: int = MINE, *, is_commit: bool = True) -> BatchView:
    made = EndTransactionMarker(is_commit, 0)
    return BatchView(build_marker(made, producer_id=producer_id, producer_epoch=1, timestamp=0))


def read(*batches: BatchView) -> LedgerReading:
    reading = LedgerReading(NAME)
    for each in batches:
        reading.take(each)
    return reading


@pytest.mark.parametrize("is_open", [False, True])
def test_an_entry_is_read_as_it_was_written(is_open: bool) -> None:
    assert parsed(entry(7, is_open=is_open).encoded()) == entry(7, is_open=is_open)


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b'{"version":1,"batch":"x","owner":"","open":[]}'])
def test_an_entry_that_makes_no_sense_is_refused(value: bytes) -> None:
    with pytest.raises(KafkaError, match="cannot be read") as refused:
        parsed(value)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_an_entry_of_a_later_version_is_refused_in_words() -> None:
    with pytest.raises(KafkaError, match="a newer version of Ottla has written"):
        parsed(b'{"version":2}')


def test_the_last_committed_entry_counts() -> None:
    reading = read(note(entry(1)), end(), note(entry(2, is_open=True)), end())
    assert (reading.entry, reading.is_settled) == (entry(2, is_open=True), True)


def test_an_aborted_entry_does_not_count() -> None:
    reading = read(note(entry(1)), end(), note(entry(2)), end(is_commit=False))
    assert (reading.entry, reading.is_settled) == (entry(1), True)


def test_a_later_batch_without_a_marker_is_undecided() -> None:
    for earlier in ((), (note(entry(1)), end())):
        assert not read(*earlier, note(entry(2))).is_settled


def test_a_note_without_a_marker_about_the_batch_that_counts_decides_nothing() -> None:
    reading = read(note(entry(2, is_open=True)), end(), note(entry(2)))
    assert (reading.entry, reading.is_settled) == (entry(2, is_open=True), True)


def test_other_writers_are_not_concerned() -> None:
    reading = read(
        note(entry(9), OTHER, "another"), note(entry(1)), end(), note(entry(5), OTHER, "another"), end(OTHER)
    )
    assert (reading.entry, reading.is_settled) == (entry(1), True)
    waiting = read(note(entry(1)), end(), note(entry(5), OTHER, "another"))
    assert waiting.is_settled


def test_a_marker_whose_entry_lies_before_what_is_read_says_nothing() -> None:
    assert read(end(), end(OTHER)).entry is None


def test_an_operator_takes_an_entry_back() -> None:
    assert read(note(entry(1)), end(), note(None, is_transactional=False)).entry is None
    reading = read(note(entry(1)), end(), note(None))
    assert (reading.entry, reading.is_settled) == (entry(1), False)
    assert read(note(entry(1)), end(), note(None), end()).entry is None
