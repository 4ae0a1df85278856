"""A writer that consists of many processes, each with a transaction of its own, and commits all of them together.

The writer has a name: the transactional id of the process that commits, the beginning of the ids of all others
(`member_id`), and the group whose offsets hold the writer's progress. The progress is a number that the commit
stores in the same decision, and a text beside it that says whose progress it is.

Rules
- One decision: `commit` has the coordinator commit all transactions and the new progress by one batch of its log.
- The process that commits takes the name over first (InitProducerId). A process that took the name over earlier is
  fenced from then on, so what `begin_commit` reads of the progress stays true until the commit.
- After a commit that failed, or whose answer was lost, the progress says whether it took place.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Final, TypeVar

from ottla.client.cluster.backoff import backoff_ms
from ottla.client.cluster.machine import transaction_group as questions
from ottla.client.cluster.machine.group_inquiries import fetch_offsets
from ottla.client.cluster.machine.retries import Inquiry, Patience, settled
from ottla.client.cluster.machine.topic_inquiries import describe_topics
from ottla.client.cluster.machine.transaction_inquiries import describe_transactions
from ottla.client.requests.coordinators import coordinator_partition
from ottla.client.requests.group_commit import GROUP_COMMIT_FEATURE, MemberTransaction
from ottla.client.requests.group_commit import Progress as Progress
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.transactions import TransactionFilters
from ottla.client.sync.blocking_brokers import BlockingBrokers
from ottla.client.sync.transaction_ledger import TransactionLedger
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition, parse_addresses
from ottla.security.settings import PLAINTEXT, Security

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_TRANSACTIONS_TOPIC: Final = "__transaction_state"
# Between the progress and the decision there is one request. Whoever asks for the progress waits as long for a
# process that ended in between.
_COMMIT_TIMEOUT_MS: Final = 20_000
# Longer than that timeout, and than the election of a coordinator.
PATIENCE_MS: Final = 180_000
SEPARATOR: Final = "/"


class TransactionGroup:
    """The transactions of the writer `name`. Connects when it is first asked; used by one thread at a time.

    With `waits`, brokers that cannot be reached are waited for from the beginning: others have reached them before.
    """

    def __init__(
        self,
        bootstrap: str,
        name: str,
        *,
        client_id: str,
        waits: bool = False,
        security: Security = PLAINTEXT,
    ) -> None:
        self._name = name
        self._patience = Patience(PATIENCE_MS, backoff_ms, fails_fast=not waits)
        self._brokers = BlockingBrokers(
            parse_addresses(bootstrap), client_id=client_id, timeout_ms=PATIENCE_MS, security=security
        )

    def __enter__(self) -> TransactionGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._brokers.close()

    # ---- for every process

    def member_id(self, member: str) -> str:
        """A transactional id of a member: one that has the same coordinator as the name, and no open transaction.

        An open transaction may be about to be committed: another attempt at the same work may count.
        """
        known = self._brokers.known
        self._settled(questions.find(known, self._name))  # the first question creates the coordinators' topic
        topic = self._settled(describe_topics(known, [_TRANSACTIONS_TOPIC]))[_TRANSACTIONS_TOPIC]
        for others in itertools.count():
            distinct = f"{member}-{others}" if others else member
            transactional_id = shared_coordinator_id(self._name, distinct, len(topic.partitions))
            if not self._is_open(transactional_id):
                return transactional_id
        raise AssertionError("there are more ids than transactions")

    def _is_open(self, transactional_id: str) -> bool:
        outcomes = self._brokers.settle(describe_transactions(self._brokers.known, [transactional_id]))
        found = outcomes[transactional_id]
        if isinstance(found, KafkaError):
            if found.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise found
            return False
        return found.is_unfinished

    def is_supported(self) -> bool:
        """Whether the first broker that answers can commit transactions together."""
        self._settled(questions.reach(self._brokers.known))
        return self.commits_together

    @property
    def commits_together(self) -> bool:
        """Whether all brokers that were asked so far can commit transactions together."""
        return not self._brokers.lacking(GROUP_COMMIT_FEATURE)

    def ledger(self) -> TransactionLedger:
        """The decisions of the writer where brokers cannot commit its transactions together."""
        return TransactionLedger(self._brokers, self._name, self._patience)

    def progress(self) -> Progress | None:
        """What the last commit stored; None before the first one. Waits for a commit that is being decided."""
        inquiry = fetch_offsets(
            self._brokers.known, self._name, None, require_stable=True, waits_for_stable=True
        )
        stored = self._settled(inquiry)[self._name]
        entries = succeeded(stored).values()
        last = max(entries, key=lambda each: each.offset, default=None)
        return None if last is None else Progress(last.offset, last.metadata)

    # ---- for the process that commits

    def take_over(self) -> MemberTransaction:
        """Fence the processes that took the name over earlier; the transaction that stores the progress."""
        inquiry = questions.begin(self._brokers.known, [self._name], _COMMIT_TIMEOUT_MS)
        return self._settled(inquiry)[self._name]

    def commit(
        self,
        own: MemberTransaction,
        progress: Progress,
        topics: Iterable[str],
        members: Iterable[MemberTransaction],
    ) -> None:
        """Commit the members' transactions and the progress. Raises KafkaError if nothing was committed, ConnectionError
        or TimeoutError if that is not known.

        The progress is stored with each topic: that of a topic that is deleted is deleted with it.
        """
        known = self._brokers.known
        place = CommittedOffset(progress.number, metadata=progress.owner)
        offsets = {TopicPartition(topic, 0): place for topic in sorted(topics)}
        try:
            self._settled(questions.store_progress(known, own, self._name, offsets))
            self._settled(questions.commit_together(known, self._name, [own, *members]))
        except KafkaError:
            # An earlier attempt may have been carried out, and its answer lost: then this abort is refused, and the
            # progress is the new one.
            self._brokers.settle(questions.end_each(known, [own], is_commit=False))
            if self.progress() != progress:
                raise

    def commit_members(self, members: Iterable[MemberTransaction]) -> None:
        """Commit the members' transactions without a progress. Raises as `commit` does."""
        self._settled(questions.commit_together(self._brokers.known, self._name, members))

    def end_others(self, *, but: Collection[str] = ()) -> list[str]:
        """Fence all members that have not been committed, and abort what they have left open; their ids. `but` are
        those that somebody else is going to commit.
        """
        known = self._brokers.known
        left = [each for each in self._unfinished() if each not in but]
        fenced = self._settled(questions.begin(known, left, _COMMIT_TIMEOUT_MS))
        # An abort of nothing: the id is at rest, and is not found again.
        self._brokers.settle(questions.end_each(known, fenced.values(), is_commit=False))
        return left

    def _unfinished(self) -> list[str]:
        """The members that have written, or may write, and were not committed."""
        beginning = self._name + SEPARATOR
        filters = TransactionFilters(states=("Empty", "Ongoing"))
        precise = replace(filters, pattern=re.escape(beginning) + ".*")
        known = self._brokers.known
        try:
            return self._settled(questions.list_ids(known, self._name, precise))[self._name]
        except KafkaError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
        # Apache Kafka before 4.1 lists all of them.
        listed = self._settled(questions.list_ids(known, self._name, filters))[self._name]
        return [each for each in listed if each.startswith(beginning)]

    def _settled(self, inquiry: Inquiry[K, V, T]) -> dict[K, T]:
        outcomes = self._brokers.converse(settled(self._brokers.known, inquiry, self._patience))
        return succeeded(outcomes)


def shared_coordinator_id(name: str, member: str, partitions_count: int) -> str:
    """The first id of a member, by a number at its end, that belongs to the same partition as the name."""
    wanted = coordinator_partition(name, partitions_count)
    ids = (SEPARATOR.join((name, member, str(number))) for number in itertools.count())
    return next(each for each in ids if coordinator_partition(each, partitions_count) == wanted)
