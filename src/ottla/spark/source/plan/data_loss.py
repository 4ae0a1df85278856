"""Data that should be there and are not: an error, or a warning if the user would rather go on."""

from __future__ import annotations

import logging
from typing import Final

_log: Final = logging.getLogger(__name__)

_WHAT_TO_DO: Final = (
    "The data were aged out by retention, or the topic was deleted or created again before they were read. To continue without "
    "them, set the option 'failOnDataLoss' to false."
)


class DataLossError(RuntimeError):
    """Records that a query should have read are not there any more."""


def report_data_loss(reason: str, *, fail: bool) -> None:
    """`reason` is a sentence: which partition, which offsets, what was found instead."""
    if fail:
        raise DataLossError(f"Some data may have been lost: {reason} {_WHAT_TO_DO}")
    _log.warning("Some data may have been lost, and the query goes on without them: %s", reason)
