"""A warehouse: the directory or bucket where tables of topics are, and the definitions of these tables.

    ottla-lake/_topics/orders.json    the definition of the table of the topic orders
    ottla-lake/catalog.db             the embedded Iceberg catalog
    ottla-lake/ottla/orders/…         an Iceberg table
    ottla-lake/delta/orders/…         a Delta table
    ottla-lake/parquet/orders/…       a Parquet table

The definition is in the properties of an Iceberg or Delta table and in each manifest of a Parquet table, too:
the table describes itself, and the file can be written again from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import pyarrow as pa

from ottla.lake.plan.definition import TableDefinition, definition_of_json
from ottla.lake.tables.schemas import DEAD_LETTER_SCHEMA, first_schema
from ottla.lake.tables.storage import filesystem_of, is_local, plain, write_new
from ottla.lake.tables.table import ConflictError, LakeTable, TableError

DEFAULT_WAREHOUSE: Final = "ottla-lake"
ENVIRONMENT: Final = "OTTLA_WAREHOUSE"
_TOPICS: Final = "_topics"


class NoTableError(TableError):
    """The topic has no table in this warehouse."""


class Warehouse:
    """The tables of one place. Nothing is held open."""

    def __init__(self, location: str | os.PathLike[str] | None = None) -> None:
        given = (
            os.fspath(location) if location is not None else os.environ.get(ENVIRONMENT, DEFAULT_WAREHOUSE)
        )
        self.location = str(Path(plain(given)).resolve()) if is_local(given) else given.rstrip("/")

    # ---- definitions

    def topics(self) -> list[str]:
        """The topics that have a table here."""
        from pyarrow import fs

        filesystem, path = filesystem_of(f"{self.location}/{_TOPICS}")
        found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return sorted(unquote(Path(each.path).stem) for each in found if each.path.endswith(".json"))

    def definition(self, topic: str) -> TableDefinition:
        """The definition of a topic's table; NoTableError if there is none."""
        filesystem, path = filesystem_of(self._file(topic))
        try:
            with filesystem.open_input_file(path) as file:
                return definition_of_json(file.readall().decode())
        except FileNotFoundError:
            tables = ", ".join(self.topics()) or "none"
            raise NoTableError(
                f"The topic {topic} has no table in {self.location} (topics with one: {tables}). "
                f"Make one: ottla lake enable {topic} --table {_suggested(topic)}."
            ) from None

    def enable(self, definition: TableDefinition) -> None:
        """Make the tables of a topic, and remember their definition; ConflictError if the topic has one.

        A command that was broken off in between is repeated: tables that exist and hold nothing are taken.
        """
        if definition.topic in self.topics():
            table = self.definition(definition.topic).table
            raise ConflictError(f"The topic {definition.topic} has the table {table} already.")
        self._create(definition, definition.table, first_schema(definition))
        if definition.has_dead_letters:
            self._create(definition, definition.dead_letters, DEAD_LETTER_SCHEMA)
        self._remember(definition)

    def disable(self, topic: str) -> TableDefinition:
        """Forget the definition; the table stays as it is."""
        definition = self.definition(topic)
        filesystem, path = filesystem_of(self._file(topic))
        filesystem.delete_file(path)
        return definition

    def _remember(self, definition: TableDefinition) -> None:
        location = self._file(definition.topic)
        if is_local(location):
            if not write_new(Path(location), definition.as_json()):
                raise ConflictError(f"The topic {definition.topic} has got a table meanwhile.")
            return
        filesystem, path = filesystem_of(location)
        with filesystem.open_output_stream(path) as file:
            file.write(definition.as_json().encode())

    def _file(self, topic: str) -> str:
        return f"{self.location}/{_TOPICS}/{quote(topic, safe='')}.json"

    # ---- tables

    @contextmanager
    def table(self, definition: TableDefinition) -> Iterator[LakeTable]:
        """The table of a topic."""
        with self._opened(definition, definition.table) as table:
            yield table

    @contextmanager
    def dead_letters(self, definition: TableDefinition) -> Iterator[LakeTable]:
        """The table of the topic's records that cannot be decoded."""
        with self._opened(definition, definition.dead_letters) as table:
            yield table

    @contextmanager
    def _opened(self, definition: TableDefinition, name: str) -> Iterator[LakeTable]:
        table = self._open(_named(definition, name))
        try:
            yield table
        finally:
            table.close()

    def _open(self, definition: TableDefinition) -> LakeTable:
        match definition.format:
            case "iceberg":
                from ottla.lake.tables.iceberg import IcebergTable, catalog_of

                return IcebergTable(definition, catalog_of(definition.catalog, self.location))
            case "delta":
                from ottla.lake.tables.delta import DeltaLakeTable

                return DeltaLakeTable(definition, self._place(definition))
            case _:
                from ottla.lake.tables.parquet import ParquetTable

                return ParquetTable(definition, self._place(definition))

    def _create(self, definition: TableDefinition, name: str, schema: pa.Schema) -> None:
        named = _named(definition, name)
        try:
            self._made(named, schema).close()
        except ConflictError:
            table = self._open(named)
            try:
                is_same = table.definition_text == named.as_json()
                if table.snapshot().offsets is not None or not is_same:
                    raise
            finally:
                table.close()

    def _made(self, definition: TableDefinition, schema: pa.Schema) -> LakeTable:
        if is_local(self.location):
            Path(self.location).mkdir(parents=True, exist_ok=True)
        match definition.format:
            case "iceberg":
                from ottla.lake.tables.iceberg import IcebergTable, catalog_of

                return IcebergTable.create(definition, catalog_of(definition.catalog, self.location), schema)
            case "delta":
                from ottla.lake.tables.delta import DeltaLakeTable

                return DeltaLakeTable.create(definition, self._place(definition), schema)
            case _:
                from ottla.lake.tables.parquet import ParquetTable

                return ParquetTable.create(definition, self._place(definition), schema)

    def _place(self, definition: TableDefinition) -> str:
        return f"{self.location}/{definition.format}/{definition.table.replace('.', '/')}"


def _named(definition: TableDefinition, name: str) -> TableDefinition:
    from dataclasses import replace

    return replace(definition, table=name)


def _suggested(topic: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in topic)
