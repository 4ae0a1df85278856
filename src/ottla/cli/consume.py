"""`ottla consume`: the records of a topic, as lines.

Exit codes: 0 done, 1 the broker or the request failed, 2 the command was not understood; 130 after Ctrl-C and 143 after
SIGTERM, both of which commit what was printed and leave the group.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import click

from ottla.cli.moments import parse_moment
from ottla.cli.record_lines import FORMATS, lines
from ottla.cli.session import CLIENT_ID, TIMEOUT_MS, bootstrap_option, run
from ottla.client.admin import Admin
from ottla.client.consumer import Consumer, OffsetReset
from ottla.client.metadata import TopicPartition
from ottla.client.offsets import OffsetSpec
from ottla.client.outcomes import succeeded

_MAX_RECORDS: Final = 500
# How often to look whether the end is reached when nothing comes: the last offsets may be no records.
_LOOK_MS: Final = 200
# How long an interrupt waits for the lines that are being printed.
_LAST_LINES_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: at an end of the log, at an offset, or at a time."""

    reset: OffsetReset = "earliest"
    offset: int | None = None
    time_ms: int | None = None

    @property
    def is_exact(self) -> bool:
        return self.offset is not None or self.time_ms is not None


@dataclass(frozen=True, slots=True)
class Reading:
    """What was asked for."""

    topic: str
    group_id: str | None
    partitions: tuple[int, ...]
    start: Start
    is_following: bool
    count: int | None
    form: str


@click.command()
@click.argument("topic")
@click.option("--group", "group_id", metavar="NAME", help="Read as a member of this group, and commit.")
@click.option(
    "--from",
    "start",
    metavar="WHERE",
    default="earliest",
    show_default=True,
    help="Where to begin: earliest, latest, an offset, or a moment (2025-01-31T08:30). In a group: where it has not been.",
)
@click.option(
    "--follow/--until-end",
    default=None,
    help="Wait for more, or stop at the end as it is now.  [default: until the end; from latest, follow]",
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after so many records.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0, 2**31 - 1),
    multiple=True,
    metavar="P",
    help="Only this partition; repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="value",
    show_default=True,
    help="What a line shows.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@bootstrap_option
def consume(
    topic: str,
    group_id: str | None,
    start: str,
    follow: bool | None,
    count: int | None,
    partitions: tuple[int, ...],
    form: str,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Print the records of TOPIC, one line each.

    \b
    ottla consume orders
    ottla consume orders --from latest --format key-value
    ottla consume orders --from 2025-01-31T08:30 --count 10 --json
    ottla consume orders --group billing --follow
    """
    begin = _start(start)
    if group_id is not None and (begin.is_exact or partitions):
        what = "--partition" if partitions else f"--from {start}"
        raise click.UsageError(
            f"{what} cannot go with --group, which has its own offsets and partitions; "
            "move a group with: ottla groups reset-offsets"
        )
    is_following = begin.reset == "latest" if follow is None else follow
    reading = Reading(topic, group_id, partitions, begin, is_following, count, "json" if as_json else form)
    try:
        run(_consume(bootstrap, reading))
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None


def _start(text: str) -> Start:
    if text == "earliest":
        return Start("earliest")
    if text == "latest":
        return Start("latest")
    if text.isascii() and text.isdigit() and int(text) < 2**63:
        return Start(offset=int(text))
    try:
        return Start(time_ms=parse_moment(text))
    except ValueError as error:
        raise click.UsageError(f"--from: neither earliest nor latest nor an offset, and {error}") from error


async def _consume(bootstrap: str, reading: Reading) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    first, last = await _bounds(bootstrap, reading)
    consumer = Consumer(
        bootstrap,
        group_id=reading.group_id,
        client_id=CLIENT_ID,
        auto_offset_reset=reading.start.reset,
        request_timeout_ms=TIMEOUT_MS,
        default_api_timeout_ms=TIMEOUT_MS,
    )
    # Members of a group know what they read only when it has assembled.
    is_assigned = asyncio.Event()
    try:
        async with consumer:
            await _begin(consumer, reading, first, last, is_assigned)
            await _print_records(consumer, reading, last, is_assigned)
    except BrokenPipeError:
        # Whoever read has enough (`| head`): end quietly, also when Python flushes at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _bounds(
    bootstrap: str, reading: Reading
) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
    """Where the partitions begin and end now; raises KafkaError if the topic or a partition is not there."""
    async with Admin(bootstrap, client_id=CLIENT_ID, timeout_ms=TIMEOUT_MS) as admin:
        topic = succeeded(await admin.describe_topics([reading.topic]))[reading.topic]
        indexes = dict.fromkeys(reading.partitions or [each.index for each in topic.partitions])
        keys = [TopicPartition(reading.topic, index) for index in indexes]
        first = succeeded(await admin.list_offsets(dict.fromkeys(keys, int(OffsetSpec.EARLIEST))))
        last = succeeded(await admin.list_offsets(dict.fromkeys(keys, int(OffsetSpec.LATEST))))
    return {key: first[key].offset for key in keys}, {key: last[key].offset for key in keys}


async def _begin(
    consumer: Consumer,
    reading: Reading,
    first: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
    is_assigned: asyncio.Event,
) -> None:
    async def on_assigned(partitions: frozenset[TopicPartition]) -> None:
        is_assigned.set()

    if reading.group_id is not None:
        consumer.subscribe([reading.topic], on_assigned=on_assigned)
        return
    consumer.assign(last)
    is_assigned.set()
    if reading.start.offset is not None:
        for partition in last:
            # Outside of the log there is nothing to read: begin at its nearest end.
            consumer.seek(partition, min(max(reading.start.offset, first[partition]), last[partition]))
    elif reading.start.time_ms is not None:
        await consumer.seek_to(reading.start.time_ms)


async def _print_records(
    consumer: Consumer, reading: Reading, last: Mapping[TopicPartition, int], is_assigned: asyncio.Event
) -> None:
    now_seconds, left = asyncio.get_running_loop().time, reading.count
    heard_seconds = now_seconds()
    while left != 0:
        limit = _MAX_RECORDS if left is None else min(left, _MAX_RECORDS)
        records = await consumer.poll(
            max_records=limit, timeout_ms=None if reading.is_following else _LOOK_MS
        )
        if records:
            heard_seconds = now_seconds()
            left = None if left is None else left - len(records)
            await _print_lines(consumer, lines(records, reading.form))
        if not reading.is_following and is_assigned.is_set() and _is_at_end(consumer, last):
            return
        if now_seconds() - heard_seconds > TIMEOUT_MS / 1000:
            await consumer.lag()  # raises if nobody answers
            heard_seconds = now_seconds()


async def _print_lines(consumer: Consumer, data: bytes) -> None:
    # In a thread: a pager that does not read must not keep heartbeats from going out.
    writing = asyncio.ensure_future(asyncio.to_thread(_write, data))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        done, _ = await asyncio.wait([writing], timeout=_LAST_LINES_SECONDS)
        if done:
            await consumer.poll(max_records=0, timeout_ms=0)  # what is printed is done: it may be committed
        raise


def _is_at_end(consumer: Consumer, last: Mapping[TopicPartition, int]) -> bool:
    positions = {each: consumer.position(each) for each in consumer.assignment}
    return all(position is not None and position >= last.get(each, 0) for each, position in positions.items())


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
