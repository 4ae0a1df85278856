"""An object store in memory that does what a test asks it to do wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ottla.runtime.object_store import Chunk, ObjectMissingError, StoredObject, StoreError


class LyingStore:
    """`on_put` and `on_get` may change what is stored and given, or raise."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.on_put: Callable[[str, bytes], bytes | None] = lambda name, data: data
        self.on_get: Callable[[str, bytes], bytes] = lambda name, data: data
        self.gets = 0

    def put(self, name: str, size_bytes: int, chunks: Iterable[Chunk]) -> None:
        stored = self.on_put(name, b"".join(chunks))
        if stored is not None:
            self.objects[name] = stored

    def get(self, name: str, position: int, size_bytes: int) -> bytes:
        self.gets += 1
        if name not in self.objects:
            raise ObjectMissingError(f"reading {name}: there is no such object")
        return self.on_get(name, self.objects[name][position : position + size_bytes])

    def size(self, name: str) -> int:
        if name not in self.objects:
            raise ObjectMissingError(f"looking for {name}: there is no such object")
        return len(self.objects[name])

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.objects.pop(name, None)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        for name, data in self.objects.items():
            if name.startswith(prefix):
                yield StoredObject(name, len(data), 0)


def fails(reason: str) -> Callable[[str, bytes], bytes]:
    """For `on_put` and `on_get`: the store refuses."""

    def fail(name: str, data: bytes) -> bytes:
        raise StoreError(reason)

    return fail
