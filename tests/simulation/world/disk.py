"""A disk in memory that forgets what was not synced, tears writes and fails on demand.

It stands under the real log code (`ottla.runtime.disk.Disk`). Until a file is synced, a crash may keep any part of what
was written to it: a prefix, sectors of zeros, old sectors beside new ones. Until a directory is synced, a crash keeps
only the first so many of the names created, renamed and removed in it. All of that is drawn from one random number
generator, so that a seed replays it.
"""

import errno
import os
from collections import Counter
from collections.abc import Sequence
from random import Random

from ottla.runtime.disk import Buffer, DiskUsage, Entry

SECTOR_BYTES = 512


class SimulatedCrash(BaseException):
    """The machine stops here. Not an Exception, so that no handler goes on after it."""


class Inode:
    """A file's content: what a reader sees now, and what a power loss cannot take."""

    __slots__ = ("data", "durable")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""

    def after_crash(self, random: Random) -> "Inode":
        """What a power loss leaves: old and new sectors, in any mixture, of any length between the two."""
        now, then = bytes(self.data), self.durable
        survivor = Inode()
        if now == then:
            survivor.data, survivor.durable = self.data.copy(), then
            return survivor
        low, high = sorted((len(now), len(then)))
        length = random.choice((low, high, random.randint(low, high))) if now != then else len(then)
        content = bytearray(length)
        for start in range(0, length, SECTOR_BYTES):
            end = min(start + SECTOR_BYTES, length)
            content[start:end] = _sector(now, then, start, end, random)
        survivor.data = content
        survivor.durable = bytes(content)
        return survivor


def _sector(now: bytes, then: bytes, start: int, end: int, random: Random) -> bytes:
    new, old = now[start:end], then[start:end]
    if new == old:
        chosen = old
    elif new.startswith(old):
        # Appended: what was durable stays, the rest may be there, be zeros, or break off.
        chosen = random.choice((new, new, old, new[: random.randint(len(old), len(new))]))
    else:
        chosen = random.choice((new, old))
    return chosen.ljust(end - start, b"\0")[: end - start]


class SimulatedFile:
    """An open file: it goes on working when its name is gone."""

    def __init__(self, disk: "SimulatedDisk", path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._descriptor: int | None = None

    @property
    def size(self) -> int:
        return len(self._inode.data)

    def append(self, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        try:
            self._disk.operation("append", self._path)
        except OSError:
            # A full disk takes a part before it says so.
            self._inode.data += data[: len(data) // 2]
            raise
        except SimulatedCrash:
            self._inode.data += data[: self._disk.torn_bytes(len(data))]
            self._disk.crashed()
            raise
        self._inode.data += data
        return len(data)

    def read(self, position: int, size: int) -> bytes:
        self._disk.operation("read", self._path)
        return bytes(self._inode.data[position : position + size])

    def sync(self) -> None:
        self._disk.operation("sync", self._path)
        self._inode.durable = bytes(self._inode.data)

    def truncate(self, size: int) -> None:
        self._disk.operation("truncate", self._path)
        data = self._inode.data
        if size <= len(data):
            del data[size:]
        else:
            data.extend(bytes(size - len(data)))

    def fileno(self) -> int | None:
        if self._descriptor is None:
            self._descriptor = self._disk.descriptor(self)
        return self._descriptor


class SimulatedMap:
    """A map shares the file's bytes. Touching what lies behind the file's end fails loudly, as in real life."""

    def __init__(self, disk: "SimulatedDisk", path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self.buffer = inode.data

    def reserve(self, position: int, size: int) -> None:
        self._disk.operation("reserve", self._path)


class SimulatedDirectory:
    """Names now, names that are durable, and the changes in between, in order."""

    __slots__ = ("durable", "journal", "names")

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        self.journal: list[dict[str, Inode]] = []

    def changed(self) -> None:
        self.journal.append(dict(self.names))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.journal.clear()

    def after_crash(self, random: Random) -> dict[str, Inode]:
        kept = random.randint(0, len(self.journal))
        return self.journal[kept - 1] if kept else self.durable


class SimulatedLock:
    """A data directory held by one process."""

    def release(self) -> None:
        """Give the directory back."""


class SimulatedDisk:
    """A Disk. `crash_at` and `fail_at` number the operations from 1; `counts` says which there were."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.operations = 0
        self.crash_at: int | None = None
        self.failures: dict[int, int] = {}
        self.failing: dict[str, int] = {}
        self.history: list[str] = []
        self.files_read: set[str] = set()
        self._directories: dict[str, SimulatedDirectory] = {}

    # -- faults

    def operation(self, kind: str, path: str) -> None:
        """Count an operation, and crash or fail if it is its turn."""
        self.counts[kind] += 1
        if kind == "read":
            self.files_read.add(path)
            if kind in self.failing:
                raise OSError(self.failing[kind], os.strerror(self.failing[kind]))
            return
        self.operations += 1
        self.history.append(f"{kind} {path}")
        if self.operations == self.crash_at:
            raise SimulatedCrash
        code = self.failures.get(self.operations) or self.failing.get(kind)
        if code is not None:
            raise OSError(code, os.strerror(code))

    def torn_bytes(self, size: int) -> int:
        """How much of an append arrives if the process dies in the middle of it."""
        return 0

    def crashed(self) -> None:
        """A write has left behind what arrived of it before the crash."""

    def descriptor(self, file: SimulatedFile) -> int | None:
        """A number for `sendfile`; None if files have none."""
        return None

    def crash(self, random: Random) -> "SimulatedDisk":
        """The disk after a power loss now."""
        survivor = type(self)()
        for path, directory in self._directories.items():
            rebuilt = SimulatedDirectory()
            rebuilt.names = {
                name: inode.after_crash(random) for name, inode in directory.after_crash(random).items()
            }
            rebuilt.sync()
            survivor._directories[path] = rebuilt
        return survivor

    def kill(self) -> "SimulatedDisk":
        """The disk after the process died and the machine did not: everything is there."""
        survivor = type(self)()
        for path, directory in self._directories.items():
            rebuilt = SimulatedDirectory()
            for name, inode in directory.names.items():
                rebuilt.names[name] = copied = Inode()
                copied.data = bytearray(inode.data)
                copied.durable = inode.durable
            rebuilt.durable = {
                name: rebuilt.names[name] for name in directory.durable if name in rebuilt.names
            }
            survivor._directories[path] = rebuilt
        return survivor

    # -- what the tests look at and spoil

    def content(self, path: str) -> bytearray:
        """A file's bytes, to be changed behind everybody's back."""
        return self._inode(path).data

    def rot(self, path: str, position: int) -> None:
        """One bit of a file is another one from now on, whatever was synced."""
        inode = self._inode(path)
        inode.data[position] ^= 4
        if position < len(inode.durable):
            durable = bytearray(inode.durable)
            durable[position] ^= 4
            inode.durable = bytes(durable)

    def durable(self, path: str) -> bytes | None:
        """The bytes of a file that no power loss can take; None if its name could be lost."""
        directory = self._directories.get(os.path.dirname(path))
        inode = directory.durable.get(os.path.basename(path)) if directory is not None else None
        return None if inode is None else inode.durable

    def put(self, path: str, data: bytes) -> None:
        """A durable file out of nowhere."""
        self.mkdir(os.path.dirname(path))
        inode = Inode()
        inode.data, inode.durable = bytearray(data), bytes(data)
        directory, name = self._place(path)
        directory.names[name] = directory.durable[name] = inode

    def paths(self, directory: str) -> list[str]:
        return sorted(f"{directory}/{name}" for name in self._directories[directory].names)

    def files_named(self, suffixes: tuple[str, ...]) -> list[str]:
        """All files whose names end so."""
        return [
            f"{path}/{name}"
            for path, directory in self._directories.items()
            for name in directory.names
            if name.endswith(suffixes)
        ]

    # -- Disk

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        directory, name = self._place(path)
        if create and name not in directory.names:
            self.operation("create", path)
            directory.names[name] = Inode()
            directory.changed()
        else:
            self.counts["open"] += 1
        return SimulatedFile(self, path, self._inode(path))

    def map(self, path: str) -> SimulatedMap:
        self.counts["map"] += 1
        return SimulatedMap(self, path, self._inode(path))

    def list(self, directory: str) -> list[Entry]:
        self.counts["list"] += 1
        files = [
            Entry(name, len(inode.data), 0, False)
            for name, inode in self._directories[directory].names.items()
        ]
        inside = directory + "/"
        children = {
            path.removeprefix(inside).partition("/")[0]
            for path in self._directories
            if path.startswith(inside)
        }
        return files + [Entry(name, 0, 0, True) for name in sorted(children)]

    def size(self, path: str) -> int:
        self.counts["size"] += 1
        return len(self._inode(path).data)

    def exists(self, path: str) -> bool:
        self.counts["exists"] += 1
        if path in self._directories:
            return True
        directory = self._directories.get(os.path.dirname(path))
        return directory is not None and os.path.basename(path) in directory.names

    def mkdir(self, path: str) -> None:
        # Directories themselves are durable at once: what is tested here are the logs inside.
        while path not in ("", "/"):
            self._directories.setdefault(path, SimulatedDirectory())
            path = os.path.dirname(path)

    def rename(self, path: str, new_path: str) -> None:
        self.operation("rename", path)
        if path in self._directories:
            self._directories[new_path] = self._directories.pop(path)
            return
        source, name = self._place(path)
        target, new_name = self._place(new_path)
        target.names[new_name] = source.names.pop(name)
        source.changed()

    def remove(self, path: str) -> None:
        self.operation("remove", path)
        directory, name = self._place(path)
        self._inode(path)
        del directory.names[name]
        directory.changed()

    def remove_directory(self, path: str) -> None:
        if self._directories[path].names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        del self._directories[path]

    def sync_directory(self, path: str) -> None:
        self.operation("sync_directory", path)
        self._directories[path].sync()

    def read(self, path: str) -> bytes:
        self.counts["read"] += 1
        return bytes(self._inode(path).data)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append([data])
        if sync:
            file.sync()
        self.rename(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def lock(self, path: str) -> "SimulatedLock":
        # A killed process gives its lock back, and no two processes of one node run at once in the simulation.
        return SimulatedLock()

    def usage(self, path: str) -> DiskUsage:
        return DiskUsage(1 << 40, 1 << 39)

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)

    def _place(self, path: str) -> tuple[SimulatedDirectory, str]:
        directory = self._directories.get(os.path.dirname(path))
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return directory, os.path.basename(path)

    def _inode(self, path: str) -> Inode:
        directory, name = self._place(path)
        if name not in directory.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return directory.names[name]
