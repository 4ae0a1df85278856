"""The object store of a simulated world: one for all nodes, and not to be trusted.

What it does wrong is drawn for every call, by the shares that a test sets. A write may fail, be torn, or be carried
out although the caller hears of a failure; a read may fail, be short or have another byte; a listing may be old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Final

from ottla.runtime.object_store import Chunk, ObjectMissingError, StoredObject, StoreError

LIES: Final = ("fails", "torn", "wrong", "lost-answer", "forgotten")


class WorldStore:
    """Objects by name. `share` of the calls go wrong, in one of the ways of `lies`."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self.objects: dict[str, bytes] = {}
        self.share = 0.0
        self.lies: Sequence[str] = LIES
        self.is_down = False
        # Called before each write, with its name; may end the process that writes.
        self.before_put: Callable[[str], None] = lambda name: None
        self.puts: dict[str, set[bytes]] = {}

    def open(self, url: str, *, is_read_only: bool = False) -> WorldStore:
        return self

    def put(self, name: str, size_bytes: int, chunks: Iterable[Chunk]) -> None:
        self.before_put(name)
        lie, data = self._lie(), b"".join(chunks)
        self.puts.setdefault(name, set()).add(data)
        if lie == "forgotten":
            return
        self.objects[name] = self._changed(data, lie)
        if lie == "lost-answer":
            raise StoreError(f"writing {name}: no answer")

    def get(self, name: str, position: int, size_bytes: int) -> bytes:
        lie = self._lie()
        if name not in self.objects:
            raise ObjectMissingError(f"reading {name}: there is no such object")
        return self._changed(self.objects[name][position : position + size_bytes], lie)

    def size(self, name: str) -> int:
        self._lie()
        if name not in self.objects:
            raise ObjectMissingError(f"looking for {name}: there is no such object")
        return len(self.objects[name])

    def delete(self, names: Sequence[str]) -> None:
        lie = self._lie()
        for name in names:
            self.objects.pop(name, None)
        if lie == "lost-answer":
            raise StoreError("deleting: no answer")

    def list(self, prefix: str) -> Iterator[StoredObject]:
        for name, data in sorted(self.objects.items()):
            if name.startswith(prefix):
                yield StoredObject(name, len(data), 0)

    def _lie(self) -> str:
        lie = self._dice.choice(self.lies) if self._dice.random() < self.share else ""
        if self.is_down or lie == "fails":
            raise StoreError("the store is down")
        return lie

    def _changed(self, data: bytes, lie: str) -> bytes:
        if lie == "torn":
            return data[: self._dice.randrange(len(data) + 1)]
        if lie == "wrong" and data:
            at = self._dice.randrange(len(data))
            return data[:at] + bytes([data[at] ^ 1 << self._dice.randrange(8)]) + data[at + 1 :]
        return data
