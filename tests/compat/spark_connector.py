"""Spark's own Kafka connector, fetched from Maven Central: what our source and sink are compared with. Other jars for Spark come the same way.

Nothing of it is kept in the repository: Maven copies the connector and what it needs beyond Spark itself into `.cache/`.
`CannotFetchError` says what is missing, and the tests that need it are skipped with that sentence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.compat.apache_kafka import CACHE, MAVEN_DEADLINE_SECONDS, CannotFetchError

ARTIFACT: Final = "spark-sql-kafka-0-10_2.13"
_TOKENS: Final = "spark-token-provider-kafka-0-10_2.13"
# Beyond what Spark brings: the connector, its tokens, Kafka's client, and a pool for consumers.
_WANTED: Final = (ARTIFACT, _TOKENS, "kafka-clients", "commons-pool2")
# PySpark may be on PyPI before all of its jars are on (a mirror of) Maven Central. These are, and work with Spark 4.3.
_FALLBACK: Final = (
    ("org.apache.spark", ARTIFACT, "4.2.0"),
    ("org.apache.spark", _TOKENS, "4.1.0-preview1"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla.compat</groupId><artifactId>spark-connector</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
)
_ALONE: Final = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)
# Spark's poms name other repositories, too; Maven Central is enough.
_SETTINGS: Final = """<settings><mirrors><mirror>
  <id>central-only</id><mirrorOf>*</mirrorOf><url>https://repo.maven.apache.org/maven2</url>
</mirror></mirrors></settings>
"""


def connector_jars() -> list[Path]:
    """The jars for `spark.jars`, fetched on first use: of PySpark's own version if there is one."""
    home = CACHE / f"spark-kafka-connector-{version('pyspark')}"
    jars = home / "jars"
    if not jars.is_dir():
        try:
            _fetch(home, _DEPENDENCY.format("org.apache.spark", ARTIFACT, version("pyspark"), ""), _WANTED)
        except CannotFetchError:
            _fetch(home, "".join(_DEPENDENCY.format(*each, _ALONE) for each in _FALLBACK), _WANTED)
    return sorted(jars.glob("*.jar"))


def fetch_jars(home: Path, package: tuple[str, str, str], others: Sequence[str]) -> list[Path]:
    """The jar of a package (group, artifact, version), and those of the artifacts that it needs beyond Spark; fetched on first use."""
    if not (home / "jars").is_dir():
        _fetch(home, _DEPENDENCY.format(*package, ""), (package[1], *others))
    return sorted((home / "jars").glob("*.jar"))


def connector_version() -> str:
    """The version that was fetched."""
    name = next(each.stem for each in connector_jars() if each.name.startswith(ARTIFACT))
    return name.removeprefix(f"{ARTIFACT}-")


def _fetch(home: Path, dependencies: str, wanted: Sequence[str]) -> None:
    if shutil.which("mvn") is None:
        raise CannotFetchError(f"{wanted[0]} comes from Maven Central; mvn is not on the PATH")
    jars = home / "jars"
    home.mkdir(parents=True, exist_ok=True)
    (home / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    (home / "settings.xml").write_text(_SETTINGS)
    partial = home / f"jars.{os.getpid()}"  # renamed when whole, so that an interrupted fetch is no fetch
    command = ["mvn", "-q", "-B", "-s", "settings.xml", "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={partial}", f"-DincludeArtifactIds={','.join(wanted)}"]
    try:
        done = subprocess.run(
            command, cwd=home, capture_output=True, text=True, timeout=MAVEN_DEADLINE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotFetchError(f"Maven did not fetch {wanted[0]} in {MAVEN_DEADLINE_SECONDS} s") from None
    if done.returncode != 0:
        raise CannotFetchError(f"Maven could not fetch {wanted[0]}: {done.stdout[-600:]}")
    if not jars.is_dir():
        partial.rename(jars)
