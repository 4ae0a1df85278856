"""Spark looks for packages named `pyspark_*` and takes their `DefaultSource`: so it finds the format "ottla"
by itself.
"""

from ottla.spark.data_source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
