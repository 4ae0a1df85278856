"""`ottla transactions`: list, describe, producers, abort, find-hanging."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import click

from ottla.cli.broker_command import ask, broker_options, print_json, print_table, raise_errors
from ottla.client.admin.admin import Admin
from ottla.client.admin.checks.durations import duration
from ottla.client.admin.checks.transaction_check import abort_command, timeout_of
from ottla.client.admin.offset_resets import parse_topics
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.transactions import (
    ONGOING,
    STATES,
    ActiveProducer,
    HangingTransaction,
    TransactionDescription,
    TransactionListing,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

SECONDS = click.FloatRange(min=0)
# As long as transaction.max.timeout.ms by default: no coordinator keeps a transaction open for longer.
_SILENT_S = 900.0

Producers = dict[TopicPartition, tuple[ActiveProducer, ...]]


@click.group()
def transactions() -> None:
    """List, describe and abort transactions; find those that hang."""


@transactions.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only transactions in this state; repeatable.",
)
@click.option("--producer-id", "producer_ids", multiple=True, type=int, metavar="N", help="Repeatable.")
@click.option("--open-for", "open_for_s", type=SECONDS, metavar="S", help="Begun at least so long ago.")
@click.option("--matching", "pattern", metavar="REGEX", help="Only transactional ids that match.")
@click.option(
    "--two-phase", is_flag=True, help="Only open transactions without a timeout, of two-phase commit."
)
@broker_options
def list_(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    open_for_s: float | None,
    pattern: str | None,
    two_phase: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """List all transactional ids, with the state of the latest transaction of each."""
    open_for_ms = None if open_for_s is None else int(open_for_s * 1000)

    async def question(admin: Admin) -> list[TransactionListing]:
        found = await admin.list_transactions(
            states=states, producer_ids=producer_ids, open_for_ms=open_for_ms, pattern=pattern
        )
        return await _without_timeout(admin, found) if two_phase else found

    found = ask(bootstrap, question)
    if as_json:
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "coordinator": each.coordinator,
                    "producer_id": each.producer_id,
                    "state": each.state,
                }
                for each in found
            ]
        )
    elif not found:
        click.echo("There are no such transactions.")
    else:
        rows = [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found]
        print_table(["transactional id", "coordinator", "producer id", "state"], rows)


@transactions.command()
@click.argument("transactional_id")
@broker_options
def describe(transactional_id: str, bootstrap: str, as_json: bool) -> None:
    """Describe the latest transaction of TRANSACTIONAL_ID: producer, age, and its partitions.

    While a transaction ends, the partitions are those that do not have its marker yet.
    """
    found = ask(bootstrap, lambda admin: admin.describe_transactions([transactional_id]))
    described = succeeded_one(found)
    if as_json:
        print_json(_described_as_json(described))
        return
    has_begun = described.is_unfinished and described.started_ms is not None
    age = _age(described.started_ms or 0) if has_begun else None
    click.echo(
        f"{described.transactional_id}: {described.state}, producer {described.producer_id} epoch"
        f" {described.producer_epoch}, coordinated by broker {described.coordinator},"
        f" {timeout_of(described)}{'' if age is None else f', open for {age}'}"
    )
    if described.partitions:
        rows = [(each.topic, each.partition) for each in sorted(described.partitions)]
        print_table(["topic", "partition"], rows)


@transactions.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:P,P...]...")
@broker_options
def producers(topics: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Show the idempotent and transactional producers that partitions know.

    OPEN SINCE is the offset at which the open transaction of a producer began: consumers that read committed
    records stop there.
    """
    wanted = _topics(topics)

    async def question(admin: Admin) -> Producers:
        return succeeded(await admin.describe_producers(await _partitions(admin, wanted)))

    found = ask(bootstrap, question)
    if as_json:
        print_json([_producer_as_json(where, each) for where in sorted(found) for each in found[where]])
        return
    rows = [
        (
            str(where),
            each.producer_id,
            each.producer_epoch,
            None if each.coordinator_epoch < 0 else each.coordinator_epoch,
            None if each.last_sequence < 0 else each.last_sequence,
            _age(each.last_timestamp_ms),
            each.open_since_offset,
        )
        for where in sorted(found)
        for each in found[where]
    ]
    if not rows:
        click.echo("No partition knows an idempotent or transactional producer.")
        return
    columns = ["partition", "producer id", "epoch", "coordinator epoch", "last sequence", "last write"]
    print_table([*columns, "open since"], rows)


@transactions.command()
@click.argument("transactional_ids", nargs=-1, metavar="[TRANSACTIONAL_ID]...")
@click.option("--partition", "partition", metavar="TOPIC:P", help="The partition of a hanging transaction.")
@click.option("--producer-id", type=int, metavar="N", help="The producer of a hanging transaction.")
@broker_options
def abort(
    transactional_ids: tuple[str, ...],
    partition: str | None,
    producer_id: int | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Abort the open transactions of these ids, and fence their producers.

    A producer that still runs gets an error at its next step, and has to be started again. A transaction that is
    prepared (two-phase commit) is aborted as well, whatever its application has decided. A hanging transaction
    (see find-hanging) has no coordinator that could end it: name its partition and producer, and an abort marker
    is written there.

    \b
    ottla transactions abort billing-7
    ottla transactions abort --partition orders:2 --producer-id 4711
    """
    if bool(transactional_ids) == (partition is not None) or (partition is None) != (producer_id is None):
        raise click.UsageError("say which: give transactional ids, or --partition and --producer-id")
    if partition is not None and producer_id is not None:
        where = _one_partition(partition)
        aborted = ask(bootstrap, lambda admin: _abort_hanging(admin, where, producer_id))
        if as_json:
            print_json({"aborted": [_producer_as_json(where, aborted)]})
        else:
            click.echo(f"Aborted the transaction of producer {producer_id} in {where}.")
        return
    outcomes = ask(bootstrap, lambda admin: _abort_open(admin, transactional_ids))
    fenced = [name for name, outcome in outcomes.items() if not isinstance(outcome, KafkaError)]
    if as_json:
        print_json({"aborted": fenced})
    else:
        for name in fenced:
            click.echo(f"Aborted what {name} had open, and fenced its producer.")
    raise_errors(outcomes, "abort")


@transactions.command("find-hanging")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,P...]",
    help="A topic, or some of its partitions; repeatable. Without it, all topics.",
)
@click.option(
    "--silent-for",
    "silent_for_s",
    type=SECONDS,
    default=_SILENT_S,
    show_default=True,
    metavar="S",
    help="Only producers that wrote nothing for so long.",
)
@broker_options
def find_hanging(topics: tuple[str, ...], silent_for_s: float, bootstrap: str, as_json: bool) -> None:
    """Find open transactions that no coordinator will end.

    Consumers that read committed records wait before such a transaction for ever. Each is shown with the
    command that aborts it.
    """
    wanted = _topics(topics) if topics else None
    since_ms = int((time.time() - silent_for_s) * 1000)

    async def question(admin: Admin) -> list[HangingTransaction]:
        partitions = await _partitions(admin, wanted)
        return await admin.find_hanging_transactions(partitions, silent_since_ms=since_ms)

    found = ask(bootstrap, question)
    if as_json:
        print_json(
            [
                _producer_as_json(each.partition, each.producer) | {"transactional_id": each.transactional_id}
                for each in found
            ]
        )
    elif not found:
        click.echo("No transaction hangs.")
    for each in () if as_json else found:
        click.echo(
            f"{each.partition}: open since offset {each.producer.open_since_offset}, last written"
            f" {_age(each.producer.last_timestamp_ms)} ago by producer {each.producer.producer_id}"
            f"{f' ({each.transactional_id})' if each.transactional_id else ''}"
        )
        click.echo(f"    {abort_command(each.partition, each.producer.producer_id, bootstrap)}")


def succeeded_one(
    outcomes: Mapping[str, TransactionDescription | KafkaError],
) -> TransactionDescription:
    """The only outcome; a broker's refusal is one sentence."""
    raise_errors(outcomes, "describe")
    (described,) = succeeded(outcomes).values()
    return described


async def _without_timeout(admin: Admin, found: Iterable[TransactionListing]) -> list[TransactionListing]:
    """The open transactions that only their producer, or an administrator, ends."""
    candidates = {each.transactional_id: each for each in found if each.state == ONGOING}
    described = await admin.describe_transactions(candidates)
    return [
        candidates[name]
        for name, each in described.items()
        if isinstance(each, TransactionDescription) and each.state == ONGOING and each.is_two_phase
    ]


async def _abort_open(admin: Admin, transactional_ids: Iterable[str]) -> dict[str, Any]:
    """Fence the ids that have a transaction open. Fencing one that does not exist would create it."""
    outcomes: dict[str, Any] = dict(await admin.describe_transactions(transactional_ids))
    open_ids = []
    for name, found in outcomes.items():
        if isinstance(found, TransactionDescription) and found.state == ONGOING:
            open_ids.append(name)
        elif isinstance(found, TransactionDescription):
            why = f"its transaction is not open, it is in the state {found.state}"
            outcomes[name] = KafkaError(ErrorCode.INVALID_TXN_STATE, why)
    return outcomes | await admin.fence_producers(open_ids)


async def _abort_hanging(admin: Admin, partition: TopicPartition, producer_id: int) -> ActiveProducer:
    known = succeeded(await admin.describe_producers([partition]))[partition]
    for each in known:
        if each.producer_id == producer_id and each.open_since_offset is not None:
            await admin.abort_transaction(partition, each)
            return each
    raise click.ClickException(f"producer {producer_id} has no open transaction in {partition}")


async def _partitions(
    admin: Admin, wanted: Mapping[str, Iterable[int] | None] | None
) -> list[TopicPartition]:
    """The partitions of the named topics, or (None) of all topics."""
    if wanted is None:
        known = {topic.name: topic for topic in await admin.list_topics(include_internal=True)}
    else:
        known = succeeded(await admin.describe_topics(wanted))
    return [
        TopicPartition(name, index)
        for name, topic in known.items()
        for index in ((wanted or {}).get(name) or [each.index for each in topic.partitions])
    ]


def _topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    try:
        return parse_topics(texts)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _one_partition(text: str) -> TopicPartition:
    ((name, indexes),) = _topics([text]).items()
    if indexes is None or len(indexes) != 1:
        raise click.UsageError(f'--partition: "{text}" is not a partition: write TOPIC:P')
    return TopicPartition(name, indexes[0])


def _age(timestamp_ms: int) -> str:
    return duration(max(0, int(time.time() * 1000) - timestamp_ms))


def _described_as_json(described: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": described.transactional_id,
        "coordinator": described.coordinator,
        "state": described.state,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "timeout_ms": described.timeout_ms,
        "started_ms": described.started_ms,
        "partitions": [
            {"topic": each.topic, "partition": each.partition} for each in sorted(described.partitions)
        ],
    }


def _producer_as_json(partition: TopicPartition, producer: ActiveProducer) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp_ms": producer.last_timestamp_ms,
        "open_since_offset": producer.open_since_offset,
    }
