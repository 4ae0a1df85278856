"""Spark's own Kafka connector, which our source and sink are compared with, and other jars for Spark.

The jars come from Maven Central (`maven`), without those that Spark itself brings.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench.apache import maven
from bench.apache.maven import CACHE, CannotFetchError, dependency

ARTIFACT: Final = "spark-sql-kafka-0-10_2.13"
_TOKENS: Final = "spark-token-provider-kafka-0-10_2.13"
# Beyond what Spark brings: the connector, its tokens, Kafka's client, and a pool for consumers.
_WANTED: Final = (ARTIFACT, _TOKENS, "kafka-clients", "commons-pool2")
# PySpark may be on PyPI before all of its jars are on (a mirror of) Maven Central. These are, and work with
# Spark 4.3.
_FALLBACK: Final = (
    ("org.apache.spark", ARTIFACT, "4.2.0"),
    ("org.apache.spark", _TOKENS, "4.1.0-preview1"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def connector_jars() -> list[Path]:
    """The jars for `spark.jars`, fetched on first use: of PySpark's own version if there is one."""
    home = CACHE / f"spark-kafka-connector-{version('pyspark')}"
    own = [dependency("org.apache.spark", ARTIFACT, version("pyspark"))]
    try:
        return _fetch(home, own, _WANTED)
    except CannotFetchError:
        return _fetch(home, [dependency(*each, alone=True) for each in _FALLBACK], _WANTED)


def fetch_jars(home: Path, package: tuple[str, str, str], others: Sequence[str]) -> list[Path]:
    """The jars of a package (group, artifact, version) and of the artifacts that it needs beyond Spark."""
    return _fetch(home, [dependency(*package)], (package[1], *others))


def connector_version() -> str:
    """The version that was fetched."""
    name = next(each.stem for each in connector_jars() if each.name.startswith(ARTIFACT))
    return name.removeprefix(f"{ARTIFACT}-")


def _fetch(home: Path, dependencies: Sequence[str], wanted: Sequence[str]) -> list[Path]:
    options = [f"-DincludeArtifactIds={','.join(wanted)}"]
    return sorted(maven.fetch_jars(wanted[0], home, dependencies, options).glob("*.jar"))
