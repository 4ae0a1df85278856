"""How a pipeline stands, from what it left behind: checkpoints, state and tables. Spark is not needed, and
may be running meanwhile.

- A flow's position is in its checkpoint: the newest file in `offsets` that has one of the same name in
  `commits` is what has been written; each line that is a Kafka source's is `{"orders": {"0": 23}}`. A full
  refresh begins a new checkpoint, with a higher number.
- A Parquet table that a stream writes has a list of its files, `_spark_metadata`; what else lies there was
  never committed. Rows are counted from the files' footers. Delta and Iceberg have lists of their own, which
  are not read here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from ottla.spark.pipelines.flow_progress import Offsets, parse_offsets
from ottla.spark.pipelines.project import Project, local_path
from ottla.spark.pipelines.state import PipelineState

_COMMITTED_FILES: Final = "_spark_metadata"
_OTHER_LISTS: Final = ("_delta_log", "metadata")  # Delta's and Iceberg's


@dataclass(frozen=True, slots=True)
class FlowStanding:
    """A flow: how many batches it has done, and the next offsets that it will read; empty if it reads no
    topic.
    """

    name: str
    batches: int
    position: Offsets
    group: str | None


@dataclass(frozen=True, slots=True)
class TableStanding:
    """A table: its rows, files and bytes; None where that cannot be known from here."""

    name: str
    location: str
    rows: int | None
    files: int | None
    size_bytes: int | None


def flow_standings(project: Project, state: PipelineState) -> list[FlowStanding]:
    """All flows that the last update knew and that have read something, by name."""
    found = dict(checkpoints(project))
    return [
        FlowStanding(name, *_position(found[name]), flow.group)
        if name in found
        else FlowStanding(name, 0, {}, flow.group)
        for name, flow in sorted(state.flows.items())
    ]


def checkpoints(project: Project) -> Iterator[tuple[str, Path]]:
    """The newest checkpoint of each flow: `_checkpoints/<target's name, in parts>/<flow>/<number>`."""
    storage = local_path(project.storage)
    root = storage / "_checkpoints" if storage else None
    if root is None or not root.is_dir():
        return
    newest: dict[Path, int] = {}
    for offsets in root.rglob("offsets"):
        number, flow = offsets.parent.name, offsets.parent.parent
        if number.isdecimal():
            newest[flow] = max(newest.get(flow, 0), int(number))
    for flow, number_ in newest.items():
        yield flow.name, flow / str(number_)


def _position(checkpoint: Path) -> tuple[int, Offsets]:
    """How many batches are committed, and where the last one ended."""
    done = [int(each.name) for each in _listed(checkpoint / "commits") if each.name.isdecimal()]
    if not done:
        return 0, {}
    try:
        lines = (checkpoint / "offsets" / str(max(done))).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return max(done) + 1, {}
    return max(done) + 1, parse_offsets(lines[2:])  # after the version and the batch's metadata


def table_standings(state: PipelineState) -> list[TableStanding]:
    """All tables, by name."""
    return [_table(name, table.location) for name, table in sorted(state.tables.items())]


def _table(name: str, location: str) -> TableStanding:
    short = name.rpartition(".")[2].strip("`")
    path = local_path(location)
    files = None if path is None else data_files(path)
    if files is None:
        return TableStanding(short, location, None, None, None)
    size = sum(each.stat().st_size for each in files)
    return TableStanding(short, str(path), _rows(files), len(files), size)


def data_files(table: Path) -> list[Path] | None:
    """The files that a Parquet table consists of; None for other formats, and where no table is."""
    log = table / _COMMITTED_FILES
    if any((table / each).is_dir() for each in _OTHER_LISTS):
        return None
    if not log.is_dir():
        return sorted(table.rglob("*.parquet")) if table.is_dir() else None
    return [
        each
        for each in (local_path(unquote(uri)) for uri in _committed(log))
        if each is not None and each.is_file()
    ]


def _committed(log: Path) -> list[str]:
    """The files of all batches: those up to the last compaction in one list, those after it in one each."""
    compacted = [
        int(each.stem) for each in _listed(log) if each.suffix == ".compact" and each.stem.isdecimal()
    ]
    plain = [int(each.name) for each in _listed(log) if each.name.isdecimal()]
    last = max(compacted, default=-1)
    names = ([f"{last}.compact"] if compacted else []) + [str(each) for each in sorted(plain) if each > last]
    entries = [line for name in names for line in (log / name).read_text(encoding="utf-8").splitlines()[1:]]
    return [entry["path"] for entry in map(json.loads, entries) if entry.get("action") == "add"]


def _rows(files: list[Path]) -> int | None:
    import pyarrow.lib
    from pyarrow import parquet

    try:
        return sum(int(parquet.read_metadata(each).num_rows) for each in files)
    except (OSError, pyarrow.lib.ArrowException):  # not Parquet, or replaced meanwhile
        return None


def _listed(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []
