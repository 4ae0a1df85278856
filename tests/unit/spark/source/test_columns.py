"""The columns are those of Spark's Kafka source, and those that the scan makes."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructType

from ottla.spark.decode.schema import arrow_schema
from ottla.spark.option_values import OptionError
from ottla.spark.source.columns import check_columns, columns


@pytest.mark.parametrize("include_headers", [False, True])
def test_spark_and_arrow_mean_the_same_columns(include_headers: bool) -> None:
    ours = columns(include_headers=include_headers)
    schema: pa.Schema = arrow_schema(include_headers=include_headers)
    assert to_arrow_schema(ours, timezone="UTC").equals(schema)
    check_columns(ours, include_headers=include_headers)


def test_their_names_and_types() -> None:
    assert columns(include_headers=True).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )


def test_other_columns_cannot_be_set() -> None:
    with pytest.raises(OptionError, match=r"cannot be set to struct<value:string>. Select and cast"):
        check_columns(StructType().add("value", StringType()), include_headers=False)
