"""What a table of a topic is: a value that is kept beside the table and in the table's own properties.

Rules
- A definition holds no secret and no address of a broker: those come with each command.
- Names of columns of the record come first; a field of a value with such a name gets the prefix `value_`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

FORMATS: Final = ("iceberg", "delta", "parquet")
VALUE_FORMS: Final = ("raw", "json", "registry")
MODES: Final = ("append", "upsert")
# The columns that every table has, besides those of the value.
RECORD_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "headers")
DEAD_LETTERS_SUFFIX: Final = "__dead_letters"
# A file of this size is read at full speed from a disk and from object storage, and holds many records.
DEFAULT_FILE_BYTES: Final = 128 << 20

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_BUCKETS = re.compile(r"key:([1-9]\d{0,3})")


class DefinitionError(ValueError):
    """A definition that cannot be kept; the message says what to change."""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The table of a topic. `catalog` are properties of an Iceberg catalog; empty is the embedded one.

    `columns` are the declared columns of a JSON value with their types; without them they are inferred.
    """

    topic: str
    table: str
    format: str = "iceberg"
    value: str = "raw"
    mode: str = "append"
    partition_by: str = "day"
    columns: Mapping[str, str] = field(default_factory=dict)
    registry: str = ""
    read_committed: bool = True
    start: str = "earliest"
    file_bytes: int = DEFAULT_FILE_BYTES
    retention_waits: bool = False
    catalog: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def buckets(self) -> int | None:
        """Into how many parts keys are hashed, if the table is partitioned by key."""
        found = _BUCKETS.fullmatch(self.partition_by)
        return int(found[1]) if found else None

    @property
    def is_upsert(self) -> bool:
        return self.mode == "upsert"

    @property
    def has_dead_letters(self) -> bool:
        """Whether a record can be bad: raw values are good as they are, but an upsert table needs keys."""
        return self.value != "raw" or self.is_upsert

    @property
    def dead_letters(self) -> str:
        """The name of the table for records that cannot be decoded."""
        return f"{self.table}{DEAD_LETTERS_SUFFIX}"


def definition_of_json(text: str) -> TableDefinition:
    """From `as_json`; fields of a later version are refused, because ignoring them could write wrong rows."""
    given: dict[str, Any] = json.loads(text)
    unknown = given.keys() - {each.name for each in fields(TableDefinition)}
    if unknown:
        raise DefinitionError(
            f"the table has settings that this version does not know: {', '.join(sorted(unknown))}"
        )
    return checked(TableDefinition(**given))


def checked(definition: TableDefinition) -> TableDefinition:
    """The definition itself; DefinitionError if a part of it makes no sense."""
    _check_choice("format", definition.format, FORMATS)
    _check_choice("value", definition.value, VALUE_FORMS)
    _check_choice("mode", definition.mode, MODES)
    _check_choice("start", definition.start, ("earliest", "latest"))
    if not _TABLE.fullmatch(definition.table):
        raise DefinitionError(
            f"'{definition.table}' cannot be the name of a table: letters, digits and '_', "
            "with a namespace before a dot if wanted, as in sales.orders"
        )
    if definition.partition_by not in ("none", "day", "hour") and definition.buckets is None:
        raise DefinitionError(
            f"a table is partitioned by day, hour, key:N (N buckets) or none, not by '{definition.partition_by}'"
        )
    if definition.columns and definition.value != "json":
        raise DefinitionError(
            "columns are declared for JSON values only: a registry's schemas declare theirs"
        )
    if definition.value == "registry" and not definition.registry:
        raise DefinitionError("values by a registry need its address, as in --registry http://localhost:8082")
    if definition.catalog and definition.format != "iceberg":
        raise DefinitionError(f"a catalog is Iceberg's: a table of format {definition.format} has none")
    if definition.file_bytes < 1 << 16:
        raise DefinitionError("files of less than 64 KiB are too small to be useful")
    if definition.mode == "upsert" and definition.buckets is None:
        raise DefinitionError("an upsert table is partitioned by its keys: --partition-by key:16")
    return definition


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise DefinitionError(f"the {name} of a table is {' or '.join(choices)}, not '{value}'")


def column_name(name: str) -> str:
    """The column of a value's field: one that would hide a column of the record gets a prefix."""
    return f"value_{name}" if name.lower() in (*RECORD_COLUMNS, "value") else name
