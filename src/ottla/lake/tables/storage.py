"""Files by their location: a path of this machine, or an address such as s3://bucket/path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyarrow import fs


def is_local(location: str) -> bool:
    return urlsplit(location).scheme in ("", "file")


def plain(location: str) -> str:
    """A local location as a path; others as they are."""
    parts = urlsplit(location)
    return unquote(parts.path) if parts.scheme == "file" else location


def filesystem_of(location: str) -> tuple[Any, str]:
    """The file system of a location, and the path in it. S3 takes its settings from the usual environment
    (AWS_REGION, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, keys or a role).
    """
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), plain(location)
    if parts.scheme in ("s3", "s3a"):
        return _s3(), parts.netloc + unquote(parts.path)
    filesystem, path = fs.FileSystem.from_uri(location)
    return filesystem, path


def _s3() -> Any:
    given: dict[str, Any] = {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        parts = urlsplit(endpoint)
        given = {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return fs.S3FileSystem(**given, **({"region": region} if region else {}))


def delete_others(location: str, kept: Iterable[str], before_ms: int, suffix: str = ".parquet") -> list[str]:
    """Delete the files below a location that are not kept and were written before a time."""
    stay = set(kept)
    found = [
        path for path, time_ms in _files_below(location, suffix) if path not in stay and time_ms < before_ms
    ]
    for each in found:
        delete(each)
    return found


def _files_below(location: str, suffix: str) -> Iterator[tuple[str, int]]:
    """Files below a location, with their times in milliseconds."""
    filesystem, path = filesystem_of(location)
    selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
    prefix = "" if is_local(location) else f"{urlsplit(location).scheme}://"
    for each in filesystem.get_file_info(selector):
        if each.type == fs.FileType.File and each.path.endswith(suffix):
            yield f"{prefix}{each.path}", (each.mtime_ns or 0) // 1_000_000


def delete(location: str) -> None:
    """Delete a file; one that is gone already is no error."""
    filesystem, path = filesystem_of(location)
    try:
        filesystem.delete_file(path)
    except FileNotFoundError:
        return


def write_new(path: Path, text: str) -> bool:
    """Write a local file that must not exist, whole or not at all; False if it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    _flush(path.parent)
    return True


def make_durable(location: str) -> None:
    """Have a file on the disk before a commit refers to it: after a commit, retention may delete its records.
    Object storage has done so when the file is closed.
    """
    if is_local(location):
        _flush(Path(location))
        _flush(Path(location).parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
