"""The command `ottla`: a group whose commands are imported only when they are called.

`ottla serve` should be ready in a fraction of a second and stay small, so it must not pay for what draws
tables; and `ottla --help` should not pay for anything.
"""

from __future__ import annotations

import time

_STARTED = time.perf_counter()  # before the imports, so that a broker's time to be ready includes them

from importlib import import_module  # noqa: E402
from typing import NamedTuple  # noqa: E402

import click  # noqa: E402

from ottla.version import __version__  # noqa: E402


class Entry(NamedTuple):
    """Where a command lives, and the line about it in the list of commands."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "serve": Entry("ottla.cli.serve", "serve", "Run a broker."),
    "format": Entry(
        "ottla.cli.format", "format_directory", "Prepare the directory of a voter before its first start."
    ),
    "cluster": Entry(
        "ottla.cli.cluster.commands", "cluster", "Run a local cluster of brokers, and break it."
    ),
    "gateway": Entry("ottla.cli.gateway", "gateway", "Serve a cluster over REST and WebSocket."),
    "topics": Entry("ottla.cli.admin.topics", "topics", "Create, delete, list, describe and alter topics."),
    "configs": Entry(
        "ottla.cli.admin.configs", "configs", "Describe and alter the settings of running brokers."
    ),
    "features": Entry(
        "ottla.cli.admin.features", "features", "List features, and raise or lower their levels."
    ),
    "tiers": Entry(
        "ottla.cli.tiers.commands", "tiers", "Old segments in an object store: list, check, repair."
    ),
    "groups": Entry("ottla.cli.admin.groups", "groups", "List, describe, move and delete consumer groups."),
    "clients": Entry(
        "ottla.cli.admin.clients", "clients", "Clients that push metrics: list, describe, subscribe."
    ),
    "transactions": Entry(
        "ottla.cli.admin.transactions",
        "transactions",
        "List, describe and abort transactions; find those that hang.",
    ),
    "acls": Entry("ottla.cli.admin.acls", "acls", "Who may do what: list, add, remove and check rights."),
    "users": Entry("ottla.cli.admin.users", "users", "Users that log in with a password."),
    "tokens": Entry("ottla.cli.admin.tokens", "tokens", "Delegation tokens: logins that users hand on."),
    "quotas": Entry("ottla.cli.admin.quotas", "quotas", "How much clients may send and read."),
    "security": Entry(
        "ottla.cli.security",
        "security",
        "Make certificates, an administrator and settings.",
    ),
    "produce": Entry("ottla.cli.records.produce", "produce", "Send lines to a topic."),
    "consume": Entry("ottla.cli.records.consume", "consume", "Print the records of a topic."),
    "schemas": Entry(
        "ottla.cli.schemas", "schemas", "List, show, register, check, compare and delete schemas."
    ),
    "audit": Entry("ottla.cli.spark.audit", "audit", "Compare a topic with the table that was made from it."),
    "pipeline": Entry(
        "ottla.cli.spark.pipeline", "pipeline", "Make, run and watch pipelines from topics to tables."
    ),
    "lake": Entry("ottla.cli.lake.commands", "lake", "Keep Iceberg, Delta or Parquet tables of topics."),
    "sql": Entry("ottla.cli.lake.sql", "sql", "Answer a query over topics and their tables."),
    "bench": Entry("ottla.cli.records.bench", "bench", "Put load on any Kafka, and measure it."),
    "mirror": Entry("ottla.cli.records.mirror", "mirror", "Copy topics from one cluster to another."),
    "dump": Entry("ottla.cli.inspect.dump", "dump", "Show what is inside the files of a data directory."),
    "trace": Entry("ottla.cli.inspect.trace", "trace", "Tell one record's life."),
    "doctor": Entry("ottla.cli.inspect.doctor", "doctor", "Check data, settings and a running broker."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name only. (click asks for a subclass.)"""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each command has its own help: ottla serve --help",
)
@click.version_option(__version__, "-V", "--version", prog_name="ottla")
def ottla() -> None:
    """Ottla: an event log that speaks Kafka's protocol, written in Python."""


def main() -> None:
    """The entry point of the command `ottla`."""
    ottla(prog_name="ottla", obj=_STARTED)


if __name__ == "__main__":
    main()
