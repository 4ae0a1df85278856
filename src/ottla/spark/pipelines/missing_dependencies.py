"""Which tables of a pipeline Spark would not wait for, seen in a flow's plan before it is sent.

Spark runs a flow after those that fill the tables it reads, and finds these by the names in its plan. Over
Spark Connect some steps look such a name up at once (Spark 4.3). In the first update there is no table of
that name yet: the name stays in the plan, or the step fails. From the second update on there is one, the name
is gone, and the flow runs beside the one that it should follow: it sees what the update before wrote. Nothing
is lost, but it is late. `select` leaves names as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

# The steps that look names up, by Spark's names of their relations.
LOOKING: Final = {
    "with_columns": "withColumn",
    "with_columns_renamed": "withColumnRenamed",
    "with_watermark": "withWatermark",
    "drop": "drop",
    "drop_na": "na.drop",
    "fill_na": "na.fill",
    "replace": "replace",
    "to_schema": "to",
}
_WORD: Final = re.compile(r"\w+")


def tables_looked_up(relation: Any) -> frozenset[tuple[str, str]]:
    """In a plan (a Relation of Spark Connect's protocol) the steps that look names up, each with the tables'
    names below it; of SQL, all words.
    """
    return frozenset(
        (LOOKING[kind], name)
        for each in relations(relation)
        if (kind := _kind(each)) in LOOKING
        for name in _names(each)
    )


def in_words(flow: str, looked_up: Iterable[tuple[str, str]]) -> str:
    """The problem of a flow, and the code to write instead."""
    steps = " and ".join(f"`{step}` on {table}" for step, table in sorted(looked_up))
    return (
        f"the flow {flow} uses {steps}: from the second update on Spark does not wait for that table of the pipeline, and {flow} is one update late. "
        'Write `select("*", column.alias("name"))`, or `selectExpr("* EXCEPT (old)", "old AS new")`.'
    )


def _names(relation: Any) -> Iterator[str]:
    for each in relations(relation):
        if _kind(each) == "read":
            yield each.read.named_table.unparsed_identifier.rpartition(".")[2].strip("`")
        elif _kind(each) == "sql":
            yield from _WORD.findall(each.sql.query)


def _kind(relation: Any) -> str:
    return str(relation.WhichOneof("rel_type"))


def relations(message: Any) -> Iterator[Any]:
    """All relations in a message, itself included."""
    if message.DESCRIPTOR.name == "Relation":
        yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in value if field.is_repeated else (value,):
            yield from relations(each)
