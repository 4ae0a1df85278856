"""How Spark tells a streaming source how much to take: since Spark 4.2. Spark 4.1 has no limits, and a batch
takes all there is.

So on 4.1 the options that limit a batch cannot be kept, and are refused. Everything else of the source is the
same.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ottla.spark.option_values import OptionError
from ottla.spark.source.plan.options import SourceOptions

ARE_KNOWN: Final = find_spec("pyspark.sql.streaming.datasource") is not None

if TYPE_CHECKING or ARE_KNOWN:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """Limits that Spark 4.1 never gives."""

    class SupportsTriggerAvailableNow:
        """Spark 4.1 settles the end of an available-now query by itself."""

    ReadAllAvailable = ReadMaxRows = ReadMinRows = ReadLimit

__all__ = [
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "check_limits",
]


def check_limits(options: SourceOptions, *, are_known: bool = ARE_KNOWN) -> None:
    """Raise an OptionError for a limit that this Spark would not keep."""
    limits = {
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minOffsetsPerTrigger": options.min_offsets_per_trigger,
    }
    for name, limit in limits.items():
        if limit is not None and not are_known:
            raise OptionError(
                f"Option '{name}' needs Spark 4.2 or newer: Spark 4.1 has no limits for a Python source. "
                "Leave it out, and a batch takes all there is."
            )
