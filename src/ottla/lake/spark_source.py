"""The format "ottla.lake" for Spark: a topic's table and its log as one DataFrame.

The driver's planner fixes the snapshot of the table and the end of the log; executors read files and ranges of
the log. The columns are those of the table's snapshot: a new field of the newest values becomes a column with the
table's next commit.

Spark starts a Python process for each step of a query: what only some steps need is imported where it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from ottla.spark.option_values import OptionError
from ottla.spark.source.plan.options import SourceOptions, source_options
from ottla.spark.source.plan_use import take, this_query

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.lake.plan.conditions import Comparison
    from ottla.lake.reading.query import Query
    from ottla.lake.topic import Cluster

_OWN: Final = ("topic", "warehouse", "where", "at", "pushfilters")
_OPERATORS: Final[Mapping[type[Filter], str]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


@dataclass(frozen=True)
class LakeOptions:
    """The options of the format. `at` is a time, or offsets by partition as JSON: {"0": 120}."""

    topic: str
    warehouse: str | None
    where: str | None
    at: str | dict[int, int] | None
    push_filters: bool
    source: SourceOptions

    @property
    def cluster(self) -> Cluster:
        from ottla.lake.topic import Cluster

        return Cluster(self.source.bootstrap_servers, self.source.security, self.source.client)


def lake_options(given: Mapping[str, str]) -> LakeOptions:
    """The options, checked; OptionError says what is missing or unknown."""
    values = {name.lower(): value for name, value in given.items()}
    topic = (values.get("topic") or "").strip()
    if not topic:
        raise OptionError('Option \'topic\' must name the topic to read, as in .option("topic", "orders").')
    others = {name: value for name, value in given.items() if name.lower() not in _OWN}
    return LakeOptions(
        topic,
        values.get("warehouse"),
        values.get("where"),
        _at(values.get("at")),
        values.get("pushfilters", "false").strip().lower() == "true",
        source_options({**others, "subscribe": topic}),
    )


def _at(text: str | None) -> str | dict[int, int] | None:
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except ValueError as error:
        raise OptionError(
            f"Option 'at' is a time, or offsets such as {{\"0\": 120}}, not '{text}'."
        ) from error


class OttlaLakeDataSource(DataSource):
    """`spark.read.format("ottla.lake")`; see docs/lake.md for the options."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._plan = uuid4().hex

    @classmethod
    def name(cls) -> str:
        return "ottla.lake"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        from ottla.lake.reading.query import table_schema
        from ottla.lake.warehouse import Warehouse

        options = lake_options(self.options)
        return from_arrow_schema(table_schema(Warehouse(options.warehouse), options.topic))

    def reader(self, schema: StructType) -> LakeReader:
        options = lake_options(self.options)
        return FilteringLakeReader(options, self._plan) if options.push_filters else LakeReader(options)


@dataclass(frozen=True)
class LakePartition(InputPartition):
    """What one task reads: files, or a range of the log."""

    value: Query


class LakeReader(DataSourceReader):
    """Plans in the driver's planner, reads on executors: it is pickled in between."""

    def __init__(self, options: LakeOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        from ottla.lake.reading.query import planned
        from ottla.lake.warehouse import Warehouse

        options = self._options
        query = planned(
            Warehouse(options.warehouse), options.cluster, options.topic, self._where(), options.at
        )
        if query.definition.is_upsert:
            raise OptionError(
                f"The table of {options.topic} is an upsert table, which ottla.lake.scan and ottla sql read together with "
                "the log; Spark reads its files with the table's own format."
            )
        cold = [replace(query, files=(each,), ranges=()) for each in query.files]
        hot = [replace(query, files=(), ranges=(each,)) for each in query.ranges]
        return [LakePartition(each) for each in (*cold, *hot)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Spark makes a partition of its own if a query has none: there is nothing in it."""
        if not isinstance(partition, LakePartition):
            return
        from ottla.lake.reading.scan import rows_in_columns

        yield from rows_in_columns(partition.value)

    def _where(self) -> list[Comparison]:
        from ottla.lake.plan.conditions import comparisons

        return comparisons(self._options.where)


class FilteringLakeReader(LakeReader):
    """Reads only what the filters of its one query can want; Spark still applies all of them."""

    def __init__(self, options: LakeOptions, plan: str) -> None:
        super().__init__(options)
        self._plan = plan
        self._pushed: list[tuple[Any, ...]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self._pushed = [found for each in filters if (found := _comparison(each)) is not None]
        if self._pushed:
            # Spark keeps one plan for all queries of a DataFrame: `plan_use` says what follows.
            take(f"{self._plan}-filters", repr(self._pushed))
        return filters

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self._pushed:
            take(f"{self._plan}-query", this_query())
        return super().read(partition)

    def _where(self) -> list[Comparison]:
        from ottla.lake.plan.conditions import comparisons

        return [*super()._where(), *comparisons(self._pushed)]


def _comparison(given: Filter) -> tuple[Any, ...] | None:
    """A filter of Spark as a comparison, for columns at the top; None if it is of another kind."""
    attribute: tuple[str, ...] = getattr(given, "attribute", ())
    if len(attribute) != 1:
        return None
    column = attribute[0]
    if isinstance(given, In):
        return column, "in", [each for each in given.value if each is not None]
    if isinstance(given, IsNull | IsNotNull):
        return column, "is null" if isinstance(given, IsNull) else "is not null"
    name = _OPERATORS.get(type(given))
    value = getattr(given, "value", None)
    return None if name is None or value is None else (column, name, value)
