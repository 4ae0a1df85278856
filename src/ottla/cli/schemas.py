"""`ottla schemas`: the schemas of a registry, which is a gateway or any other with Confluent's API.

A refusal is one sentence on standard error and exit code 1; so is a schema that does not fit.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from ottla.cli.broker_command import print_json, print_table
from ottla.schemas.formats import parse_schema
from ottla.schemas.levels import Level, incompatibilities
from ottla.schemas.schema import AVRO, PROTOBUF, InvalidSchemaError, Reference
from ottla.serializers.decoding import imports_of
from ottla.serializers.errors import RegistryRequestError, SchemaDataError
from ottla.serializers.registry_client import Registry, RegistrySchema

F = TypeVar("F", bound=Callable[..., Any])

_VERSION = click.option(
    "--version", default="latest", show_default=True, metavar="NUMBER", help="Which version."
)
_TYPE = click.option(
    "--type",
    "schema_type",
    default="",
    help="AVRO, JSON or PROTOBUF; without it PROTOBUF for a .proto file, and AVRO for others.",
)
_REFERENCE = click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="NAME=SUBJECT:VERSION",
    help="A schema that the file refers to; repeatable.",
)
_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


def _registry_options(command: F) -> F:
    """`--registry`, `--user` and `--password`: the argument `registry`. Failures become one sentence."""

    @wraps(command)
    def asked(url: str, user: str | None, password: str | None, **others: Any) -> Any:
        try:
            return command(registry=Registry(url, username=user, password=password), **others)
        except (
            RegistryRequestError,
            SchemaDataError,
            InvalidSchemaError,
            ConnectionError,
            ValueError,
        ) as error:
            raise click.ClickException(str(error)) from error

    for option in _CONNECTION:
        option(asked)
    return cast(F, asked)


_CONNECTION = (
    click.option(
        "--password",
        envvar="OTTLA_REGISTRY_PASSWORD",
        help="The password; better in OTTLA_REGISTRY_PASSWORD.",
    ),
    click.option(
        "--user", envvar="OTTLA_REGISTRY_USER", metavar="NAME", help="Who asks, if the registry demands it."
    ),
    click.option(
        "--registry",
        "url",
        envvar="OTTLA_REGISTRY",
        default="http://localhost:8082",
        show_default=True,
        metavar="URL",
        help="The address of the registry; several with commas.",
    ),
)


@click.group()
def schemas() -> None:
    """List, show, register, check, compare and delete the schemas of a registry.

    The registry is a gateway (`ottla gateway`), or any other with Confluent's API.
    """


@schemas.command("list")
@click.option("--deleted", is_flag=True, help="Also those that are soft deleted.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@_registry_options
def list_subjects(registry: Registry, deleted: bool, as_json: bool) -> None:
    """Show all subjects with their versions and their latest schema."""
    rows = []
    for subject in sorted(registry.subjects(include_deleted=deleted)):
        versions = registry.versions(subject, include_deleted=deleted)
        latest = None if deleted else registry.version(subject)
        rows.append((subject, versions, latest))
    if as_json:
        shown = [{"subject": subject, "versions": versions} for subject, versions, _ in rows]
        print_json(shown)
    elif not rows:
        click.echo("There are no subjects.")
    else:
        print_table(
            ["subject", "versions", "type", "id"],
            [
                (subject, _spans(versions), *(("", "") if latest is None else (latest.type, latest.id)))
                for subject, versions, latest in rows
            ],
        )


@schemas.command()
@click.argument("subject")
@_VERSION
@click.option("--json", "as_json", is_flag=True, help="Print all about it as JSON, and not only the schema.")
@_registry_options
def show(registry: Registry, subject: str, version: str, as_json: bool) -> None:
    """Print a schema."""
    found = registry.version(subject, version)
    if as_json:
        print_json({**found._asdict(), "references": [each._asdict() for each in found.references]})
    else:
        click.echo(_pretty(found.text))


@schemas.command()
@click.argument("subject")
@_FILE
@_TYPE
@_REFERENCE
@click.option("--normalize", is_flag=True, help="Bring the schema into its normal form first.")
@_registry_options
def register(
    registry: Registry,
    subject: str,
    file: Path,
    schema_type: str,
    references: tuple[str, ...],
    normalize: bool,
) -> None:
    """Register the schema in a file under a subject.

    \b
    ottla schemas register orders-value order.avsc
    """
    made = registry.register(subject, _sent(file, schema_type, references), normalize=normalize)
    version = f", version {made.version}" if made.version else ""
    click.echo(f"{subject} has the schema{version}, with id {made.id} and GUID {made.guid}.")


@schemas.command()
@click.argument("subject")
@_FILE
@_TYPE
@_REFERENCE
@_registry_options
def check(
    registry: Registry, subject: str, file: Path, schema_type: str, references: tuple[str, ...]
) -> None:
    """Say whether the schema in a file could be registered, and why not. Nothing is changed."""
    level = registry.level(subject)
    misfits = registry.misfits(subject, _sent(file, schema_type, references))
    if misfits:
        lines = "\n".join(f"  {each}" for each in misfits)
        raise click.ClickException(f"{file} does not fit {subject} (compatibility {level}):\n{lines}")
    click.echo(f"{file} fits {subject} (compatibility {level}).")


@schemas.command()
@click.argument("subject")
@click.argument("old")
@click.argument("new", default="latest")
@_registry_options
def diff(registry: Registry, subject: str, old: str, new: str) -> None:
    """Show what changed between two versions, and who can read whose data."""
    before, after = registry.version(subject, old), registry.version(subject, new)
    lines = difflib.unified_diff(
        _pretty(before.text).splitlines(),
        _pretty(after.text).splitlines(),
        f"{subject} version {before.version}",
        f"{subject} version {after.version}",
        lineterm="",
    )
    for line in lines:
        click.echo(line)
    parsed = [parse_schema(each.type, each.text, imports_of(registry, each)) for each in (before, after)]
    for level, words in ((Level.BACKWARD, "new readers, old data"), (Level.FORWARD, "old readers, new data")):
        found = incompatibilities(level, new=parsed[1], old=parsed[0])
        click.echo(f"{words}: {'; '.join(each.message for each in found) or 'yes'}")


@schemas.command()
@click.argument("subject")
@click.option("--version", metavar="NUMBER", help="One version; without it, all of them.")
@click.option("--permanent", is_flag=True, help="Delete for good what was deleted before.")
@_registry_options
def delete(registry: Registry, subject: str, version: str | None, permanent: bool) -> None:
    """Delete a subject, or one of its versions. Old data can be read until the delete is made permanent."""
    numbers = registry.delete(subject, version, permanent=permanent)
    how = "for good" if permanent else "softly"
    click.echo(f"Deleted {how}: {subject} version{'s' if len(numbers) > 1 else ''} {_spans(numbers)}.")


def _sent(file: Path, schema_type: str, references: tuple[str, ...]) -> RegistrySchema:
    chosen = schema_type.upper() or (PROTOBUF if file.suffix == ".proto" else AVRO)
    return RegistrySchema(file.read_text(encoding="utf-8"), chosen, tuple(map(_reference, references)))


def _reference(text: str) -> Reference:
    name, _, place = text.partition("=")
    subject, _, version = place.rpartition(":")
    if not (name and subject and version.isascii() and version.isdigit()):
        raise click.UsageError(f"--reference {text}: expected NAME=SUBJECT:VERSION")
    return Reference(name, subject, int(version))


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _spans(numbers: list[int]) -> str:
    """1-3, 5 for 1, 2, 3, 5."""
    spans: list[list[int]] = []
    for each in sorted(numbers):
        if spans and spans[-1][1] == each - 1:
            spans[-1][1] = each
        else:
            spans.append([each, each])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
