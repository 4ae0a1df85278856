"""The small files of streaming tables become few large ones, while no flow runs.

A Parquet table that a stream writes has a list of its files, `_spark_metadata`: one file per batch, and every tenth
has all before it (`N.compact`). Here the newest of these gets new lines: large files in the place of small ones.

Rules
- Flows that read the table as a stream know files by their names. The large file would be new to them, with rows that
  they have read. Spark passes over files that are much older than what a stream has seen: a large file is listed with
  the time 0. A stream that has seen nothing reads it as all others.
- So a file is only taken if every stream has read it, in a batch that is committed (a batch that is repeated needs its
  files). Streams are found by their checkpoints, below the project's storage; others cannot be known.
- The list is put in place by a rename, before the small files go. A process that is killed in between leaves files
  that are not listed, as a killed batch does.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

# Smaller files are taken; a larger one is as good as it gets.
_SMALL_BYTES: Final = 32 << 20
_LARGE_BYTES: Final = 128 << 20
# Fewer are not worth the work.
_LEAST_FILES: Final = 10
# The time of a large file, in milliseconds: older than all that a stream has seen by more than Spark's `maxFileAge`.
_LONG_AGO: Final = 0
_MAX_FILE_AGE_MS: Final = 7 * 24 * 3600 * 1000
_LIST: Final = "_spark_metadata"

Entry = dict[str, Any]
# Writes the rows of Parquet files into a directory, as a number of files.
Rewrite = Callable[[list[Path], Path, int], None]


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was done to a table; `waiting` small files have not been read by all flows."""

    before: int
    after: int
    waiting: int


@dataclass(frozen=True, slots=True)
class _Reader:
    """A stream that reads a table: what it has read in committed batches."""

    files: frozenset[Path]
    newest_ms: int

    def has_read(self, entry: Entry) -> bool:
        if _path(entry["path"]) in self.files:
            return True
        return bool(entry["modificationTime"] == _LONG_AGO and self.newest_ms > _MAX_FILE_AGE_MS)


def compact(
    table: Path, checkpoints: Iterable[Path], rewrite: Rewrite, *, least_files: int = _LEAST_FILES
) -> Compacted | None:
    """Compact a table; None where there is nothing to do. No query may write to it or read from it meanwhile."""
    listed = _newest_list(table)
    if listed is None:
        return None
    version, entries = _lines(listed)
    readers = list(_readers(table, checkpoints))
    small = [each for each in entries if each["action"] == "add" and each["size"] < _SMALL_BYTES]
    read = [each for each in small if all(reader.has_read(each) for reader in readers)]
    groups = [group for group in _by_directory(read).values() if len(group) >= least_files]
    if not groups:
        return Compacted(len(entries), len(entries), len(small) - len(read)) if small else None
    kept = [each for each in entries if not any(each in group for group in groups)]
    large: list[Entry] = []
    try:
        for group in groups:
            large += _rewritten(table, group, rewrite)
        _replace(listed, version, [*large, *kept])
    except BaseException:
        _remove_unlisted(listed, large)
        raise
    for group in groups:
        for each in group:
            _path(each["path"]).unlink(missing_ok=True)
            _checksum(_path(each["path"])).unlink(missing_ok=True)
    return Compacted(len(entries), len(kept) + len(large), len(small) - len(read))


def _remove_unlisted(listed: Path, entries: Iterable[Entry]) -> None:
    """New files that the list does not have, because it was not replaced any more."""
    known = {each["path"] for each in _lines(listed)[1]}
    for each in entries:
        if each["path"] not in known:
            _path(each["path"]).unlink(missing_ok=True)


def _rewritten(table: Path, group: list[Entry], rewrite: Rewrite) -> list[Entry]:
    """New entries with the rows of old ones, which lie in one directory."""
    files = [_path(each["path"]) for each in group]
    made = table / f"_compacted-{os.urandom(4).hex()}"
    count = 1 + sum(each["size"] for each in group) // _LARGE_BYTES
    try:
        rewrite(files, made, count)
        parts = sorted(made.glob("part-*.parquet"))
        if _rows(parts) != _rows(files):
            raise RuntimeError(f"{table}: {_rows(files)} rows became {_rows(parts)}; nothing was changed")
        return [_entry(os.fspath(_moved(part, files[0].parent)), group[0]) for part in parts]
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _moved(part: Path, directory: Path) -> Path:
    target = directory / part.name
    os.replace(part, target)
    if _checksum(part).exists():
        os.replace(_checksum(part), _checksum(target))
    return target


def _entry(path: str, like: Entry) -> Entry:
    size = Path(path).stat().st_size
    return {**like, "path": Path(path).as_uri(), "size": size, "modificationTime": _LONG_AGO}


def _newest_list(table: Path) -> Path | None:
    """The newest list that has all before it."""
    found = {int(each.stem): each for each in (table / _LIST).glob("*.compact") if each.stem.isdecimal()}
    return found[max(found)] if found else None


def _lines(file: Path) -> tuple[str, list[Entry]]:
    """The version of a log's file, and its entries."""
    version, *lines = file.read_text(encoding="utf-8").splitlines()
    return version, [json.loads(line) for line in lines]


def _replace(file: Path, version: str, entries: Iterable[Entry]) -> None:
    partial = file.with_name(f".{file.name}.partial")
    lines = [version, *(json.dumps(entry, separators=(",", ":")) for entry in entries)]
    with partial.open("w", encoding="utf-8") as opened:
        opened.write("\n".join(lines))
        opened.flush()
        os.fsync(opened.fileno())
    _checksum(file).unlink(missing_ok=True)  # of the old content; a file without one is not checked
    os.replace(partial, file)


def _by_directory(entries: Iterable[Entry]) -> Mapping[Path, list[Entry]]:
    """The files of each partition of the table."""
    found: dict[Path, list[Entry]] = {}
    for each in entries:
        found.setdefault(_path(each["path"]).parent, []).append(each)
    return found


def _readers(table: Path, checkpoints: Iterable[Path]) -> Iterator[_Reader]:
    for checkpoint in checkpoints:
        ends = _committed_ends(checkpoint)
        for source in sorted((checkpoint / "sources").glob("*")):
            log = [each for each in _source_log(source) if _path(each["path"]).is_relative_to(table)]
            if log:
                end = ends.get(source.name, -1)
                done = [each for each in log if each["batchId"] <= end]
                yield _Reader(
                    frozenset(_path(each["path"]) for each in done),
                    max((each["timestamp"] for each in done), default=0),
                )


def _source_log(source: Path) -> list[Entry]:
    """The files that a source of a query has read or is about to: the newest list of all, and those after it."""
    compacts = [int(each.stem) for each in source.glob("*.compact") if each.stem.isdecimal()]
    last = max(compacts, default=-1)
    later = sorted(int(each.name) for each in source.glob("*") if each.name.isdecimal())
    names = [*([f"{last}.compact"] if compacts else []), *(str(each) for each in later if each > last)]
    return [entry for name in names for entry in _lines(source / name)[1] if "batchId" in entry]


def _committed_ends(checkpoint: Path) -> dict[str, int]:
    """By the number of a source, the last of its log's entries that a committed batch has read."""
    done = [int(each.name) for each in (checkpoint / "commits").glob("*") if each.name.isdecimal()]
    file = checkpoint / "offsets" / str(max(done, default=-1))
    if not file.is_file():
        return {}
    ends = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines()[2:]):
        offset = json.loads(line) if line.startswith("{") else {}
        if isinstance(end := offset.get("logOffset"), int):
            ends[str(number)] = end
    return ends


def _rows(files: Iterable[Path]) -> int:
    from pyarrow import parquet

    return sum(int(parquet.read_metadata(file).num_rows) for file in files)


def _path(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path))


def _checksum(file: Path) -> Path:
    """Where Hadoop keeps a file's checksum on a local file system."""
    return file.with_name(f".{file.name}.crc")
