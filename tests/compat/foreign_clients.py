"""kcat, kafkajs and the Java client: fetched on first use, kept in `.cache/`, started as programs.

Each is the published, unmodified package: kcat from the distribution, kafkajs from npm, the Java client with
Apache Kafka itself. A tool that cannot be fetched raises `CannotFetchError`, and the tests say so when they
are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bench.apache.kafka import HOME, TEST_HEAP, fetch
from bench.apache.maven import CACHE, CannotFetchError
from tests.clients.families.driver_family import Driver
from tests.repository import ROOT

FETCH_DEADLINE_SECONDS = 300
KAFKAJS = ("kafkajs@2.2.4", "kafkajs-snappy@1.1.0")
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


def kafkajs_driver() -> Driver:
    """A node process with kafkajs in it."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise CannotFetchError("kafkajs needs node and npm; they are not on the PATH")
    home = CACHE / "kafkajs"
    if not (home / "node_modules" / "kafkajs-snappy").is_dir():
        home.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), *KAFKAJS]
        _run(command, "npm could not fetch kafkajs")
    environment = {**os.environ, "NODE_PATH": str(home / "node_modules")}
    return Driver(["node", str(SOURCES / "kafkajs" / "driver.js")], cwd=home, environment=environment)


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
