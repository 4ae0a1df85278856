"""What a decoder of values answers: columns, and why some values have none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import pyarrow as pa

Reasons: TypeAlias = Mapping[int, str]


class Decoded(NamedTuple):
    """Columns of values, one row for each that was given, and why rows could not be decoded."""

    columns: pa.Table
    reasons: Reasons


# Decodes the values of records (headers may name their schemas); the schema has the columns known so far.
ValueDecoder: TypeAlias = Callable[[pa.RecordBatch, pa.Schema], Decoded]
