"""The Python of Spark's workers on this machine: this one, and PySpark as it is installed.

Spark puts a zip of PySpark before all else on the path of every Python process that it starts
(`PythonUtils.sparkPythonPath`). A zip keeps no bytecode, so each process compiles PySpark again, for half a
second and more: the planner of a read, the tasks, and one for each stream. Where pip has installed PySpark,
the same modules lie beside the zip, and compiled. So workers are started by a launcher that takes Spark's
zips off the path, and nothing else of it.

Spark tells the Python of a task to have as many threads as the task has cores (`OMP_NUM_THREADS`), and
forgets the processes that plan and that run a stream's source: there numpy starts a thread for each core, for
0.1 s of CPU on two. The launcher says one, where nothing is said.

Without that (no shell, a Spark that is not the installed PySpark, no place for a launcher) workers are this
Python, and start more slowly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ottla.spark.runtime.launchers import launcher_home, shell_word, users_cache

_LAUNCHER: Final = """\
#!/bin/sh
# Written by Ottla: Python for Spark's workers, with PySpark as it is installed instead of a zip that has no bytecode.
path=":$PYTHONPATH:"
for zip in {zips}; do
  while [ "$path" != "${{path#*":$zip:"}}" ]; do
    path="${{path%%":$zip:"*}}:${{path#*":$zip:"}}"
  done
done
path="${{path#:}}"
PYTHONPATH="${{path%:}}"
export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-1}}"
exec {python} "$@"
"""


def worker_python(environment: Mapping[str, str] | None = None) -> str:
    """The program that Spark is to start as Python."""
    environment = os.environ if environment is None else environment
    zips = _zips_of_installed_pyspark(environment.get("SPARK_HOME"))
    if os.name != "posix" or not zips:
        return sys.executable
    try:
        return str(python_launcher(sys.executable, zips, users_cache(environment)))
    except OSError:
        return sys.executable


def python_launcher(python: str, zips: Sequence[str], cache: Path) -> Path:
    """A program that runs `python` without these entries of its path; Spark may name them more than once."""
    script = _LAUNCHER.format(python=shell_word(python), zips=" ".join(map(shell_word, zips)))
    return launcher_home("python", script, cache) / "bin" / "python"


def _zips_of_installed_pyspark(spark_home: str | None) -> list[str]:
    """As Spark names them: PySpark's, then Py4J's. None if Spark runs from elsewhere: that may be another
    version.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return []
    package = Path(found.origin).parent
    home = spark_home or str(package)
    if not (package / "bin" / "spark-submit").exists() or Path(home).resolve() != package.resolve():
        return []
    py4j = sorted(each.name for each in (package / "python" / "lib").glob("py4j-*-src.zip"))
    return [f"{home}/python/lib/{name}" for name in ("pyspark.zip", *py4j)]
