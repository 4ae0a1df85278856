"""Finds open transactions that hold back consumers which read committed records.

Such consumers stop at the last stable offset. Where records follow it, a transaction is open: one that its
coordinator knows ends by itself at its timeout, unless two-phase commit has none; one that no coordinator knows
hangs until someone aborts it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.admin.checks.durations import duration
from ottla.client.admin.checks.findings import Examination
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.client.requests.transactions import (
    ActiveProducer,
    TransactionDescription,
    hanging_transactions,
    open_transactions,
)
from ottla.model import TopicPartition

# Readers of committed records may have to wait this long for any transaction (transaction.timeout.ms of clients).
_LONG_MS: Final = 60_000

Candidate = tuple[TopicPartition, ActiveProducer]


@dataclass(frozen=True, slots=True)
class Held:
    """A partition whose readers of committed records stop before its end."""

    stable_offset: int
    record_count: int


async def check_transactions(
    admin: Admin, partitions: Iterable[TopicPartition], report: Examination, now_ms: int
) -> None:
    """Name the transactions that have held readers back for a minute or longer."""
    held = await _held_back(admin, list(partitions))
    if not held:
        return
    known = await admin.describe_producers(held)
    producers = {each: found for each, found in known.items() if isinstance(found, tuple)}
    candidates = open_transactions(producers, now_ms)
    if not candidates:
        return
    listed = await admin.list_transactions(producer_ids={each.producer_id for _, each in candidates})
    described = await admin.describe_transactions([each.transactional_id for each in listed])
    hanging = {
        (each.partition, each.producer) for each in hanging_transactions(candidates, listed, described)
    }
    holders = {
        each.producer_id: each for each in described.values() if isinstance(each, TransactionDescription)
    }
    for partition, producer in candidates:
        holder = None if (partition, producer) in hanging else holders.get(producer.producer_id)
        if holder is None:
            _report_hanging((partition, producer), held[partition], now_ms, report)
        else:
            _report_open((partition, producer), holder, held[partition], now_ms, report)


async def _held_back(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, Held]:
    wanted = dict.fromkeys(partitions, OffsetSpec.LATEST)
    ends = await admin.list_offsets(wanted)
    stable = await admin.list_offsets(wanted, read_committed=True)
    held: dict[TopicPartition, Held] = {}
    for partition in partitions:
        end, last_stable = ends[partition], stable[partition]
        if not isinstance(end, ListedOffset) or not isinstance(last_stable, ListedOffset):
            continue
        if end.offset > last_stable.offset:
            held[partition] = Held(last_stable.offset, end.offset - last_stable.offset)
    return held


def _report_hanging(found: Candidate, held: Held, now_ms: int, report: Examination) -> None:
    partition, producer = found
    silent_ms = now_ms - producer.last_timestamp_ms
    if silent_ms < _LONG_MS:
        return  # its coordinator may hear of it yet
    report.warning(
        partition,
        f"{_held(held)} by a transaction that hangs: producer {producer.producer_id} began it at offset"
        f" {producer.open_since_offset}, wrote last {duration(silent_ms)} ago, and no coordinator knows of it",
        f"Abort it: {abort_command(partition, producer.producer_id, report.subject)}",
    )


def _report_open(
    found: Candidate, holder: TransactionDescription, held: Held, now_ms: int, report: Examination
) -> None:
    partition, producer = found
    age_ms = now_ms - (holder.started_ms or now_ms)
    if age_ms < _LONG_MS:
        return
    problem = (
        f"{_held(held)} by the transaction of {holder.transactional_id!r}, which producer"
        f" {producer.producer_id} began at offset {producer.open_since_offset} and has open for"
        f" {duration(age_ms)} ({holder.state}, {timeout_of(holder)})"
    )
    command = f"ottla transactions abort {holder.transactional_id} --bootstrap {report.subject}"
    if holder.is_two_phase:
        advice = (
            "Nothing but its producer ends a transaction of two-phase commit: start its application, or decide for it"
            f" and abort: {command}"
        )
        report.warning(partition, problem, advice)
    elif age_ms < holder.timeout_ms:
        report.note(partition, problem, f"It ends at its timeout at the latest. To abort it now: {command}")
    else:
        report.warning(
            partition, problem, f"Its timeout is over: look at broker {holder.coordinator}, or run: {command}"
        )


def _held(held: Held) -> str:
    records = f"{held.record_count} record{'' if held.record_count == 1 else 's'}"
    return f"readers of committed records wait at offset {held.stable_offset}, {records} are held back"


def timeout_of(described: TransactionDescription) -> str:
    """The time after which the coordinator aborts a transaction, in words."""
    if described.is_two_phase:
        return "no timeout (two-phase commit)"
    return f"timeout {duration(described.timeout_ms)}"


def abort_command(partition: TopicPartition, producer_id: int, bootstrap: str) -> str:
    """The command that aborts a hanging transaction."""
    where = shlex.quote(f"{partition.topic}:{partition.partition}")
    return f"ottla transactions abort --partition {where} --producer-id {producer_id} --bootstrap {bootstrap}"
