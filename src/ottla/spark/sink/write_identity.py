"""Who writes what: the name of a sink, and the number of the batch that it writes.

The number of the last batch is stored with the records of the batch, in one commit. So a batch that comes again is
known, and two queries that use one name find each other.

    stored number   of the same owner       of another owner
    none            write                   write
    lower           write                   refuse
    the same        skip: it is written     refuse
    higher          refuse                  refuse

Spark repeats at most its last batch, with the same rows. A higher number means that the query has gone back, for
example to an older copy of its checkpoint: its batches need not be those that the topics have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from pyspark import TaskContext

from ottla.client.requests.group_commit import Progress
from ottla.client.sync.machine.ledger_entries import LEDGER
from ottla.spark.option_values import OptionError
from ottla.spark.sink.options import ExactlyOnce

_PREFIX: Final = "ottla-sink-"
# Spark's names of the local properties in which a task finds its query and its micro-batch.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


class SinkNameError(ValueError):
    """The topics have something else than this query's batches under the name of its sink."""


@dataclass(frozen=True, slots=True)
class WriteIdentity:
    """The batch `number` of the sink `name`, written by `owner`. Without a number nothing is stored: the rows of
    this write are written as a whole, and would be written again by another one.
    """

    name: str
    number: int | None = None
    owner: str = ""

    @property
    def progress(self) -> Progress | None:
        """What the commit stores."""
        return None if self.number is None else Progress(self.number, self.owner)

    def is_written(self, stored: Progress | None, *, in_ledger: bool = False) -> bool:
        """Whether the topics have this batch. Raises SinkNameError if they have what cannot be compared.

        `in_ledger`: the number is stored in the ledger, not as an offset of a group.
        """
        if stored is None or self.number is None:
            return False
        if stored.owner != self.owner:
            raise SinkNameError(
                f"The sink '{self.name}' belongs to {_owner(stored.owner)}, and {_owner(self.owner)} must not write under "
                "the same name. Give each query a txnAppId of its own. If the other one is gone for good, hand the name "
                f"over: {forgotten(self.name) if in_ledger else f'ottla groups delete {self.name}'}"
            )
        if stored.number > self.number:
            raise SinkNameError(
                f"The topics have batch {stored.number} of the sink '{self.name}' already, and the query is at batch "
                f"{self.number}: its checkpoint is older than the topics. Use the newest checkpoint, or start the query "
                "with a new one and another txnAppId."
            )
        return stored.number == self.number


def forgotten(name: str) -> str:
    """The command that has the ledger forget the last batch of a sink."""
    return f"""echo '{{"key": "{name}", "value": null}}' | ottla produce {LEDGER.topic} --json"""


def _owner(owner: str) -> str:
    return f"the query {owner}" if owner else "a batch job"


def of_micro_batch(wish: ExactlyOnce) -> WriteIdentity:
    """The micro-batch that this task belongs to."""
    context = TaskContext.get()
    query_id = context.getLocalProperty(_QUERY_ID) if context else None
    batch_id = context.getLocalProperty(_BATCH_ID) if context else None
    if not query_id or not batch_id:
        raise RuntimeError(
            "Spark did not tell the task its query and batch: exactly-once delivery is not possible."
        )
    return WriteIdentity(_PREFIX + (wish.app_id or query_id), int(batch_id), query_id)


def of_job(wish: ExactlyOnce) -> WriteIdentity:
    """A batch job: with a number if the user gives one, as in `foreachBatch`."""
    if (wish.app_id is None) is not (wish.version is None):
        given, missing = ("txnVersion", "txnAppId") if wish.app_id is None else ("txnAppId", "txnVersion")
        raise OptionError(f"Option '{given}' needs '{missing}' as well: together they name what is written.")
    if wish.app_id is None:
        return WriteIdentity(_PREFIX + uuid4().hex)
    return of_named_sink(wish.app_id, wish.version)


def of_named_sink(app_id: str, number: int | None) -> WriteIdentity:
    """A batch of the sink that the user has named, without a query that owns it."""
    return WriteIdentity(_PREFIX + app_id, number)


def member() -> str:
    """What distinguishes this attempt of a task from all others of the same batch that may be alive."""
    context = TaskContext.get()
    return f"{context.partitionId()}.{context.attemptNumber()}" if context else "0.0"
