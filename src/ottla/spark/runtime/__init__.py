"""What Spark runs on: the Java, the Python of its workers, the archive of its classes, the session, and Ottla sent along to executors."""
