"""Producer state as a file, in Kafka's format (STO-2, PRO-4)."""

from struct import pack

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.producers.producer_snapshot import SnapshotError, parse_snapshot, render_snapshot
from ottla.log.producers.producer_state import Ending, Incoming, ProducedBatch, Producers, Staged
from ottla.records.control import EndTransactionMarker


def producers(*incoming: Incoming) -> Producers:
    found = Producers()
    staged = Staged(found)
    for each in incoming:
        staged.apply(each)
    staged.install()
    return found


def test_the_bytes_are_kafkas() -> None:
    state = producers(
        Incoming(7, 2, False, ProducedBatch(10, 14, 100, 104, 1234)),
        Incoming(8, 0, True, ProducedBatch(0, 0, 105, 105, 1235)),
    )
    body = pack(">i", 2)
    body += pack(">qhiqiqiq", 7, 2, 14, 104, 4, 1234, -1, -1)
    body += pack(">qhiqiqiq", 8, 0, 0, 105, 0, 1235, -1, 105)
    assert render_snapshot(state) == pack(">hI", 1, crc32c(body)) + body


def test_an_empty_state_is_a_valid_file() -> None:
    assert len(parse_snapshot(render_snapshot(Producers()))) == 0
    assert len(render_snapshot(Producers())) == 10


def test_only_the_last_batch_comes_back() -> None:
    state = producers(*(Incoming(7, 0, False, ProducedBatch(n, n, n, n, 5)) for n in range(4)))
    entry = parse_snapshot(render_snapshot(state)).get(7)
    assert entry is not None
    assert list(entry.batches) == [ProducedBatch(3, 3, 3, 3, 5)]
    assert entry.next_sequence == 4


def test_a_sequence_that_wrapped_comes_back() -> None:
    batch = ProducedBatch(2**31 - 2, 1, 50, 53, 5)
    entry = parse_snapshot(render_snapshot(producers(Incoming(7, 0, False, batch)))).get(7)
    assert entry is not None
    assert list(entry.batches) == [batch]


def test_a_producer_that_only_ended_a_transaction_comes_back() -> None:
    state = Producers()
    staged = Staged(state)
    staged.end_transaction(Ending(7, 3, EndTransactionMarker(True, 11), 0, 99))
    staged.install()
    entry = parse_snapshot(render_snapshot(state)).get(7)
    assert entry is not None
    assert (entry.epoch, entry.coordinator_epoch, entry.last_timestamp, len(entry.batches)) == (3, 11, 99, 0)


@given(st.binary(max_size=120))
def test_random_bytes_are_never_taken_for_a_snapshot(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        parse_snapshot(data)


@given(st.integers(0, 55), st.integers(0, 7))
def test_a_flipped_bit_is_noticed(position: int, bit: int) -> None:
    data = bytearray(render_snapshot(producers(Incoming(7, 0, False, ProducedBatch(0, 0, 0, 0, 5)))))
    data[position] ^= 1 << bit
    with pytest.raises(SnapshotError):
        parse_snapshot(bytes(data))
