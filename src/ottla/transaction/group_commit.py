"""The commit of several transactions by one decision: Ottla's own extension of EndTxn, for Spark's sink.

A writer that consists of many processes has a transactional id for each, all with the same coordinator, which is
the leader of one partition of `__transaction_state`. That coordinator commits their transactions together: the
PrepareCommit records of all of them are one batch of its log, so that after a crash all are committed or none. Each
record is Kafka's own, and from there on each transaction goes its own way.

Rules
- All or nothing: a transaction that cannot be committed is named in the answer, and none is.
- Each transaction is decided as an EndTxn of version 2 would decide it, so a request that is repeated after its
  answer was lost is answered in the same way, once all markers are written.
- No transactional id stands in a request twice: the second decision would not know the first.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.errors import ErrorCode, KafkaError
from ottla.transaction.commands import CommitTogether, Context, GroupAnswer
from ottla.transaction.decision import Decision, NeedsProducerIdError
from ottla.transaction.ending import end_transaction
from ottla.transaction.metadata import EPOCH_PER_TRANSACTION, TransactionMetadata


def commit_together(
    transactions: Mapping[str, TransactionMetadata], command: CommitTogether, context: Context
) -> Decision:
    """Commit all transactions of the command, or none. Raises NeedsProducerIdError."""
    asked = command.transactions
    if not asked or len({one.transactional_id for one in asked}) < len(asked):
        return _refused(ErrorCode.INVALID_REQUEST)
    if context.finalized_version < EPOCH_PER_TRANSACTION:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    new_ids = _new_ids([transactions.get(one.transactional_id) for one in asked], context)
    decisions: list[Decision] = []
    for one in asked:
        own = context._replace(new_producer_id=new_ids.get(one.transactional_id), more_producer_ids=())
        try:
            decisions.append(end_transaction(transactions.get(one.transactional_id), one, own))
        except KafkaError as error:
            return _refused(error.code, one.transactional_id)
    return _joined(decisions)


def _new_ids(transactions: list[TransactionMetadata | None], context: Context) -> dict[str, int]:
    """A new producer id for each transactional id that has used up its epochs."""
    exhausted = [one.transactional_id for one in transactions if one is not None and one.is_exhausted]
    if not exhausted:
        return {}
    if context.new_producer_id is None or len(context.more_producer_ids) < len(exhausted) - 1:
        raise NeedsProducerIdError(len(exhausted))
    return dict(zip(exhausted, (context.new_producer_id, *context.more_producer_ids), strict=False))


def _joined(decisions: list[Decision]) -> Decision:
    return Decision(
        [record for one in decisions for record in one.records],
        GroupAnswer(ErrorCode.NONE),
        [markers for one in decisions for markers in one.markers],
        is_atomic=True,
    )


def _refused(error: ErrorCode, transactional_id: str = "") -> Decision:
    return Decision((), GroupAnswer(error, transactional_id))
