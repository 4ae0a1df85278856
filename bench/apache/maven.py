"""Jars from Maven Central, copied into `.cache/` on first use.

Nothing of them is kept in the repository. Where Java, Maven or the network is missing, `CannotFetchError`
says so, and measurements and tests that need the jars are left out with that sentence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.processes import ROOT

CACHE: Final = ROOT / ".cache"
_DEADLINE_S: Final = 600
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla.compat</groupId><artifactId>{name}</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
)
_ALONE: Final = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


class CannotFetchError(Exception):
    """Something beyond PyPI is not to be had on this machine; the message says what and why."""


def dependency(group: str, artifact: str, version: str, *, alone: bool = False) -> str:
    """A dependency of a pom; `alone` leaves out what the artifact itself depends on."""
    return _DEPENDENCY.format(group, artifact, version, _ALONE if alone else "")


def fetch_jars(what: str, home: Path, dependencies: Sequence[str], options: Sequence[str] = ()) -> Path:
    """The directory of jars below `home`, filled by Maven on first use; `what` is its name in errors."""
    jars = home / "jars"
    if not jars.is_dir():
        _copy(what, home, jars, dependencies, options)
    return jars


def fetch_jar(what: str, home: Path, artifact: str) -> Path:
    """The directory with one jar that has all that it needs: its pom is not read. `artifact` is GROUP:NAME:VERSION:jar
    and perhaps a classifier.
    """
    jars = home / "jars"
    if not jars.is_dir():
        _run_maven(what, home, jars, ["dependency:copy", f"-Dartifact={artifact}"])
    return jars


def _copy(what: str, home: Path, jars: Path, dependencies: Sequence[str], options: Sequence[str]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "pom.xml").write_text(_POM.format(name=home.name, dependencies="".join(dependencies)))
    _run_maven(what, home, jars, [*options, "dependency:copy-dependencies"])


def _run_maven(what: str, home: Path, jars: Path, goal: Sequence[str]) -> None:
    if shutil.which("mvn") is None:
        raise CannotFetchError(f"{what} comes from Maven Central; mvn is not on the PATH")
    home.mkdir(parents=True, exist_ok=True)
    partial = home / f"jars.{os.getpid()}"  # renamed when whole: an interrupted fetch leaves no jars
    command = ["mvn", "-q", "-B", *goal, f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(
            command, cwd=home, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotFetchError(f"Maven did not fetch {what} in {_DEADLINE_S} s") from None
    if done.returncode != 0:
        raise CannotFetchError(f"Maven could not fetch {what}: {done.stdout[-600:]}")
    if not jars.is_dir():
        partial.rename(jars)
