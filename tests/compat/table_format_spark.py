"""A Spark with Delta, and one with Iceberg: an environment of Python with the newest PySpark that each is
built for, and the jars.

Delta's and Iceberg's jars fit one version of Spark each, which is not always the one that the tests run with.
So each has an environment of its own in `.cache/`, with Ottla as it lies here, made as a user would make it.
`CannotFetchError` says what is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.apache.maven import CACHE, CannotFetchError
from bench.apache.spark_connector import fetch_jars
from tests.repository import ROOT

from ottla.spark.table_formats import TABLE_FORMATS

_PIP_DEADLINE_S: Final = 900
# Of what Maven brings, Spark has the rest in its own versions.
_JARS: Final = {
    "delta": (
        "delta-storage",
        "delta-kernel-api",
        "delta-kernel-defaults",
        "delta-kernel-unitycatalog",
        "unitycatalog-client",
        "unitycatalog-hadoop",
    ),
    "iceberg": (),
}


@dataclass(frozen=True, slots=True)
class FormatSpark:
    """A Python with Spark in which a format runs."""

    table_format: str
    python: Path
    jars: str  # as `spark.jars` takes them

    def run(
        self, *words: object, at: Path, environment: Mapping[str, str], deadline_s: float = 240
    ) -> subprocess.CompletedProcess[str]:
        """Run this Python to its end."""
        return subprocess.run(
            [self.python, *map(str, words)],
            cwd=at,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )


def format_spark(table_format: str) -> FormatSpark:
    """The newest Spark for which there is such a format; fetched on first use."""
    version = TABLE_FORMATS[table_format].newest
    return FormatSpark(table_format, _environment(version), ",".join(map(str, format_jars(table_format))))


def format_jars(table_format: str) -> list[Path]:
    """The jars of the newest package."""
    known = TABLE_FORMATS[table_format]
    group, artifact, version = known.packages[known.newest].split(":")
    return fetch_jars(CACHE / f"{artifact}-{version}", (group, artifact, version), _JARS[table_format])


def _environment(version: str) -> Path:
    home = CACHE / f"pyspark-{version}"
    python = home / "bin" / "python"
    if not (home / "complete").is_file():
        wanted = ["-e", f"{ROOT}[spark]", f"pyspark[pipelines]=={version}.*"]
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(home)],
            [str(python), "-m", "pip", "install", "-q", *wanted],
        ):
            _made(command, version)
        (home / "complete").touch()
    return python


def _made(command: list[str], version: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PIP_DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        raise CannotFetchError(f"pip did not install PySpark {version} in {_PIP_DEADLINE_S} s") from None
    if done.returncode != 0:
        raise CannotFetchError(f"pip could not install PySpark {version}: {done.stderr[-600:]}")
