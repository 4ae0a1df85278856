"""`ottla pipeline`: init, prepare, run, check, compact, status. Spark's declarative pipelines, with topics as sources
and sinks.

Exit codes: 0 done (or stopped, where it would have run on), 1 the pipeline failed, 2 the command was not
understood, 130 interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.client_config import client_options, security_properties_given

if TYPE_CHECKING:
    from ottla.spark.pipelines.project import Project
    from ottla.spark.pipelines.session import Where

F = TypeVar("F", bound=Callable[..., Any])

_EVERY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|min|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}


@click.group()
def pipeline() -> None:
    """Make, run and watch data pipelines from topics to tables, with Spark."""


class Every(click.ParamType[float]):
    """A duration such as 10s. (click asks for a subclass.)"""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = _EVERY.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a duration: write it as 10s, 500ms or 1m", param, ctx)
        return float(found["number"]) * _SECONDS[found["unit"]]


def _directory(command: F) -> F:
    return click.argument("directory", metavar="[DIR]", type=click.Path(path_type=Path), default=Path())(
        command
    )


def _brokers(command: F) -> F:
    """The brokers, and how they are reached."""
    return click.option(
        "--bootstrap",
        "--bootstrap-server",
        metavar="HOST:PORT",
        envvar="OTTLA_BOOTSTRAP",
        show_envvar=True,
        help="The brokers, in place of those in the project's file.",
    )(client_options(command))


def _spark_options(command: F) -> F:
    for option in (
        click.option("--verbose", is_flag=True, help="Let Spark log what it warns of."),
        click.option(
            "--ship", is_flag=True, help="Send Ottla to the executors of a cluster whose Python lacks it."
        ),
        click.option("--remote", metavar="sc://HOST:PORT", help="Run on a Spark Connect server."),
        click.option(
            "--master",
            metavar="MASTER",
            help="Spark's master: local[2], spark://host:7077; local[*] if not given.",
        ),
    ):
        command = option(command)
    return command


@pipeline.command()
@click.argument("name")
@click.option(
    "--bootstrap", "--bootstrap-server", metavar="HOST:PORT", help="The brokers, for the project's file."
)
def init(name: str, bootstrap: str | None) -> None:
    """Make the directory NAME with a pipeline that runs: orders from a topic to tables and a dead-letter
    topic.
    """
    from ottla.spark.pipelines.template import copy_template

    with _in_words():
        made = copy_template(Path(name), bootstrap)
    click.echo(f"Made {name}:")
    for file in made:
        click.echo(f"  {file}")
    click.echo(f"Next: ottla serve, then python {name}/generate.py, then ottla pipeline run {name}")


@pipeline.command()
def prepare() -> None:
    """Make Spark start in half the time on this machine, from now on (20 seconds, once; 200 MB in this
    Python's environment).
    """
    from ottla.spark.runtime.class_archive import archive_path, make_archive
    from ottla.spark.runtime.java import find_java

    with _in_words():
        java = find_java()
        archive = archive_path(java)
        if archive.exists():
            click.echo(f"Prepared already: {archive}")
            return
        click.echo(f"Starting Spark once on {java}, to keep its classes …")
        made = make_archive(java)
    click.echo(f"Wrote {made} ({made.stat().st_size // 1_000_000} MB). Delete it to undo this.")


@pipeline.command()
@_directory
@click.option(
    "--continuous", is_flag=True, help="Go on with the next update as soon as one has ended, until stopped."
)
@click.option("--every", type=Every(), help="Begin an update this often, until stopped: 10s, 1m.")
@click.option(
    "--live",
    is_flag=True,
    help="After one update keep a query per flow running, until stopped; --every sets its trigger (1s).",
)
@click.option(
    "--compact-every",
    type=Every(),
    metavar="DURATION",
    help="With --live: stop the queries this often, and make few large files of many small ones: 1h.",
)
@click.option("--refresh", multiple=True, metavar="TABLE", help="Update only this table; repeatable.")
@click.option(
    "--full-refresh", multiple=True, metavar="TABLE", help="Empty this table and rebuild it; repeatable."
)
@click.option("--full-refresh-all", is_flag=True, help="Empty all tables and rebuild them.")
@click.option(
    "--since", metavar="TIME", help="With a full refresh: read topics from this time on, not from the start."
)
@_brokers
@_spark_options
def run(directory: Path, continuous: bool, every: float | None, live: bool, **given: Any) -> None:
    """Run the pipeline in DIR: once, again and again, or live."""
    from ottla.cli.spark.pipeline_updates import Updates, run_updates
    from ottla.spark.pipelines.run import Selection

    _check_live(live, continuous, given)

    selection = Selection(given["refresh"], given["full_refresh"], given["full_refresh_all"], given["since"])
    _check_selection(selection)
    with _in_words():
        project = _project(directory, given["bootstrap"])
        again = every if every is not None else 0.0 if continuous else None
        code = run_updates(Updates(project, selection, again, _where(given), live, given["compact_every"]))
    raise SystemExit(code)


def _check_live(live: bool, continuous: bool, given: Mapping[str, Any]) -> None:
    if not live:
        if given["compact_every"] is not None:
            raise click.UsageError("--compact-every goes with --live; `ottla pipeline compact` does it once.")
        return
    if continuous:
        raise click.UsageError(
            "--continuous makes one update after another, and --live one: give one of them."
        )
    if given["remote"]:
        raise click.UsageError("--live needs a driver here: leave out --remote, or use --continuous.")
    if given["refresh"]:
        raise click.UsageError("--live keeps all tables fresh: leave out --refresh.")


def _where(given: Mapping[str, Any]) -> Where:
    from ottla.spark.pipelines.session import Where

    if given["remote"] and given["master"]:
        raise click.UsageError("--master starts Spark and --remote uses one that runs: give one of them.")
    if given["remote"] and given["ship"]:
        raise click.UsageError(
            "--ship goes with --master: a Connect server and its executors have Ottla in their own Python."
        )
    return Where(given["master"], given["remote"], given["ship"], given["verbose"])


def _check_selection(selection: Any) -> None:
    if selection.full_refresh_all and (selection.full_refresh or selection.refresh):
        raise click.UsageError(
            "--full-refresh-all is for all tables: leave out --full-refresh and --refresh."
        )
    if selection.since is None:
        return
    if not (selection.full_refresh_all or selection.full_refresh):
        raise click.UsageError(
            "--since goes with --full-refresh or --full-refresh-all: other tables go on where they were."
        )
    from ottla.spark.steps.positions import moment_ms

    try:
        moment_ms("--since", selection.since)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@pipeline.command()
@_directory
@_brokers
@_spark_options
def check(directory: Path, bootstrap: str | None, **given: Any) -> None:
    """Check the pipeline in DIR without running it: definitions, schemas, topics."""
    from ottla.cli.spark.pipeline_updates import check_pipeline

    with _in_words():
        problems = check_pipeline(_project(directory, bootstrap), _where(given))
    if problems:
        raise click.ClickException("\n".join(problems))


@pipeline.command("compact")
@_directory
@_brokers
@_spark_options
def compact_tables(directory: Path, bootstrap: str | None, **given: Any) -> None:
    """Make few large files of the many small ones of the tables in DIR, while the pipeline does not run."""
    from ottla.cli.spark.pipeline_updates import compact_project

    where = _where(given)
    if where.remote:
        raise click.UsageError(
            "compact needs the tables on a file system of this machine: leave out --remote."
        )
    with _in_words():
        compact_project(_project(directory, bootstrap), where)


@pipeline.command()
@_directory
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@_brokers
def status(directory: Path, as_json: bool, bootstrap: str | None) -> None:
    """Show the last update, each flow's lag, and the tables. Does not start Spark."""
    from ottla.cli.spark.pipeline_status import print_report

    with _in_words():
        print_report(_project(directory, bootstrap), as_json=as_json)


def _project(directory: Path, bootstrap: str | None) -> Project:
    from dataclasses import replace

    from ottla.spark.pipelines.project import BOOTSTRAP_SERVERS, load_project

    project = replace(load_project(directory), client_properties=security_properties_given())
    if bootstrap:
        project = replace(project, configuration={**project.configuration, BOOTSTRAP_SERVERS: bootstrap})
    return project


class _in_words:  # noqa: N801 - it reads as a statement
    """Every failure of a kind that is expected becomes one sentence."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None or isinstance(error, click.ClickException | SystemExit | KeyboardInterrupt):
            return
        if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in _EXTRA:
            raise click.ClickException(
                f"Pipelines need the package {error.name}: pip install 'ottla[spark]'"
            ) from error
        expected: tuple[type[BaseException], ...] = (ValueError, OSError, *_expected())
        if isinstance(error, expected):
            raise click.ClickException(str(error)) from error


_EXTRA = frozenset({"pyspark", "pyarrow", "yaml", "grpc", "pandas", "google", "py4j", "numpy", "grpc_status"})


def _expected() -> tuple[type[BaseException], ...]:
    from ottla.errors import KafkaError
    from ottla.spark.pipelines.failures import PipelineError
    from ottla.spark.runtime.class_archive import ArchiveError
    from ottla.spark.runtime.java import NoJavaError

    return (ArchiveError, KafkaError, NoJavaError, PipelineError)
