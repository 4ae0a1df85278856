"""The stored state of a streaming query: its checkpoint, and the log of the table that it writes. Read from
the files.

A batch N begins when `offsets/N` is there, is in the table when the table's `_spark_metadata/N` (or
`N.compact`) is there, and is over when `commits/N` is there. A query that starts again repeats the last batch
that has begun and is not over, with the same offsets; the table takes each N once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq


class Checkpoint:
    """The files of one query and of its table."""

    def __init__(self, checkpoint: Path, table: Path) -> None:
        self._offsets, self._commits = checkpoint / "offsets", checkpoint / "commits"
        self._log = table / "_spark_metadata"

    @property
    def begun(self) -> int:
        """The number of the newest batch that has begun; -1 if there is none."""
        return max(_numbers(self._offsets), default=-1)

    @property
    def ended(self) -> int:
        """The number of the newest batch that is over; -1 if there is none."""
        return max(_numbers(self._commits), default=-1)

    def has_begun(self, batch: int) -> bool:
        return (self._offsets / str(batch)).exists()

    def is_in_table(self, batch: int) -> bool:
        return (self._log / str(batch)).exists() or (self._log / f"{batch}.compact").exists()

    def is_over(self, batch: int) -> bool:
        return (self._commits / str(batch)).exists()

    def processed(self, topic: str) -> dict[int, int]:
        """How far the batches that are over go, by partition."""
        batch = self.ended
        if batch < 0:
            return {}
        offsets: Any = json.loads((self._offsets / str(batch)).read_text().splitlines()[-1])
        if isinstance(offsets, str):  # as a Python source hands it to Spark
            offsets = json.loads(offsets)
        return {int(partition): offset for partition, offset in offsets[topic].items()}


def _numbers(directory: Path) -> Iterator[int]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    yield from (int(name) for name in names if name.isdigit())


def table_rows(table: Path) -> Iterator[tuple[int, int, str]]:
    """Partition, offset and value of each row, without Spark: from the files that the table's log names."""
    for path in sorted(_files(table / "_spark_metadata")):
        columns = pq.read_table(path, columns=["partition", "offset", "value"]).to_pydict()
        values = (value.decode() for value in columns["value"])
        yield from zip(columns["partition"], columns["offset"], values, strict=True)


def _files(log: Path) -> Iterator[Path]:
    """The newest compacted log, and what came after it."""
    compacted = [int(path.stem) for path in log.glob("*.compact")]
    newest = max(compacted, default=-1)
    entries = [log / f"{newest}.compact"] if compacted else []
    entries += [log / str(number) for number in sorted(_numbers(log)) if number > newest]
    for entry in entries:
        for line in entry.read_text().splitlines()[1:]:
            yield Path(unquote(urlsplit(json.loads(line)["path"]).path))
