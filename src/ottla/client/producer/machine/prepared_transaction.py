"""A prepared transaction, as an application stores it beside its own decision (KIP-939)."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.producer.machine.idempotence import ProducerIdentity


class PreparedTransaction(NamedTuple):
    """The producer id and epoch under which a prepared transaction was written: no other transaction of the same
    transactional id has both.

    `str` gives the text that an application stores, such as `4711:3`, in the format of Kafka's PreparedTxnState.
    """

    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.producer_epoch}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """The transaction that `str` was made of. Raises ValueError with a sentence."""
        producer_id, _, epoch = text.partition(":")
        if not (producer_id.isdecimal() and epoch.isdecimal()):
            raise ValueError(f'"{text}" is not a prepared transaction: write PRODUCER_ID:EPOCH')
        return cls(int(producer_id), int(epoch))


def prepared_under(identity: ProducerIdentity) -> PreparedTransaction:
    """The transaction that a producer wrote under an identity."""
    return PreparedTransaction(identity.producer_id, identity.epoch)


def decided(stored: PreparedTransaction | str | None) -> PreparedTransaction | None:
    """What an application has stored as committed, None if nothing. Raises TypeError or ValueError."""
    if stored is None or isinstance(stored, PreparedTransaction):
        return stored
    if not isinstance(stored, str):
        raise TypeError(f"stored must be a PreparedTransaction, its text, or None, not {stored!r}")
    try:
        return PreparedTransaction.parse(stored)
    except ValueError as error:
        raise ValueError(f"stored cannot be read: {error}") from None
