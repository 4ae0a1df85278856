"""A reader of committed records leaves out aborted transactions (EOS-2)."""

from __future__ import annotations

from ottla.protocol.messages.fetch import AbortedTransaction
from ottla.records.aborted_transactions import AbortedTransactions
from ottla.records.batch import BatchView
from ottla.records.builder import build_batch
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.record import Record


def data(offset: int, producer_id: int, *, is_transactional: bool = True) -> BatchView:
    return BatchView(
        build_batch(
            [Record(offset, 0, None, b"v")],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=is_transactional,
        )
    )


def marker(offset: int, producer_id: int, *, is_commit: bool) -> BatchView:
    made = EndTransactionMarker(is_commit, 0)
    return BatchView(
        build_marker(made, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset)
    )


def hidden(aborted: list[tuple[int, int]], *batches: BatchView) -> list[int]:
    """The offsets of batches that are left out, given (producer, first offset) of the aborted
    transactions.
    """
    transactions = AbortedTransactions([AbortedTransaction(*each) for each in aborted])
    return [batch.base_offset for batch in batches if transactions.hides(batch)]


def test_a_producers_batches_are_hidden_from_the_first_offset_to_its_abort_marker() -> None:
    assert hidden(
        [(1, 2)],
        data(0, 1),
        marker(1, 1, is_commit=True),
        data(2, 1),
        data(3, 1),
        marker(4, 1, is_commit=False),
        data(5, 1),
    ) == [2, 3, 4]


def test_others_are_not_concerned() -> None:
    assert hidden(
        [(1, 0)],
        data(0, 1),
        data(1, 2),
        data(2, 1, is_transactional=False),
        data(3, -1, is_transactional=False),
        marker(4, 1, is_commit=False),
        marker(5, 2, is_commit=True),
    ) == [0, 4]


def test_several_transactions_of_several_producers_in_any_order() -> None:
    assert hidden(
        [(2, 6), (1, 0), (1, 5)],
        data(0, 1),
        data(1, 2),
        marker(2, 1, is_commit=False),
        marker(3, 2, is_commit=True),
        data(4, 3),
        data(5, 1),
        data(6, 2),
        marker(7, 1, is_commit=False),
        data(8, 2),
        marker(9, 2, is_commit=False),
        data(10, 2),
    ) == [0, 2, 5, 6, 7, 8, 9]


def test_a_transaction_that_began_before_what_was_fetched_is_hidden_from_the_start() -> None:
    assert hidden([(1, 0)], data(7, 1), marker(8, 1, is_commit=False), data(9, 1)) == [7, 8]
