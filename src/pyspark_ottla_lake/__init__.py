"""Spark looks for packages named `pyspark_*` and takes their `DefaultSource`: so it finds the format "ottla.lake" by
itself.
"""

from ottla.lake.spark_source import OttlaLakeDataSource as DefaultSource

__all__ = ["DefaultSource"]
