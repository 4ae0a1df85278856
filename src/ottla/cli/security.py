"""`ottla security`: certificates, an administrator and settings, for a cluster whose owners have none yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ottla.cli.broker_command import ask, broker_options, print_json, raise_errors
from ottla.client.admin.admin import Admin
from ottla.client.requests.configs import ConfigChange, ConfigEntry, ConfigResource, ResourceType
from ottla.client.requests.outcomes import succeeded
from ottla.config import ConfigError
from ottla.errors import KafkaError
from ottla.localcluster.plan.security_settings import ADMINISTRATOR
from ottla.localcluster.security_files import DEFAULT_DAYS, MOST_DAYS, SecurityFiles

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# The settings of which a broker has at least one, if it has a certificate in a file.
_FILES: Final = ("ottla.ssl.certificate.file", "ssl.keystore.location", "ssl.truststore.location")
_DEFAULT_DATA: Final = "./ottla-cluster"  # where `ottla cluster up` keeps everything by default
_SUMMARIES: Final = {
    "authority.pem": "what clients trust: give it to them",
    "authority.key": "signs certificates: keep it secret, brokers do not need it",
    "broker.pem": "the certificate of the brokers",
    "broker.key": "its key",
    "admin.pem": f"a certificate of User:{ADMINISTRATOR}, for listeners that ask for one",
    "admin.key": "its key",
    "users.properties": "the administrator's password, for brokers",
    "broker.properties": "the settings of a broker, but for its listeners",
    "client.properties": "how the administrator reaches the cluster, with the password",
}


def _data_option(command: F) -> F:
    return click.option(
        "--data",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        default=_DEFAULT_DATA,
        show_default=True,
        help="The directory of the cluster or broker; the files are in DIR/security.",
    )(command)


def _days_option(command: F) -> F:
    return click.option(
        "--days",
        type=click.IntRange(1, MOST_DAYS),
        default=DEFAULT_DAYS,
        show_default=True,
        help="How long the certificates are valid.",
    )(command)


def _host_option(sentence: str) -> Callable[[F], F]:
    def option(command: F) -> F:
        return click.option(
            "--host", "hosts", metavar="HOST", multiple=True, callback=_checked, help=sentence
        )(command)

    return option


def _checked(context: click.Context, option: click.Parameter, hosts: tuple[str, ...]) -> tuple[str, ...]:
    for host in hosts:
        if not host.strip() or any(character in host for character in " ,/@"):
            raise click.BadParameter(
                f"{host!r} is no host: give one name or address each time", context, option
            )
    return hosts


@click.group()
def security() -> None:
    """Make certificates, an administrator and settings for a secured cluster.

    \b
    ottla security init
    ottla cluster up --secure
    ottla topics list --config ottla-cluster/security/client.properties
    """


@security.command()
@_data_option
@_host_option("A name or address by which brokers are reached; repeatable. This machine's own are always in.")
@_days_option
@click.option("--bootstrap", metavar="HOST:PORT", help="The brokers, for client.properties.")
def init(data: Path, hosts: tuple[str, ...], days: int, bootstrap: str | None) -> None:
    """Make an authority, certificates, an administrator with a password, and settings.

    Everything is in DIR/security, and secrets are readable for their owner alone. What is there is never
    overwritten.

    \b
    ottla security init --data /etc/ottla --host a.example.org --host b.example.org
    """
    files = SecurityFiles(data)
    brokers = bootstrap or (f"{hosts[0]}:9092" if hosts else "localhost:9092")
    written = _done(lambda: files.make(hosts, days, brokers))
    click.echo(f"Made {files.directory}:")
    for path in written:
        click.echo(f"  {path.name:18} {_SUMMARIES[path.name]}")
    client = files.client_properties
    if hosts:
        click.echo(
            f"Next, on each machine: ottla serve --config {files.broker_properties} --set listeners=... "
            "(docs/security.md, Several machines)"
        )
    else:
        click.echo(f"Next: ottla cluster up --secure --data {data}, or: ottla serve --secure --data {data}")
    click.echo(f"Then: ottla topics list --config {client}")


@security.command()
@click.argument("name")
@_data_option
@_host_option("A certificate of a broker that is reached by this name or address; repeatable.")
@_days_option
def issue(name: str, data: Path, hosts: tuple[str, ...], days: int) -> None:
    """Sign a certificate for a client, or with --host for a broker, by the authority in DIR/security.

    A client is User:NAME where it shows the certificate. A broker is the user of the other brokers.

    \b
    ottla security issue alice
    ottla security issue broker-4 --host d.example.org
    """
    written = _done(lambda: SecurityFiles(data).issue(name, hosts=hosts, days=days))
    _tell(written)


@security.command()
@_data_option
@_host_option("Have the certificates of brokers name this host as well; repeatable.")
@_days_option
def renew(data: Path, hosts: tuple[str, ...], days: int) -> None:
    """Sign new certificates in place of those in DIR/security, for the same names.

    Brokers that run use the new ones a few seconds later, without a restart.
    """
    _tell(_done(lambda: SecurityFiles(data).renew(hosts, days)))


@security.command()
@click.option(
    "--broker", "node_id", type=click.IntRange(0), metavar="ID", help="Which.  [default: each of them]"
)
@broker_options
def reload(node_id: int | None, bootstrap: str, as_json: bool) -> None:
    """Have brokers that run load their certificates now, and say whether they could.

    They look for new files every few seconds by themselves; this command waits for them, and fails if the files
    cannot be used. Then the old certificates stay in use.

    \b
    ottla security reload --config ottla-cluster/security/client.properties
    """
    outcomes = ask(bootstrap, lambda admin: _reloaded(admin, node_id))
    done = [name for name, error in outcomes.items() if error is None]
    if as_json:
        print_json({"reloaded": [int(name) for name in done]})
    else:
        for name in done:
            click.echo(f"Broker {name} loaded its certificates.")
    raise_errors({f"the certificates of broker {name}": error for name, error in outcomes.items()}, "load")


async def _reloaded(admin: Admin, node_id: int | None) -> dict[str, KafkaError | None]:
    """Tell each broker the files that it has: as with Kafka, it loads them then."""
    nodes = (
        [each.node_id for each in (await admin.describe_cluster()).brokers] if node_id is None else [node_id]
    )
    resources = [ConfigResource(ResourceType.BROKER, str(each)) for each in nodes]
    described = succeeded(await admin.describe_configs(resources))
    changes = {
        resource: [ConfigChange(name, value) for name in _FILES if (value := _value(entries, name))]
        for resource, entries in described.items()
    }
    without = [resource.name for resource, files in changes.items() if not files]
    if without:
        raise click.ClickException(f"Broker {without[0]} has no files of certificates to load.")
    return {each.name: error for each, error in (await admin.alter_configs(changes)).items()}


def _value(entries: Mapping[str, ConfigEntry], name: str) -> str | None:
    return entries[name].value if name in entries else None


def _tell(written: Sequence[Path]) -> None:
    for path in written:
        click.echo(f"Wrote {path}")


def _done(work: Callable[[], T]) -> T:
    """The outcome; every failure becomes one sentence."""
    try:
        return work()
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{where}{(error.strerror or str(error)).lower()}") from error
