"""The audit: is a table, or another topic, the topic, record by record? `ottla audit TOPIC TABLE`, or from Python:

    from ottla.spark.audit import audit

    verdict = audit(spark, "orders", "tables/orders", bootstrap="localhost:9092")

scope           the range of the topic that is audited
topic_records   the records of a topic, and where it begins and ends
table           a table that is audited; output_topic: a topic in its place
job             the comparison, on Spark
verdict         its result

`job` needs PySpark and is imported when it is first asked for; the bounds and the verdict do without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.spark.audit.job import AuditError as AuditError
    from ottla.spark.audit.job import Bound as Bound
    from ottla.spark.audit.job import Columns as Columns
    from ottla.spark.audit.job import Edge as Edge
    from ottla.spark.audit.job import Verdict as Verdict
    from ottla.spark.audit.job import audit as audit

__all__ = ["AuditError", "Bound", "Columns", "Edge", "Verdict", "audit"]


# Hidden from type checkers, which would take any name for one that exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return getattr(import_module("ottla.spark.audit.job"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
