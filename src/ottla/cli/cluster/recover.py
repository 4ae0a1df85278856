"""`ottla cluster recover`: partitions without a leader, what each live replica would give up, and an election.

Nothing is changed without --yes. An election of a replica that may miss acknowledged records loses the records
that only others hold, so the command first shows what it knows: the logs of the live replicas, compared with
each other. What a replica holds that is away, nobody can tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ottla.cli.broker_command import ask, print_json, print_table, sentence
from ottla.cli.cluster.options import address_of, bootstrap_options, data_option, node_id, refusing
from ottla.client.admin.admin import Admin
from ottla.client.admin.checks.waiting_partitions import brokers
from ottla.client.requests.leaderless import LeaderCandidate, LeaderlessPartition
from ottla.client.requests.outcomes import succeeded
from ottla.errors import KafkaError
from ottla.localcluster.state import ClusterError
from ottla.model import TopicPartition

Leaderless = Mapping[TopicPartition, LeaderlessPartition]
Outcomes = Mapping[TopicPartition, KafkaError | None]


@click.command()
@data_option
@bootstrap_options
@click.option("--topic", metavar="NAME", help="Only partitions of this topic.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Only this partition of --topic.")
@click.option("--replica", type=node_id, metavar="ID", help="Choose this broker's replica, not the best one.")
@click.option("--yes", is_flag=True, help="Elect the chosen replicas. What they do not hold is lost.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@refusing
def recover(
    data: Path,
    bootstrap: str | None,
    topic: str | None,
    partition: int | None,
    replica: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Show the partitions without a leader, and with --yes elect a live replica for each.

    The best replica has the longest log of the highest leader epoch. A replica that holds every acknowledged
    record leads by itself as soon as its broker is back: start the brokers that are waited for, if that can
    be, before you elect another.

    \b
    ottla cluster recover --bootstrap localhost:9092
    ottla cluster recover --bootstrap localhost:9092 --topic orders --partition 0 --replica 2 --yes
    """
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    address = address_of(data, bootstrap)
    found = ask(address, lambda admin: _found(admin, topic, partition))
    chosen = {each: choice for each, waiting in found.items() if (choice := chosen_of(waiting, replica))}
    outcomes: Outcomes = {}
    if yes and chosen:
        wanted = {each: choice.node_id for each, choice in chosen.items()}
        outcomes = ask(address, lambda admin: admin.elect_replicas(wanted))
    if as_json:
        print_json(as_document(found, chosen, outcomes))
    else:
        _print(found, chosen, outcomes, replica)
    if yes:
        _refuse_failures(found, outcomes, replica)


async def _found(
    admin: Admin, topic: str | None, index: int | None
) -> dict[TopicPartition, LeaderlessPartition]:
    if topic is not None and index is not None:
        known = succeeded(await admin.describe_topics([topic]))[topic]
        if index not in [each.index for each in known.partitions]:
            raise ClusterError(
                f"The topic {topic} has {len(known.partitions)} partitions, and no partition {index}."
            )
    found = await admin.describe_leaderless(None if topic is None else [topic])
    return {each: waiting for each, waiting in found.items() if index is None or each.partition == index}


def chosen_of(waiting: LeaderlessPartition, replica: int | None) -> LeaderCandidate | None:
    """The replica to elect: the named one, or the best; None if it is not live."""
    wanted = (each for each in waiting.candidates if replica is None or each.node_id == replica)
    return next(wanted, None)


def _refuse_failures(found: Leaderless, outcomes: Outcomes, replica: int | None) -> None:
    """Fail with one sentence about the partitions that got no leader."""
    reasons = []
    for partition, waiting in found.items():
        if partition not in outcomes:
            away = waiting.replicas if replica is None else (replica,)
            reasons.append(f"{partition} has no live replica to elect: start {brokers(away)}")
        elif (error := outcomes[partition]) is not None:
            reasons.append(f"{partition} still has no leader: {sentence(error)}")
    if reasons:
        raise ClusterError("; ".join(reasons) + ".")


# ---- for people


def _print(
    found: Leaderless,
    chosen: Mapping[TopicPartition, LeaderCandidate],
    outcomes: Outcomes,
    replica: int | None,
) -> None:
    if not found:
        click.echo("Every partition has a leader: there is nothing to recover.")
        return
    for partition, waiting in found.items():
        click.echo(f"{partition} has no leader. {waits_for(waiting)}")
        print_table(
            ["replica", "log start", "log end", "last epoch", "newest record", "gives up if elected"],
            _rows(waiting),
        )
        if partition in outcomes and outcomes[partition] is None:
            choice = chosen[partition]
            click.echo(
                f"Elected: broker {choice.node_id} leads {partition}. It gives up {given_up(choice, waiting)}."
            )
    if chosen and not outcomes:
        names = ", ".join(f"broker {choice.node_id} for {each}" for each, choice in chosen.items())
        click.echo(f"Nothing was changed. The same command with --yes elects {names}.")
    elif not chosen:
        which = "that replica is not live anywhere" if replica is not None else "no replica is live"
        click.echo(f"Nothing can be elected: {which}.")


def waits_for(waiting: LeaderlessPartition) -> str:
    """Who is waited for, in a sentence."""
    if waiting.awaited:
        return (
            f"It waits for {brokers(waiting.awaited)}, which held every acknowledged record when last seen: "
            "started again with its disk, it leads, and nothing is lost."
        )
    last = "" if waiting.last_leader is None else f" Broker {waiting.last_leader} led last."
    return f"No replica surely holds every acknowledged record: it waits for you.{last}"


def _rows(waiting: LeaderlessPartition) -> list[tuple[Any, ...]]:
    live = [
        (
            each.node_id,
            each.log_start_offset,
            each.log_end_offset,
            None if each.last_epoch < 0 else each.last_epoch,
            _moment(each.newest_timestamp_ms),
            given_up(each, waiting),
        )
        for each in waiting.candidates
    ]
    return [
        *live,
        *((each, None, None, None, None, f"unknown: {why}") for each, why in waiting.silent.items()),
    ]


def given_up(candidate: LeaderCandidate, waiting: LeaderlessPartition) -> str:
    """The records that an election of this replica gives up, as far as they are known."""
    parts = []
    for other, count in candidate.gives_up.items():
        if count is None:
            parts.append(f"an unknown number of records of broker {other}")
        elif count:
            parts.append(f"{count} records of broker {other}")
    known = ", ".join(parts) or "nothing that a live replica has"
    if not waiting.silent:
        return known
    return f"{known}, and what only {brokers(tuple(waiting.silent))} has (unknown)"


def _moment(timestamp_ms: int) -> str | None:
    if timestamp_ms < 0:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")


# ---- for programs


def as_document(
    found: Leaderless, chosen: Mapping[TopicPartition, LeaderCandidate], outcomes: Outcomes
) -> dict[str, Any]:
    """The partitions and what was decided, as a document."""
    return {
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                **asdict(waiting),
                "awaited": waiting.awaited,
                "chosen": chosen[partition].node_id if partition in chosen else None,
                "is_elected": partition in outcomes and outcomes[partition] is None,
                "error": sentence(error) if (error := outcomes.get(partition)) else None,
            }
            for partition, waiting in found.items()
        ]
    }
