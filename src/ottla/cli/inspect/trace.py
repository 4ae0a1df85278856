"""`ottla trace`: one record's life, from what the cluster itself knows."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from ottla.cli.broker_command import CLIENT_ID, TIMEOUT_MS, ask, broker_options, print_json
from ottla.cli.client_config import security_given
from ottla.client.admin.admin import Admin
from ottla.client.admin.checks.durations import duration
from ottla.client.admin.log_batches import LogBatchReader
from ottla.client.admin.record_life import RecordLife, record_life, timestamp_is_brokers
from ottla.model import TopicPartition

_PLACE = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>[0-9]{1,9})@(?P<offset>[0-9]{1,18})")
_MOST_SHOWN = 200


class Place(click.ParamType[tuple[TopicPartition, int]]):
    """TOPIC-PARTITION@OFFSET."""

    name = "TOPIC-PARTITION@OFFSET"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[TopicPartition, int]:
        match = _PLACE.fullmatch(str(value))
        if match is None:
            self.fail(f"'{value}' is not a place in a log: write it as orders-0@17", param, ctx)
        return TopicPartition(match["topic"], int(match["partition"])), int(match["offset"])


@click.command()
@click.argument("place", type=Place(), metavar="TOPIC-PARTITION@OFFSET")
@broker_options
def trace(place: tuple[TopicPartition, int], bootstrap: str, as_json: bool) -> None:
    """Tell the life of the record at TOPIC-PARTITION@OFFSET: when and by whom it was written, in which transaction,
    which replicas have it, who can read it, which groups have committed past it, how far it is from deletion, and
    its trace if a producer left a traceparent.

    \b
    ottla trace orders-0@17
    """
    partition, offset = place

    async def question(admin: Admin) -> RecordLife:
        reader = LogBatchReader(
            bootstrap, client_id=CLIENT_ID, timeout_ms=TIMEOUT_MS, security=security_given()
        )
        async with reader:
            return await record_life(admin, reader, partition, offset, int(time.time() * 1000))

    life = ask(bootstrap, question)
    if as_json:
        print_json(life_as_json(life))
    else:
        for name, text in _lines(life):
            click.echo(f"{name:<13}{text}")


def life_as_json(life: RecordLife) -> dict[str, Any]:
    """The same for programs."""
    batch, end, context = life.batch, life.transaction_end, life.trace
    return {
        "topic": life.partition.topic,
        "partition": life.partition.partition,
        "offset": life.record.offset,
        "timestamp_ms": life.record.timestamp,
        "timestamp_is_append_time": timestamp_is_brokers(batch),
        "leader": life.leader,
        "leader_epoch_of_append": batch.partition_leader_epoch,
        "producer_id": batch.producer_id if life.is_idempotent else None,
        "producer_epoch": batch.producer_epoch if life.is_idempotent else None,
        "sequence": _sequence(life),
        "batch": {"first_offset": batch.base_offset, "last_offset": batch.last_offset},
        "transaction": None
        if not batch.is_transactional
        else {
            "transactional_id": life.transactional_id,
            "state": _transaction_state(life),
            "ended_at_offset": None if end is None else end.offset,
            "ended_ms": None if end is None else end.timestamp_ms,
        },
        "replicas": [
            {"broker": node_id, "in_sync": node_id in life.isr, "has_record": _has(life, node_id)}
            for node_id in life.replicas
        ],
        "is_replicated": life.is_replicated,
        "is_stable": life.is_stable,
        "log_start_offset": life.log_start_offset,
        "high_watermark": life.high_watermark,
        "last_stable_offset": life.last_stable_offset,
        "groups": [
            {"group_id": each.group_id, "committed": each.committed_offset, "passed": each.has_passed}
            for each in life.groups
        ],
        "cleanup_policy": life.cleanup_policy,
        "deletable_in_ms": life.deletable_in_ms,
        "trace_id": None if context is None else context.trace_id,
        "span_id": None if context is None else context.span_id,
        "is_sampled": None if context is None else context.is_sampled,
    }


def _lines(life: RecordLife) -> Iterator[tuple[str, str]]:
    record, batch = life.record, life.batch
    clock = "the broker's clock, as it appended it" if timestamp_is_brokers(batch) else "the producer's clock"
    yield "record", f"{life.partition.topic}-{life.partition.partition}@{record.offset}: {_content(life)}"
    yield "written", f"{_moment(record.timestamp)} by {clock}, in leader epoch {batch.partition_leader_epoch}"
    if life.is_idempotent:
        sequence = f", sequence {_sequence(life)}"
        yield "producer", f"id {batch.producer_id}, epoch {batch.producer_epoch}{sequence}"
    else:
        yield "producer", "without an id: a retry may have written the record twice"
    if batch.is_transactional:
        yield "transaction", _transaction(life)
    yield "replicas", ", ".join(_replica(life, node_id) for node_id in life.replicas)
    yield "readable", _readable(life)
    yield from _group_lines(life)
    yield "deletion", _deletion(life)
    if life.trace is not None:
        sampled = "sampled" if life.trace.is_sampled else "not sampled"
        yield "trace", f"{life.trace.trace_id}, span {life.trace.span_id}, {sampled}"


def _content(life: RecordLife) -> str:
    record = life.record
    key = "no key" if record.key is None else f"key {_shown(record.key)}"
    value = "no value (a tombstone)" if record.value is None else f"{len(record.value)} bytes"
    return f"{key}, {value}, {len(record.headers)} headers"


def _shown(data: bytes) -> str:
    return ascii(data.decode("utf-8", "backslashreplace"))[:_MOST_SHOWN]


def _sequence(life: RecordLife) -> int | None:
    return (
        life.batch.base_sequence + life.record.offset - life.batch.base_offset if life.is_idempotent else None
    )


def _transaction(life: RecordLife) -> str:
    name = life.transactional_id or "of a transactional id that no coordinator knows any more"
    end = life.transaction_end
    at = "" if end is None else f" at offset {end.offset}, {_moment(end.timestamp_ms)}"
    return f"{name}: {_transaction_state(life)}{at}"


def _transaction_state(life: RecordLife) -> str:
    if life.is_transaction_open:
        return "open"
    if life.transaction_end is None:
        return "ended, its marker is not among the next 32 MB"
    return "committed" if life.transaction_end.is_commit else "aborted"


def _has(life: RecordLife, node_id: int) -> bool | None:
    end = life.replica_ends.get(node_id)
    if node_id == life.leader or (node_id in life.isr and life.is_replicated):
        return True
    return None if end is None else end > life.record.offset


def _replica(life: RecordLife, node_id: int) -> str:
    has = _has(life, node_id)
    state = "does not answer" if has is None else "has it" if has else "does not have it yet"
    role = " (leader)" if node_id == life.leader else "" if node_id in life.isr else " (out of sync)"
    return f"broker {node_id}{role} {state}"


def _readable(life: RecordLife) -> str:
    if not life.is_replicated:
        return f"not yet: the high watermark is {life.high_watermark}, in-sync replicas lack the record"
    if not life.is_stable:
        return (
            f"by read_uncommitted; read_committed waits at {life.last_stable_offset}, where the oldest open transaction "
            "began: ottla transactions list --state Ongoing"
        )
    if life.transaction_end is not None and not life.transaction_end.is_commit:
        return "by read_uncommitted; read_committed skips it, as its transaction was aborted"
    return "by everybody"


def _group_lines(life: RecordLife) -> Iterator[tuple[str, str]]:
    if not life.groups:
        yield "groups", "none has committed an offset of this partition"
    for each in life.groups:
        left = life.record.offset - each.committed_offset
        state = "has committed past it" if each.has_passed else f"has not: {left} records before it"
        yield "group", f"{each.group_id} {state} (offset {each.committed_offset})"


def _deletion(life: RecordLife) -> str:
    before = life.record.offset - life.log_start_offset
    text = f"{before} offsets from the start of the log"
    if "compact" in life.cleanup_policy:
        text += "; compacted when a newer record has its key"
    if life.deletable_in_ms is None:
        return text + "; not by age"
    if life.deletable_in_ms == 0:
        return text + "; old enough for retention, goes with its segment"
    return text + f"; by age in {duration(life.deletable_in_ms)} at the earliest"


def _moment(timestamp_ms: int) -> str:
    if not 0 <= timestamp_ms < 253_402_300_800_000:
        return f"at timestamp {timestamp_ms}"
    return (
        datetime.fromtimestamp(timestamp_ms / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
