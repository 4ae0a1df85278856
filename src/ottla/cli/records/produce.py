"""`ottla produce`: lines of standard input become records.

Exit codes: 0 all delivered, 1 some were not (or the broker cannot be reached, or a line cannot be
understood), 2 the command was not understood; 130 after Ctrl-C and 143 after SIGTERM, both of which deliver
what was read. With a transactional id all lines are one transaction: it is committed at the end of the input,
and aborted if a record fails or the command is interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import click

from ottla.cli.broker_command import CLIENT_ID, TIMEOUT_MS, bootstrap_option, run
from ottla.cli.client_config import security_given
from ottla.cli.records.line_parsers import LineParser, LineRecord, json_line, key_value_line, value_line
from ottla.cli.records.stdin_lines import LineReader
from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport
from ottla.client.producer.machine.partitioners import PARTITIONERS
from ottla.client.producer.machine.settings import Acks, CompressionName
from ottla.client.producer.producer import Producer
from ottla.records.record import Header

_PROGRESS_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Sending:
    """The options of `ottla produce`."""

    topic: str
    parse: LineParser
    key: bytes | None
    partition: int | None
    headers: tuple[Header, ...]
    rate: float | None
    shows_progress: bool


@dataclass(slots=True)
class Tally:
    """How far it has come."""

    begun: float = field(default_factory=monotonic)
    sent: int = 0
    sent_bytes: int = 0
    delivered: int = 0
    failed: int = 0
    first_error: DeliveryError | None = None

    def hear(self, outcome: DeliveryReport | DeliveryError) -> None:
        if isinstance(outcome, DeliveryError):
            self.failed += 1
            self.first_error = self.first_error or outcome
        else:
            self.delivered += 1

    def line(self) -> str:
        seconds = max(monotonic() - self.begun, 0.001)
        failed = f", {self.failed:,} failed" if self.failed else ""
        return (
            f"{self.delivered:,} of {self.sent:,} records delivered{failed} "
            f"({self.delivered / seconds:,.0f}/s, {self.sent_bytes / seconds / 1e6:.1f} MB/s)"
        )


@click.command()
@click.argument("topic")
@click.option("--key-separator", metavar="TEXT", help="A line is a key, this, and a value. \\t is a tab.")
@click.option("--key", metavar="TEXT", help="The key of all records.")
@click.option(
    "--json", "as_json", is_flag=True, help="A line is a JSON object, as ottla consume --json prints."
)
@click.option(
    "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header of all records; repeatable."
)
@click.option("--partition", type=click.IntRange(0, 2**31 - 1), metavar="P", help="To this partition.")
@click.option("--partitioner", type=click.Choice(list(PARTITIONERS)), default="by_key", show_default=True)
@click.option(
    "--transactional-id", metavar="ID", help="All lines are one transaction, of the producer with this id."
)
@click.option(
    "--transaction-timeout-ms",
    type=click.IntRange(1, 2**31 - 1),
    default=60_000,
    show_default=True,
    help="How long the transaction may take.",
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="At most this many records a second.",
)
@click.option("--progress/--no-progress", default=None, help="Show how far it is.  [default: on a terminal]")
@bootstrap_option
def produce(
    topic: str,
    key_separator: str | None,
    key: str | None,
    as_json: bool,
    headers: tuple[str, ...],
    partition: int | None,
    partitioner: str,
    transactional_id: str | None,
    transaction_timeout_ms: int,
    acks: str,
    compression: CompressionName,
    rate: float | None,
    progress: bool | None,
    bootstrap: str,
) -> None:
    """Send each line of standard input to TOPIC.

    \b
    echo hello | ottla produce greetings
    ottla produce orders --key-separator : < orders.txt
    ottla consume orders --json | ottla produce copies --json
    ottla produce orders --transactional-id import < orders.txt
    """
    if transactional_id is not None and (acks != "all" or not transactional_id):
        raise click.UsageError("--transactional-id must not be empty, and needs --acks all")
    sending = Sending(
        topic=topic,
        parse=_parser(key_separator, key, as_json),
        key=None if key is None else key.encode(),
        partition=partition,
        headers=tuple(map(_header, headers)),
        rate=rate,
        shows_progress=sys.stderr.isatty() if progress is None else progress,
    )
    producer = Producer(
        bootstrap,
        security=security_given(),
        client_id=CLIENT_ID,
        acks=acks_given(acks),
        compression=compression,
        partitioner=partitioner,
        max_block_ms=TIMEOUT_MS,
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
    )
    try:
        tally = run(_produce(producer, sending))
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    if tally.first_error is not None:
        message = tally.first_error.message.rstrip(".")
        raise click.ClickException(
            f"{tally.failed:,} of {tally.sent:,} records were not delivered: {message} ({tally.first_error.code.name})"
        )


def _parser(key_separator: str | None, key: str | None, as_json: bool) -> LineParser:
    if as_json and key_separator is not None:
        raise click.UsageError("--json and --key-separator are two ways to read a line: choose one")
    if key_separator is not None and key is not None:
        raise click.UsageError("--key and --key-separator cannot both say what the key is")
    if as_json:
        return json_line
    if key_separator is None:
        return value_line
    if not key_separator:
        raise click.UsageError("--key-separator must not be empty")
    return key_value_line(key_separator.replace("\\t", "\t").encode())


def _header(text: str) -> Header:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f'--header "{text}" is not NAME=VALUE')
    return name, value.encode()


def acks_given(text: str) -> Acks:
    """The setting that an --acks option stands for."""
    return "all" if text == "all" else 1 if text == "1" else 0


async def _produce(producer: Producer, sending: Sending) -> Tally:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    tally = Tally()
    show = _show if sending.shows_progress else _hide
    showing = asyncio.create_task(_show_progress(tally, show))
    try:
        async with producer, _one_transaction(producer):
            await _send_lines(producer, sending, tally)
    except OSError as error:
        if isinstance(error, ConnectionError | TimeoutError):
            raise
        raise ValueError(f"standard input cannot be read: {error.strerror}") from error
    finally:
        showing.cancel()
        show(tally.line() + "\n")
    return tally


@contextlib.asynccontextmanager
async def _one_transaction(producer: Producer) -> AsyncIterator[None]:
    """All that is sent is one transaction, if the producer has a transactional id."""
    if producer.transactional_id is None:
        yield
        return
    async with producer.transaction():
        yield


async def _send_lines(producer: Producer, sending: Sending, tally: Tally) -> None:
    number = 0
    async for lines in LineReader(sys.stdin.fileno()):
        for line in lines:
            number += 1
            if sending.rate is not None:
                # By the clock, not by a pause after each: what is late is made up for.
                await asyncio.sleep(tally.begun + tally.sent / sending.rate - monotonic())
            try:
                record = sending.parse(line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
            _send(producer, sending, record, tally)
            await producer.drain()


def _send(producer: Producer, sending: Sending, record: LineRecord, tally: Tally) -> None:
    key = record.key if record.key is not None else sending.key
    tally.sent += 1
    tally.sent_bytes += len(record.value or b"") + len(key or b"")
    try:
        producer.send_soon(
            sending.topic,
            record.value,
            key,
            partition=record.partition if sending.partition is None else sending.partition,
            headers=(*sending.headers, *record.headers),
            timestamp_ms=record.timestamp_ms,
            on_delivery=tally.hear,
        )
    except DeliveryError as error:  # too large, or a partition that is not there
        tally.hear(error)


async def _show_progress(tally: Tally, show: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_SECONDS)
        show(tally.line())


def _show(text: str) -> None:
    click.echo(f"\r\x1b[K{text}", nl=False, err=True)


def _hide(text: str) -> None:
    """Nobody looks."""
