"""The definition of a table: kept as JSON, and refused in words where it makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.lake.plan.definition import (
    DefinitionError,
    TableDefinition,
    checked,
    column_name,
    definition_of_json,
)


def test_a_definition_survives_its_json() -> None:
    whole = TableDefinition(
        "a.b-c", "sales.orders", "delta", "json", partition_by="key:8", columns={"id": "bigint"}
    )
    assert definition_of_json(whole.as_json()) == whole
    assert (whole.buckets, whole.dead_letters) == (8, "sales.orders__dead_letters")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"format": "orc"}, "iceberg or delta or parquet, not 'orc'"),
        ({"table": "1st"}, "cannot be the name of a table"),
        ({"table": "a.b.c"}, "cannot be the name of a table"),
        ({"partition_by": "week"}, "day, hour, key:N"),
        ({"partition_by": "key:0"}, "day, hour, key:N"),
        ({"columns": {"id": "bigint"}}, "for JSON values only"),
        ({"value": "registry"}, "need its address"),
        ({"format": "delta", "catalog": {"type": "rest"}}, "a catalog is Iceberg's"),
        ({"file_bytes": 1}, "64 KiB"),
        ({"mode": "upsert"}, "partitioned by its keys"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        checked(TableDefinition(**{"topic": "orders", "table": "orders", **given}))


def test_settings_of_a_later_version_are_refused() -> None:
    with pytest.raises(DefinitionError, match="does not know: shiny"):
        definition_of_json('{"topic": "a", "table": "a", "shiny": 1}')


def test_a_field_with_the_name_of_a_record_column_gets_a_prefix() -> None:
    assert [column_name(each) for each in ("id", "offset", "Key", "value")] == [
        "id",
        "value_offset",
        "value_Key",
        "value_value",
    ]
