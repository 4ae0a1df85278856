"""Bugs planted in shipped code, to see that stories find them.

Each is a mistake that somebody could make, or has made; a patch puts it in for one story and takes it out again. Nothing
of this is in `src`. `FOUND_BY` names the seed that found each when it was last looked for
(`python -m tests.simulation --bugs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from ottla.replication.events import HighWatermarkAdvanced
from ottla.replication.partition import PartitionReplica

# What is replaced, the attribute's name, and what stands there instead.
Patches = list[tuple[Any, str, Any]]


def watermark_without_isr() -> Patches:
    def advance(self: PartitionReplica) -> list[Any]:
        if self.log_end_offset <= self.high_watermark:
            return []
        self.high_watermark = self.log_end_offset
        return [HighWatermarkAdvanced(self.log_end_offset)]

    return [(PartitionReplica, "_advance", advance)]


_BUGS = (watermark_without_isr,)
BUGS: Mapping[str, Callable[[], Patches]] = {bug.__name__: bug for bug in _BUGS}
FOUND_BY: Mapping[str, int] = {"watermark_without_isr": 1}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Shipped code with one bug in it, or none."""
    with ExitStack() as stack:
        for target, attribute, replacement in BUGS[name]() if name else ():
            stack.enter_context(patch.object(target, attribute, replacement))
        yield
