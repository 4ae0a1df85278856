"""Long work on the event loop: after each millisecond of it, everybody else has a turn.

The work is a generator that yields often, after each partition or line. Looking at the clock costs less than a
tenth of a microsecond, so it is looked at after every step.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

TURN_S: Final = 0.001
# Lines are joined to pieces of some ten kilobytes before they are encoded.
_LINES_AT_ONCE: Final = 256


async def in_turns(steps: Iterable[Any]) -> None:
    """Carry out all steps of a generator."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + TURN_S
    for _ in steps:
        if loop.time() >= ends:
            await asyncio.sleep(0)
            ends = loop.time() + TURN_S


async def encoded_in_turns(lines: Iterable[str]) -> list[bytes]:
    """The text of a generator, encoded, in pieces."""
    pieces: list[bytes] = []
    await in_turns(_encoded(lines, pieces))
    return pieces


def _encoded(lines: Iterable[str], pieces: list[bytes]) -> Iterable[None]:
    together: list[str] = []
    for line in lines:
        together.append(line)
        if len(together) == _LINES_AT_ONCE:
            pieces.append("".join(together).encode())
            together.clear()
        yield
    pieces.append("".join(together).encode())
