"""Kafka's checkpoint files: a version line, a count line, then one line per entry.

A checkpoint that cannot be read is an error here; the caller decides how to go on without it.
"""

from collections.abc import Mapping
from typing import Final

from ottla.model import TopicPartition
from ottla.runtime.disk import Disk

_VERSION: Final = "0"


class CheckpointError(ValueError):
    """The file is not a checkpoint, or it is damaged."""


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Offsets by topic and partition; empty if there is no such file."""
    if not disk.exists(path):
        return {}
    offsets = {}
    for line in parse_lines(disk.read(path)):
        topic, partition, offset = _fields(line, 3)
        offsets[TopicPartition(topic, _number(partition))] = _number(offset)
    return offsets


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the checkpoint as a whole."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    disk.write_atomically(path, render_lines(lines))


def parse_lines(data: bytes) -> list[str]:
    """The entry lines of a checkpoint, their number checked against the count."""
    try:
        lines = data.decode("ascii").splitlines()
        version, count = lines[0].strip(), int(lines[1])
    except (UnicodeDecodeError, IndexError, ValueError):
        raise CheckpointError("this is not a checkpoint file") from None
    if version != _VERSION:
        raise CheckpointError(f"checkpoint version {version} is not {_VERSION}")
    entries = [line for line in lines[2:] if line.strip()]
    if len(entries) != count:
        raise CheckpointError(f"the checkpoint has {len(entries)} entries and says {count}")
    return entries


def render_lines(lines: list[str]) -> bytes:
    """A checkpoint with these entry lines."""
    return "".join(f"{line}\n" for line in [_VERSION, str(len(lines)), *lines]).encode("ascii")


def parse_pairs(data: bytes) -> list[tuple[int, int]]:
    """The entries of a checkpoint whose lines are two numbers."""
    pairs = []
    for line in parse_lines(data):
        first, second = _fields(line, 2)
        pairs.append((_number(first), _number(second)))
    return pairs


def _fields(line: str, count: int) -> list[str]:
    fields = line.split()
    if len(fields) != count:
        raise CheckpointError(f"the checkpoint line {line!r} has not {count} fields")
    return fields


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CheckpointError(f"{text!r} is not a number") from None
