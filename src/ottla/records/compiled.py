"""The compiled loop over the records of a batch (`_native.c`), where this installation has it.

It is optional (docs/decisions/0006): without it, and for every record that is not as it should be, `decoding` does
the same in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
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


def _compiled_take() -> Take | None:
    try:
        from ottla.records import _native
    except ImportError:
        return None
    return _native.take


compiled_take = _compiled_take()
