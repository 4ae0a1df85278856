"""Examines a data directory, without changing anything in it and without stopping a broker that uses it."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.cli.inspect.partition_check import Surroundings, check_partition
from ottla.client.admin.checks.findings import CannotLookError, Examination
from ottla.config.properties import parse_properties
from ottla.localcluster.state_file import FILE as CLUSTER_STATE
from ottla.log.directory import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
)
from ottla.log.files.checkpoint import CheckpointError, read_offsets
from ottla.model import TopicPartition
from ottla.runtime.disk import OsDisk
from ottla.wire.socket_errors import reason

_PARTITION: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d+)")
_CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)

# A broker refuses writes when the disk is full; at a gigabyte, or a twentieth, there is still time to do
# something.
_LITTLE_SPACE_BYTES: Final = 1 << 30
_LITTLE_SPACE_SHARE: Final = 0.05
# Descriptors that a broker needs besides segments: connections, its listeners, the metadata log.
_OTHER_DESCRIPTORS: Final = 256
_OPEN_SEGMENTS: Final = 2048  # 1024 files and 1024 maps: the default of ottla.open.files.max


def data_directories(path: Path) -> list[Path]:
    """The data directories of all brokers, if the directory is that of an `ottla cluster`; else itself."""
    if not (path / CLUSTER_STATE).is_file():
        return [path]
    brokers = (each for each in path.iterdir() if each.is_dir() and (each / META_PROPERTIES).exists())
    return sorted(brokers, key=lambda each: (len(each.name), each.name)) or [path]


def check_data(path: Path, *, deep: bool) -> Examination:
    """Examine the data directory; CannotLookError if there is none."""
    report = Examination(str(path))
    partitions = _partitions(path)
    if not partitions and not (path / META_PROPERTIES).exists():
        raise CannotLookError(
            f"{path} is no data directory: it holds neither {META_PROPERTIES} nor a partition"
        )
    holder = lock_holder(path / LOCK)
    _check_use(path, holder, report)
    _check_identity(path, report)
    # Read before the logs: a broker at work only moves on from here.
    checkpoints = {name: _checkpoint(path / name, report) for name in _CHECKPOINTS}
    report.facts |= {"partitions": len(partitions), "segments": 0, "size_bytes": 0}
    for key, directory in partitions.items():
        try:
            check_partition(directory, _surroundings(path, key, checkpoints, holder, deep), report)
        except FileNotFoundError as problem:
            report.note(
                problem.filename or directory,
                "it went away while it was looked at",
                "Nothing: a broker is at work.",
            )
        except OSError as problem:
            raise CannotLookError(
                f"{problem.filename or directory} cannot be read: {reason(problem)}"
            ) from problem
    _check_missing(path, partitions, checkpoints[RECOVERY_POINTS], report)
    _check_set_aside(path, report)
    _check_space(path, report)
    _check_descriptors(holder, report)
    return report


def _partitions(path: Path) -> dict[TopicPartition, Path]:
    try:
        entries = sorted(path.iterdir())
    except OSError as problem:
        sentence = f"there is no {path}" if not path.exists() else f"{path} cannot be read: {reason(problem)}"
        raise CannotLookError(sentence) from problem
    found = ((_PARTITION.fullmatch(entry.name), entry) for entry in entries if entry.is_dir())
    return {TopicPartition(match["topic"], int(match["partition"])): entry for match, entry in found if match}


def _surroundings(
    path: Path,
    key: TopicPartition,
    checkpoints: Mapping[str, Mapping[TopicPartition, int]],
    holder: int | None,
    deep: bool,
) -> Surroundings:
    return Surroundings(
        deep=deep,
        is_in_use=holder is not None,
        was_closed_cleanly=(path / CLEAN_SHUTDOWN).exists(),
        was_compacted=key in checkpoints[CLEANER_OFFSETS],
        recovery_point=checkpoints[RECOVERY_POINTS].get(key),
        log_start_offset=checkpoints[LOG_START_OFFSETS].get(key),
        high_watermark=checkpoints[HIGH_WATERMARKS].get(key),
    )


# ---- who uses it, and whose it is


def lock_holder(path: Path) -> int | None:
    """The process that holds the directory's lock; 0 if its id is unknown, None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # Shared and given back at once: another doctor is not disturbed, and a broker hardly ever. There are
        # two kinds of locks that know nothing of each other: ours is the first, Apache Kafka's the second.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        digits = re.match(rb"\d+", os.pread(descriptor, 32, 0))
        return int(digits[0]) if digits else 0
    finally:
        os.close(descriptor)
    return None


def _check_use(path: Path, holder: int | None, report: Examination) -> None:
    report.facts["in_use_by"] = holder
    if holder is not None:
        report.note(
            path / LOCK, f"process {holder or 'unknown'} uses this directory", "Nothing: a broker is at work."
        )
    elif not (path / CLEAN_SHUTDOWN).exists():
        report.note(
            path,
            "the broker that used it last did not stop properly",
            "Nothing: the next one recovers what was not flushed, which takes longer than an ordinary start.",
        )


def _check_identity(path: Path, report: Examination) -> None:
    file = path / META_PROPERTIES
    advice = "Bring it back from a copy; `ottla dump` shows one of another node. A broker without it begins a new cluster."
    try:
        properties = parse_properties(file.read_text("utf-8"))
    except FileNotFoundError:
        report.error(
            file,
            "it is missing, so it is not known which cluster and node these files belong to",
            advice,
        )
        return
    except (OSError, ValueError) as problem:
        report.error(file, f"it cannot be read: {problem}", advice)
        return
    missing = [name for name in ("cluster.id", "node.id") if not properties.get(name)]
    if missing:
        report.error(file, f"it does not say {' and '.join(missing)}", advice)
    report.facts |= {"cluster_id": properties.get("cluster.id"), "node_id": properties.get("node.id")}


# ---- checkpoints


def _checkpoint(path: Path, report: Examination) -> dict[TopicPartition, int]:
    if path.exists() and not path.stat().st_size:
        return {}  # Apache Kafka begins with empty files
    try:
        offsets = read_offsets(OsDisk(), str(path))
    except (CheckpointError, OSError) as problem:
        report.warning(
            path,
            f"it cannot be used: {problem}",
            "Stop the broker and delete it. The broker starts without it and reads more of the logs.",
        )
        return {}
    if negative := [key for key, offset in offsets.items() if offset < 0]:
        report.warning(
            path, f"it has a negative offset for {_name(negative[0])}", "Stop the broker and delete it."
        )
    return offsets


def _check_missing(
    path: Path,
    partitions: Mapping[TopicPartition, Path],
    recovery_points: Mapping[TopicPartition, int],
    report: Examination,
) -> None:
    for key, offset in recovery_points.items():
        if key not in partitions and offset > 0:
            report.warning(
                path / _name(key),
                f"it was flushed up to offset {offset} once, and the directory is not there",
                "If the topic was deleted, all is well. Otherwise bring the directory back from a copy.",
            )


def _name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"


def _check_set_aside(path: Path, report: Examination) -> None:
    for entry in sorted(path.iterdir()):
        if entry.is_dir() and entry.name.endswith("-stray"):
            report.warning(
                entry,
                "these records belong to a topic that was deleted and created again under the same name",
                "Look at them with `ottla dump`; delete the directory when they are no longer needed.",
            )


# ---- the machine


def _check_space(path: Path, report: Examination) -> None:
    usage = shutil.disk_usage(path)
    report.facts |= {"disk_free_bytes": usage.free, "disk_total_bytes": usage.total}
    if usage.free < _LITTLE_SPACE_BYTES or usage.free < usage.total * _LITTLE_SPACE_SHARE:
        report.warning(
            path,
            f"only {usage.free >> 20} MiB of {usage.total >> 20} MiB are free on the disk",
            "Make room: lower retention.ms or retention.bytes of large topics, or move other files. A full disk means that "
            "writes are refused.",
        )


def _check_descriptors(holder: int | None, report: Examination) -> None:
    limit = _descriptor_limit(holder)
    # A segment takes a file, and a map for each of its two indexes.
    needed = min(_OPEN_SEGMENTS, 3 * int(report.facts["segments"])) + _OTHER_DESCRIPTORS
    report.facts["descriptor_limit"] = limit
    if limit < needed:
        whose = f"process {holder}" if holder else "a broker started from here"
        report.warning(
            report.subject,
            f"{whose} may open {limit} files, and these logs may need {needed}",
            "Raise the limit (ulimit -n 8192, or LimitNOFILE= in a service), or lower ottla.open.files.max.",
        )


def _descriptor_limit(holder: int | None) -> int:
    """The soft limit of the process that uses the directory, where the system tells it; else our own."""
    try:
        limits = Path(f"/proc/{holder}/limits").read_text("ascii")
    except OSError:
        limits = ""
    match = re.search(r"(?m)^Max open files\s+(\d+)", limits)
    soft = int(match[1]) if match else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft if soft != resource.RLIM_INFINITY else 1 << 30
