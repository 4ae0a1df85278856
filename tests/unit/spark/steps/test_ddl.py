"""The fields of a schema in DDL."""

from __future__ import annotations

import pytest

from ottla.spark.steps.arguments import StepError
from ottla.spark.steps.ddl import Field, parse_ddl, to_ddl


def test_fields_are_told_apart() -> None:
    text = """order_id STRING NOT NULL COMMENT 'a, b', `odd, name` decimal(10, 2),
        lines ARRAY<STRUCT<sku: STRING, n: INT>> not null, at: timestamp"""

    fields = parse_ddl(text)

    assert fields == (
        Field("order_id", "STRING", True),
        Field("odd, name", "decimal(10, 2)", False),
        Field("lines", "ARRAY<STRUCT<sku: STRING, n: INT>>", True),
        Field("at", "timestamp", False),
    )
    assert to_ddl(fields[1:3]) == "`odd, name` decimal(10, 2), `lines` ARRAY<STRUCT<sku: STRING, n: INT>>"


@pytest.mark.parametrize("text", ["", "a", "a INT,", "a ARRAY<INT", "a INT, , b INT"])
def test_what_is_no_ddl_is_refused(text: str) -> None:
    with pytest.raises(StepError, match="takes fields as in 'order_id STRING NOT NULL"):
        parse_ddl(text)


def test_a_field_is_named_once() -> None:
    with pytest.raises(StepError, match="names the field a twice"):
        parse_ddl("a INT, A STRING")
