"""`ottla cluster status`: tables for people, a document for programs, and a sentence for each problem."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.broker_command import print_json, print_table, run
from ottla.cli.client_config import security_given, use_security
from ottla.cli.cluster.options import bootstrap_options, data_option, refusing
from ottla.localcluster.cluster import LocalCluster
from ottla.localcluster.state import ClusterState, Condition, numbers, quorum_sentence
from ottla.localcluster.status import (
    BrokerStatus,
    ClusterStatus,
    PartitionStatus,
    gather_status,
    local_status,
)

_MOST_PARTITIONS: Final = 20
_WATCH_SECONDS: Final = 1.0
# How the load that a broker reports is shown: the name, the column's title, and the unit to divide by.
_LOAD: Final = (
    ("cpu.percent", "cpu %", 1),
    ("resident.bytes", "MiB", 1 << 20),
    ("disk.free.bytes", "free GiB", 1 << 30),
    ("in.bytes.per.second", "in KiB/s", 1 << 10),
    ("out.bytes.per.second", "out KiB/s", 1 << 10),
    ("in.messages.per.second", "records/s", 1),
)


@click.command()
@data_option
@bootstrap_options
@click.option(
    "--partitions", "all_partitions", is_flag=True, help="All partitions, not only those in trouble."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--watch", is_flag=True, help="Again and again, until Ctrl-C.")
@refusing
def status(data: Path, bootstrap: str | None, all_partitions: bool, as_json: bool, watch: bool) -> None:
    """Show leaders, replicas in sync, lag, controller, and load."""
    while True:
        state, cuts = (None, []) if bootstrap else _supervised(data)
        found = _status(bootstrap, state)
        if watch and not as_json:
            click.clear()
        if as_json:
            print_json(as_document(found, state, cuts))
        else:
            for line in headlines(found, state, data, cuts):
                click.echo(line)
            _print_brokers(found)
            _print_partitions(found, all_partitions)
        if not watch:
            return
        time.sleep(_WATCH_SECONDS)


def _supervised(data: Path) -> tuple[ClusterState, list[str]]:
    cluster = LocalCluster(data)
    cuts = cluster.cuts()
    use_security(cluster.security)
    return cluster.running_state, cuts


def _status(bootstrap: str | None, state: ClusterState | None) -> ClusterStatus:
    if state is not None:
        return run(local_status(state, security_given()))
    assert bootstrap is not None
    return run(gather_status(bootstrap, None, security_given()))


def headlines(found: ClusterStatus, state: ClusterState | None, data: Path, cuts: list[str]) -> list[str]:
    """The cluster in a few lines, problems included."""
    quorum = found.quorum
    lines = [
        f"Cluster {found.cluster_id or '-'}: controller {_or_dash(found.controller_id)}"
        + (f", epoch {quorum.leader_epoch}, metadata at {quorum.high_watermark}" if quorum else "")
        + f", {len(found.brokers)} brokers, {len(found.partitions)} partitions"
    ]
    if found.problem:
        lines.append(found.problem)
    if state is not None and (lost := quorum_sentence(state, data)):
        lines.append(lost)
    elif not found.problem and (quorum is None or quorum.leader_id is None):
        lines.append(
            "The quorum has no leader: nothing that changes metadata works until a majority of voters agrees on one."
        )
    if cuts:
        lines.append(f"The network is broken: {'; '.join(cuts)}")
    return lines + troubles(found)


def troubles(found: ClusterStatus) -> list[str]:
    """Fenced brokers and partitions that are not well, counted."""
    leaderless = [each for each in found.partitions if each.leader is None]
    behind = [each for each in found.partitions if each.leader is not None and not each.is_well]
    fenced = [each.node_id for each in found.brokers if each.is_fenced]
    lines = []
    if fenced:
        lines.append(
            f"Fenced, so not in use: {'broker' if len(fenced) == 1 else 'brokers'} {numbers(fenced)}"
        )
    if leaderless:
        lines.append(f"Without a leader, so neither read nor written: {_count(leaderless)}")
    if behind:
        lines.append(f"With replicas that are not in sync: {_count(behind)}")
    return lines


def _count(partitions: list[PartitionStatus]) -> str:
    return f"{len(partitions)} partition{'s' if len(partitions) != 1 else ''}"


def _print_brokers(found: ClusterStatus) -> None:
    shown = [entry for entry in _LOAD if any(entry[0] in each.load for each in found.brokers)]
    columns = [
        "broker",
        "address",
        "rack",
        "process",
        "role",
        "leads",
        "replicas",
        "in sync",
        "lag",
        "metadata lag",
    ]
    rows = [
        [
            each.node_id,
            each.address,
            each.rack,
            condition_words(each),
            _role(each, found),
            each.leads,
            each.replicas,
            each.in_sync,
            each.replica_lag,
            each.metadata_lag,
            *(_scaled(each.load.get(name), unit) for name, _, unit in shown),
        ]
        for each in found.brokers
    ]
    print_table([*columns, *(title for _, title, _ in shown)], rows)


def _print_partitions(found: ClusterStatus, all_of_them: bool) -> None:
    chosen = [each for each in found.partitions if all_of_them or not each.is_well]
    shown = chosen if all_of_them else chosen[:_MOST_PARTITIONS]
    rows = [
        [
            f"{each.topic}-{each.index}",
            each.leader,
            each.leader_epoch,
            _ids(each.replicas),
            _ids(each.isr),
            " ".join(f"{node}:{lag}" for node, lag in each.lags.items() if lag) or "0",
        ]
        for each in shown
    ]
    if rows:
        print_table(["partition", "leader", "epoch", "replicas", "in sync", "lag"], rows)
    if len(shown) < len(chosen):
        click.echo(f"... and {len(chosen) - len(shown)} more: see all with --partitions")


def condition_words(broker: BrokerStatus) -> str:
    """The condition of a broker's process, and whether the controller has fenced the broker."""
    if broker.process is None:
        return "fenced" if broker.is_fenced else "in use" if broker.is_fenced is False else "-"
    process = broker.process
    words = f"{process.condition} ({process.pid})" if process.pid else str(process.condition)
    return f"{words}, fenced" if broker.is_fenced and process.condition == Condition.RUNNING else words


def _role(broker: BrokerStatus, found: ClusterStatus) -> str:
    if broker.node_id == found.controller_id:
        return "controller"
    return "-" if broker.is_voter is None else "voter" if broker.is_voter else "observer"


def as_document(found: ClusterStatus, state: ClusterState | None, cuts: list[str]) -> dict[str, Any]:
    """The status as a document for programs."""
    document = asdict(found)
    for broker in document["brokers"]:
        if process := broker.pop("process"):
            broker |= {key: process[key] for key in ("condition", "pid", "port", "exit_status")}
    document["has_quorum"] = state.has_quorum if state else found.quorum is not None
    document["missing_voters"] = state.missing_voters if state else None
    document["cuts"] = cuts
    return document


def _scaled(text: str | None, unit: int) -> int | str | None:
    try:
        return None if text is None else round(float(text) / unit)
    except ValueError:
        return text


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
