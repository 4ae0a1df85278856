"""Iceberg tables through pyiceberg: files that this program wrote become a snapshot with the offsets in its
summary.

Rules
- A commit is tried once (`commit.retry.num-retries` is 0): pyiceberg would otherwise put an append on top of
  another writer's, and records would be in the table twice.
- The offsets of a table are those in the summary of its newest snapshot that has some: other engines may add
  snapshots of their own (a compaction). The property of the table has the offsets, too, for the time when all
  snapshots with a summary are expired.
- Files carry no field ids; the table has a name mapping, so that a file can be written before its new columns
  have ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, Transform
from pyiceberg.typedef import Record

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.plan.seam import FileSpan
from ottla.lake.plan.table_offsets import PROPERTY, TableOffsets, offsets_of_json
from ottla.lake.tables.parts import part_column
from ottla.lake.tables.schemas import small_types
from ottla.lake.tables.storage import delete_others, filesystem_of, is_local, plain
from ottla.lake.tables.table import Change, ConflictError, DataFile, Snapshot, TableError

DEFINITION_PROPERTY: Final = "ottla.definition"
_DEFAULT_NAMESPACE: Final = "ottla"
_NAME: Final = "name"


def catalog_of(properties: Mapping[str, str], warehouse: str) -> Catalog:
    """The catalog: an embedded one in the warehouse, or one by pyiceberg's properties or configuration."""
    if not properties:
        if not is_local(warehouse):
            raise TableError(
                f"The embedded catalog is a file, and cannot be in {warehouse}: name a catalog, as in "
                "--catalog type=rest --catalog uri=http://localhost:8181."
            )
        place = plain(warehouse)
        embedded = {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}"}
        return load_catalog("ottla", **embedded)
    others = {name: value for name, value in properties.items() if name != _NAME}
    return load_catalog(properties.get(_NAME, "ottla"), **others)


class IcebergTable:
    """A table of a catalog. `create` makes it; the constructor opens it."""

    def __init__(self, definition: TableDefinition, catalog: Catalog) -> None:
        self._definition = definition
        self._catalog = catalog
        self._identifier = _identifier(definition.table)
        try:
            self._table = catalog.load_table(self._identifier)
        except NoSuchTableError:
            catalog.close()
            raise TableError(
                f"There is no Iceberg table {'.'.join(self._identifier)} in the catalog."
            ) from None

    @classmethod
    def create(cls, definition: TableDefinition, catalog: Catalog, schema: pa.Schema) -> IcebergTable:
        identifier = _identifier(definition.table)
        properties = {
            DEFINITION_PROPERTY: definition.as_json(),
            TableProperties.COMMIT_NUM_RETRIES: "0",
            TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
        }
        catalog.create_namespace_if_not_exists(identifier[:-1])
        try:
            with catalog.create_table_transaction(identifier, schema, properties=properties) as transaction:
                transform, source = _transform(definition)
                if transform is not None:
                    with transaction.update_spec() as spec:
                        spec.add_field(source, transform, part_column(definition))
                names = transaction.table_metadata.schema().name_mapping.model_dump_json()
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: names})
        except (TableAlreadyExistsError, CommitFailedException) as error:
            raise ConflictError(f"There is an Iceberg table {'.'.join(identifier)} already.") from error
        return cls(definition, catalog)

    @property
    def definition_text(self) -> str:
        return str(self._table.properties.get(DEFINITION_PROPERTY, ""))

    @property
    def data_location(self) -> str:
        return f"{plain(self._table.location())}/data"

    def snapshot(self) -> Snapshot:
        table = self._table = self._catalog.load_table(self._identifier)
        current = table.current_snapshot()
        version = str(current.snapshot_id) if current is not None else ""
        schema = small_types(schema_to_pyarrow(table.schema(), include_field_ids=False))
        return Snapshot(version, _offsets(table), schema, table)

    def files(self, snapshot: Snapshot) -> list[DataFile]:
        table: Table = snapshot.state
        if not snapshot.version:
            return []
        tasks = table.scan(snapshot_id=int(snapshot.version)).plan_files()
        return [_data_file(table, task) for task in tasks]

    def commit(self, base: Snapshot, change: Change) -> None:
        table: Table = base.state
        transaction = table.transaction()
        text = change.offsets.as_json()
        if small_types(change.schema) != base.schema:
            with transaction.update_schema() as update:
                update.union_by_name(change.schema)
        transaction.set_properties({PROPERTY: text})
        _add_snapshot(transaction, base, change, {PROPERTY: text})
        try:
            transaction.commit_transaction()
        except CommitFailedException as error:
            raise ConflictError(
                f"Another writer changed the table {self._definition.table}: {error}"
            ) from error

    def expire(self, older_than_ms: int, grace_ms: int) -> list[str]:
        table = self._catalog.load_table(self._identifier)
        older_than = datetime.fromtimestamp(older_than_ms / 1000, UTC).replace(tzinfo=None)
        try:
            table.maintenance.expire_snapshots().older_than(older_than).commit()
        except CommitFailedException as error:
            raise ConflictError(f"The table {self._definition.table} changed meanwhile: {error}") from error
        table = self._catalog.load_table(self._identifier)
        data, metadata = set[str](), set[str]()
        for snapshot in table.snapshots():
            metadata.add(plain(snapshot.manifest_list))
            metadata.update(plain(each.manifest_path) for each in snapshot.manifests(table.io))
            tasks = table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
            data.update(plain(task.file.file_path) for task in tasks)
        place = plain(table.location())
        delete_others(f"{place}/metadata", metadata, grace_ms, ".avro")
        return delete_others(f"{place}/data", data, grace_ms)

    def close(self) -> None:
        self._catalog.close()


def _identifier(name: str) -> tuple[str, ...]:
    parts = tuple(name.split("."))
    return parts if len(parts) > 1 else (_DEFAULT_NAMESPACE, *parts)


def _transform(definition: TableDefinition) -> tuple[Transform[Any, Any] | None, str]:
    if definition.buckets is not None:
        return BucketTransform(definition.buckets), "key"
    by_time: dict[str, Transform[Any, Any]] = {"day": DayTransform(), "hour": HourTransform()}
    return by_time.get(definition.partition_by), "timestamp"


def _offsets(table: Table) -> TableOffsets | None:
    snapshot = table.current_snapshot()
    while snapshot is not None:
        text = snapshot.summary.additional_properties.get(PROPERTY) if snapshot.summary else None
        if text is not None:
            return offsets_of_json(text)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    text = table.properties.get(PROPERTY)
    return offsets_of_json(text) if text is not None else None


def _add_snapshot(transaction: Transaction, base: Snapshot, change: Change, summary: dict[str, str]) -> None:
    update = transaction.update_snapshot(snapshot_properties=summary)
    made = [_iceberg_file(transaction, each) for each in change.added]
    if not change.removed:
        with update.fast_append() as append:
            for each in made:
                append.append_data_file(each)
        return
    with update.overwrite() as overwrite:
        for each in made:
            overwrite.append_data_file(each)
        for old in _found(base.state, base.version, {each.path for each in change.removed}):
            overwrite.delete_data_file(old)


def _found(table: Table, version: str, paths: Iterable[str]) -> list[IcebergFile]:
    wanted = set(paths)
    tasks = table.scan(snapshot_id=int(version)).plan_files()
    return [task.file for task in tasks if plain(task.file.file_path) in wanted]


def _iceberg_file(transaction: Transaction, file: DataFile) -> IcebergFile:
    metadata = transaction.table_metadata
    schema = metadata.schema()
    filesystem, path = filesystem_of(file.path)
    with filesystem.open_input_file(path) as opened:
        footer = pq.read_metadata(opened)
    statistics = data_file_statistics_from_parquet_metadata(
        footer, compute_statistics_plan(schema, metadata.properties), parquet_path_to_id_mapping(schema)
    )
    is_divided = not metadata.spec().is_unpartitioned()
    return IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{file.path}" if is_local(file.path) else file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(file.part) if is_divided else Record(),
        file_size_in_bytes=file.size_bytes,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _data_file(table: Table, task: Any) -> DataFile:
    if task.delete_files:
        raise TableError(
            "Another engine deleted rows of the table with delete files, which are not read here: "
            "rewrite the table's files with that engine first."
        )
    file: IcebergFile = task.file
    part = file.partition[0] if len(file.partition) else None
    return DataFile(
        plain(file.file_path), file.record_count, file.file_size_in_bytes, part, _span(table, file)
    )


def _span(table: Table, file: IcebergFile) -> FileSpan:
    micros = _bounds(table, file, "timestamp")
    return FileSpan(
        _bounds(table, file, "partition"),
        _bounds(table, file, "offset"),
        None if micros is None else (micros[0] // 1000, micros[1] // 1000),
    )


def _bounds(table: Table, file: IcebergFile, column: str) -> tuple[int, int] | None:
    field: Any = table.schema().find_field(column)
    low = (file.lower_bounds or {}).get(field.field_id)
    high = (file.upper_bounds or {}).get(field.field_id)
    if low is None or high is None:
        return None
    first, last = (from_bytes(field.field_type, each) for each in (low, high))
    return int(first), int(last)
