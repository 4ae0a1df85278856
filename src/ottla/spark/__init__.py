"""Spark as the mill of the log: topics are read and written by PySpark, embedded on a laptop or on a cluster."""
