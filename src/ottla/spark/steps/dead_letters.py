"""Good records and bad ones part here: the good go on, the bad go to a dead-letter topic and say why and
where from.

A dead letter is the record as it was, key and value, with headers that say what is needed to find it and to
send it again: `dead-letter.reason`, `.topic`, `.partition`, `.offset`, `.timestamp` (milliseconds since
1970). Headers are texts in UTF-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.spark.steps.arguments import name, names, quoted
from ottla.spark.steps.json_values import PARSED, REASON
from ottla.spark.steps.origins import HEADERS, header

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PREFIX: Final = "dead-letter."
ORIGIN: Final = ("topic", "partition", "offset", "timestamp")


def valid(records: DataFrame, *, keep: tuple[str, ...] = ORIGIN) -> DataFrame:
    """The good records: the fields of `parsed`, and where each came from (`keep`), by which `ottla audit`
    finds gaps and duplicates.
    """
    from pyspark.sql import functions as F  # noqa: N812

    kept = [F.col(quoted(each)) for each in names("keep", keep, empty=True)]
    return records.where(F.col(REASON).isNull()).select(f"{PARSED}.*", *kept)


def dead_letters(records: DataFrame, *, topic: str | None = None, headers: bool = False) -> DataFrame:
    """The bad records as rows for a topic: key, value, headers, and `topic` if it is given here and not to
    the sink.

    `headers=True` keeps the headers that the records had; they must have been read.
    """
    from pyspark.sql import functions as F  # noqa: N812

    told = F.array(
        header(f"{PREFIX}reason", F.col(REASON)),
        header(f"{PREFIX}topic", F.col("topic")),
        header(f"{PREFIX}partition", F.col("partition")),
        header(f"{PREFIX}offset", F.col("offset")),
        header(f"{PREFIX}timestamp", F.unix_millis("timestamp")),
    )
    had = F.coalesce(F.col("headers"), F.array().cast(HEADERS))
    rows = records.where(F.col(REASON).isNotNull())
    to = [F.lit(name("topic", topic)).alias("topic")] if topic is not None else []
    return rows.select("key", "value", (F.concat(had, told) if headers else told).alias("headers"), *to)


def split(records: DataFrame, *, topic: str | None = None) -> tuple[DataFrame, DataFrame]:
    """The good records and the dead letters."""
    return valid(records), dead_letters(records, topic=topic)


def redrive(letters: DataFrame) -> DataFrame:
    """Dead letters as they were, for the topics that they came from: key, value, topic, and the headers that
    they had before.

    `letters` is a dead-letter topic, read with headers. Those without an origin are left out.
    """
    from pyspark.sql import functions as F  # noqa: N812

    told = F.filter("headers", lambda each: each["key"] == f"{PREFIX}topic")
    before = F.filter("headers", lambda each: ~each["key"].startswith(PREFIX))
    rows = letters.select(
        "key", "value", before.alias("headers"), F.get(told, 0)["value"].cast("string").alias("topic")
    )
    return rows.where(F.col("topic").isNotNull())
