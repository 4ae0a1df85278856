"""The compiled loops over the records of a batch (`_native.c`), where this installation has them.

They are optional (docs/decisions/0006): without them, and for every record that is not as it should be, `decoding`
and `columns` do the same in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.records.record import Header


class Take(Protocol):
    """Adds whole records of a block to columns, up to `wanted` or to the first unusual one."""

    def __call__(
        self,
        block: bytes | memoryview,
        position: int,
        end: int,
        wanted: int,
        delta: int,
        base_offset: int,
        base_timestamp: int,
        use_delta: bool,
        most_missing: int,
        keys: list[bytes | None],
        values: list[bytes | None],
        timestamps: list[int],
        headers: dict[int, tuple[Header, ...]],
        gaps: list[tuple[int, int]],
        /,
    ) -> tuple[int, int, int]:
        """The position after the records, the next offset delta (in zig-zag), and how many records there were."""


class Put(Protocol):
    """Writes the records block of whole columns."""

    def __call__(
        self,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        headers: Mapping[int, Sequence[Header]],
        stamps: Sequence[tuple[int, int]],
        size_bytes: int,
        /,
    ) -> bytes | None:
        """The block, about `size_bytes` long; None if the columns hold anything unusual. They are lists and a dict."""


def _compiled() -> tuple[Take | None, Put | None]:
    try:
        from ottla.records import _native

        return _native.take, _native.put
    except (ImportError, AttributeError):  # not installed, or compiled from an older source
        return None, None


compiled_take, compiled_put = _compiled()
