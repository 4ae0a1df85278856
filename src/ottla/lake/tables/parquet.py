"""A directory of Parquet files with a log of manifests: a table for those who want nothing but files.

    orders/_ottla/00000000000000000007.json    what the table is since its seventh commit
    orders/data/ottla_day=2026-11-18/….parquet

A manifest names all files of the table and the offsets that they hold. A commit creates the next manifest, and
the file system lets only one writer create it: the other one gets ConflictError. The newest manifest is the
table. This needs a file system that can refuse to replace a file: a local or a network one, not object
storage, for which there are Iceberg and Delta.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.plan.seam import FileSpan
from ottla.lake.plan.table_offsets import offsets_of_json
from ottla.lake.tables.storage import delete_others, is_local, plain, write_new
from ottla.lake.tables.table import Change, ConflictError, DataFile, Snapshot, TableError

_DIGITS: Final = 20
_MANIFESTS: Final = "_ottla"


class ParquetTable:
    """The table in one directory. `create` makes it; the constructor opens it."""

    def __init__(self, definition: TableDefinition, location: str) -> None:
        self._definition = definition
        self._place = Path(plain(location))
        if not self._versions():
            raise TableError(f"There is no table in {self._place}.")

    @classmethod
    def create(cls, definition: TableDefinition, location: str, schema: pa.Schema) -> ParquetTable:
        if not is_local(location):
            raise TableError(
                f"A Parquet table cannot be in {location}: object storage cannot refuse a second writer. "
                "Use --format iceberg or --format delta."
            )
        first = _manifest(1, None, schema, [], definition.as_json())
        if not write_new(_path(Path(plain(location)), 1), first):
            raise ConflictError(f"There is a table in {location} already.")
        return cls(definition, location)

    @property
    def definition_text(self) -> str:
        return str(self.snapshot().state["definition"])

    @property
    def data_location(self) -> str:
        return str(self._place / "data")

    def snapshot(self) -> Snapshot:
        while True:
            version = self._versions()[-1]
            try:
                given = json.loads(_path(self._place, version).read_text(encoding="utf-8"))
            except FileNotFoundError:  # expired since it was listed; there is a newer one
                continue
            offsets = offsets_of_json(given["offsets"]) if given["offsets"] else None
            schema = pa.ipc.read_schema(pa.py_buffer(b64decode(given["schema"])))
            return Snapshot(str(version), offsets, schema, given)

    def files(self, snapshot: Snapshot) -> list[DataFile]:
        return [_file(self._place, each) for each in snapshot.state["files"]]

    def commit(self, base: Snapshot, change: Change) -> None:
        removed = {each.path for each in change.removed}
        kept = [each for each in self.files(base) if each.path not in removed]
        rows = [_row(self._place, each) for each in (*kept, *change.added)]
        version = int(base.version) + 1
        text = _manifest(version, change.offsets.as_json(), change.schema, rows, self._definition.as_json())
        if not write_new(_path(self._place, version), text):
            raise ConflictError(f"Another writer made commit {version} of {self._place}.")

    def expire(self, older_than_ms: int, grace_ms: int) -> list[str]:
        versions = self._versions()
        kept = [versions[-1]]
        for version in versions[:-1]:
            manifest = _path(self._place, version)
            if manifest.stat().st_mtime_ns // 1_000_000 < older_than_ms:
                manifest.unlink(missing_ok=True)
            else:
                kept.append(version)
        states = [json.loads(_path(self._place, version).read_text(encoding="utf-8")) for version in kept]
        stay = [_file(self._place, each).path for state in states for each in state["files"]]
        return delete_others(self.data_location, stay, grace_ms)

    def close(self) -> None:
        """Nothing is held open."""

    def _versions(self) -> list[int]:
        names = (self._place / _MANIFESTS).glob("[0-9]*.json")
        return sorted(int(each.stem) for each in names)


def _path(place: Path, version: int) -> Path:
    return place / _MANIFESTS / f"{version:0{_DIGITS}}.json"


def _manifest(version: int, offsets: str | None, schema: pa.Schema, files: list[Any], definition: str) -> str:
    return json.dumps(
        {
            "version": version,
            "offsets": offsets,
            "definition": definition,
            "columns": {field.name: str(field.type) for field in schema},  # for people
            "schema": b64encode(schema.serialize().to_pybytes()).decode(),
            "files": files,
        },
        indent=1,
    )


def _row(place: Path, file: DataFile) -> dict[str, Any]:
    return {**asdict(file), "path": str(Path(file.path).relative_to(place))}


def _file(place: Path, row: dict[str, Any]) -> DataFile:
    span = FileSpan(**{name: None if pair is None else tuple(pair) for name, pair in row["span"].items()})
    return DataFile(str(place / row["path"]), row["rows"], row["size_bytes"], row["part"], span)
