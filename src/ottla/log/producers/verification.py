"""Transactions that are being verified: is a producer's transaction known to its coordinator? (KIP-890)

The first batch of a transaction must not be appended before its coordinator knows the partition, or nothing
would ever end the transaction here. The question takes time, and meanwhile the transaction may end: a marker is
written, and the answer is about the past. So a verification is an object. The append presents the object with
the batch, and is refused when another one, or none, is in force by then:

    begins    with the first batch of a producer that has no open transaction in the batch's epoch
    ends      with the first batch of a transaction, and with a marker; unless the marker has the epoch of the
              verification and each transaction has its own epoch: then the next transaction is being verified

While a verification is in force, a batch whose sequence is above the lowest one seen is refused: the producer has
sent an earlier batch, and sends it again.
"""

from ottla.log.producers.transactions import BegunTransaction, Turn


class Verification:
    """One question about one producer's transaction; several batches may wait for its answer."""

    __slots__ = ("began_ms", "bumps_epoch", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, *, bumps_epoch: bool, began_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.bumps_epoch = bumps_epoch  # whether each transaction of the producer has an epoch of its own
        self.began_ms = began_ms

    def note(self, epoch: int, sequence: int, *, bumps_epoch: bool) -> None:
        """Another batch waits for the answer."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence, self.bumps_epoch = epoch, sequence, bumps_epoch
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """The verifications of one log that are in force, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def get(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def begin(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epoch: bool, now_ms: int
    ) -> Verification:
        """The verification that a batch has to present; a new one unless one is in force."""
        found = self._by_producer.get(producer_id)
        if found is None:
            found = Verification(epoch, sequence, bumps_epoch=bumps_epoch, began_ms=now_ms)
            self._by_producer[producer_id] = found
        else:
            found.note(epoch, sequence, bumps_epoch=bumps_epoch)
        return found

    def follow(self, turns: list[Turn]) -> None:
        """End the verifications of transactions that began, or ended, in an append."""
        if not self._by_producer:
            return
        for turn in turns:
            found = self._by_producer.get(turn.producer_id)
            if found is None:
                continue
            is_next = (
                not isinstance(turn, BegunTransaction) and found.bumps_epoch and found.epoch == turn.epoch
            )
            if not is_next:
                del self._by_producer[turn.producer_id]

    def expire(self, before_ms: int) -> None:
        """Forget verifications that began before this time: nobody sent the batch again."""
        if self._by_producer:
            kept = {key: each for key, each in self._by_producer.items() if each.began_ms >= before_ms}
            self._by_producer = kept
