"""`ottla cluster voters`: the voters of the metadata quorum, shown and changed."""

from __future__ import annotations

from pathlib import Path

import click

from ottla import Admin, ConfigResource, ResourceType, succeeded
from ottla.cli.broker_command import ask
from ottla.cli.cluster.options import address_of, bootstrap_options, data_option, refusing
from ottla.client.requests.quorum import QuorumDescription, QuorumReplica
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.state import ClusterError
from ottla.model import Address


@click.command()
@data_option
@bootstrap_options
@click.option("--add", "added", type=click.IntRange(min=0), metavar="ID", help="Make a node a voter.")
@click.option(
    "--remove", "removed", type=click.IntRange(min=0), metavar="ID", help="Let a voter vote no more."
)
@click.option(
    "--address", metavar="HOST:PORT", help="With --add: where other voters reach a node that is no broker."
)
@refusing
def voters(
    data: Path, bootstrap: str | None, added: int | None, removed: int | None, address: str | None
) -> None:
    """Show the voters of the metadata quorum, add one or remove one.

    A node that is to be added runs with ottla.controller.standby=true, or is a voter that lost its disk and was
    removed. A leader that is removed hands over. A voter whose machine is gone is removed by its number.

    \b
    ottla cluster voters --bootstrap localhost:9092
    ottla cluster voters --bootstrap localhost:9092 --add 4
    ottla cluster voters --bootstrap localhost:9092 --remove 2
    """
    broker = address_of(data, bootstrap)
    if removed is not None:
        ask(broker, lambda admin: _remove(admin, removed))
        click.echo(f"Node {removed} is no voter any more.")
    if added is not None:
        ask(broker, lambda admin: _add(admin, added, address))
        click.echo(f"Node {added} is a voter.")
    _show(ask(broker, lambda admin: admin.describe_quorum()))


async def _add(admin: Admin, node_id: int, address: str | None) -> None:
    quorum = await admin.describe_quorum()
    replica = _find(quorum.observers, node_id, "does not follow the quorum as an observer")
    where = address or await _address_of(admin, node_id, quorum)
    try:
        await admin.add_voter(node_id, replica.directory_id, where)
    except KafkaError as error:
        if error.code is not ErrorCode.DUPLICATE_VOTER:  # as in `_remove`
            raise


async def _remove(admin: Admin, node_id: int) -> None:
    quorum = await admin.describe_quorum()
    replica = _find(quorum.voters, node_id, "is not a voter")
    try:
        await admin.remove_voter(node_id, replica.directory_id)
    except KafkaError as error:
        # It was a voter a moment ago: the answer to the first attempt was lost, and this is that to the second.
        if error.code is not ErrorCode.VOTER_NOT_FOUND:
            raise


async def _address_of(admin: Admin, node_id: int, quorum: QuorumDescription) -> str:
    """The broker's address at the listener of the quorum: as its settings say, unless clients use the same one."""
    brokers = {
        each.node_id: Address(each.host, each.port) for each in (await admin.describe_cluster()).brokers
    }
    name, leader_id = quorum.listener_name, quorum.leader_id
    leader = None if leader_id is None else quorum.listeners.get(leader_id)
    if node_id in brokers and (leader is None or brokers.get(leader_id or 0) == leader.address):
        return str(brokers[node_id])
    found = await _listener_of(admin, node_id, name) if node_id in brokers else None
    if found is None:
        raise ClusterError(
            f"The address of node {node_id} at the listener {name} is not known: give it with --address HOST:PORT."
        )
    return found


async def _listener_of(admin: Admin, node_id: int, name: str) -> str | None:
    broker = ConfigResource(ResourceType.BROKER, str(node_id))
    settings = succeeded(await admin.describe_configs([broker]))[broker]
    for setting in ("advertised.listeners", "listeners"):
        entry = settings.get(setting)
        for listener in (entry.value or "").split(",") if entry is not None else ():
            found, _, address = listener.strip().partition("://")
            if found.upper() == name and address.partition(":")[0]:
                return address
    return None


def _find(replicas: tuple[QuorumReplica, ...], node_id: int, problem: str) -> QuorumReplica:
    for replica in replicas:
        if replica.node_id == node_id:
            return replica
    raise ClusterError(f"Node {node_id} {problem}.")


def _show(quorum: QuorumDescription) -> None:
    for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
        for each in replicas:
            leads = ", leads" if each.node_id == quorum.leader_id else ""
            click.echo(f"node {each.node_id}: {role}{leads}, log end {each.log_end_offset}")
