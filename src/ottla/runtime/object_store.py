"""Objects in a store: whole ones are written, ranges of them are read, and all of them are listed.

A store is called in threads that may wait. It may be far away, full, forbidden or wrong: every failure is a
`StoreError` with one sentence for an operator, and nothing that a store says is believed before it was checked by
its caller (checksums, sizes).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

Chunk = bytes | bytearray | memoryview


class StoreError(OSError):
    """The store did not do what it was asked for; `str` says why, without secrets."""


class ObjectMissingError(StoreError):
    """There is no such object."""


class StoreForbiddenError(StoreError):
    """The store refuses, and will refuse again: credentials are missing or wrong, or they lack a right."""


class StoredObject(NamedTuple):
    """A name in a listing. A listing may be stale."""

    name: str
    size_bytes: int
    modified_ms: int


class ObjectStore(Protocol):
    """One store with one prefix; names are relative to it. Raises StoreError."""

    def put(self, name: str, size_bytes: int, chunks: Iterable[Chunk]) -> None:
        """Write a whole object: it has all bytes or does not exist."""

    def get(self, name: str, position: int, size_bytes: int) -> bytes:
        """A range of an object. It may be shorter than asked for."""

    def size(self, name: str) -> int:
        """The size of an object."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects; one that does not exist is removed already."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """All objects whose names begin with `prefix`, which ends with a slash or is empty."""
