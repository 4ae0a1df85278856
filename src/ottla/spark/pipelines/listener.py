"""Spark's reports of streaming queries, for a board. (Subclassing is how Spark wants to be told.)"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.spark.pipelines.events import short_name
from ottla.spark.pipelines.flow_progress import Board, parse_offsets


class BoardListener(StreamingQueryListener):
    """Writes each batch of each flow on a board."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        progress = event.progress
        if progress.name:
            self._board.progress(
                short_name(progress.name),
                progress.numInputRows,
                progress.processedRowsPerSecond,
                parse_offsets(source.endOffset for source in progress.sources),
            )

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass
