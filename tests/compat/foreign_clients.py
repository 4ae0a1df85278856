"""kcat, kafkajs, franz-go, pyright and the Java client: fetched on first use, kept in `.cache/`, started as
programs.

Each is the published, unmodified package: kcat from the distribution, kafkajs and pyright from npm, franz-go
as a Go module, the Java client with Apache Kafka itself. A tool that cannot be fetched raises `CannotFetchError`, and the tests say so
when they are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.apache.kafka import HOME, TEST_HEAP, fetch
from bench.apache.maven import CACHE, CannotFetchError
from tests.clients.families.driver_family import Driver
from tests.repository import ROOT

FETCH_DEADLINE_SECONDS = 300
KAFKAJS = ("kafkajs@2.2.4", "kafkajs-snappy@1.1.0")
PYRIGHT = ("pyright@1.1.400",)
SOURCES = ROOT / "tests" / "compat"


def _run(command: list[str], why: str, cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=FETCH_DEADLINE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotFetchError(f"{why}: {error}") from None
    if done.returncode != 0:
        raise CannotFetchError(f"{why}: {(done.stdout + done.stderr)[-600:]}")


def kcat() -> str:
    """The path of kcat, installed by apt where we may do that."""
    if shutil.which("kcat") is None:
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            raise CannotFetchError("kcat is not installed, and only root may apt-get install it")
        _run(
            ["apt-get", "install", "-y", "--no-install-recommends", "kcat"], "apt-get could not install kcat"
        )
    path = shutil.which("kcat")
    if path is None:
        raise CannotFetchError("kcat was installed but is not on the PATH")
    return path


def _npm_packages(name: str, packages: Sequence[str]) -> Path:
    """The directory whose `node_modules` holds the packages; `name` is the directory's own name."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise CannotFetchError(f"{name} needs node and npm; they are not on the PATH")
    home = CACHE / name
    if not all((home / "node_modules" / one.split("@")[0]).is_dir() for one in packages):
        home.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), *packages]
        _run(command, f"npm could not fetch {name}")
    return home


def pyright() -> list[str]:
    """The command that runs pyright."""
    return ["node", str(_npm_packages("pyright", PYRIGHT) / "node_modules" / "pyright" / "index.js")]


def kafkajs_driver() -> Driver:
    """A node process with kafkajs in it."""
    home = _npm_packages("kafkajs", KAFKAJS)
    environment = {**os.environ, "NODE_PATH": str(home / "node_modules")}
    return Driver(["node", str(SOURCES / "kafkajs" / "driver.js")], cwd=home, environment=environment)


def franz_driver() -> Driver:
    """A program with franz-go in it, compiled when our few lines around franz-go changed."""
    if shutil.which("go") is None:
        raise CannotFetchError("franz-go needs Go; it is not on the PATH")
    home = CACHE / "franz"
    home.mkdir(parents=True, exist_ok=True)
    # Go itself knows what changed: a program that is up to date is built in a tenth of a second.
    command = ["go", "build", "-o", str(home / "driver"), "."]
    _run(command, "go could not fetch or compile franz-go", cwd=SOURCES / "franz")
    return Driver([str(home / "driver")], cwd=home, environment=os.environ)


def compile_java() -> Path:
    """The directory of our few lines around the Java client, compiled when they changed."""
    jars = fetch()
    if shutil.which("javac") is None:
        raise CannotFetchError("the Java client's driver needs javac; it is not on the PATH")
    sources = sorted((SOURCES / "java").glob("*.java"))
    classes = HOME / "driver"
    compiled = classes / "Driver.class"
    changed = max(source.stat().st_mtime for source in sources)
    if not compiled.exists() or compiled.stat().st_mtime < changed:
        command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), *map(str, sources)]
        _run(command, "javac could not compile the Java client's driver")
    return classes


def java_driver() -> Driver:
    """A JVM with the Java client in it."""
    jars, classes = fetch(), compile_java()
    command = [
        "java",
        *TEST_HEAP,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        f"{jars}/*:{classes}",
    ]
    return Driver([*command, "Driver"], cwd=HOME, environment=os.environ)
