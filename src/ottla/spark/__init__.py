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
    from ottla.spark.java import Java as Java
    from ottla.spark.java import NoJavaError as NoJavaError
    from ottla.spark.java import find_java as find_java
    from ottla.spark.java import prepare_java as prepare_java
    from ottla.spark.progress import QueryGroups as QueryGroups
    from ottla.spark.sessions import session as session
    from ottla.spark.sessions import stop as stop
    from ottla.spark.shipping import ship as ship

_HOMES = {
    "Java": "ottla.spark.java",
    "NoJavaError": "ottla.spark.java",
    "QueryGroups": "ottla.spark.progress",
    "find_java": "ottla.spark.java",
    "prepare_java": "ottla.spark.java",
    "ship": "ottla.spark.shipping",
    "session": "ottla.spark.sessions",
    "stop": "ottla.spark.sessions",
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
]


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
