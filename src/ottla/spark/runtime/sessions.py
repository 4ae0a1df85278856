"""A SparkSession that works at once: on a laptop by itself, on a cluster as configured.

    spark = ottla.spark.session("orders")
    spark.read.format("ottla").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

Rules
- What the user says (arguments, spark-submit, spark-defaults.conf) wins over what stands here.
- Java is found by `ottla.spark.runtime.java`, and is the same for all that Spark starts on this machine.
- On this machine, Python workers are this Python (`worker_python`): they have the packages that this program
  has.
- `stop` ends the session and its JVM; Spark's own `stop` leaves the JVM until the program ends. After it a
  session with other settings can be made in the same program.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.runtime.class_archive import archive_options
from ottla.spark.runtime.java import Java, prepare_java
from ottla.spark.runtime.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.conf import SparkConf
    from pyspark.sql import SparkSession

# A JVM that is asked to end does so in half a second.
_JVM_END_DEADLINE_S: Final = 20.0

# Set by spark-submit for the program that it runs.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
# Settings that must be known before the JVM starts: the second is otherwise set by Spark, which sees an
# interactive program.
_LAUNCH_DEFAULTS: Final = {
    "spark.driver.memory": "1g",
    "spark.ui.showConsoleProgress": "false",
}

_DEFAULTS: Final = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    # Fifteen seconds, Spark's own patience with a Python worker that starts, is too little for a machine that
    # is busy.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.sql.session.timeZone": "UTC",
    # 200, Spark's own number, is for clusters: on a laptop each partition of a shuffle costs more than its
    # data.
    "spark.sql.shuffle.partitions": "4",
}


def session(app_name: str = "ottla", master: str | None = None, **conf: Any) -> SparkSession:
    """A SparkSession with settings for a laptop, or the one that there is already.

    `master` is Spark's (`local[2]`, `spark://host:7077`, `sc://host:15002` for Spark Connect); not given, it
    is what spark-submit or spark-defaults.conf say, else `local[*]`. `conf` are Spark's settings, given as
    `**{"spark.executor.memory": "2g"}`. Raises NoJavaError, which says what to install, where there is no
    Java.
    """
    from pyspark.sql import SparkSession

    settings = {name: _text(value) for name, value in conf.items()}
    remote = master if master and master.startswith("sc://") else None
    if remote or (master is None and "SPARK_REMOTE" in os.environ):
        return _remote_session(app_name, remote, settings)
    if active := SparkSession.getActiveSession():
        for name, value in settings.items():
            active.conf.set(name, value)
        return active
    if master:
        settings["spark.master"] = master
    spark = SparkSession.builder.config(conf=_complete(app_name, settings)).getOrCreate()
    if _SUBMITTED not in os.environ:
        spark.sparkContext.setLogLevel(settings.get("spark.log.level", "ERROR"))
    return spark


def stop(spark: SparkSession) -> None:
    """Stop a session, and end the JVM that this program started for it."""
    from pyspark import SparkContext

    spark.stop()
    gateway = SparkContext._gateway
    if gateway is None or getattr(gateway, "proc", None) is None:
        return  # Spark Connect, or a JVM that spark-submit started and will end
    process = gateway.proc
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process.stdin.close()  # the JVM reads from it, and ends where it does
    try:
        process.wait(_JVM_END_DEADLINE_S)
    except Exception:
        process.kill()
        process.wait()


def _complete(app_name: str, given: Mapping[str, str]) -> SparkConf:
    """All settings: ours only where neither the user nor Spark's own files say something."""
    from pyspark import SparkConf

    _start_jvm(given)
    conf = SparkConf()  # what the JVM knows: spark-submit's arguments, spark-defaults.conf
    for name, value in given.items():
        conf.set(name, value)
    for name, value in _DEFAULTS.items():
        conf.setIfMissing(name, value)
    return conf.setAppName(app_name)


def _start_jvm(given: Mapping[str, str]) -> None:
    """Start the JVM of this process, or find the one that spark-submit has started."""
    from pyspark import SparkConf, SparkContext

    first = None
    if SparkContext._gateway is None and _SUBMITTED not in os.environ:
        java = prepare_java()
        _prepare_python(given)
        first = SparkConf(loadDefaults=False)
        for name, value in {**_LAUNCH_DEFAULTS, **given, **_jvm_options(given, java)}.items():
            first.set(name, value)
    SparkContext._ensure_initialized(conf=first)


def _remote_session(app_name: str, url: str | None, settings: Mapping[str, str]) -> SparkSession:
    """A session of Spark Connect: Java and Python workers are the server's affair."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    builder = builder.remote(url) if url else builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _prepare_python(given: Mapping[str, str]) -> None:
    """Workers on this machine are this Python: `python3`, Spark's own choice, may lack everything that they
    need.

    The JVM reads these variables when it looks for data sources, so they must be there before it starts.
    """
    if named := given.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = named
    elif given.get("spark.master", "local").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", worker_python())


def _jvm_options(given: Mapping[str, str], java: Java) -> dict[str, str]:
    """The JVM's own options: ours first, for of two that say the same the later one counts."""
    options = [
        *_quiet_logs(),
        *(f'"{option}"' for option in archive_options(java)),
        given.get(_JVM_OPTIONS, ""),
    ]
    return {_JVM_OPTIONS: " ".join(filter(None, options))}


def _quiet_logs() -> list[str]:
    """Before the session can set its log level, Spark prints warnings that no user can act on."""
    if "SPARK_CONF_DIR" in os.environ:
        return []  # a user with a directory of settings has a log4j2.properties in it, or wants Spark's default
    return [f'"-Dlog4j2.configurationFile={resources.files("ottla.spark.runtime") / "log4j2.properties"}"']


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
