"""The options that the commands of the lake share, and their failures in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from ottla.cli.broker_command import sentence
from ottla.cli.client_config import security_given
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.lake.topic import Cluster

F = TypeVar("F", bound=Callable[..., Any])


def warehouse_option(command: F) -> F:
    """`--warehouse`: where the tables are."""
    return click.option(
        "--warehouse",
        metavar="DIR",
        default="ottla-lake",
        envvar="OTTLA_WAREHOUSE",
        show_default=True,
        show_envvar=True,
        help="Where tables and their definitions are: a directory, or an address such as s3://bucket/lake.",
    )(command)


def cluster_given(bootstrap: str) -> Cluster:
    """The cluster of the command, with the security settings of its options."""
    from ottla.lake.topic import Cluster

    return Cluster(bootstrap, security_given())


@contextmanager
def failures_in_a_sentence() -> Iterator[None]:
    """Each failure of cluster, table or catalog ends the command with one sentence and exit code 1."""
    try:
        yield
    except click.ClickException:
        raise
    except ModuleNotFoundError as error:
        _refuse(f"Tables of topics need {error.name}, which is not installed: pip install 'ottla[lake]'")
    except KafkaError as error:
        _refuse(sentence(error))
    except (RuntimeError, ValueError, OSError) as error:  # ours are RuntimeError and ValueError
        _refuse(str(error))
    except Exception as error:
        if type(error).__module__.partition(".")[0] in (
            "pyiceberg",
            "deltalake",
            "_internal",
            "sqlalchemy",
            "pyarrow",
        ):
            _refuse(f"The table or its catalog failed: {error}")
        raise


def _refuse(words: str) -> NoReturn:
    raise click.ClickException(words)
