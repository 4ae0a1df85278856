"""JSON by schema: each record is parsed, or has a reason why not.

A step that judges adds two columns: `parsed`, the record as a struct, and `reason`, null where the record is
good. `valid` and `dead_letters` part the two kinds. Nothing is dropped on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.spark.steps.arguments import StepError, name, quoted, quoted_part
from ottla.spark.steps.ddl import Field, parse_ddl, to_ddl

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

PARSED: Final = "parsed"
REASON: Final = "reason"
_CORRUPT: Final = "_corrupt_record"
# Enough to recognise a value by; a dead letter has all of it.
_SHOWN_CHARACTERS: Final = 60


def parse_json(records: DataFrame, schema: str | StructType, *, column: str = "value") -> DataFrame:
    """Parse a column of JSON objects by a schema, given as DDL (`"order_id STRING NOT NULL, amount DOUBLE"`)
    or as a StructType.

    A record is bad if its value is null or no JSON object, if a field does not fit its type, or if a field
    that is NOT NULL is missing; `reason` says which. Fields that the schema does not name are passed over.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know

    fields = _fields(schema)
    text = F.col(quoted(name("column", column))).cast("string")
    wanted = f"{to_ddl(fields)}, {_CORRUPT} STRING"
    tried = F.from_json(text, wanted, {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"})
    tried_all = records.select("*", text.alias("_text"), tried.alias("_tried"))
    judged = tried_all.select("*", _json_reason(fields).alias(REASON))
    parsed = F.struct(*(F.col(f"_tried.{quoted_part(each.name)}").alias(each.name) for each in fields))
    # Not `drop`, which looks at the columns at once.
    return judged.select("*", F.when(F.col(REASON).isNull(), parsed).alias(PARSED)).selectExpr(
        "* EXCEPT (_text, _tried)"
    )


def require(records: DataFrame, rules: Mapping[str, str]) -> DataFrame:
    """Judge parsed records by rules: a reason, and what must be true in SQL: `{"the amount is not positive":
    "parsed.amount > 0"}`.

    A rule that is false or null makes a record bad; the first one that does gives the reason.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if not isinstance(rules, Mapping) or not rules:
        raise StepError(
            f"rules is {rules!r}, but takes reasons and conditions: {{'no amount': 'parsed.amount > 0'}}."
        )
    verdict = F.col(REASON)
    for reason, condition in rules.items():
        if not isinstance(reason, str) or not isinstance(condition, str) or not condition.strip():
            raise StepError(
                f"rules has {reason!r}: {condition!r}, but takes a reason and a condition in SQL."
            )
        broken = F.when(~F.coalesce(F.expr(condition), F.lit(False)), F.lit(reason))
        verdict = F.coalesce(verdict, broken)
    return records.select(F.expr(f"* EXCEPT ({REASON})"), verdict.alias(REASON))


def _fields(schema: str | StructType) -> tuple[Field, ...]:
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        fields = tuple(
            Field(each.name, each.dataType.simpleString(), not each.nullable) for each in schema.fields
        )
    elif isinstance(schema, str):
        fields = parse_ddl(schema)
    else:
        raise StepError(f"schema is a {type(schema).__name__}, but takes DDL or a StructType.")
    if not fields:
        raise StepError("schema has no fields.")
    return fields


def _json_reason(fields: tuple[Field, ...]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col("_text")
    corrupt = F.col(f"_tried.{_CORRUPT}").isNotNull()
    misfits = [_misfit(each) for each in fields]
    missing = [_missing(each) for each in fields if each.needed]
    return F.coalesce(
        F.when(text.isNull(), F.lit("the value is null")),
        F.when(F.try_parse_json(text).isNull(), F.concat(F.lit("not JSON: "), _shown(text))),
        F.when(~text.rlike(r"^\s*\{"), F.concat(F.lit("not a JSON object: "), _shown(text))),
        *misfits,
        F.when(corrupt, F.concat(F.lit("does not fit the schema: "), _shown(text))),
        *missing,
    )


def _misfit(field: Field) -> Column:
    """Spark makes a field null that does not fit; that it was there tells the two apart."""
    from pyspark.sql import functions as F  # noqa: N812

    given = F.get_json_object(F.col("_text"), f"$['{field.name}']")
    became_null = F.col(f"_tried.{quoted_part(field.name)}").isNull() & given.isNotNull()
    return F.when(became_null, F.concat(F.lit(f"{field.name} is not of type {field.type}: "), _shown(given)))


def _missing(field: Field) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.when(F.col(f"_tried.{quoted_part(field.name)}").isNull(), F.lit(f"{field.name} is missing"))


def _shown(text: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.substring(text, 1, _SHOWN_CHARACTERS)
