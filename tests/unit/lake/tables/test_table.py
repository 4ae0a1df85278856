"""The three formats keep one protocol: offsets with each commit, conflicts, new columns, parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.plan.table_offsets import TableOffsets
from ottla.lake.reading.cold import cold_dataset
from ottla.lake.tables.schemas import RAW_SCHEMA
from ottla.lake.tables.table import Change, ConflictError, DataFile, LakeTable, TableError
from ottla.lake.warehouse import NoTableError, Warehouse
from ottla.lake.writing.file_writer import FileWriter

FORMATS = ["iceberg", "delta", "parquet"]
DAYS = (datetime(2026, 11, 18, 23, tzinfo=UTC), datetime(2026, 11, 19, 1, tzinfo=UTC))


@pytest.fixture(params=FORMATS)
def definition(request: pytest.FixtureRequest) -> TableDefinition:
    return TableDefinition("orders", "orders", request.param)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "lake")


@pytest.fixture
def table(warehouse: Warehouse, definition: TableDefinition) -> Iterator[LakeTable]:
    warehouse.enable(definition)
    with warehouse.table(definition) as opened:
        yield opened


def rows(first: int, count: int, **columns: pa.Array) -> pa.Table:
    """Rows of partition 0, the first half on one day and the second on the next."""
    whole = {
        "topic": pa.array(["orders"] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "timestamp": pa.array([DAYS[2 * at // count] for at in range(count)], pa.timestamp("us", tz="UTC")),
        "timestamp_type": pa.array([0] * count, pa.int32()),
        "key": pa.array([b"k%d" % (at % 3) for at in range(count)]),
        "value": pa.array([b"v"] * count),
        "headers": pa.array([[{"key": "h", "value": b"x"}]] * count, RAW_SCHEMA.field("headers").type),
    }
    return pa.table(
        [*whole.values(), *columns.values()],
        schema=pa.schema([*RAW_SCHEMA, *(pa.field(name, array.type) for name, array in columns.items())]),
    )


def written(table: LakeTable, definition: TableDefinition, name: str, some: pa.Table) -> list[DataFile]:
    writer = FileWriter(definition, table.data_location, name)
    writer.write(some)
    return writer.finish()


def offsets(end: int) -> TableOffsets:
    return TableOffsets("orders", "topic-id", {0: end})


def read(table: LakeTable) -> list[int]:
    snapshot = table.snapshot()
    found = cold_dataset(table.files(snapshot), snapshot.schema).to_table()
    return sorted(found.column("offset").to_pylist())


def test_rows_and_offsets_appear_together(table: LakeTable, definition: TableDefinition) -> None:
    base = table.snapshot()
    assert (base.offsets, table.files(base), base.schema) == (None, [], RAW_SCHEMA)
    table.commit(base, Change(offsets(10), base.schema, written(table, definition, "a", rows(0, 10))))
    snapshot = table.snapshot()
    files = sorted(table.files(snapshot), key=lambda each: each.span.offsets or (0, 0))
    assert snapshot.offsets == offsets(10)
    assert [(each.rows, each.part, each.span.partitions, each.span.offsets) for each in files] == [
        (5, 20775, (0, 0), (0, 4)),
        (5, 20776, (0, 0), (5, 9)),
    ]
    assert files[0].span.timestamps_ms == (1795042800000, 1795042800000)
    assert read(table) == list(range(10))


def test_of_two_writers_one_loses_and_changes_nothing(
    warehouse: Warehouse, table: LakeTable, definition: TableDefinition
) -> None:
    with warehouse.table(definition) as other:
        base, others_base = table.snapshot(), other.snapshot()
        files = written(other, definition, "b", rows(0, 6))
        table.commit(base, Change(offsets(10), base.schema, written(table, definition, "a", rows(0, 10))))
        with pytest.raises(ConflictError):
            other.commit(others_base, Change(offsets(6), others_base.schema, files))
    assert table.snapshot().offsets == offsets(10)
    assert read(table) == list(range(10))


def test_a_new_column_is_null_in_older_files(table: LakeTable, definition: TableDefinition) -> None:
    base = table.snapshot()
    table.commit(base, Change(offsets(4), base.schema, written(table, definition, "a", rows(0, 4))))
    base = table.snapshot()
    wider = rows(4, 2, amount=pa.array([1.5, 2.5]))
    table.commit(base, Change(offsets(6), wider.schema, written(table, definition, "b", wider)))
    snapshot = table.snapshot()
    assert snapshot.schema == wider.schema
    found = cold_dataset(table.files(snapshot), snapshot.schema).to_table().sort_by("offset")
    assert found.column("amount").to_pylist() == [None] * 4 + [1.5, 2.5]


def test_files_are_replaced_and_the_offsets_stay(table: LakeTable, definition: TableDefinition) -> None:
    base = table.snapshot()
    table.commit(base, Change(offsets(4), base.schema, written(table, definition, "a", rows(0, 4))))
    base = table.snapshot()
    merged = written(table, definition, "b", rows(0, 4))
    table.commit(base, Change(offsets(4), base.schema, merged, table.files(base), is_maintenance=True))
    assert {each.path for each in table.files(table.snapshot())} == {each.path for each in merged}
    assert (table.snapshot().offsets, read(table)) == (offsets(4), [0, 1, 2, 3])


@pytest.mark.parametrize("partition_by", ["none", "hour", "key:4"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_tables_are_divided_in_other_ways(tmp_path: Path, table_format: str, partition_by: str) -> None:
    definition = TableDefinition("orders", "sales.orders", table_format, partition_by=partition_by)
    warehouse = Warehouse(tmp_path)
    warehouse.enable(definition)
    with warehouse.table(definition) as table:
        base = table.snapshot()
        table.commit(base, Change(offsets(9), base.schema, written(table, definition, "a", rows(0, 9))))
        parts = {each.part for each in table.files(table.snapshot())}
        # The buckets of k0, k1 and k2 by Iceberg's murmur3.
        assert parts == {"none": {None}, "hour": {498623, 498625}, "key:4": {0, 2}}[partition_by]
        assert read(table) == list(range(9))


def test_a_definition_is_remembered_and_forgotten(warehouse: Warehouse, definition: TableDefinition) -> None:
    warehouse.enable(definition)
    assert (warehouse.topics(), warehouse.definition("orders")) == (["orders"], definition)
    with pytest.raises(ConflictError, match="has the table orders already"):
        warehouse.enable(definition)
    warehouse.disable("orders")
    with pytest.raises(NoTableError, match="ottla lake enable orders"):
        warehouse.definition("orders")


def test_enabling_again_after_a_crash_takes_the_empty_table(
    warehouse: Warehouse, definition: TableDefinition
) -> None:
    warehouse.enable(definition)
    warehouse.disable("orders")
    warehouse.enable(definition)
    with warehouse.table(definition) as table:
        base = table.snapshot()
        table.commit(base, Change(offsets(1), base.schema, written(table, definition, "a", rows(0, 1))))
    warehouse.disable("orders")
    with pytest.raises(ConflictError, match="already"):
        warehouse.enable(definition)


def test_an_empty_table_of_another_kind_is_not_taken(
    warehouse: Warehouse, definition: TableDefinition
) -> None:
    warehouse.enable(definition)
    warehouse.disable("orders")
    with pytest.raises(ConflictError, match="already"):
        warehouse.enable(replace(definition, partition_by="hour"))


@pytest.mark.parametrize("table_format", ["iceberg", "parquet"])
def test_object_storage_needs_a_catalog(table_format: str) -> None:
    warehouse = Warehouse("s3://bucket/lake")
    with pytest.raises(TableError, match=r"catalog|object storage"):
        warehouse._made(TableDefinition("orders", "orders", table_format), RAW_SCHEMA)
