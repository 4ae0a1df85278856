"""Delta tables through delta-rs: files that this program wrote become a version of the table.

Rules
- How far the table is stands in its transaction identifiers, one for each partition of the topic: the
  application is `ottla:<topic id>:<partition>`, the version is the next offset. Delta keeps the newest of each
  in every checkpoint, and refuses a commit when another writer moved one of them: that is ConflictError.
- The commit's metadata has the same as `ottla.offsets`, for people and other programs.
- New columns are added by a commit of their own before the rows that need them; a crash between the two leaves
  columns without values, and no harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import Field as DeltaField
from deltalake.schema import Schema as DeltaSchema
from deltalake.transaction import AddAction, RemoveAction, Transaction

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.plan.seam import FileSpan
from ottla.lake.plan.table_offsets import PROPERTY, TableOffsets, offsets_of_json
from ottla.lake.tables.parts import part_column, part_of_value, part_type, part_value
from ottla.lake.tables.schemas import small_types
from ottla.lake.tables.table import Change, ConflictError, DataFile, Snapshot, TableError

DEFINITION_PROPERTY: Final = "ottla.definition"


class DeltaLakeTable:
    """The table at one location. `create` makes it; the constructor opens it."""

    def __init__(self, definition: TableDefinition, location: str) -> None:
        self._definition = definition
        self._location = location
        try:
            DeltaTable(location)
        except TableNotFoundError:
            raise TableError(f"There is no Delta table in {location}.") from None

    @classmethod
    def create(cls, definition: TableDefinition, location: str, schema: pa.Schema) -> DeltaLakeTable:
        name = part_column(definition)
        columns = schema if name is None else schema.append(pa.field(name, part_type(definition)))
        try:
            DeltaTable.create(
                location,
                schema=columns,
                mode="error",
                partition_by=[name] if name else None,
                name=definition.table.replace(".", "_"),
                configuration={DEFINITION_PROPERTY: definition.as_json()},
                raise_if_key_not_exists=False,
            )
        except DeltaError as error:
            if "already exists" not in str(error):
                raise
            raise ConflictError(f"There is a Delta table in {location} already.") from error
        return cls(definition, location)

    @property
    def definition_text(self) -> str:
        return str(DeltaTable(self._location).metadata().configuration.get(DEFINITION_PROPERTY, ""))

    @property
    def data_location(self) -> str:
        return self._location

    def snapshot(self) -> Snapshot:
        table = DeltaTable(self._location)
        schema = small_types(pa.schema(table.schema().to_arrow()))
        part = part_column(self._definition)
        columns = pa.schema([field for field in schema if field.name != part])
        return Snapshot(str(table.version()), _offsets(table), columns, table)

    def files(self, snapshot: Snapshot) -> list[DataFile]:
        actions = pa.table(snapshot.state.get_add_actions(flatten=True))
        return [_data_file(self._definition, self._location, row) for row in actions.to_pylist()]

    def commit(self, base: Snapshot, change: Change) -> None:
        table = self._widened(base, change)
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        actions: list[Any] = [self._add(each, now_ms, change) for each in change.added]
        actions += [
            RemoveAction(self._relative(each), not change.is_maintenance, now_ms) for each in change.removed
        ]
        properties = CommitProperties(
            custom_metadata={PROPERTY: change.offsets.as_json()},
            max_commit_retries=0,
            app_transactions=_transactions(change.offsets),
        )
        name = part_column(self._definition)
        try:
            table.create_write_transaction(
                actions, "append", table.schema(), [name] if name else None, commit_properties=properties
            )
        except CommitFailedError as error:
            raise ConflictError(f"Another writer changed the table in {self._location}: {error}") from error

    def expire(self, older_than_ms: int, grace_ms: int) -> list[str]:
        """Delta's own vacuum: files that left the table, or never came into it, before both times."""
        age_ms = int(datetime.now(UTC).timestamp() * 1000) - min(older_than_ms, grace_ms)
        hours = max(0, age_ms // 3_600_000)
        table = DeltaTable(self._location)
        deleted = table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
        return [each for each in deleted if each.endswith(".parquet")]

    def close(self) -> None:
        """Nothing is held open."""

    def _widened(self, base: Snapshot, change: Change) -> DeltaTable:
        table: DeltaTable = base.state
        new = [field for field in change.schema if field.name not in base.schema.names]
        changed = [
            field.name
            for field in change.schema
            if field.name in base.schema.names and base.schema.field(field.name).type != field.type
        ]
        if changed:
            raise TableError(
                f"Delta tables get new columns, but their columns keep their types: {', '.join(changed)} changed. "
                "Use Iceberg for such values, or enable a new table."
            )
        if not new:
            return table
        table.alter.add_columns([_delta_field(each) for each in new])
        table = DeltaTable(self._location)
        if _offsets(table) != base.offsets:
            raise ConflictError(f"Another writer changed the table in {self._location}.")
        return table

    def _add(self, file: DataFile, now_ms: int, change: Change) -> AddAction:
        name = part_column(self._definition)
        value = part_value(self._definition, file.part)
        values = {} if name is None else {name: None if value is None else str(value)}
        is_new = not change.is_maintenance
        return AddAction(self._relative(file), file.size_bytes, values, now_ms, is_new, _statistics(file))

    def _relative(self, file: DataFile) -> str:
        return file.path.removeprefix(self._location).lstrip("/")


def _transactions(offsets: TableOffsets) -> list[Transaction]:
    applications = offsets.next_offsets.items()
    return [
        Transaction(f"ottla:{offsets.topic_id}:{partition}", offset) for partition, offset in applications
    ]


def _offsets(table: DeltaTable) -> TableOffsets | None:
    """From the newest commit that has them; the transaction identifiers confirm them."""
    for commit in _history(table):
        if (text := commit.get(PROPERTY)) is not None:
            return _confirmed(table, offsets_of_json(text))
    return None


def _confirmed(table: DeltaTable, named: TableOffsets) -> TableOffsets:
    """The offsets of the transaction identifiers, for the partitions that a commit names."""
    found = {
        partition: table.transaction_version(f"ottla:{named.topic_id}:{partition}")
        for partition in named.next_offsets
    }
    if None in found.values():
        raise TableError(
            "The Delta table lost its transaction identifiers: was it restored to an older version?"
        )
    return TableOffsets(named.topic, named.topic_id, {key: int(value or 0) for key, value in found.items()})


def _history(table: DeltaTable) -> Iterator[dict[str, Any]]:
    version, seen = table.version(), 0
    for most in (1, 20, None):
        for commit in table.history(most)[seen:]:
            seen += 1
            if commit["version"] <= version:
                yield commit


def _delta_field(field: pa.Field) -> DeltaField:
    return DeltaSchema.from_arrow(pa.schema([field])).fields[0]


def _statistics(file: DataFile) -> str:
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for name, pair in (("partition", file.span.partitions), ("offset", file.span.offsets)):
        if pair is not None:
            low[name], high[name] = pair
    if file.span.timestamps_ms is not None:
        low["timestamp"], high["timestamp"] = (_moment(each) for each in file.span.timestamps_ms)
    return json.dumps({"numRecords": file.rows, "minValues": low, "maxValues": high, "nullCount": {}})


def _moment(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _data_file(definition: TableDefinition, location: str, row: dict[str, Any]) -> DataFile:
    name = part_column(definition)
    part = part_of_value(definition, row.get(f"partition.{name}")) if name else None
    times = row.get("min.timestamp"), row.get("max.timestamp")
    spans = None if None in times else tuple(int(each.timestamp() * 1000) for each in times if each)
    span = FileSpan(_pair(row, "partition"), _pair(row, "offset"), spans)  # type: ignore[arg-type]
    path = f"{location}/{unquote(row['path'])}"
    return DataFile(path, row["num_records"], row["size_bytes"], part, span)


def _pair(row: dict[str, Any], column: str) -> tuple[int, int] | None:
    low, high = row.get(f"min.{column}"), row.get(f"max.{column}")
    return None if low is None or high is None else (low, high)
