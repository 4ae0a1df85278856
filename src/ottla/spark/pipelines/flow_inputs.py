"""What a flow reads, by the names in its plan or in its SQL: which of them as a stream, which as a table.

Over Spark Connect a plan keeps names as they were written. SQL, also inside a plan, is taken by its words: what
follows FROM or JOIN is read as a table, unless it is STREAM.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from ottla.spark.pipelines.missing_dependencies import relations

_NAME: Final = r"((?:`[^`]*`|\w+)(?:\.(?:`[^`]*`|\w+))*)"
_TABLE: Final = re.compile(rf"\b(?:FROM|JOIN)\s+(?!STREAM\b){_NAME}", re.IGNORECASE)
_STREAM: Final = re.compile(rf"\bSTREAM\s*\(?\s*{_NAME}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FlowInputs:
    """The last parts of the names of what a flow reads."""

    streams: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        return self.streams | self.tables


def inputs_of_sql(text: str) -> FlowInputs:
    """The inputs of a query in SQL."""
    return FlowInputs(
        frozenset(map(_last_part, _STREAM.findall(text))), frozenset(map(_last_part, _TABLE.findall(text)))
    )


def inputs_of_plan(relation: Any) -> FlowInputs:
    """The inputs of a plan, which is a Relation of Spark Connect's protocol."""
    found = FlowInputs()
    for each in relations(relation):
        kind = each.WhichOneof("rel_type")
        if kind == "sql":
            found = _united(found, inputs_of_sql(each.sql.query))
        elif kind == "read" and each.read.WhichOneof("read_type") == "named_table":
            name = frozenset([_last_part(each.read.named_table.unparsed_identifier)])
            found = _united(found, FlowInputs(name) if each.read.is_streaming else FlowInputs(tables=name))
    return found


def _united(one: FlowInputs, other: FlowInputs) -> FlowInputs:
    return FlowInputs(one.streams | other.streams, one.tables | other.tables)


def _last_part(name: str) -> str:
    return name.rpartition(".")[2].strip("`")
