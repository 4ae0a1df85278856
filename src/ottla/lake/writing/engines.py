"""Where the tasks of a commit run: the same code in threads of this process, or on Spark's executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Runs a function over tasks, and answers in their order; the first failure is raised."""

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]: ...


class LocalEngine:
    """Threads of this process: reading, compressing and writing release the interpreter's lock."""

    def __init__(self, threads: int = 2) -> None:
        self._threads = threads

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        if len(tasks) <= 1:
            return [function(each) for each in tasks]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="ottla-lake") as pool:
            return list(pool.map(function, tasks))


class SparkEngine:
    """Spark's executors, one task each. Only lists of files come back to the driver."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        if not tasks:
            return []

        def run(indexed: Any) -> Any:
            return function(indexed)

        context = self._spark.sparkContext
        found: list[R] = context.parallelize(list(tasks), len(tasks)).map(run).collect()
        return found
