"""Spark as the mill of the log: topics are read and written by PySpark, embedded on a laptop or on a cluster.

    spark = ottla.spark.session("orders")
    orders = spark.read.format("ottla").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

Nothing is imported before it is used: `import ottla.spark` costs nothing, and does not need pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.spark import audit as audit
    from ottla.spark import steps as steps
    from ottla.spark.runtime.java import Java as Java
    from ottla.spark.runtime.java import NoJavaError as NoJavaError
    from ottla.spark.runtime.java import find_java as find_java
    from ottla.spark.runtime.java import prepare_java as prepare_java
    from ottla.spark.runtime.sessions import session as session
    from ottla.spark.runtime.sessions import stop as stop
    from ottla.spark.runtime.shipping import ship as ship
    from ottla.spark.runtime.worker_python import worker_python as worker_python
    from ottla.spark.source.progress import QueryGroups as QueryGroups

_HOMES = {
    "Java": "ottla.spark.runtime.java",
    "NoJavaError": "ottla.spark.runtime.java",
    "QueryGroups": "ottla.spark.source.progress",
    "find_java": "ottla.spark.runtime.java",
    "prepare_java": "ottla.spark.runtime.java",
    "ship": "ottla.spark.runtime.shipping",
    "session": "ottla.spark.runtime.sessions",
    "stop": "ottla.spark.runtime.sessions",
    "worker_python": "ottla.spark.runtime.worker_python",
}

_MODULES = ("audit", "steps")

__all__ = [
    "Java",
    "NoJavaError",
    "QueryGroups",
    "audit",
    "find_java",
    "prepare_java",
    "session",
    "ship",
    "steps",
    "stop",
    "worker_python",
]


# Hidden from type checkers, which would take any name for one that exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value  # the next access finds it at once
        return value


def __dir__() -> list[str]:
    return __all__
