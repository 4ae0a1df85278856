"""`ottla format`: prepare the directory of a voter that has never voted, before its first start."""

from __future__ import annotations

import asyncio

import click

from ottla.cli.broker_settings import Refusal, broker_config
from ottla.config import BrokerConfig, ConfigError
from ottla.errors import KafkaError


@click.command("format")
@click.option("--data", metavar="DIR", help="Where the data is to be kept.  [default: ./ottla-data]")
@click.option("--node-id", metavar="N", help="The number of this node.  [default: 1]")
@click.option(
    "--config",
    "files",
    metavar="FILE",
    multiple=True,
    help="A file of settings, one NAME=VALUE on a line; repeatable, the last one counts.",
)
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="One setting; repeatable.")
@click.option(
    "--give-up-lost-metadata",
    is_flag=True,
    help="A majority of voters lost their disks: let this one vote for those that are left.",
)
def format_directory(
    data: str | None,
    node_id: str | None,
    files: tuple[str, ...],
    assignments: tuple[str, ...],
    give_up_lost_metadata: bool,
) -> None:
    """Prepare the data directory of a voter that has never voted.

    A majority of prepared voters founds a cluster; without this command the first start waits for all voters.
    Run it once for each voter, with the settings of `ottla serve`, and never for a voter that lost its disk:
    such a voter is started with an empty directory and earns its vote back.

    \b
    ottla format --data /var/lib/ottla --node-id 1 \\
        --set controller.quorum.voters=1@a.example.org:9092,2@b.example.org:9092,3@c.example.org:9092
    """
    from ottla.server.quorum.preparation import epochs_of_others, prepare_voter

    try:
        config = broker_config(files, assignments, data=data, node_id=node_id)
        _refuse_others(config)
        epochs = asyncio.run(epochs_of_others(config))
        newest = max(epochs.values(), default=0)
        if give_up_lost_metadata:
            _refuse_without_survivor(newest)
        else:
            _refuse_existing(epochs)
        from ottla.runtime.runtime import Runtime

        prepare_voter(config, Runtime(), newest)
    except (ConfigError, KafkaError) as error:
        raise Refusal(error.message if isinstance(error, KafkaError) else str(error)) from error
    except OSError as error:
        raise Refusal(f"{config.logs.directory} cannot be prepared: {error.strerror or error}.") from error
    click.echo(f"{config.logs.directory} is prepared for voter {config.node.id}.")


def _refuse_others(config: BrokerConfig) -> None:
    if not config.node.is_voter or not config.node.voters:
        raise ConfigError(
            f"Node {config.node.id} is not among several controller.quorum.voters: only their directories are "
            "prepared, others need no preparation."
        )


def _refuse_existing(epochs: dict[int, int]) -> None:
    founded = [node_id for node_id, epoch in epochs.items() if epoch > 0]
    if founded:
        raise ConfigError(
            f"The quorum exists, node {founded[0]} says so: start this node with an empty directory, and it votes as "
            "soon as it has caught up. If a majority of voters lost their disks, see docs/cluster.md, Recovering."
        )


def _refuse_without_survivor(newest: int) -> None:
    if newest == 0:
        raise ConfigError(
            "No other voter that remembers the quorum answers: start the voters whose directories are left first."
        )
