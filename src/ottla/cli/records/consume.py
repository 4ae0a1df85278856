"""`ottla consume`: the records of a topic, as lines.

Exit codes: 0 done, 1 the broker or the request failed, 2 the command was not understood; 130 after Ctrl-C and
143 after SIGTERM, both of which commit what was printed and leave the group.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import click

from ottla.cli.broker_command import CLIENT_ID, TIMEOUT_MS, bootstrap_option, run
from ottla.cli.client_config import security_given
from ottla.cli.records.consume_range import Bounds, Start, Until, bounds_of, parse_start, parse_until
from ottla.cli.records.line_formats import FORMATS, line_format, lines
from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer, ConsumerRecord, IsolationLevel
from ottla.client.fetching.plan.record_filters import Condition, all_of, parse_condition
from ottla.model import TopicPartition

_MAX_RECORDS: Final = 500
# How often to look whether the end is reached when nothing comes: the last offsets may be no records.
_LOOK_MS: Final = 200
# How long an interrupt waits for the lines that are being printed.
_LAST_LINES_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `ottla consume`."""

    topic: str
    group_id: str | None
    partitions: tuple[int, ...]
    start: Start
    until: Until
    count: int | None
    condition: Condition
    form: Callable[[ConsumerRecord], bytes]
    isolation_level: IsolationLevel


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
    "--until",
    metavar="WHERE",
    help="Where to stop: end (as it is now), before an offset, or before a moment, which may lie ahead.",
)
@click.option(
    "--follow/--until-end",
    default=None,
    help="Wait for more, or stop at the end as it is now.  [default: until the end; from latest, follow]",
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after this many records.")
@click.option(
    "--filter",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Only records like this: key=42, value~error, value.user.name=Ada, header.trace!=1; repeatable.",
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0, 2**31 - 1),
    multiple=True,
    metavar="P",
    help="Only this partition; repeatable.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read-uncommitted", "read-committed"]),
    default="read-uncommitted",
    show_default=True,
    help="read-committed leaves out transactions that were aborted, or are not finished.",
)
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    default="value",
    show_default=True,
    help=f"The content of a line: {', '.join(FORMATS)}, or a template: '{{offset}} {{key}}: {{value}}'.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@bootstrap_option
def consume(
    topic: str,
    group_id: str | None,
    start: str,
    until: str | None,
    follow: bool | None,
    count: int | None,
    conditions: tuple[str, ...],
    partitions: tuple[int, ...],
    isolation: str,
    form: str,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Print the records of TOPIC, one line each.

    \b
    ottla consume orders
    ottla consume orders --from latest --format key-value
    ottla consume orders --from 2025-01-31T08:30 --until 2025-01-31T09:00 --json
    ottla consume orders --filter value.status=failed --count 10
    ottla consume orders --group billing --follow
    """
    try:
        begin = parse_start(start)
        end = _until(until, follow, begin)
        condition = all_of([parse_condition(each) for each in conditions])
        line = line_format("json" if as_json else form)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if group_id is not None and (begin.is_exact or partitions):
        what = "--partition" if partitions else f"--from {start}"
        raise click.UsageError(
            f"{what} cannot go with --group, which has its own offsets and partitions; "
            "move a group with: ottla groups reset-offsets"
        )
    level: IsolationLevel = "read_committed" if isolation == "read-committed" else "read_uncommitted"
    request = Request(topic, group_id, partitions, begin, end, count, condition, line, level)
    try:
        run(_consume(bootstrap, request))
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None


def _until(text: str | None, follow: bool | None, start: Start) -> Until:
    if text is not None:
        if follow is not None:
            raise ValueError("--until says where to stop: it cannot go with --follow or --until-end")
        return parse_until(text)
    return Until(is_open=start.reset == "latest" if follow is None else follow)


async def _consume(bootstrap: str, request: Request) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Admin(
        bootstrap, client_id=CLIENT_ID, timeout_ms=TIMEOUT_MS, security=security_given()
    ) as admin:
        bounds = await bounds_of(
            admin,
            request.topic,
            request.partitions,
            request.until,
            read_committed=request.isolation_level == "read_committed",
        )
    consumer = Consumer(
        bootstrap,
        security=security_given(),
        group_id=request.group_id,
        client_id=CLIENT_ID,
        auto_offset_reset=request.start.reset,
        isolation_level=request.isolation_level,
        request_timeout_ms=TIMEOUT_MS,
        default_api_timeout_ms=TIMEOUT_MS,
    )
    try:
        async with consumer:
            await _Printing(consumer, request, bounds).run()
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`): end quietly, also when Python flushes at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Printing:
    """One run from the first record to the last."""

    def __init__(self, consumer: Consumer, request: Request, bounds: Bounds) -> None:
        self._consumer = consumer
        self._request = request
        self._bounds = bounds
        self._left = request.count
        self._waits_for_time = request.until.is_still_coming()
        self._is_idle = False
        # Members of a group know what they read only when it has assembled.
        self._is_assigned = False

    async def run(self) -> None:
        await self._begin()
        now_seconds = asyncio.get_running_loop().time
        heard_seconds = now_seconds()
        while self._left != 0 and not self._is_at_end():
            wait_ms = None if self._request.until.is_open else _LOOK_MS
            records = await self._consumer.poll(max_records=_MAX_RECORDS, timeout_ms=wait_ms)
            self._is_idle = not records
            if records:
                heard_seconds = now_seconds()
                await self._print(records)
            if now_seconds() - heard_seconds > TIMEOUT_MS / 1000:
                await self._consumer.lag()  # raises if no broker answers
                heard_seconds = now_seconds()

    async def _begin(self) -> None:
        start, consumer, bounds = self._request.start, self._consumer, self._bounds
        if self._request.group_id is not None:
            consumer.subscribe([self._request.topic], on_assigned=self._assigned)
            return
        consumer.assign(bounds.last)
        self._is_assigned = True
        if start.offset is not None:
            for partition, first in bounds.first.items():
                # Before the log there is nothing to read: begin with it.
                consumer.seek(partition, max(start.offset, first))
        elif start.time_ms is not None:
            await consumer.seek_to(start.time_ms)

    def _assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._is_assigned = True

    def _is_at_end(self) -> bool:
        if self._waits_for_time:
            return self._is_idle and not self._request.until.is_still_coming()
        if self._request.until.is_open or not self._is_assigned:
            return False
        positions = {each: self._consumer.position(each) for each in self._consumer.assignment}
        return all(
            position is not None and position >= self._bounds.last.get(each, 0)
            for each, position in positions.items()
        )

    async def _print(self, records: Sequence[ConsumerRecord]) -> None:
        chosen: list[ConsumerRecord] = []
        behind: list[ConsumerRecord] = []
        for record in records:
            if self._left == 0 or not self._is_before_end(record):
                behind.append(record)
            elif self._request.condition(record):
                chosen.append(record)
                self._left = None if self._left is None else self._left - 1
        self._put_back(behind)
        if chosen:
            await _print_lines(self._consumer, lines(chosen, self._request.form))

    def _is_before_end(self, record: ConsumerRecord) -> bool:
        until = self._request.until
        if until.time_ms is not None and record.timestamp_ms >= until.time_ms:
            return False
        bound = self._bounds.last.get(TopicPartition(record.topic, record.partition))
        return until.is_open or self._waits_for_time or bound is None or record.offset < bound

    def _put_back(self, records: Sequence[ConsumerRecord]) -> None:
        """Give up these records and all after them: the group must read them again."""
        for record in reversed(records):
            partition = TopicPartition(record.topic, record.partition)
            self._consumer.seek(partition, record.offset)
            self._consumer.pause([partition])
            self._bounds.last[partition] = record.offset


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


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
