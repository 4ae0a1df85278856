"""The platform below Spark: Java, the Python of its workers, the archive of its classes, the session, and
Ottla sent along to executors.
"""
